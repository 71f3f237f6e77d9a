//! `overdue rebuild`: publishes a notice for every order that is open in the database. A duplicate notice does no harm: the
//! database decides.

mod notices;

use std::{collections::BTreeMap, fmt::Write, num::NonZeroU32, time::Duration};

use clap::Args;
use serde::Serialize;

use super::{
    exit::Failure,
    output::{Confirm, Output, print, print_json, report},
    publish::level_routes,
    setup::Services,
};
use crate::{
    administration::{Management, TopologyLock},
    config::Settings,
    oncall::actions::{self, NewAction, Via},
    plan::generation::number_of,
    store::{Store, effects::Effect, overdue::OpenOrders},
    text::{about, counted, length},
    topology::{Timeout, Topology, level_routes::LevelRoutes, route::LONGEST_IN_HAND},
};
use notices::Notices;

/// The name of the connection in the management UI.
const LOCK_PURPOSE: &str = "overdue rebuild: holds its lock";

/// Counting open orders ends at this number, because each counted row is read.
const MOST_COUNTED: i64 = 100_000_000;

/// Publish a notice for every open order; asks first
///
/// The command is for a broker that has lost its messages, and for a new one. It counts the orders, and asks before it publishes.
#[derive(Debug, Args)]
pub(super) struct Rebuild {
    /// Only this timeout [default: all]
    #[arg(long, value_name = "NAME")]
    timeout: Option<String>,
    #[command(flatten)]
    confirm: Confirm,
    /// Notices per second, at most
    #[arg(long, default_value = "5000", value_name = "N")]
    rate: NonZeroU32,
    #[command(flatten)]
    output: Output,
}

/// Open orders of one effect, read together: for each order a notice of any of its timeouts is enough.
struct RebuildPart<'a> {
    /// The timeout whose notices are published.
    timeout: &'a Timeout,
    effect: &'a Effect,
}

#[derive(Serialize)]
struct Rebuilt<'a> {
    version: u32,
    timeouts: Vec<Open<'a>>,
    /// Confirmed notices.
    published: u64,
    /// Rows whose id no message can carry.
    left_out: u64,
}

#[derive(Serialize)]
struct Open<'a> {
    timeout: &'a str,
    open: u64,
    overdue: u64,
    first_due: Option<String>,
    last_due: Option<String>,
}

impl Rebuild {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let services = Services::open(settings)?;
        let Services { topology, effects, address, store, management } = &services;
        let parts = self.parts(topology, effects)?;
        let preview = Preview::read(store, &parts).await?;
        let routes = level_routes(settings, topology).await?;
        complete(&routes, &parts)?;
        self.output.preview(preview.text(self.rate))?;
        if preview.orders() == 0 {
            return self.answer(&preview, 0, 0);
        }
        warn_of_waiting(management, topology).await;
        warn_of_long_levels(topology);
        self.confirm
            .ask(&format!("publish {} to {address}?", counted(preview.orders(), "notice")))?;
        let queue = topology.rebuild_lock_queue();
        let lock = TopologyLock::try_acquire(address, &queue, LOCK_PURPOSE).await?;
        let lock = lock.ok_or_else(|| taken(&queue))?;
        let mut notices = Notices::new(store, topology, &routes, self.rate);
        let ended = notices.publish(address, &parts, preview.orders()).await;
        lock.release().await;
        let Notices { confirmed, refused, .. } = notices;
        if confirmed > 0 {
            let names: Vec<&str> = parts.iter().map(|part| part.timeout.name.as_str()).collect();
            let action = NewAction {
                via: Via::Cli,
                action: "rebuild",
                what: format!("timeout {}", names.join(", ")),
                count: Some(confirmed),
                why: None,
                orders: &[],
            };
            actions::record(store, action).await;
        }
        if ended.is_ok() || self.output.is_json() {
            self.answer(&preview, confirmed, refused)?;
        }
        ended.map_err(|Failure { code, text }| {
            let confirmed = counted(confirmed, "notice");
            let text = format!(
                "{text}\n{confirmed} are confirmed; run it again: a second notice does no harm"
            );
            Failure { code, text }
        })
    }

    fn answer(&self, preview: &Preview<'_>, published: u64, left_out: u64) -> Result<(), Failure> {
        if self.output.is_json() {
            let timeouts = preview.0.iter().map(Open::of).collect();
            return print_json(&Rebuilt { version: 1, timeouts, published, left_out });
        }
        // Without an open order the preview has reported that.
        if preview.orders() == 0 {
            return Ok(());
        }
        print(format!("published {}, all confirmed", counted(published, "notice")))
    }

    /// Makes a part for each effect, in the order of the file.
    fn parts<'a>(
        &self,
        topology: &'a Topology,
        effects: &'a BTreeMap<String, Effect>,
    ) -> Result<Vec<RebuildPart<'a>>, Failure> {
        let mut parts: Vec<RebuildPart<'a>> = Vec::new();
        for timeout in self.timeouts(topology)? {
            let Some(effect) = effects.get(&timeout.effect) else { continue };
            if parts.iter().any(|part| part.effect.name == effect.name) {
                continue;
            }
            if !effect.finds_overdue() {
                return Err(without(effect));
            }
            parts.push(RebuildPart { timeout, effect });
        }
        Ok(parts)
    }

    fn timeouts<'a>(&self, topology: &'a Topology) -> Result<Vec<&'a Timeout>, Failure> {
        let Some(name) = &self.timeout else { return Ok(topology.timeouts.iter().collect()) };
        let named = topology.known_timeout(name);
        named.map(|timeout| vec![timeout]).map_err(|error| Failure::usage(error.to_string()))
    }
}

fn without(Effect { name, .. }: &Effect) -> Failure {
    Failure::configuration(format!(
        "effect `{name}` has no overdue_sql, so its open orders are unknown; write into overdue.toml \
         [effects.{name}] overdue_sql = \"{name}_overdue.sql\" (docs/effects.md), or name another timeout with --timeout"
    ))
}

/// Fails if the broker lacks a level or the queue of a timeout: it would confirm the notices, and park them now or when they are
/// due.
fn complete(routes: &LevelRoutes, parts: &[RebuildPart<'_>]) -> Result<(), Failure> {
    let absent = routes.absent().map(|exchange| format!("the broker has no exchange `{exchange}`"));
    let missing = routes
        .missing()
        .map(|key| format!("the broker has nothing that takes `{key}`, a notice would be parked"));
    let unbound = routes.unbound().map(|queue| {
        format!(
            "on the broker nothing leads to `{queue}`, through which some of the notices would go"
        )
    });
    let timeouts = parts.iter().map(|part| part.timeout.name.as_str());
    let queueless = timeouts.filter(|timeout| !routes.has_queue(timeout)).map(|timeout| {
        format!("on the broker no queue of `{timeout}` gets what is due, a notice would be parked")
    });
    let lacks = absent.chain(missing).chain(unbound).chain(queueless).next();
    let Some(lacks) = lacks else { return Ok(()) };
    Err(Failure::configuration(format!(
        "{lacks}: run `overdue apply` first; nothing was published"
    )))
}

/// Reports the messages that the broker had up to ten seconds ago.
async fn warn_of_waiting(management: &Management, topology: &Topology) {
    // Without the right to read counts, no warning.
    let Ok(stats) = management.queue_stats().await else { return };
    let parked = topology.parked_queue();
    let prefix = format!("{}.", topology.name);
    let ours = stats.values().filter(|it| it.name.starts_with(&prefix));
    let waiting = ours.filter(|it| number_of(&parked, &it.name).is_none());
    let waiting: u64 = waiting.filter_map(|it| it.messages).sum();
    if waiting > 0 {
        let are = if waiting == 1 { "is" } else { "are" };
        report(format!(
            "note: {} {are} of this topology on the broker already. A second notice for an order does no harm: its \
             message is acked when it comes",
            counted(waiting, "message")
        ));
    }
}

/// Warns of orders that are due before the shortest level expires, but too late for a worker to keep their messages until then.
fn warn_of_long_levels(topology: &Topology) {
    let rest = LONGEST_IN_HAND + Duration::from_secs(1);
    let ways = topology.timeouts.iter().filter_map(|timeout| topology.wait(timeout, rest).ok());
    if let Some(way) = ways.max_by_key(|way| way.holds).filter(|way| way.holds > rest) {
        let most = length(LONGEST_IN_HAND);
        report(format!(
            "note: no level is shorter than {}: orders that are due before that, and in more than {most}, are closed by the \
             sweep. A level of {most} or less would bring them in time",
            length(way.delay())
        ));
    }
}

fn taken(queue: &str) -> Failure {
    Failure::failed(format!(
        "another `overdue rebuild` is publishing: it holds the exclusive queue {queue}. Nothing was published; run this again \
         when it has finished"
    ))
}

/// The open orders of each part, for which notices would be published.
struct Preview<'a>(Vec<(&'a str, OpenOrders)>);

impl<'a> Preview<'a> {
    async fn read(store: &Store, parts: &[RebuildPart<'a>]) -> Result<Self, Failure> {
        let mut read = Vec::new();
        for RebuildPart { timeout, effect, .. } in parts {
            if let Some(open) = store.open_orders(effect, MOST_COUNTED).await? {
                read.push((timeout.name.as_str(), open));
            }
        }
        Ok(Self(read))
    }

    fn orders(&self) -> u64 {
        self.0.iter().map(|(_, open)| open.orders).sum()
    }

    fn text(&self, rate: NonZeroU32) -> String {
        let width = self.0.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(7);
        let mut text = format!(
            "{:<width$}  {:>10}  {:>10}  {:<20}  last due\n",
            "timeout", "open", "overdue", "first due"
        );
        for open in self.0.iter().map(Open::of) {
            let Open { timeout, open, overdue, first_due, last_due } = open;
            let (first, last) = (first_due.as_deref(), last_due.as_deref());
            // Writing to a String cannot fail.
            let _infallible = writeln!(
                text,
                "{timeout:<width$}  {open:>10}  {overdue:>10}  {:<20}  {}",
                first.unwrap_or("-"),
                last.unwrap_or("-")
            );
        }
        let left_out = self.left_out();
        text.push_str(&left_out);
        let orders = self.orders();
        let time = match orders / u64::from(rate.get()) {
            0 => "a moment".to_owned(),
            seconds => format!("about {}", about(Duration::from_secs(seconds))),
        };
        if orders == 0 {
            let other = if left_out.is_empty() { "" } else { "other " };
            return text + &format!("no {other}order is open: there is nothing to publish");
        }
        text + &format!("{}, at {rate}/s: {time}", counted(orders, "notice"))
    }

    /// A line for each kind of order that gets no notice.
    fn left_out(&self) -> String {
        let sum = |of: fn(&OpenOrders) -> u64| self.0.iter().map(|(_, open)| of(open)).sum();
        let kinds: [(u64, &str); 2] = [
            (
                sum(|open| open.unusable),
                "whose id no message can carry: empty, over 200 bytes, or with white space",
            ),
            (sum(|open| open.far), "due in more than 100 years"),
        ];
        let line = |(count, why)| format!("left out: {} {why}\n", counted(count, "order"));
        kinds.into_iter().filter(|(count, _)| *count > 0).map(line).collect()
    }
}

impl<'a> Open<'a> {
    fn of((timeout, orders): &(&'a str, OpenOrders)) -> Self {
        Self {
            timeout,
            open: orders.orders,
            overdue: orders.overdue,
            first_due: orders.due.map(|(first, _)| first.to_second()),
            last_due: orders.due.map(|(_, last)| last.to_second()),
        }
    }
}
