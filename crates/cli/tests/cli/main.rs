//! The `ttsr` command as a user or a script runs it.

mod commands;
mod complaints;
mod proxy;
mod run;
#[cfg(unix)]
mod tools;
mod watch;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}
