//! Measures the time from a cancel to the end of the reply while a server floods the client.
//!
//! `cargo run --release -p ttsr-agent --features providers --example cancel [-- N]`
//!
//! Each flood is measured N times (50 by default): heads of status 1xx, small and large, comments, empty events, slow
//! bytes, and text. A thread cancels at a random point of the flood; the time ends when [`run`] returns. The example prints
//! the median and the longest time of each flood, and fails if one is longer than 200 ms.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use ttsr::Pack;
use ttsr::harness::{AbortReason, Cancel, End, Hooks, Message, Processor, Request, Settings, run};
use ttsr_agent::providers::{Endpoint, ProviderApi, Retries};
use ttsr_testing::Random;
use ttsr_testing::flood::Flood;

/// The longest time from a cancel to the end of the reply.
const BOUND: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let times = std::env::args().nth(1);
    let times = times.map_or(50, |times| times.parse().expect("the argument is a number"));
    let text = r#"data: {"choices":[{"index":0,"delta":{"content":"some more words "}}]}"#;
    let mut floods = Flood::all();
    floods.push(Flood::of_events("text", &format!("{text}\n\n")));
    let mut random = Random::new(1);
    let mut longest = Duration::ZERO;
    println!("| flood | median, ms | longest of {times}, ms |\n|---|---:|---:|");
    for flood in floods {
        let mut took: Vec<Duration> = (0..times).map(|_| cancel(&flood, &mut random)).collect();
        took.sort_unstable();
        let (median, last) = (took[took.len() / 2], took[took.len() - 1]);
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!("| {} | {:.1} | {:.1} |", flood.name, ms(median), ms(last));
        longest = longest.max(last);
    }
    if longest > BOUND {
        eprintln!("a cancel took {longest:.1?}, more than {BOUND:?}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs a reply that consists of the flood, and returns the time from its cancel to its end.
fn cancel(flood: &Flood, random: &mut Random) -> Duration {
    let server = flood.serve();
    let base = server.base.clone();
    let wait = Duration::from_micros(random.below(50_000) as u64);
    let cancel = Cancel::default();
    let switch = cancel.clone();
    let cancelling = thread::spawn(move || {
        server.wait_until_written(16);
        thread::sleep(wait);
        let cancelled = Instant::now();
        switch.cancel();
        (server, cancelled)
    });
    let pack = Pack::builtin("std/secrets").expect("the pack is built in");
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let endpoint = Endpoint::at(ProviderApi::OpenAiChat, &base).expect("the address is valid");
    let mut endpoint = endpoint.retries(Retries::none());
    let request = Request::new("m", vec![Message::user("Go.")]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let running = run(&mut processor, &mut endpoint, request, "m", cancel, |_| {});
    let outcome = runtime.block_on(running);
    let ended = Instant::now();
    let (server, cancelled) = cancelling.join().expect("the thread does not panic");
    let reason = match outcome.end {
        End::Aborted { reason, .. } => reason,
        end => panic!("{end:?} under {}", flood.name),
    };
    assert_eq!(reason, AbortReason::User, "under {}", flood.name);
    server.join();
    ended.saturating_duration_since(cancelled)
}
