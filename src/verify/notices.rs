//! What is wrong with due notices as they were published: docs/wire.md as rules. Whether one was published `mandatory`, and
//! with confirms, cannot be seen in a copy of it.

use std::{cmp::Reverse, collections::BTreeMap, fmt, time::Duration};

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    diagnostic::{Diagnostic, Fix, Rendered, Severity, Subject, Target, counts_by_severity},
    text::{counted, length, one_line},
    topology::{
        Topology,
        file::QueueType,
        level_routes::LevelRoutes,
        route::{PublishedError, Route, RouteError},
    },
    wire::{self, DueNotice, Received, x_delay},
};

/// Quorum queues put messages with a higher priority before the others
/// (<https://www.rabbitmq.com/docs/quorum-queues#priorities>).
const NORMAL_PRIORITY: u8 = 4;
/// Nobody has an order from before 2000, in seconds since 1970.
const YEAR_2000: i64 = 946_684_800;
/// By which the clocks of two machines may differ.
const CLOCKS: Duration = Duration::from_secs(10);
const NOT_SEEN: &str = "Not to be seen here: whether they were published mandatory, and whether their publisher waits for the confirms.";

/// The topology that notices are published for, and what the broker has of it.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// As in the file.
    pub topology: &'a Topology,
    /// Which of its levels the broker routes to.
    pub routes: &'a LevelRoutes,
}

impl Published<'_> {
    /// Whether a message comes from a publisher: not from a level, a worker, or a probe.
    pub fn is_notice(&self, message: &Received) -> bool {
        let exchange = &*message.exchange;
        let mut headers = message.headers.inner().keys();
        (self.is_entry(exchange) || !self.is_ours(exchange))
            && !headers.any(|header| wire::is_of_dead_lettering(header.as_str()))
            && !wire::is_canary(&message.headers)
            && !x_delay::is_on_its_way(&message.headers)
    }

    /// Whether publishers use it, with this strategy or with another one.
    fn is_entry(&self, exchange: &str) -> bool {
        exchange == self.topology.entry_exchange()
            || self.topology.entries().iter().any(|entry| entry.exchange == exchange)
    }

    fn is_ours(&self, exchange: &str) -> bool {
        self.topology.objects().exchanges.contains_key(exchange)
    }

    /// What is wrong with a notice that was published at `at`.
    pub fn findings(&self, message: &Received, at: Timestamp) -> Vec<Diagnostic> {
        let mut found = self.wrong_properties(message);
        let notice = message.notice();
        if let Err(unreadable) = &notice {
            found.push(
                about(message, "unreadable", Severity::Error, unreadable.to_string())
                    .because("a worker parks it")
                    .fix(Fix::Text(
                        "publish {\"order_id\": …}, or the order id as text".to_owned(),
                    )),
            );
        }
        match self.route(message) {
            Err(wrong) => found.push(*wrong),
            Ok((route, timeout)) => {
                found.extend(self.wrong_delay(message, &route, &timeout, notice.ok().as_ref(), at));
            }
        }
        found
    }

    fn wrong_properties(&self, message: &Received) -> Vec<Diagnostic> {
        if !message.has_its_properties() {
            return Vec::new();
        }
        let about = |rule, severity, text: String| about(message, rule, severity, text);
        let mut found = Vec::new();
        if !message.persistent {
            let (severity, why) = match self.topology.queue_type {
                QueueType::Quorum => (
                    Severity::Warning,
                    "quorum queues keep it all the same, classic queues would not",
                ),
                QueueType::Classic => (Severity::Error, "a restart of the broker loses it"),
            };
            let text = "it is not persistent".to_owned();
            let fix = Fix::Text("set delivery-mode 2".to_owned());
            found.push(about("not-persistent", severity, text).because(why).fix(fix));
        }
        if message.message_id.is_none() {
            let fix = "set one that is the same each time: the order and its deadline";
            let found_none =
                about("no-message-id", Severity::Warning, "it has no message-id".to_owned());
            let why = "a second copy and another notice look the same";
            found.push(found_none.because(why).fix(Fix::Text(fix.to_owned())));
        }
        let properties = message.properties.as_deref();
        if let Some(expiration) = properties.and_then(|it| it.expiration.as_deref()) {
            let text = format!("it has the expiration {expiration}");
            let why = "it leaves its level when that is over, or waits behind those before it";
            let fix = Fix::Text("leave it out: the routing key says how long it waits".to_owned());
            found.push(about("expiration", Severity::Error, text).because(why).fix(fix));
        }
        let priority = properties.and_then(|it| it.priority);
        if let Some(priority) = priority.filter(|it| *it > NORMAL_PRIORITY) {
            let text = format!("it has the priority {priority}");
            let why = "it goes before others that may be due sooner: they wait behind it";
            let fix = Fix::Text("leave it out".to_owned());
            found.push(about("priority", Severity::Warning, text).because(why).fix(fix));
        }
        if message.headers.contains_key(wire::X_DELAY) {
            let text = "it has the header x-delay, which nothing reads here".to_owned();
            let fix = Fix::Text("the routing key says how long it waits".to_owned());
            found.push(about("x-delay", Severity::Warning, text).fix(fix));
        }
        if message.headers.contains_key(wire::DELIVERY_TIME) {
            let text = format!("it has the header {}", wire::DELIVERY_TIME);
            let why = "quorum queues of RabbitMQ 4.4 hold it back until then, longer than its level if that is later";
            let fix = Fix::Text("leave it out: the routing key says how long it waits".to_owned());
            found.push(about("delivery-time", Severity::Warning, text).because(why).fix(fix));
        }
        found
    }

    /// Its way, and its timeout.
    fn route(&self, message: &Received) -> Result<(Route, String), Box<Diagnostic>> {
        // Somebody else's exchange may be bound to one that takes such keys.
        let entry = Some(&*message.exchange).filter(|exchange| self.is_ours(exchange));
        let published = self.topology.published(entry, &message.routing_key, None);
        let (route, timeout) = published.map_err(|error| {
            let parked = match &error {
                PublishedError::Route(RouteError::Timeout { .. }) => {
                    "it is parked when its delay is over".to_owned()
                }
                _ => format!("it is in {} now", self.topology.parked_queue()),
            };
            let fix = "publish with a routing key that there is; or add to the topology file, and run overdue apply";
            let found = about(message, "routing-key", Severity::Error, error.to_string());
            Box::new(found.because(parked).fix(Fix::Text(fix.to_owned())))
        })?;
        if self.routes.leads(&route) {
            return Ok((route, timeout));
        }
        let text = "the topology file has its level, and the broker has not".to_owned();
        let parked = format!("it is in {} now", self.topology.parked_queue());
        let found = about(message, "missing-level", Severity::Error, text);
        Err(Box::new(found.because(parked).fix(Fix::Apply)))
    }

    fn wrong_delay(
        &self,
        message: &Received,
        route: &Route,
        timeout: &str,
        notice: Option<&DueNotice>,
        at: Timestamp,
    ) -> Option<Diagnostic> {
        let due_at = notice?.due_at;
        if let Some(due_at) = due_at.filter(|due_at| due_at.as_second() < YEAR_2000) {
            let text =
                format!("its due_at is {due_at}: seconds since 1970 were taken for milliseconds");
            let fix = Fix::Text("multiply by 1000 before it becomes a time".to_owned());
            return Some(about(message, "due-at", Severity::Warning, text).fix(fix));
        }
        let left = due_at.map(|due_at| Duration::try_from(due_at - at).unwrap_or_default());
        let usual = self.topology.timeouts.iter().find(|it| it.name == timeout)?;
        let wanted = left.unwrap_or_else(|| usual.after.ttl().as_duration());
        let holds = route.holds;
        if self.is_a_thousandth(holds, wanted, due_at.is_some()) {
            let text = format!("it waits {}, a thousandth of {}", length(holds), length(wanted));
            let fix = Fix::Text(
                "multiply the delay by 1000: on a ladder it is in milliseconds".to_owned(),
            );
            return Some(about(message, "seconds", Severity::Warning, text).fix(fix));
        }
        let late = holds.saturating_sub(left?);
        (late > CLOCKS).then(|| {
            let text =
                format!("it waits {}, and its due_at is in {}", length(holds), length(wanted));
            let why = "its order is closed late: by this message, or by the sweep";
            let fix = Fix::Text("publish it with a delay that is over at its due_at".to_owned());
            about(message, "late", Severity::Warning, text).because(why).fix(fix)
        })
    }

    /// On a ladder, whose delays are numbers, rounded down. One that is not held at all may be meant so, unless it says when it is
    /// due.
    fn is_a_thousandth(&self, holds: Duration, wanted: Duration, is_certain: bool) -> bool {
        let Some(ladder) = self.topology.strategy.ladder() else { return false };
        let least = holds.saturating_mul(1_000).saturating_sub(CLOCKS);
        let most = (holds + ladder.resolution()).saturating_mul(1_000);
        let differs = wanted > holds + CLOCKS.max(ladder.resolution() * 10);
        differs && (least..most).contains(&wanted) && (is_certain || !holds.is_zero())
    }
}

fn about(message: &Received, rule: &'static str, severity: Severity, text: String) -> Diagnostic {
    Diagnostic::new(rule, severity, Subject::Notices(message.routing_key.to_string()), text)
}

/// The same of many notices is said once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    #[serde(flatten)]
    what: Rendered,
    /// How many have it.
    notices: usize,
    /// The order of the first one, or its `message-id` where it names none.
    first: Option<String>,
}

/// The answer of `overdue inspect`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoticesReport {
    /// Of this format.
    version: u32,
    /// Whether there were some, and nothing is wrong with them.
    ok: bool,
    /// How many were seen.
    notices: usize,
    /// How many of them have a finding.
    wrong: usize,
    /// The last line of the text.
    summary: String,
    /// Worst first.
    findings: Vec<Finding>,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    notices: usize,
    wrong: usize,
    /// By severity, rule and routing key.
    found: BTreeMap<(Reverse<Severity>, &'static str, String), Same>,
}

/// What the same is wrong with.
#[derive(Clone, Debug)]
struct Same {
    finding: Diagnostic,
    notices: usize,
    first: Option<String>,
}

impl Seen {
    /// How many.
    pub const fn notices(&self) -> usize {
        self.notices
    }

    /// One more, with what is wrong with it.
    pub fn add(&mut self, message: &Received, found: Vec<Diagnostic>) {
        self.notices += 1;
        self.wrong += usize::from(!found.is_empty());
        for finding in found {
            let key = (Reverse(finding.severity), finding.rule, message.routing_key.to_string());
            let first = || {
                let order = message.notice().ok().map(|notice| notice.order_id.to_string());
                order.or_else(|| message.message_id.as_deref().map(str::to_owned))
            };
            let same = || Same { finding, notices: 0, first: first() };
            self.found.entry(key).or_insert_with(same).notices += 1;
        }
    }

    /// The answer.
    pub fn report(self, topology: &Topology, virtual_host: &str) -> NoticesReport {
        let target = Target { topology: &topology.name, virtual_host };
        let counts = counts_by_severity(self.found.values().map(|same| same.finding.severity));
        let seen = counted(self.notices, "notice");
        let summary = match (self.notices, self.wrong) {
            (0, _) => "NOT OK: nothing was published".to_owned(),
            (_, 0) => format!("OK: {seen}, each as it should be"),
            (_, wrong) => format!("NOT OK: something is wrong with {wrong} of {seen}: {counts}"),
        };
        let findings = self.found.into_values().map(|Same { finding, notices, first }| {
            let what = finding.rendered(&target);
            Finding { what, notices, first }
        });
        NoticesReport {
            version: 1,
            ok: self.notices > 0 && self.wrong == 0,
            notices: self.notices,
            wrong: self.wrong,
            summary,
            findings: findings.collect(),
        }
    }
}

impl NoticesReport {
    /// Whether there were some, and nothing is wrong with them.
    pub const fn is_ok(&self) -> bool {
        self.ok
    }

    /// The last line.
    pub fn summary(&self) -> &str {
        &self.summary
    }
}

impl fmt::Display for NoticesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding { what, notices, first } in &self.findings {
            let Rendered { severity, subject, message, reason, fix, .. } = what;
            let first = first.as_deref().map(|first| format!(", first {}", one_line(first)));
            let many = counted(*notices, "notice") + &first.unwrap_or_default();
            writeln!(f, "{severity:7}  {}: {} ({many})", one_line(subject), one_line(message))?;
            for (title, text) in [("why", reason), ("fix", fix)] {
                if let Some(text) = text {
                    writeln!(f, "         {title}: {}", one_line(text))?;
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "{NOT_SEEN}")?;
        f.write_str(&self.summary)
    }
}
