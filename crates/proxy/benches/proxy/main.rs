//! The cost of the proxy for streamed replies, beside a bare pass-through of hyper and, if it is installed, nginx.
//!
//!     cargo bench -p ttsr-proxy --bench proxy                 100 streams, then 2,000
//!     cargo bench -p ttsr-proxy --bench proxy -- 500          that many
//!     cargo bench -p ttsr-proxy --bench proxy -- 2000 1000    that many, with so many deltas each
//!     cargo bench -p ttsr-proxy --bench proxy -- --instructions
//!                                                             instructions instead of times, counted by valgrind
//!
//! Each row of a table is the same load through another server; `direct` is none. The servers are processes of their own on
//! the first core, and this process, the load, has the second: the provider, which writes the time at which it sends a delta
//! into the delta, and the clients, which subtract it from the time at which they receive it. It never sleeps, so that only
//! the wake-ups of the servers are measured, and the streams send their deltas one after the other, and not at once. The rows
//! alternate, and the samples of all rounds count, so that other work of the machine meets all rows alike. The proxy
//! looks for events as [`BusyPoll::UnderLoad`](ttsr_proxy::BusyPoll::UnderLoad) says, which is the default of `ttsr proxy`;
//! `sleeping` is the proxy with the built-in packs and without it. The times of deltas are those of
//! deltas that no later one came with; `joined` is the share of the others, which a rule held back or which waited for a
//! core. `late` is the longest time by which a stream ended after its last delta was due. `CPU` is the time of the server's
//! threads on a core, from the kernel, and `core` the share of the time while all streams are open. `KiB/stream` is the resident memory of each further stream while all are open, without
//! the buffers of the kernel: the difference between the load and a tenth of its streams. `other` is the rest of the memory,
//! which all streams share.
//!
//! Then clients that go away are timed: from the end of the client's connection to the end of the proxy's connection to the
//! provider. At last, the secrets that reach the client are counted, of those that arrive in two deltas, beside LiteLLM's
//! proxy with its guardrail.

mod cancel;
mod clients;
mod instructions;
mod leaks;
mod pace;
mod provider;
mod servers;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clients::{Samples, StampPlace};
use provider::Provider;
use servers::{Server, pin_to, serve_role};

/// As in the program `ttsr`.
#[global_allocator]
static ALLOCATOR: ttsr_proxy::SlabAllocator = ttsr_proxy::SlabAllocator::new();

/// The time between two deltas of a stream.
const PAUSE: Duration = Duration::from_millis(20);

/// The time between the beginnings of two streams. In whole hundredths of a millisecond it has no divisor in common with
/// [`PAUSE`], so that each of 2,000 streams sends its deltas at another time, and not many of them at once.
const ARRIVAL: Duration = Duration::from_micros(2210);

/// The size of a load.
#[derive(Clone, Copy)]
struct LoadSize {
    streams: u32,
    /// Deltas of each stream.
    deltas: u32,
    rounds: u32,
}

/// The goals at 100 streams, in microseconds: the time that is added until the first byte, and to a delta, in the median
/// and at the 99th percentile.
const GOALS: [f64; 3] = [300.0, 30.0, 1000.0];

/// The goal for the memory of a stream, in KiB.
const MEMORY_GOAL: f64 = 48.0;

/// The figures of a line of a table.
struct Figures {
    name: &'static str,
    /// In the order of [`GOALS`], in microseconds.
    times: [f64; 3],
    /// In microseconds for each delta.
    cpu: f64,
    core_share: f64,
    /// In KiB for each stream.
    memory: f64,
    /// In milliseconds.
    late: f64,
}

/// One line of a table.
struct Row {
    name: &'static str,
    address: SocketAddr,
    /// `None` for the provider itself.
    server: Option<Server>,
    samples: Samples,
    /// Time on a core, in nanoseconds, and the deltas that it was for.
    cpu: (u64, u64),
    /// Time on a core while all streams were open, and that time, in nanoseconds.
    cpu_of_all: (u64, u64),
    /// Bytes of memory for each further stream.
    memory: f64,
    /// Bytes of memory that do not depend on the number of streams.
    shared_memory: f64,
    place: StampPlace,
    /// The number of rounds in which the row is measured.
    rounds: u32,
}

impl Row {
    fn new(name: &'static str, address: SocketAddr, server: Option<Server>) -> Row {
        Row {
            name,
            address,
            server,
            samples: Samples::default(),
            cpu: (0, 0),
            cpu_of_all: (0, 0),
            memory: 0.0,
            shared_memory: 0.0,
            place: StampPlace::Created,
            rounds: u32::MAX,
        }
    }

    fn resident(&self) -> u64 {
        self.server.as_ref().map_or(0, Server::resident_bytes)
    }

    fn cpu_time(&self) -> u64 {
        self.server.as_ref().map_or(0, Server::cpu_nanoseconds)
    }

    /// Runs loads whose samples do not count, and measures the memory of the server and of each further stream. A tenth of
    /// the streams fill what all streams share, such as the caches of automata.
    async fn warm_up(&mut self, size: LoadSize) {
        let few = (size.streams / 10).max(1);
        let before = self
            .loaded(LoadSize {
                streams: few,
                ..size
            })
            .await;
        let during = self.loaded(size).await;
        let further = f64::from((size.streams - few).max(1));
        self.memory = during.saturating_sub(before) as f64 / further;
        self.shared_memory = before as f64 - self.memory * f64::from(few);
    }

    /// Runs a load and returns the resident memory of the server while all streams are open.
    async fn loaded(&self, size: LoadSize) -> u64 {
        let half = (PAUSE * size.deltas + ARRIVAL * size.streams) / 2;
        let loading = clients::load(self.address, size, self.place);
        let sampling = async {
            tokio::time::sleep(half).await;
            self.resident()
        };
        tokio::join!(loading, sampling).1
    }

    async fn measure(&mut self, size: LoadSize) {
        let before = self.cpu_time();
        let loading = clients::load(self.address, size, self.place);
        let (samples, of_all) = tokio::join!(loading, self.measure_all_open(size));
        self.cpu.0 += self.cpu_time() - before;
        self.cpu_of_all.0 += of_all.0;
        self.cpu_of_all.1 += of_all.1;
        self.cpu.1 += samples.deltas.len() as u64 + samples.joined;
        self.samples.extend(samples);
    }

    /// Returns the time on a core while all streams of a load that begins now are open, and that time, in nanoseconds.
    async fn measure_all_open(&self, size: LoadSize) -> (u64, u64) {
        let (begins, ends) = (ARRIVAL * size.streams, PAUSE * size.deltas);
        tokio::time::sleep(begins).await;
        let (before, began) = (self.cpu_time(), Instant::now());
        tokio::time::sleep(ends.saturating_sub(begins)).await;
        let elapsed = began.elapsed().as_nanos() as u64;
        (self.cpu_time() - before, elapsed)
    }

    /// Returns the share of the time while all streams are open that the server is on a core.
    fn core_share(&self) -> f64 {
        self.cpu_of_all.0 as f64 / self.cpu_of_all.1.max(1) as f64
    }

    fn cpu_microseconds(&self) -> f64 {
        self.cpu.0 as f64 / 1000.0 / self.cpu.1.max(1) as f64
    }
}

/// The most streams of the load in which LiteLLM is measured. It serves some thousand deltas a second.
const LITELLM_STREAMS: u32 = 100;

fn rows(provider: &Provider, size: LoadSize) -> Vec<Row> {
    let to = provider.address();
    let mut rows = vec![Row::new("direct", to, None)];
    let mut add = |name, server: Option<Server>| match server {
        Some(server) => rows.push(Row::new(name, server.address(), Some(server))),
        None => println!("{name} is not installed, and its row is left out"),
    };
    add("hyper", Server::of_role("hyper", to));
    add("nginx", Server::nginx(to));
    add("no rules", Server::of_role("no-rules", to));
    add("built-in packs", Server::of_role("built-in", to));
    add("sleeping", Server::of_role("sleeping", to));
    if size.streams <= LITELLM_STREAMS {
        add("LiteLLM", Server::litellm(to));
        for row in rows.iter_mut().filter(|row| row.name == "LiteLLM") {
            row.place = StampPlace::Text;
            row.rounds = 1;
        }
    }
    rows
}

/// Runs a load through each row, and prints the table.
async fn table(provider: &Provider, size: LoadSize) {
    let mut rows = rows(provider, size);
    for row in &mut rows {
        row.warm_up(size).await;
    }
    for round in 0..size.rounds {
        for row in rows.iter_mut().filter(|row| round < row.rounds) {
            row.measure(size).await;
        }
    }
    println!(
        "\n{} streams, {} deltas each, one every {} ms, {} rounds",
        size.streams,
        size.deltas,
        PAUSE.as_millis(),
        size.rounds,
    );
    println!(
        "{:<16}{:>14}{:>14}{:>14}{:>14}{:>14}{:>14}{:>14}{:>14}{:>14}",
        "",
        "first p50, µs",
        "delta p50, µs",
        "delta p99, µs",
        "joined, %",
        "CPU, µs/delta",
        "core, %",
        "KiB/stream",
        "other, MiB",
        "late, ms"
    );
    let mut figures = Vec::new();
    for row in &mut rows {
        let (cpu, memory) = (row.cpu_microseconds(), row.memory / 1024.0);
        let shared = row.shared_memory / f64::from(1 << 20);
        let samples = &mut row.samples;
        let times = [
            clients::percentile(&mut samples.first, 50),
            clients::percentile(&mut samples.deltas, 50),
            clients::percentile(&mut samples.deltas, 99),
        ];
        let [first, median, slow] = times;
        let count = (samples.deltas.len() as u64 + samples.joined) as f64;
        let joined = samples.joined as f64 * 100.0 / count;
        let late = samples.late.as_secs_f64() * 1000.0;
        let (name, core_share) = (row.name, row.core_share());
        let core = core_share * 100.0;
        println!(
            "{name:<16}{first:>14.0}{median:>14.0}{slow:>14.0}{joined:>14.1}{cpu:>14.1}{core:>14.0}{memory:>14.1}{shared:>14.1}{late:>14.0}"
        );
        figures.push(Figures {
            name,
            times,
            cpu,
            core_share,
            memory,
            late,
        });
    }
    let of = |name: &str| figures.iter().find(|row| row.name == name);
    let (Some(direct), Some(hyper), Some(packs), Some(sleeping)) = (
        of("direct"),
        of("hyper"),
        of("built-in packs"),
        of("sleeping"),
    ) else {
        return;
    };
    let names = ["first byte p50", "delta p50", "delta p99"];
    for (at, (name, goal)) in names.iter().zip(GOALS).enumerate() {
        let added = |row: &Figures| row.times[at] - direct.times[at];
        print!("built-in packs add {:.0} µs to {name}", added(packs));
        for (name, row) in [
            ("sleeping", Some(sleeping)),
            ("hyper", Some(hyper)),
            ("nginx", of("nginx")),
        ] {
            row.iter()
                .for_each(|row| print!(", {name} {:.0} µs", added(row)));
        }
        let [packs, sleeping] = [packs, sleeping].map(|row| verdict(added(row) <= goal));
        match size.streams {
            100 => println!("; goal {goal:.0} µs: {packs}, sleeping {sleeping}"),
            _ => println!(),
        }
    }
    println!(
        "built-in packs take {:.2} times the CPU of hyper; {:.1} KiB a stream, goal {MEMORY_GOAL}: {}",
        packs.cpu / hyper.cpu,
        packs.memory,
        verdict(packs.memory <= MEMORY_GOAL),
    );
    if size.streams > 100 {
        // No stream falls behind by as much as one delta.
        let (added, pause) = (packs.late - direct.late, PAUSE.as_secs_f64() * 1000.0);
        println!(
            "with built-in packs the last stream ends {added:.0} ms later than without a server; goal {pause:.0} ms: {}",
            verdict(added <= pause)
        );
    }
    println!(
        "built-in packs take {:.0} % of their core while all streams are open",
        packs.core_share * 100.0
    );
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, name, to] = &arguments[..]
        && role == servers::ROLE
    {
        return serve_role(name, to.parse().expect("an address"));
    }
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let numbers: Vec<u32> = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let sizes = match (is_test, &numbers[..]) {
        (true, _) => vec![LoadSize {
            streams: 2,
            deltas: 3,
            rounds: 1,
        }],
        (false, &[streams, ref deltas @ ..]) => vec![LoadSize {
            streams,
            // The last stream begins while all others are open.
            deltas: deltas.first().copied().unwrap_or(100.max(streams / 4)),
            rounds: if deltas.is_empty() { 3 } else { 1 },
        }],
        (false, []) => vec![
            LoadSize {
                streams: 100,
                deltas: 100,
                rounds: 5,
            },
            LoadSize {
                streams: 2000,
                deltas: 400,
                rounds: 1,
            },
        ],
    };
    pin_to(servers::LOAD_CORE, std::process::id());
    clients::begin(Instant::now());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    if arguments
        .iter()
        .any(|argument| argument == "--instructions")
    {
        return runtime.block_on(async {
            tokio::spawn(pace::stay_awake());
            instructions::run().await;
        });
    }
    runtime.block_on(async {
        tokio::spawn(pace::stay_awake());
        for size in sizes {
            let provider = Provider::start(size.deltas).await;
            table(&provider, size).await;
        }
        cancel::run(if is_test { 2 } else { 200 }).await;
        leaks::run().await;
    });
}
