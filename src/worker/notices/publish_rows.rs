//! One pass through the table, from its oldest row to its newest: what is not taken is passed over, and stops nothing
//! behind it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    floor::Floor,
    routes::Routes,
    sending::{Heard, Sending},
};
use crate::{
    broker::{PublishError, Publisher},
    decisions::disposition::NOWHERE_TO_WAIT,
    shutdown::Stop,
    store::{
        StoreError,
        forget::Published,
        schedule::{Claimed, ScheduleSession, ScheduledNotice, SetAside},
    },
    telemetry,
    text::error_chain,
    topology::route::Route,
    worker::{context::Worker, health::Task, undeleted::Undeleted, unpublished::Unpublished},
};

/// Rows of one look: its cost is shared by all of them.
const CLAIM: i64 = 2_000;

/// What a pass came to.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) published: usize,
    /// Notices that the broker does not take for now.
    pub(super) left: Option<Left>,
    /// It has read every row.
    pub(super) is_whole: bool,
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

/// The way of the rows to the broker, and out of the table.
pub(super) struct Outgoing<'a> {
    floor: Floor,
    undeleted: Undeleted,
    way: Way<'a>,
}

/// The way to the broker.
struct Way<'a> {
    worker: &'a Worker,
    alive: &'a Task,
    /// Empty where it failed, so that the next time begins with a new connection.
    publisher: Option<Publisher>,
    routes: Routes,
    /// Timeouts that may not be published, until when they are passed over.
    forbidden: BTreeMap<String, Instant>,
    sending: Sending,
}

/// The rows of the timeouts that are published here.
struct Rows<'a> {
    worker: &'a Worker,
    session: &'a ScheduleSession,
    timeouts: &'a [String],
    undeleted: &'a mut Undeleted,
}

impl Rows<'_> {
    async fn claim(&self, after: i64) -> Result<Claimed, StoreError> {
        self.session.claim(after, CLAIM, self.timeouts, &self.undeleted.rows()).await
    }

    /// Forgets what was published, and moves what cannot be out of the way; why that is not so, if it is not.
    async fn finish(&mut self, sorted: &Sorted) -> Result<Option<Left>, StoreError> {
        self.undeleted.forget(&self.worker.store, &sorted.published).await?;
        let Some(first) = sorted.aside.first() else { return Ok(None) };
        let notices = sorted.aside.len();
        match self.session.set_aside(&sorted.aside).await {
            Ok(()) => telemetry::notices_set_aside(notices, first.id, &first.reason),
            Err(error) if error.is_answer() => {
                return Ok(Some(Left { notices, reason: error_chain(&error) }));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}

impl<'a> Outgoing<'a> {
    pub(super) fn new(worker: &'a Worker, alive: &'a Task) -> Self {
        let (routes, forbidden) = (Routes::default(), BTreeMap::new());
        let sending = Sending::new(&worker.timing);
        let undeleted = Undeleted::new(Published::Notices, worker.timing.undeleted_again);
        let way = Way { worker, alive, publisher: None, routes, forbidden, sending };
        Self { floor: Floor::default(), undeleted, way }
    }

    /// The next pass begins with the first row.
    pub(super) const fn look_at_everything(&mut self) {
        self.floor.forget();
    }

    /// Publishes what is there of these timeouts.
    pub(super) async fn pass(
        &mut self,
        session: &ScheduleSession,
        timeouts: &[String],
        stop: &Stop,
    ) -> Result<Passed, Unpublished> {
        let worker = self.way.worker;
        self.undeleted.try_again(&worker.store).await?;
        let began = Instant::now();
        let after = self.floor.begin(began);
        let mut passed = Passed { is_whole: after == 0, ..Passed::default() };
        let mut last = Sorted::default();
        let mut rows = Rows { worker, session, timeouts, undeleted: &mut self.undeleted };
        let ended = self.way.publish_pages(&mut rows, after, stop, &mut passed, &mut last).await;
        passed.leave(rows.finish(&last).await?);
        if let Some(row) = ended? {
            self.floor.passed(began, row);
        }
        if passed.is_whole && passed.left.is_some() {
            self.floor.left(began, Instant::now());
        }
        Ok(passed)
    }
}

impl Way<'_> {
    /// Publishes page by page; the next page is read, and what was confirmed forgotten, while one is published. The last one is in
    /// `before` in the end, and to be finished. Gives the last row.
    async fn publish_pages(
        &mut self,
        rows: &mut Rows<'_>,
        after: i64,
        stop: &Stop,
        passed: &mut Passed,
        before: &mut Sorted,
    ) -> Result<Option<i64>, Unpublished> {
        let (mut page, mut behind) = (rows.claim(after).await?, None);
        while let Some(last) = page.last {
            self.alive.moved();
            let more = page.is_full && !stop.is_requested();
            behind = Some(last);
            if page.is_empty() {
                page = if more { rows.claim(last).await? } else { Claimed::default() };
                continue;
            }
            let publisher = tokio::select! {
                biased;
                // What connects may take long.
                () = stop.requested() => return Ok(None),
                publisher = self.publisher() => publisher?,
            };
            let beside = async {
                let left = rows.finish(before).await?;
                let next = if more { rows.claim(last).await? } else { Claimed::default() };
                Ok::<_, StoreError>((left, next))
            };
            let (mut sorted, beside) = tokio::join!(self.publish_page(&publisher, page), beside);
            passed.published += sorted.published.len();
            passed.leave(sorted.left.take());
            for timeout in std::mem::take(&mut sorted.forbidden) {
                let until = Instant::now() + self.worker.timing.timeout_forbidden;
                self.forbidden.insert(timeout, until);
            }
            let failure = sorted.failure.take();
            if failure.is_none() && !sorted.is_held_up {
                self.publisher = Some(publisher);
            }
            *before = sorted;
            if let Some(error) = failure {
                self.sending.give_up();
                return Err(error.into());
            }
            let (left, next) = beside?;
            passed.leave(left);
            page = next;
        }
        Ok(behind)
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
        let unknown = || Fate::Left(format!("there is no timeout `{}`", notice.timeout));
        let timeout = topology.timeout(&notice.timeout).ok_or_else(unknown)?;
        if self.forbidden.contains_key(&timeout.name) {
            let reason = format!("publishing for timeout `{}` is not permitted", timeout.name);
            return Err(Fate::Left(reason));
        }
        let rest = notice.rest.saturating_sub(age);
        let route = self.routes.known().wait(topology, timeout, rest);
        route.map_err(|_nowhere| Fate::Left(NOWHERE_TO_WAIT.to_owned()))
    }
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
        PublishError::Unencodable { reason, .. } => Fate::Never(SetAside { id, reason }),
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
    }
}

impl Passed {
    fn leave(&mut self, left: Option<Left>) {
        let Some(Left { notices, reason }) = left else { return };
        self.left.get_or_insert(Left { notices: 0, reason }).notices += notices;
    }
}
