//! What a delay costs on the broker: hops, CPU, lateness, and how fast one publishes; for the ladder, the binary ladder that
//! other libraries build, and the delayed message plugin where the broker has it.
//!
//! One second of real delays is one millisecond here: up to an hour is up to 3.6 s, and each ladder has the places that it
//! would have for seconds. All ways take turns in each round, so that a machine that is busy is so for all of them.

mod support;

use std::{
    collections::BTreeMap,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use overdue::{
    Argument, Binding, Change, DueNotice, Exchange, Message, Objects, OrderId, Publisher, Queue,
    Route,
    internals::{
        broker::{Link, consume::Subscription},
        ladder::{Ends, Ladder, LadderSpec, Rounding},
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use support::{
    Benchmark, PATIENCE, Result,
    options::Options,
    report::Report,
    say,
    shop::{per_second, percentiles},
    stage::Stage,
};

/// The same delays each time.
const SEED: u64 = 8;
/// The last word of each routing key.
const WORD: &str = "due";
/// Up to an hour, a second being a millisecond.
const LONGEST_MS: u64 = 3_600;
/// For a ladder with a budget: about as many queues as an hour's ladder could have for two hops; and up to a day.
const BUDGETS: [u32; 2] = [130, 100];
/// As many as the ladders of other libraries have.
const BITS: u32 = 28;
/// What order services use: 5 m, 15 m, 30 m, 1 h, 2 h, 1 d; in seconds.
const HABITS_S: [u64; 6] = [300, 900, 1_800, 3_600, 7_200, 86_400];
/// Messages on their way to the broker at once, and unsettled deliveries; deliveries acked at once.
const AT_ONCE: u16 = 2_000;
const ACKED_AT_ONCE: usize = 200;
/// A burst is due so long after the first of it is published: nothing of it is late before it is published.
const BURST_AFTER: Duration = Duration::from_secs(3);
const PLUGIN: &str = "x-delayed-message";

/// What a delay costs on the broker
#[derive(Debug, Parser)]
struct Delays {
    /// Messages of a round
    #[arg(long, default_value_t = 20_000)]
    messages: usize,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    support::run::<Delays>()
}

impl Benchmark for Delays {
    fn options(&self) -> &Options {
        &self.options
    }

    fn shrink(&mut self) {
        self.messages = 50;
    }

    async fn measure(&self, stage: &Stage) -> Result<Report> {
        let (messages, rounds) = (self.messages.max(1), self.options.rounds_or(3));
        let what = format!(
            "{messages} messages a round, medians of {rounds} rounds. A second of real delays is a millisecond here. Hops are \
             counted in ladders of real delays up to a day, the budget being {} queues: hops_any of each second up to an hour, \
             hops_usual of 5 m, 15 m, 30 m, 1 h, 2 h and 1 d",
            BUDGETS[1]
        );
        let mut report = Report::new("delay", what, stage);
        let mut ways = Vec::new();
        for kind in Kind::ALL {
            let way = Way::new(kind)?;
            match way.declare(stage).await {
                Ok(()) => ways.push(way),
                // The broker does not have it.
                Err(_) if kind == Kind::Plugin => {}
                Err(error) => return Err(error),
            }
        }
        let publisher = Publisher::connect(&stage.address, "bench: publishing").await?;
        let mut rng = StdRng::seed_from_u64(SEED);
        for number in 0..=rounds {
            for way in &ways {
                say(&format!("round {number} of {rounds}: {}", way.kind.title()));
                let round = Round { stage, publisher: &publisher, way, messages };
                let random: Vec<Duration> = (0..messages)
                    .map(|_| Duration::from_millis(rng.random_range(1..=LONGEST_MS)))
                    .collect();
                let random_report = (number > 0).then_some(&mut report);
                round.measure("random", |index| random[index], random_report).await?;
                let due = Instant::now() + BURST_AFTER;
                // Each takes the way of the rest that it has when it is published.
                let rest = |_| due.saturating_duration_since(Instant::now());
                // In the first, connections are opened and files made.
                round.measure("burst", rest, (number > 0).then_some(&mut report)).await?;
            }
        }
        for way in &ways {
            let hours: Vec<u64> = (1..=3_600).collect();
            let name = way.kind.title();
            report.add(name, [("queues", f64::from(way.queues()))]);
            report.add(
                name,
                [("hops_any", way.kind.hops(&hours)?), ("hops_usual", way.kind.hops(&HABITS_S)?)],
            );
        }
        Ok(report)
    }
}

/// A way in which a broker can delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ladder,
    /// With a budget of queues.
    Budget,
    /// A binary ladder of 28 places that is entered at the first bit.
    FirstBit,
    /// The same, entered at the top, as other libraries do.
    Top,
    Plugin,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Ladder, Self::Budget, Self::FirstBit, Self::Top, Self::Plugin];

    const fn title(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Budget => "ladder, with a budget",
            Self::FirstBit => "binary ladder, from the first bit",
            Self::Top => "binary ladder, from the top",
            Self::Plugin => "delayed message plugin",
        }
    }

    /// Its ladder for delays in this unit, where it is one of this program.
    fn ladder(self, unit: Duration, longest: u32, budget: u32) -> Result<Option<Ladder>> {
        let max_queues = match self {
            Self::Ladder => None,
            Self::Budget => Some(budget),
            Self::FirstBit | Self::Top | Self::Plugin => return Ok(None),
        };
        let spec = LadderSpec { max: unit * longest, resolution: unit, max_queues };
        let name = format!("bench.{self:?}").to_lowercase();
        Ok(Some(Ladder::compile(&name, &spec)?))
    }

    const fn is_binary(self) -> bool {
        matches!(self, Self::FirstBit | Self::Top)
    }

    /// Hops on average, for delays in seconds.
    fn hops(self, delays_s: &[u64]) -> Result<f64> {
        let ladder = self.ladder(Duration::from_secs(1), 86_400, BUDGETS[1])?;
        let mut hops = 0;
        for seconds in delays_s {
            hops += match &ladder {
                Some(ladder) => {
                    let delay = Duration::from_secs(*seconds);
                    u32::try_from(ladder.enter(delay, Rounding::Down, WORD)?.hops.len())?
                }
                None if self.is_binary() => seconds.count_ones(),
                None => 1,
            };
        }
        Ok(f64::from(hops) / f64::from(u32::try_from(delays_s.len())?))
    }
}

/// A way, with its objects.
struct Way {
    kind: Kind,
    /// What its names begin with.
    name: String,
    ladder: Option<Ladder>,
}

impl Way {
    fn new(kind: Kind) -> Result<Self> {
        let longest = u32::try_from(LONGEST_MS)?;
        let ladder = kind.ladder(Duration::from_millis(1), longest, BUDGETS[0])?;
        Ok(Self { kind, name: format!("bench.{kind:?}").to_lowercase(), ladder })
    }

    /// Where messages come out.
    fn queue(&self) -> String {
        format!("{}.done", self.name)
    }

    /// Where a message is published.
    fn route(&self, delay: Duration) -> Result<Route> {
        let mut route = Route {
            exchange: format!("{}.delayed", self.name),
            routing_key: WORD.to_owned(),
            x_delay: None,
            holds: delay,
            early: Duration::ZERO,
            queues: Vec::new(),
        };
        let ms = u32::try_from(delay.as_millis())?;
        if let Some(ladder) = &self.ladder {
            let path = ladder.enter(delay, Rounding::Down, WORD)?;
            route.holds = path.total();
            (route.exchange, route.routing_key) = (path.exchange, path.routing_key);
        } else if self.kind.is_binary() {
            let first = (u32::BITS - ms.leading_zeros()).max(1) - 1;
            let top = if self.kind == Kind::Top { BITS - 1 } else { first };
            let digit = |bit| if ms >> bit & 1 == 1 { "1." } else { "0." };
            let bits: String = (0..=top).map(digit).collect();
            (route.exchange, route.routing_key) = (self.place(top), format!("{bits}{WORD}"));
            route.holds = Duration::from_millis(ms.into());
        } else {
            route.x_delay = Some(ms.max(1));
        }
        Ok(route)
    }

    /// The exchange of a bit of a binary ladder.
    fn place(&self, bit: u32) -> String {
        format!("{}.bit.{bit}", self.name)
    }

    /// How many delay queues it has.
    fn queues(&self) -> u32 {
        let of_ladder = self.ladder.as_ref().map_or(0, Ladder::queue_count);
        if self.kind.is_binary() { BITS } else { of_ladder }
    }

    async fn declare(&self, stage: &Stage) -> Result<()> {
        let Objects { exchanges, queues, bindings } = self.objects();
        let exchanges = exchanges.into_values().map(Change::CreateExchange);
        let queues = queues.into_values().map(Change::CreateQueue);
        for change in exchanges.chain(queues).chain(bindings.into_iter().map(Change::Bind)) {
            stage.management.apply(&change).await?;
        }
        Ok(())
    }

    fn objects(&self) -> Objects {
        let (due, park) = (format!("{}.dlx", self.name), format!("{}.park", self.name));
        let ends = Ends { due_exchange: &due, park_exchange: &park, quorum: true };
        let mut objects = self.ladder.as_ref().map(|it| it.objects(&ends)).unwrap_or_default();
        let parks = [("alternate-exchange", park.as_str().into())];
        objects.exchange(&park, "fanout", []);
        objects.exchange(&due, "topic", parks.clone());
        let mut from = due.clone();
        if self.kind == Kind::Plugin {
            from = format!("{}.delayed", self.name);
            objects.exchange(&from, PLUGIN, [("x-delayed-type", "topic".into())]);
        }
        objects.queue(&self.queue(), []);
        objects.bind(&from, &self.queue(), true, format!("#.{WORD}"));
        // As in the ladder of this program: each place looks at its own digit, and 0 costs no hop.
        let mut next = due;
        for bit in (0..BITS).filter(|_| self.kind.is_binary()) {
            let (place, queue) = (self.place(bit), format!("{}.delay.{bit}", self.name));
            let digit = |digit: u32| format!("{}{digit}.#", "*.".repeat(bit as usize));
            objects.exchange(&place, "topic", parks.clone());
            objects.queue(
                &queue,
                [
                    ("x-message-ttl", Argument::Integer(1 << bit)),
                    ("x-dead-letter-exchange", next.as_str().into()),
                    ("x-dead-letter-strategy", "at-least-once".into()),
                    ("x-overflow", "reject-publish".into()),
                ],
            );
            objects.bind(&place, &queue, true, digit(1));
            objects.bind(&place, &next, false, digit(0));
            next = place;
        }
        objects
    }
}

/// Makes objects of the rivals.
trait Draft {
    fn exchange<const N: usize>(&mut self, name: &str, kind: &str, with: [(&str, Argument); N]);
    fn queue<const N: usize>(&mut self, name: &str, with: [(&str, Argument); N]);
    fn bind(&mut self, from: &str, to: &str, to_queue: bool, routing_key: String);
}

impl Draft for Objects {
    fn exchange<const N: usize>(&mut self, name: &str, kind: &str, with: [(&str, Argument); N]) {
        let arguments = with.map(|(key, value)| (key.to_owned(), value)).into();
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let made =
            Exchange { name, kind, durable: true, auto_delete: false, internal: false, arguments };
        self.exchanges.insert(made.name.clone(), made);
    }

    fn queue<const N: usize>(&mut self, name: &str, with: [(&str, Argument); N]) {
        let arguments = with.map(|(key, value)| (key.to_owned(), value)).into();
        let (name, kind) = (name.to_owned(), "quorum".to_owned());
        let (auto_delete, exclusive) = (false, false);
        let made = Queue { name, kind, durable: true, auto_delete, exclusive, arguments };
        self.queues.insert(made.name.clone(), made);
    }

    fn bind(&mut self, from: &str, to: &str, to_queue: bool, routing_key: String) {
        let (source, destination) = (from.to_owned(), to.to_owned());
        let arguments = BTreeMap::new();
        self.bindings.insert(Binding { source, destination, to_queue, routing_key, arguments });
    }
}

/// One round of one way.
struct Round<'a> {
    stage: &'a Stage,
    publisher: &'a Publisher,
    way: &'a Way,
    messages: usize,
}

impl Round<'_> {
    async fn measure(
        &self,
        what: &str,
        delay: impl Fn(usize) -> Duration,
        report: Option<&mut Report>,
    ) -> Result<()> {
        let before = self.stage.meters.read(&[]);
        let began = Instant::now();
        let publish = async {
            let sent =
                stream::iter(0..self.messages).map(|index| self.publish(index, delay(index)));
            let sent: Vec<Instant> = sent.buffered(AT_ONCE.into()).try_collect().await?;
            Result::Ok((sent, began.elapsed()))
        };
        let ((due, took), received) = tokio::try_join!(publish, self.receive())?;
        let used = before.until(&self.stage.meters.read(&[]));
        let Some(report) = report else { return Ok(()) };
        let name = self.way.kind.title();
        let pairs = || due.iter().zip(&received);
        let late = pairs().map(|(due, received)| received.saturating_duration_since(*due));
        if what == "random" {
            report.add(name, [("published_per_s", per_second(self.messages, took))]);
            let messages = f64::from(u32::try_from(self.messages)?);
            let cpu = used.iter().find(|(number, _)| *number == "broker_cpu_s");
            report.add(name, cpu.map(|(_, cpu_s)| ("broker_cpu_us", cpu_s * 1e6 / messages)));
            report.add(name, percentiles(["random_p50_ms", "random_p99_ms"], late));
        } else {
            report.add(name, percentiles(["burst_p50_ms", "burst_p99_ms"], late));
        }
        report.add(name, used.into_iter().filter(|(number, _)| *number == "stolen_percent"));
        // The broker counts from when it gets the message, which is later: this is the grain of the clocks.
        let grain = Duration::from_millis(1);
        let early = pairs().filter(|(due, at)| due.saturating_duration_since(**at) > grain).count();
        if early > 0 {
            report.wrong(name, [format!("{early} messages came out before they were due")]);
        }
        Ok(())
    }

    /// When it is due.
    async fn publish(&self, index: usize, delay: Duration) -> Result<Instant> {
        let route = self.way.route(delay)?;
        let due = Instant::now() + route.holds;
        let order_id = OrderId::parse(&index.to_string())?;
        let message = Message::notice(route, &DueNotice { order_id, due_at: None });
        self.publisher.publish(message).await?;
        Ok(due)
    }

    /// When each message came, by its number.
    async fn receive(&self) -> Result<Vec<Instant>> {
        let link = Link::open(&self.stage.address, "bench: receiving").await?;
        let mut subscription = Subscription::open(&link, &self.way.queue(), AT_ONCE).await?;
        let mut received: Vec<Option<Instant>> = vec![None; self.messages];
        let (mut missing, mut unacked) = (self.messages, 0);
        let deadline = Instant::now() + Duration::from_millis(LONGEST_MS) + PATIENCE;
        while missing > 0 {
            let next = tokio::time::timeout_at(deadline.into(), subscription.next()).await;
            let lost = |_| format!("{missing} of {} messages did not come back", self.messages);
            let delivery = next.map_err(lost)??;
            let number: usize = delivery.notice()?.order_id.as_str().parse()?;
            if let Some(slot) = received.get_mut(number) {
                missing -= usize::from(slot.is_none());
                slot.get_or_insert_with(Instant::now);
            }
            unacked += 1;
            if unacked >= ACKED_AT_ONCE || missing == 0 {
                subscription.ack_through(delivery.tag).await?;
                unacked = 0;
            }
        }
        link.close().await;
        Ok(received.into_iter().flatten().collect())
    }
}
