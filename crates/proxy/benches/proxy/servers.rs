//! The servers between the clients and the provider. Each is a process of its own, on one core.

use std::convert::Infallible;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener as BlockingListener, TcpStream as BlockingStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use ttsr::Pack;
use ttsr_proxy::{BusyPoll, Proxy, ProxyConfig, UpstreamUrl};

/// The argument with which this program is one of the servers.
pub(crate) const ROLE: &str = "--serve";

const SERVER_CORE: usize = 0;
pub(crate) const LOAD_CORE: usize = 1;

/// A secret that the built-in packs and the guardrail of LiteLLM mask: an access key of AWS.
pub(crate) const SECRET: &str = "AKIAZ7Q2M5XK3RT6WPNB";

const SECRET_REGEX: &str = "AKIA[A-Z2-7]{16}";

/// Bytes of a page, which `statm` counts.
const PAGE: u64 = 4096;

/// Moves a process to one core, if the machine has it and `taskset` is installed.
pub(crate) fn pin_to(core: usize, process: u32) {
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", &core.to_string(), &process.to_string()]);
    let done = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !done.is_ok_and(|status| status.success()) {
        println!("process {process} is not pinned to a core");
    }
}

/// A process that answers requests. It ends when this is dropped.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    folder: Option<PathBuf>,
}

impl Server {
    /// Runs this program with a role.
    pub(crate) fn of_role(name: &str, to: SocketAddr) -> Option<Server> {
        let program = std::env::current_exe().expect("the path of this program");
        Server::of_program(Command::new(program), name, to)
    }

    /// Runs this program with a role under callgrind, which writes its counts to standard error when the server ends.
    pub(crate) fn counted(name: &str, to: SocketAddr) -> Option<Server> {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command.arg(program).stderr(Stdio::piped());
        Server::of_program(command, name, to)
    }

    /// Ends a server that [`counted`](Self::counted) returned, and returns the number of instructions that it executed.
    pub(crate) fn instructions(mut self) -> u64 {
        drop(self.process.stdin.take());
        let mut said = String::new();
        let errors = self.process.stderr.as_mut().expect("what valgrind says");
        errors
            .read_to_string(&mut said)
            .expect("what valgrind says");
        let collected = said
            .lines()
            .find_map(|line| line.split("Collected :").nth(1));
        let count = collected.and_then(|count| count.trim().parse().ok());
        count.unwrap_or_else(|| panic!("callgrind says its count: {said}"))
    }

    fn of_program(mut command: Command, name: &str, to: SocketAddr) -> Option<Server> {
        command.args([ROLE, name, &to.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("a process");
        let mut line = String::new();
        let output = process.stdout.take().expect("the output of the process");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line.trim().parse().expect("the address of the server");
        pin_to(SERVER_CORE, process.id());
        Some(Server {
            process,
            address,
            folder: None,
        })
    }

    /// Runs nginx, if it is installed.
    pub(crate) fn nginx(to: SocketAddr) -> Option<Server> {
        let (folder, address) = place("nginx");
        let settings = format!(
            "daemon off; master_process off; worker_processes 1; pid {0}/pid; error_log {0}/error.log;\n\
             events {{ worker_connections 16384; }}\n\
             http {{ access_log off; upstream model {{ server {to}; keepalive 2048; }}\n\
             server {{ listen {address} backlog=4096; location / {{ proxy_pass http://model;\n\
             proxy_http_version 1.1; proxy_buffering off; proxy_set_header Connection \"\"; }} }} }}\n",
            folder.display()
        );
        let file = folder.join("nginx.conf");
        fs::write(&file, settings).ok()?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(&folder).arg("-c").arg(&file);
        Server::of_command(command, address, folder, Duration::from_secs(5))
    }

    /// Runs LiteLLM's proxy with a guardrail that masks secrets, if `LITELLM` names its program.
    pub(crate) fn litellm(to: SocketAddr) -> Option<Server> {
        let program = std::env::var_os("LITELLM")?;
        let (folder, address) = place("litellm");
        let file = folder.join("config.yaml");
        let settings = format!(
            "model_list:\n- model_name: m\n  litellm_params:\n    model: openai/m\n    api_base: http://{to}/v1\n    api_key: dummy\n\
             guardrails:\n- guardrail_name: keys\n  litellm_params:\n    guardrail: litellm_content_filter\n    mode: post_call\n    default_on: true\n    \
             patterns:\n    - pattern_type: regex\n      name: key\n      pattern: '{SECRET_REGEX}'\n      action: MASK\n"
        );
        fs::write(&file, settings).ok()?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&file);
        // Without this a proxy without a key for its own interface does not start.
        command.env(
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY",
            "true",
        );
        command
            .args(["--host", "127.0.0.1", "--port"])
            .arg(address.port().to_string());
        Server::of_command(command, address, folder, Duration::from_secs(180))
    }

    fn of_command(
        mut command: Command,
        address: SocketAddr,
        folder: PathBuf,
        patience: Duration,
    ) -> Option<Server> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Server {
            process: command.spawn().ok()?,
            address,
            folder: Some(folder),
        };
        let began = Instant::now();
        while BlockingStream::connect(address).is_err() {
            if began.elapsed() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        pin_to(SERVER_CORE, server.process.id());
        Some(server)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the time of all threads on a core so far.
    pub(crate) fn cpu_nanoseconds(&self) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id()));
        let of_task = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        tasks
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(of_task)
            .sum()
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process.id()));
        let text = text.unwrap_or_default();
        let pages = text
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * PAGE
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
        if let Some(folder) = &self.folder {
            fs::remove_dir_all(folder).ok();
        }
    }
}

/// Returns a new folder and a free address for a server.
fn place(name: &str) -> (PathBuf, SocketAddr) {
    let folder = format!("ttsr-bench-{name}-{}", std::process::id());
    let folder = Path::new(&std::env::temp_dir()).join(folder);
    fs::create_dir_all(&folder).expect("a folder");
    let free = BlockingListener::bind("127.0.0.1:0").expect("a socket");
    (folder, free.local_addr().expect("an address"))
}

/// Is the server of that name until the standard input ends.
pub(crate) fn serve_role(name: &str, to: SocketAddr) {
    std::thread::spawn(|| {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    // As `ttsr proxy` has it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        match name {
            // A connection is accepted by a thread of the runtime, as the proxy does it.
            "hyper" => tokio::spawn(pass_through(to)).await.expect("a server"),
            "no-rules" => {
                proxy(
                    to,
                    Pack::builder().build().expect("a pack"),
                    BusyPoll::UnderLoad,
                )
                .await
            }
            "built-in" => proxy(to, built_in(), BusyPoll::UnderLoad).await,
            "sleeping" => proxy(to, built_in(), BusyPoll::Never).await,
            _ => panic!("no server has the name {name}"),
        }
    });
}

/// Returns the packs that `ttsr proxy` loads.
fn built_in() -> Pack {
    let names =
        Pack::builtin_names().filter(|name| !name.starts_with("opencode/") && *name != "std/pii");
    let builder = names.fold(Pack::builder(), |builder, name| builder.builtin(name));
    builder.build().expect("the built-in packs")
}

async fn proxy(to: SocketAddr, pack: Pack, busy_poll: BusyPoll) {
    let url = UpstreamUrl::parse(&format!("http://{to}")).expect("a URL");
    let mut config = ProxyConfig::default();
    config.mounts.clear();
    config.fallback = Some(url);
    config.busy_poll = busy_poll;
    let proxy = Proxy::bind(config, pack, "127.0.0.1:0")
        .await
        .expect("a proxy");
    println!("{}", proxy.address());
    proxy.serve(std::future::pending()).await;
}

/// A bare pass-through of hyper.
async fn pass_through(to: SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    println!("{}", listener.local_addr().expect("an address"));
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    while let Ok((socket, _)) = listener.accept().await {
        socket.set_nodelay(true).ok();
        let client = client.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let path = request.uri().path_and_query().expect("a path").clone();
            *request.uri_mut() = format!("http://{to}{path}").parse().expect("a URL");
            let response = client.request(request);
            async move {
                let response: Response<Incoming> = response.await.expect("a response");
                Ok::<_, Infallible>(response)
            }
        });
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            builder
                .serve_connection(TokioIo::new(socket), service)
                .await
                .ok();
        });
    }
}
