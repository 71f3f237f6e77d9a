//! One pass through the table, from its oldest row to its newest: what is not taken is passed over, and stops nothing
//! behind it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    floor::{Floor, Snapshot},
    routes::Routes,
    sending::{Heard, Sending},
};
use crate::{
    broker::{PublishError, Publisher},
    decisions::disposition::NOWHERE_TO_WAIT,
    shutdown::Stop,
    store::schedule::{Claimed, ScheduleSession, ScheduledNotice, SetAside},
    telemetry,
    topology::route::Route,
    worker::{context::Worker, unpublished::Unpublished},
};

/// Rows of one look: its cost is shared by all of them.
const CLAIM: i64 = 2_000;

/// What a pass came to.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) published: usize,
    /// Notices that the broker does not take for now.
    pub(super) left: Option<Left>,
}

#[derive(Debug)]
pub(super) struct Left {
    pub(super) notices: usize,
    /// Of the first.
    pub(super) reason: String,
}

/// What becomes of a notice.
enum Fate {
    Published,
    /// Not now; the others go on.
    Left(String),
    /// The same, for all of its timeout.
    Forbidden(String),
    Never(SetAside),
    /// Nobody's fault, or not known whose.
    Failed(PublishError),
}

/// The notices of one look, by what became of them.
#[derive(Default)]
struct Sorted {
    published: Vec<i64>,
    by_timeout: BTreeMap<String, usize>,
    aside: Vec<SetAside>,
    left: Option<Left>,
    forbidden: Vec<String>,
    failure: Option<PublishError>,
    /// Some are left without a confirm: they take the place of others that could be on their way.
    is_held_up: bool,
}

/// The way to the broker.
pub(super) struct Outgoing<'a> {
    worker: &'a Worker,
    /// Empty where it failed, so that the next time begins with a new connection.
    publisher: Option<Publisher>,
    routes: Routes,
    floor: Floor,
    /// Timeouts that may not be published, until when they are passed over.
    forbidden: BTreeMap<String, Instant>,
    sending: Sending,
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(worker: &'a Worker) -> Self {
        let (routes, floor) = (Routes::default(), Floor::default());
        let (forbidden, sending) = (BTreeMap::new(), Sending::new(&worker.timing));
        Self { worker, publisher: None, routes, floor, forbidden, sending }
    }

    /// Publishes what is there, page by page; the next page is read, and what was confirmed forgotten, while one is
    /// published.
    pub(super) async fn pass(
        &mut self,
        session: &ScheduleSession,
        stop: &Stop,
    ) -> Result<Passed, Unpublished> {
        let (mut passed, mut before) = (Passed::default(), Sorted::default());
        let mut page = session.claim(self.floor.begin(Instant::now()), CLAIM).await?;
        let first = snapshot(&page);
        let (mut behind, mut seen) = (0, first);
        while !page.is_empty() {
            let publisher = tokio::select! {
                biased;
                // What connects may take long.
                () = stop.requested() => break,
                publisher = self.publisher() => publisher?,
            };
            let (last, more) = (page.last, page.is_full && !stop.is_requested());
            (behind, seen) = (last, snapshot(&page));
            let beside = async {
                session.finish(&before.published, &before.aside).await?;
                if more { session.claim(last, CLAIM).await } else { Ok(Claimed::default()) }
            };
            let (sorted, next) = tokio::join!(self.publish_page(&publisher, page), beside);
            passed.add(&sorted);
            before = sorted;
            for timeout in std::mem::take(&mut before.forbidden) {
                self.forbidden
                    .insert(timeout, Instant::now() + self.worker.timing.timeout_forbidden);
            }
            let failure = before.failure.take();
            if failure.is_none() && !before.is_held_up {
                self.publisher = Some(publisher);
            }
            page = next?;
            if let Some(error) = failure {
                self.sending.give_up();
                session.finish(&before.published, &before.aside).await?;
                return Err(error.into());
            }
        }
        session.finish(&before.published, &before.aside).await?;
        if passed.left.is_none() && behind > 0 {
            self.floor.passed(first, seen, behind);
        }
        Ok(passed)
    }

    /// A publisher that works, taken out: it is put back when it still does.
    async fn publisher(&mut self) -> Result<Publisher, Unpublished> {
        let known = self.publisher.take().filter(|publisher| !publisher.is_closed());
        let publisher = if let Some(publisher) = known {
            publisher
        } else {
            self.routes.doubt();
            Publisher::connect(&self.worker.address, "overdue worker: scheduled notices").await?
        };
        self.routes.refresh(self.worker).await?;
        let now = Instant::now();
        self.forbidden.retain(|_, until| now < *until);
        Ok(publisher)
    }

    async fn publish_page(&mut self, publisher: &Publisher, page: Claimed) -> Sorted {
        let began = Instant::now();
        let Claimed { notices, faulty, at, .. } = page;
        let age = at.map_or(Duration::ZERO, |at| at.elapsed());
        let mut sorted = Sorted { aside: faulty, ..Sorted::default() };
        for notice in notices {
            match self.route(&notice, age) {
                Ok(route) => {
                    if let Err(reason) = self.sending.send(publisher, notice, route, began) {
                        sorted.leave(1, reason);
                    }
                }
                Err(fate) => sorted.add(notice, fate),
            }
        }
        let (heard, held_up) = self.sending.heard(began).await;
        for Heard { notice, answer } in heard {
            let fate = fate_of(answer, notice.id);
            sorted.add(notice, fate);
        }
        sorted.is_held_up = held_up.is_some();
        if let Some(reason) = held_up {
            sorted.leave(self.sending.len(), reason);
        }
        sorted.report();
        sorted
    }

    /// Which way it goes; `age` is how long ago its rest was computed.
    fn route(&self, notice: &ScheduledNotice, age: Duration) -> Result<Route, Fate> {
        let topology = &self.worker.topology;
        let Some(timeout) = topology.timeout(&notice.timeout) else {
            let reason = format!("the topology file has no timeout `{}`", notice.timeout);
            let aside = SetAside { id: notice.id, reason, unknown_timeout: true };
            return Err(Fate::Never(aside));
        };
        if self.forbidden.contains_key(&timeout.name) {
            let reason = format!("publishing for timeout `{}` is not permitted", timeout.name);
            return Err(Fate::Left(reason));
        }
        let rest = notice.rest.saturating_sub(age);
        let route = self.routes.known().wait(topology, timeout, rest);
        route.map_err(|_nowhere| Fate::Left(NOWHERE_TO_WAIT.to_owned()))
    }
}

fn snapshot(page: &Claimed) -> Snapshot {
    Snapshot { xmin: page.xmin, xmax: page.xmax }
}

fn fate_of(answer: Result<Result<(), PublishError>, String>, id: i64) -> Fate {
    let error = match answer {
        Ok(Ok(())) => return Fate::Published,
        Ok(Err(error)) => error,
        Err(unconfirmed) => return Fate::Left(unconfirmed),
    };
    match error {
        PublishError::Refused { .. } | PublishError::Returned { .. } => {
            Fate::Left(error.to_string())
        }
        PublishError::RoutingKeyNotPermitted { .. } => Fate::Forbidden(error.to_string()),
        PublishError::Unencodable { reason, .. } => {
            Fate::Never(SetAside { id, reason, unknown_timeout: false })
        }
        _ => Fate::Failed(error),
    }
}

impl Sorted {
    fn add(&mut self, notice: ScheduledNotice, fate: Fate) {
        match fate {
            Fate::Published => {
                self.published.push(notice.id);
                *self.by_timeout.entry(notice.timeout).or_default() += 1;
            }
            Fate::Left(reason) => self.leave(1, reason),
            Fate::Forbidden(reason) => {
                self.forbidden.push(notice.timeout);
                self.leave(1, reason);
            }
            Fate::Never(aside) => self.aside.push(aside),
            Fate::Failed(error) => _ = self.failure.get_or_insert(error),
        }
    }

    fn leave(&mut self, notices: usize, reason: String) {
        self.left.get_or_insert(Left { notices: 0, reason }).notices += notices;
    }

    fn report(&self) {
        for (timeout, notices) in &self.by_timeout {
            telemetry::notices_published(timeout, *notices);
        }
        if let Some(first) = self.aside.first() {
            telemetry::notices_set_aside(self.aside.len(), first.id, &first.reason);
        }
    }
}

impl Passed {
    fn add(&mut self, sorted: &Sorted) {
        self.published += sorted.published.len();
        if let Some(Left { notices, reason }) = &sorted.left {
            let left = self.left.get_or_insert(Left { notices: 0, reason: reason.clone() });
            left.notices += notices;
        }
    }
}
