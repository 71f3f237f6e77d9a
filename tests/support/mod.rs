//! Helpers of the tiers on real services: a virtual host and a schema per test, orders, messages, workers,
//! faults. `mod support;` (with `#[path]`) in a tier's `main.rs` brings it in.
//!
//! Tests wait on state ([`wait::until`]), never for a time. A test without its services fails and names the command that
//! starts them.

/// Makes an async function a test: `#[apply(world_test)]`. The worker, the proxies and the web servers of the test run on
/// the second thread while the test itself waits for a program.
macro_rules! world_test {
    ($($test:tt)*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $($test)*
    };
}

pub mod browser;
pub mod clock;
pub mod crash_point;
pub mod folder;
pub mod management;
pub mod messages;
pub mod orders;
pub mod pages;
pub mod pooler;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod python;
pub mod samples;
pub mod services;
pub mod statements;
pub mod tls;
pub mod ui;
pub mod users;
pub mod wait;
pub mod webhook;
pub mod worker;
pub mod world;

#[allow(unused_imports, reason = "each tier uses another part")]
pub use self::{
    folder::Folder,
    messages::{Parked, Wire, headers, table, text},
    orders::{Orders, hold, ids},
    process::{Run, WorkerProcess, overdue},
    proxy::Proxy,
    python::python,
    services::Services,
    wait::until,
    worker::RunningWorker,
    world::World,
};
