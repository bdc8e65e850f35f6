//! Rules over a running OpenCode server, tested with an imitation of one over real sockets. `docs/harness.md`
//! lists the tests by the behaviour that they cover.

mod acts;
mod agent;
mod ask;
mod e2e;
mod real;
mod requests;
mod watch;

use ttsr::Pack;
use ttsr_agent::opencode::{Server, ServerApi};

const RULES: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["retry", "abort", "inject"]
[rule.no-unwrap]
description = "Use `?`."
severity = "error"
on = ["text", "reasoning", "tool-input"]
match.any = [{ literal = ".unwrap()" }]
examples.match = ["x.unwrap()"]
[rule.hint]
description = "Owls sleep by day."
severity = "warning"
on = ["reasoning"]
match.any = [{ literal = "owl" }]
examples.match = ["an owl"]
"#;

fn pack() -> Pack {
    Pack::from_toml(RULES).unwrap()
}

fn server(url: &str, api: ServerApi) -> Server {
    Server::new(url, api).unwrap()
}

fn capture(name: &str) -> String {
    let path = format!(
        "{}/tests/agent/opencode_data/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(path).unwrap()
}

fn block_on<T>(doing: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(doing)
}
