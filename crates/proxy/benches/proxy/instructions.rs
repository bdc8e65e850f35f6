//! The instructions that the proxy executes, counted by valgrind, which other work of the machine does not change.
//!
//! Each count is the difference between two loads: with more streams of one delta for a request, with more deltas of the
//! same streams for a delta. The start of the server, such as the loading of packs, is in both.

use crate::LoadSize;
use crate::clients::{self, StampPlace};
use crate::provider::Provider;
use crate::servers::Server;

const STREAMS: u32 = 4;

/// The roles of servers that are counted, each with its name in the table.
const ROLES: [(&str, &str); 3] = [
    ("hyper", "hyper"),
    ("no-rules", "no rules"),
    ("built-in", "built-in packs"),
];

/// Prints the instructions of a request with one delta, and of each further delta.
pub(crate) async fn run() {
    println!(
        "{:<16}{:>20}{:>20}",
        "", "instr. a request", "instr. a delta"
    );
    for (role, name) in ROLES {
        let few = count(role, STREAMS, 20).await;
        let deltas = count(role, STREAMS, 220).await;
        let streams = count(role, STREAMS * 6, 20).await;
        let of_delta = deltas.saturating_sub(few) / u64::from(STREAMS * 200);
        let of_stream = streams.saturating_sub(few) / u64::from(STREAMS * 5);
        // Of the 20 deltas of a stream, the first is the request's.
        let of_request = of_stream.saturating_sub(of_delta * 19);
        println!("{name:<16}{of_request:>20}{of_delta:>20}");
    }
}

/// Returns the instructions of a server under a load, with those of its start.
async fn count(role: &str, streams: u32, deltas: u32) -> u64 {
    let provider = Provider::start(deltas).await;
    let server = Server::counted(role, provider.address()).expect("valgrind is installed");
    let size = LoadSize {
        streams,
        deltas,
        rounds: 1,
    };
    clients::load(server.address(), size, StampPlace::Created).await;
    server.instructions()
}
