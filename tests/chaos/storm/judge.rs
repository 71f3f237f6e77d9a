//! What must be true when the storm is over; a function of the evidence.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Everything that is known at the end.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Every row of `orders`.
    pub orders: Vec<Order>,
    /// Every order whose creation was acknowledged to the order service.
    pub created: BTreeSet<String>,
    /// What customers were answered when they paid.
    pub answers: BTreeMap<String, Vec<Answer>>,
    /// Every row of `stock`, beside what the orders say.
    pub shelves: Vec<Shelf>,
    /// Everything that was published and belongs into the parking lot.
    pub trash: BTreeMap<String, Expected>,
    /// Everything in the parking lot.
    pub parked: Vec<Parked>,
    /// Orders that a subscriber of the events heard of.
    pub events: BTreeSet<String>,
    /// Every end of a worker that nobody asked for.
    pub ends: Vec<String>,
    /// Lines of the workers' logs that say `panicked`.
    pub panics: Vec<String>,
    /// Messages that are left in levels and business queues.
    pub left: BTreeMap<String, u32>,
    /// Rows that are left in `outbox`.
    pub outbox: i64,
    /// Faults that broke connections: each may make a copy be parked a second time.
    pub interruptions: usize,
}

/// An order, times in µs after its deadline by the database's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub id: String,
    pub status: String,
    /// By the row itself.
    pub closed_at_us: Option<i64>,
    /// When each closure was committed, and by which path.
    pub closures: Vec<(i64, String)>,
    /// Each change of its status, noted by a trigger: to what, and when.
    pub changes: Vec<(String, i64)>,
}

/// What a customer who paid was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Taken,
    Refused,
    /// The database did not answer: it may or may not have been taken.
    Unknown,
}

/// Stock of one SKU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shelf {
    pub sku: String,
    pub initial: i64,
    pub available: i64,
    pub reserved: i64,
    pub sold: i64,
    /// What the items of unpaid orders add up to.
    pub in_unpaid: i64,
    /// What the items of paid orders add up to.
    pub in_paid: i64,
}

/// What has to be in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What the reason has to contain; empty where the broker parks without one.
    pub reason: String,
    /// How often it was published, confirmed or not.
    pub sent: usize,
    /// Whether one of them was confirmed.
    pub confirmed: bool,
}

/// A message in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub message_id: String,
    /// Empty where it has none.
    pub reason: String,
    /// Headers and the beginning of the body, for the person who reads a violation.
    pub about: String,
}

/// Something that must never be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// An order was acknowledged and is not in the database.
    OrderLost(String),
    /// It is due and not final.
    NotFinal(String),
    /// It has several closures, or changed its status more than once.
    ChangedTwice(String),
    /// Status, closure and changes contradict each other.
    Contradiction(String),
    /// It was closed before its deadline.
    ClosedEarly(String),
    /// A customer's payment was taken, and the order is not paid.
    PaymentLost(String),
    /// Nobody's payment was taken, and the order is paid.
    PaidByNobody(String),
    /// Stock was made or destroyed.
    StockNotConserved(String),
    /// Stock is held for nobody, or sold to nobody.
    StockMisassigned(String),
    /// Garbage is not in the parking lot.
    GarbageLost(String),
    /// It is there with another reason.
    WrongReason(String),
    /// It is there more often than it was published and interrupted.
    TooManyCopies(String),
    /// A message that is no garbage is there.
    GoodMessageParked(String),
    /// A worker ended that nobody had asked to.
    WorkerEnded(String),
    /// Something in a worker panicked.
    WorkerPanicked(String),
    /// A queue does not become empty.
    MessagesLeft(String),
    /// Events are not published.
    EventsLeft(String),
    /// An order was closed, and nobody heard of it.
    EventLost(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, about) = match self {
            Self::OrderLost(about) => ("order lost", about),
            Self::NotFinal(about) => ("order not final", about),
            Self::ChangedTwice(about) => ("order changed twice", about),
            Self::Contradiction(about) => ("status and history differ", about),
            Self::ClosedEarly(about) => ("order closed before its deadline", about),
            Self::PaymentLost(about) => ("payment lost", about),
            Self::PaidByNobody(about) => ("paid by nobody", about),
            Self::StockNotConserved(about) => ("stock not conserved", about),
            Self::StockMisassigned(about) => ("stock held or sold for no order", about),
            Self::GarbageLost(about) => ("garbage not in the parking lot", about),
            Self::WrongReason(about) => ("parked with a wrong reason", about),
            Self::TooManyCopies(about) => ("parked too often", about),
            Self::GoodMessageParked(about) => ("a good message was parked", about),
            Self::WorkerEnded(about) => ("a worker ended by itself", about),
            Self::WorkerPanicked(about) => ("a worker panicked", about),
            Self::MessagesLeft(about) => ("messages left in a queue", about),
            Self::EventsLeft(about) => ("events left in the outbox", about),
            Self::EventLost(about) => ("event lost", about),
        };
        write!(f, "{what}: {about}")
    }
}

/// Every violation that the evidence shows, in the order of [`Violation`].
pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    for order in &evidence.orders {
        judge_order(order, &mut found);
        let answers = evidence.answers.get(&order.id).map_or(&[][..], Vec::as_slice);
        judge_payment(order, answers, &mut found);
        if order.status == "closed" && !evidence.events.contains(&order.id) {
            found.push(Violation::EventLost(order.id.clone()));
        }
    }
    let there: BTreeSet<&String> = evidence.orders.iter().map(|order| &order.id).collect();
    let lost = evidence.created.iter().filter(|id| !there.contains(id));
    found.extend(lost.cloned().map(Violation::OrderLost));
    evidence.shelves.iter().for_each(|shelf| judge_shelf(shelf, &mut found));
    judge_parking_lot(evidence, &mut found);
    found.extend(evidence.ends.iter().cloned().map(Violation::WorkerEnded));
    found.extend(evidence.panics.iter().cloned().map(Violation::WorkerPanicked));
    let left = evidence.left.iter().filter(|(_, count)| **count > 0);
    found.extend(left.map(|(queue, count)| Violation::MessagesLeft(format!("{count} in {queue}"))));
    if evidence.outbox > 0 {
        found.push(Violation::EventsLeft(format!("{} rows", evidence.outbox)));
    }
    found.sort();
    found
}

fn judge_order(order: &Order, found: &mut Vec<Violation>) {
    let Order { id, status, closed_at_us, closures, changes } = order;
    if !matches!(status.as_str(), "paid" | "closed") {
        found.push(Violation::NotFinal(format!("{id} is {status}")));
    }
    if closures.len() > 1 || changes.len() > 1 {
        found.push(Violation::ChangedTwice(format!(
            "{id}: closures {closures:?}, changes {changes:?}"
        )));
    }
    let closed = status == "closed";
    let last = changes.last().map_or("unpaid", |(to, _)| to.as_str());
    if closed == closures.is_empty() || closed != closed_at_us.is_some() || last != status {
        let history =
            format!("closed at {closed_at_us:?}, closures {closures:?}, changes {changes:?}");
        found.push(Violation::Contradiction(format!("{id} is {status}: {history}")));
    }
    let noted = changes.iter().filter(|(to, _)| to == "closed").map(|(_, at_us)| *at_us);
    let committed = closures.iter().map(|(at_us, _)| *at_us);
    if let Some(first_us) = noted.chain(committed).chain(*closed_at_us).min().filter(|at| *at < 0) {
        found.push(Violation::ClosedEarly(format!("{id}, {} µs before", -first_us)));
    }
}

fn judge_payment(order: &Order, answers: &[Answer], found: &mut Vec<Violation>) {
    let paid = order.status == "paid";
    if answers.contains(&Answer::Taken) && !paid {
        found.push(Violation::PaymentLost(format!("{} is {}", order.id, order.status)));
    }
    if paid && !answers.iter().any(|answer| matches!(answer, Answer::Taken | Answer::Unknown)) {
        found.push(Violation::PaidByNobody(format!("{}: {answers:?}", order.id)));
    }
}

fn judge_shelf(shelf: &Shelf, found: &mut Vec<Violation>) {
    if shelf.available + shelf.reserved + shelf.sold != shelf.initial {
        found.push(Violation::StockNotConserved(format!("{shelf:?}")));
    }
    if shelf.reserved != shelf.in_unpaid || shelf.sold != shelf.in_paid {
        found.push(Violation::StockMisassigned(format!("{shelf:?}")));
    }
}

/// Garbage comes at least once: a worker that dies between the confirm of a copy and its ack parks it again.
fn judge_parking_lot(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut copies: BTreeMap<&str, usize> = BTreeMap::new();
    for parked in &evidence.parked {
        let Some(expected) = evidence.trash.get(&parked.message_id) else {
            let Parked { message_id, reason, about } = parked;
            found.push(Violation::GoodMessageParked(format!("{message_id}: `{reason}`, {about}")));
            continue;
        };
        *copies.entry(&parked.message_id).or_default() += 1;
        if parked.reason.is_empty() != expected.reason.is_empty()
            || !parked.reason.contains(&expected.reason)
        {
            let Parked { message_id, reason, about } = parked;
            let wanted = &expected.reason;
            found.push(Violation::WrongReason(format!(
                "{message_id}: `{reason}` instead of `{wanted}`, {about}"
            )));
        }
    }
    for (name, expected) in &evidence.trash {
        let copies = copies.get(name.as_str()).copied().unwrap_or(0);
        if copies == 0 && expected.confirmed {
            found.push(Violation::GarbageLost(name.clone()));
        }
        if copies > expected.sent + evidence.interruptions {
            found.push(Violation::TooManyCopies(format!(
                "{name}: {copies} copies of {} sent",
                expected.sent
            )));
        }
    }
}
