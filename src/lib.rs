//! `overdue` closes orders in PostgreSQL that were not paid at their deadline: once, and never early.
//!
//! The crate is a library and the binary `overdue`.
//! The binary manages a topology of queues on RabbitMQ that delays messages, and runs a worker that closes overdue orders.
//! The library offers the same parts to a program of yours: read a topology, plan and apply it, publish notices, run a worker.
//!
//! # Overview
//!
//! An *order* is a row of a table with a deadline.
//! A *timeout* of `topology.toml` names a rule: which delay, and which effect.
//! A *notice* is the message for one order and one timeout; it names the order, and waits in a *level*, a queue with a TTL.
//! An *effect* closes the orders of a batch by one transaction in PostgreSQL.
//!
//! The database decides: a notice is only a hint that an order may be due.
//! The effect closes an order if it is still open and past its deadline by the database's clock.
//! Early, late, duplicate, unreadable and forged messages therefore close nothing wrongly.
//!
//! Two flows go through the crate, each in one direction:
//!
//! ```text
//! topology.toml ─parse─▶ Topology ─objects─▶ diff(desired, observed) ─▶ Plan ─apply─▶ broker
//! delivery ─decode─▶ DueNotice ─collect─▶ Batch ─close─▶ Outcome ─decide─▶ Disposition ─settle─▶ ack
//!                                                   (commit always precedes settle)
//! ```
//!
//! # The topology
//!
//! A [`Topology`] is parsed from `topology.toml`, and [`lint`] reports all mistakes of the file at once.
//! [`Topology::objects`] are its exchanges, queues and bindings, as data.
//! [`diff`] compares them with a [`Snapshot`] of the broker and returns a plan; it does no I/O.
//! [`TopologyChange`] carries a plan out under a lock that all programs of the topology share.
//! A queue is never changed: it gets a successor, drains through its own TTL, and is deleted when it is empty.
//! A plan loses no waiting message, and can stop after any step.
//!
//! # The worker
//!
//! [`Worker`] and [`work`] consume one queue per timeout, with a connection each.
//! The worker keeps an early notice unacked until its deadline, collects due orders into batches, and closes several batches at once.
//! It acks a delivery after the commit, or after the broker has confirmed the republished message.
//! An order whose effect fails is retried after the delays of `[retry]`; then its message is parked with the reason.
//! An outage of the broker or the database uses no retry; without the broker the worker closes orders from the table, on time.
//! A *sweep* closes overdue orders without a message, and a *burst* closes many orders ahead of their messages.
//! The worker also publishes the events of the table `outbox`, and the notices that order services write with `schedule()` in SQL.
//!
//! # Promises
//!
//! - An order is brought to its final state at most once, and never before its deadline by the database's clock.
//! - The sweep closes an order whose message was lost, after its grace period.
//! - Events are published at least once: a subscriber recognises copies by their `message-id`.
//! - Classic queues dead-letter at most once and are not replicated; quorum queues are the default.
//!
//! # Examples
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
//! Its objects on a broker, and the route of a notice:
//!
//! ```
//! # use overdue::Topology;
//! use overdue::{Argument, Delay};
//!
//! # let topology = Topology::parse("name = \"orders\"\n[delay]\nlevels = [\"5s\", \"30m\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\neffect = \"close\"\n[retry]\nafter = [\"5s\"]\n").unwrap();
//! let objects = topology.objects();
//! let delay = &objects.queues["orders.delay.30m"];
//! // Two seconds early: the worker keeps the notice unacked until the deadline.
//! assert_eq!(delay.arguments["x-message-ttl"], Argument::Integer(1_798_000));
//!
//! let route = topology.route("unpaid", &Delay::Usual).expect("a route");
//! assert_eq!((route.exchange.as_str(), route.routing_key.as_str()), ("orders.in", "30m.unpaid"));
//! ```
//!
//! Any delay, with a ladder: for a duration, or until a time.
//! A delay for our worker is rounded down, and the worker waits for the rest; a delay for other consumers is rounded up:
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
//! Plan the changes of a broker; the plan is data:
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
//! // A broker with the applied plan needs no further step.
//! assert!(diff(&topology, &Snapshot::of(&topology), &BTreeSet::new()).is_empty());
//! ```
//!
//! Apply a topology to a broker, under the topology's lock:
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
//! If the broker lacks the level or the timeout's queue, `Ok` means the parking lot.
//! Check first, and again every few seconds or after a change of the topology, not for each message:
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
//! Run a worker in your own process:
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
//! // Returns after `stop.request()`, at most `worker.drain` later.
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
