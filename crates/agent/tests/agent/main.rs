//! Tests of the agent's parts, with real sockets, files and processes.

mod allocations;
mod chat;
mod conformance;
mod handoff;
#[cfg(feature = "opencode")]
mod opencode;
mod progress;
#[cfg(feature = "providers")]
mod providers;
mod sides;
mod store;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}
