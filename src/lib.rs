//! `overdue` closes what was not done in time.
//!
//! Two flows, each one way:
//!
//! ```text
//! topology.toml ─parse─▶ Topology ─objects─▶ diff(desired, observed) ─▶ Plan ─apply─▶ broker
//! delivery ─decode─▶ DueNotice ─collect─▶ Batch ─close─▶ Outcome ─decide─▶ Disposition ─settle─▶ ack
//!                                                   (commit always precedes settle)
//! ```
//!
//! # What is guaranteed
//! - An order is brought to its final state at most once, and never before its deadline by the database's clock.
//! - A delivery is acked only after the commit that makes it superfluous, or after the confirm of its copy.
//! - Early, late, duplicated, unreadable and forged messages change nothing they should not.
//! - A plan loses no waiting message: queues are succeeded, drain, and are deleted when they are empty.
//!
//! # What is not
//! - A message lost on its way to the broker is healed by the sweep, after its grace period.
//! - Events are published at least once: a subscriber recognises copies by their `message-id`.
//! - Classic queues dead-letter at most once and are not replicated.
//!
//! # The public API
//! What a program of yours embeds; everything else is private to the binary `overdue`.
//!
//! Read and check a topology:
//!
//! ```
//! use overdue::{Topology, lint, Surroundings};
//!
//! let text = r#"
//!     name = "orders"
//!     [delay]
//!     levels = ["5s", "30m"]
//!     [[timeout]]
//!     name = "unpaid"
//!     after = "30m"
//!     effect = "close"
//!     [retry]
//!     after = ["5s"]
//! "#;
//! let topology = Topology::parse(text).expect("no errors");
//! assert_eq!(topology.level("30m").expect("a level").ttl().as_millis(), 1_800_000);
//!
//! // All mistakes at once, each with what to do.
//! let wrong = lint(&text.replace("levels", "level"), &Surroundings::default());
//! assert!(wrong.iter().any(|found| found.message.contains("level")));
//! ```
//!
//! The objects it becomes on a broker, and where a publisher sends a notice:
//!
//! ```
//! # use overdue::Topology;
//! use overdue::{Argument, Delay};
//!
//! # let topology = Topology::parse("name = \"orders\"\n[delay]\nlevels = [\"5s\", \"30m\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\n[retry]\nafter = [\"5s\"]\n").unwrap();
//! let objects = topology.objects();
//! let delay = &objects.queues["orders.delay.30m"];
//! // Two seconds early: the worker holds the notice until the instant.
//! assert_eq!(delay.arguments["x-message-ttl"], Argument::Integer(1_798_000));
//!
//! let route = topology.route("unpaid", &Delay::Usual).expect("a route");
//! assert_eq!((route.exchange.as_str(), route.routing_key.as_str()), ("orders.in", "30m.unpaid"));
//! ```
//!
//! Any delay, with a ladder: for so long, or until a time. For a worker of ours it is rounded down, and the worker holds
//! the message for the rest; what consumers of others get is rounded up, so that they never see it early:
//!
//! ```
//! # use overdue::Topology;
//! use std::time::Duration;
//! use overdue::Delay;
//!
//! # let topology = Topology::parse("name = \"orders\"\n[delay]\nstrategy = \"ladder\"\n[delay.ladder]\nmax = \"30d\"\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\n[retry]\nafter = [\"5s\"]\n").unwrap();
//! let route = topology.route("unpaid", &Delay::exactly(Duration::from_secs(37 * 60)))?;
//! assert_eq!(route.exchange, "orders.ladder.10m");
//! assert_eq!(route.routing_key, "0.0.7.3.unpaid");
//! assert_eq!(route.queues, ["orders.ladder.delay.30m", "orders.ladder.delay.7m"]);
//!
//! // A topology has no clock: the present is passed in, right before publishing (`Timestamp::now()`).
//! let now: jiff::Timestamp = "2026-11-20T10:00:00Z".parse()?;
//! let due_at = "2026-11-20T10:37:00.250Z".parse()?;
//! let until = Delay::until(due_at, now);
//! assert_eq!(topology.route("unpaid", &until)?, route);
//! assert_eq!(topology.route_rounded_up("unpaid", &until)?.routing_key, "1.0.7.3.unpaid");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Plan what a broker needs; the plan is data, nothing is changed:
//!
//! ```
//! # use overdue::Topology;
//! use std::collections::BTreeSet;
//! use overdue::{Snapshot, diff};
//!
//! # let topology = Topology::parse("name = \"orders\"\n[delay]\nlevels = [\"5s\", \"30m\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\n[retry]\nafter = [\"5s\"]\n").unwrap();
//! let plan = diff(&topology, &Snapshot::default(), &BTreeSet::new());
//! assert_eq!(plan.lost(), 0);
//! assert!(plan.steps.iter().all(|step| step.adds()));
//! // The broker right after it was carried out needs nothing more.
//! assert!(diff(&topology, &Snapshot::of(&topology), &BTreeSet::new()).is_empty());
//! ```
//!
//! Bring a broker there, under the topology's lock:
//!
//! ```no_run
//! # use overdue::Topology;
//! use overdue::{BrokerAddress, Management, TopologyChange};
//!
//! # async fn example(topology: Topology) -> Result<(), Box<dyn std::error::Error>> {
//! let address = BrokerAddress::parse("amqp://admin:secret@127.0.0.1:5672/orders", None)?;
//! let management = Management::new(&address)?;
//! let plan = TopologyChange::new(&management, &topology).apply().await?;
//! println!("{plan}");
//! # Ok(())
//! # }
//! ```
//!
//! Publish with a confirm; `Ok` means that a queue has the message:
//!
//! ```no_run
//! # use overdue::{BrokerAddress, Topology};
//! use overdue::{Delay, DueNotice, Message, OrderId, Publisher};
//!
//! # async fn example(address: BrokerAddress, topology: Topology) -> Result<(), Box<dyn std::error::Error>> {
//! let publisher = Publisher::connect(&address, "order service").await?;
//! let notice = DueNotice { order_id: OrderId::parse("4711")?, due_at: None };
//! let route = topology.route("unpaid", &Delay::Usual)?;
//! publisher.publish(Message::notice(route, &notice)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Where the broker does not route to a level of the file, or has no queue for the timeout, `Ok` means the parking lot: ask
//! first, and again every few seconds or after a change of the topology, not for each message:
//!
//! ```no_run
//! # use overdue::{Management, Route, Topology};
//! # async fn example(management: Management, topology: Topology, route: Route) -> Result<(), Box<dyn std::error::Error>> {
//! let routes = management.level_routes(&topology).await?;
//! if !routes.leads(&route) || !routes.has_queue("unpaid") {
//!     return Err(format!("the broker lacks what takes {}: run `overdue apply`", route.routing_key).into());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Work in a process of your own:
//!
//! ```no_run
//! # use overdue::{BrokerAddress, Topology};
//! use std::{collections::BTreeMap, sync::Arc};
//! use overdue::{Effect, Settings, Stop, Store, Worker, work};
//!
//! # async fn example(address: BrokerAddress, topology: Topology) -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::new("postgres://overdue:secret@127.0.0.1/shop", "overdue,public", 16)?;
//! let effects = BTreeMap::from([("close".to_owned(), Effect::close())]);
//! let settings = Settings::default().worker;
//! let worker = Arc::new(Worker::new(address, None, store, topology, effects, settings));
//! let stop = Stop::new();
//! // Until somebody calls `stop.request()`, then at most `worker.drain` longer.
//! work(&worker, &stop).await?;
//! # Ok(())
//! # }
//! ```

mod administration;
mod alerting;
#[allow(
    clippy::doc_markdown,
    reason = "doc comments of arguments are help texts, shown as they are"
)]
mod cli;
mod condition;
mod config;
mod decisions;
mod demo;
mod diagnostic;
mod doctor;
mod document;
mod effect;
mod export;
mod graph;
#[doc(hidden)]
pub mod internals;
mod ladder;
mod listen;
mod messaging;
mod objects;
mod oncall;
mod order;
mod order_service;
mod parking;
mod permissions;
mod plan;
mod secret;
mod shutdown;
mod spans;
mod status;
mod store;
mod telemetry;
mod text;
mod timing;
mod tls;
mod topology;
mod ui;
mod verify;
mod why;
mod wire;
mod worker;

#[doc(hidden)]
pub use cli::main;

pub use administration::{
    ChangeError, ChangeEvent, LockError, Management, ManagementError, TopologyChange,
};
pub use config::{Settings, WorkerSettings};
pub use diagnostic::{Diagnostic, Fix, Severity, Subject};
pub use messaging::{BrokerAddress, ConnectError, PublishError, Publisher, address::AddressError};
pub use objects::{Argument, Binding, Exchange, Objects, Queue};
pub use order::{OrderId, OrderIdError, Outcome};
pub use plan::{Change, Plan, Reason, Refusal, Step, diff::diff, snapshot::Snapshot};
pub use shutdown::{DrainOverrun, Stop};
pub use store::{Store, StoreError, effects::Effect};
pub use topology::{
    Timeout, Topology,
    check::{BrokerVersion, Surroundings},
    level::{Interval, Level, LevelError, Ttl},
    level_routes::LevelRoutes,
    lint,
    route::{Delay, Route, RouteError},
    strategy::{BeforeTimeout, Entry, Strategy},
};
pub use wire::{DueNotice, Message, Unreadable};
pub use worker::{Counters, Counts, Worker, run as work};
