//! Sessions of one database that are stepped statement by statement, in every order that there is.
//!
//! An order is a list of choices: the next session, among those that can continue. A session that waits for a lock cannot; the server
//! reports the wait (`pg_blocking_pids`), however long the session takes to get there. Each run repeats the choices of the one before
//! up to the last with an alternative, so every order is run once. A sample chooses at random, with a seed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use deadpool_postgres::{ClientWrapper, Object};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{Error, Row, Statement, error::SqlState, types::ToSql};

use crate::support::{
    World,
    orders::{INVARIANTS, STOCK, broken_rows},
    statements::found,
    wait::awaited,
};

pub(super) type Parameter = Box<dyn ToSql + Sync + Send>;

/// A gate stops a statement after its snapshot and before its first lock.
const GATE: &str =
    "(SELECT pg_advisory_xact_lock_shared(hashtext(current_schema()), {actor}) IS NOT NULL)";
/// Lists which sessions wait at a gate, and which for a lock of these sessions.
const WAITS: &str = "
    SELECT {gates} = ANY (blockers) AS is_at_gate, blockers && $2::int[] AS waits
    FROM unnest($1::int[]) WITH ORDINALITY AS asked (pid, n), LATERAL (SELECT pg_blocking_pids(pid) AS blockers OFFSET 0) AS found
    ORDER BY n";
const SHUT: &str = "
    SELECT pg_advisory_unlock_all(); SELECT pg_advisory_lock(hashtext(current_schema()), n) FROM generate_series(0, 2) n";
const OPEN: &str = "SELECT pg_advisory_unlock(hashtext(current_schema()), $1)";
const BEFORE: &str = "CREATE OR REPLACE FUNCTION begin_run() RETURNS void LANGUAGE plpgsql AS";
const FORGET: &str = "
    DELETE FROM order_items; DELETE FROM orders; DELETE FROM closures; DELETE FROM outbox; DELETE FROM stock; DELETE FROM pauses;";
/// A reported closing has its row in `closures`, and an order that was reported as final is not closed later.
const ANSWERED: &str = "
    UNION ALL
    SELECT 'what was answered is so', count(*), min(order_id || ' was ' || outcome) FROM (
        SELECT order_id, outcome FROM unnest($6::text[], $7::text[]) AS answers (order_id, outcome)
        WHERE CASE WHEN outcome = 'already_final' THEN EXISTS (
                  SELECT FROM closures WHERE closures.order_id = answers.order_id AND path = 'finally')
              WHEN outcome = 'closed' OR outcome LIKE 'done:%' THEN NOT EXISTS (
                  SELECT FROM closures WHERE closures.order_id = answers.order_id AND path <> 'finally') END
    ) AS wrong
    UNION ALL
    SELECT 'each closure is one answer', abs(count(*) - (SELECT count(*) FROM closures WHERE path <> 'finally')), NULL
    FROM unnest($7::text[]) AS answers (outcome) WHERE outcome = 'closed' OR outcome LIKE 'done:%'
    UNION ALL
    SELECT 'an event for each closure, and no other', count(*), min(order_id) FROM (
        SELECT order_id, 'order.' || outcome AS event, count(*) AS times FROM closures GROUP BY 1, 2
    ) AS written FULL JOIN (
        SELECT order_id, event, count(*) AS times FROM outbox GROUP BY 1, 2
    ) AS events USING (order_id, event, times)
    WHERE written.order_id IS NULL OR events.order_id IS NULL";
/// Delay before the server is queried about a statement: nearly all have ended within it.
const SOON: Duration = Duration::from_millis(1);

/// A statement of a session.
pub(super) struct Step {
    name: &'static str,
    sql: String,
    parameters: Vec<Parameter>,
    begins: &'static str,
    ends: &'static str,
    has_gate: bool,
    is_impatient: bool,
    /// SQLSTATEs that the program handles.
    handled: &'static [&'static str],
    then: &'static str,
}

impl Step {
    pub(super) fn new(
        name: &'static str,
        sql: impl Into<String>,
        parameters: Vec<Parameter>,
    ) -> Self {
        let (begins, ends, then, handled): (_, _, _, &[_]) = ("", "", "", &[]);
        let (sql, has_gate, is_impatient) = (found(&sql.into()), false, false);
        Self { name, sql, parameters, begins, ends, has_gate, is_impatient, handled, then }
    }

    pub(super) fn sql(name: &'static str) -> Self {
        Self::new(name, name, Vec::new())
    }

    /// Begins a transaction with this step. BEGIN alone takes neither a lock nor a snapshot, so it is not a step.
    pub(super) fn begins(self) -> Self {
        Self { begins: "BEGIN ISOLATION LEVEL READ COMMITTED", ..self }
    }

    /// Makes the step a transaction of its own, between other statements.
    pub(super) fn alone(self) -> Self {
        Self { ends: "COMMIT", ..self.begins() }
    }

    /// Adds a statement of the same session, which runs before another session continues.
    pub(super) fn ends(self, ends: &'static str) -> Self {
        Self { ends, ..self }
    }

    /// Splits the step: it stops after its snapshot, and others may continue before it locks.
    pub(super) fn with_gate(mut self) -> Self {
        let gate = format!("row.id = ANY ($1::text[]) AND {GATE}");
        self.sql = self.sql.replacen("row.id = ANY ($1::text[])", &gate, 1);
        assert!(self.sql.contains(GATE), "{}", self.sql);
        Self { has_gate: true, ..self }
    }

    /// Sets a short lock time-out: no other session continues during the first wait.
    pub(super) fn impatient(self) -> Self {
        Self { is_impatient: true, ..self }
    }

    /// Allows failures after which the program continues.
    pub(super) fn may_fail(self, handled: &'static [&'static str]) -> Self {
        Self { handled, ..self }
    }

    /// Adds a statement of the test before the step.
    pub(super) fn behind(self, first: &'static str) -> Self {
        Self { begins: first, ..self }
    }

    /// Adds a statement of the test after the step, before another session continues.
    pub(super) fn then(self, then: &'static str) -> Self {
        Self { then, ..self }
    }

    async fn run(self, client: Arc<ClientWrapper>) -> Answer {
        let run = async {
            if !self.begins.is_empty() {
                client.batch_execute(self.begins).await?;
            }
            let statement = client.prepare_cached(&self.sql).await?;
            if self.is_impatient {
                // Set only now: the prepare may have to wait for a lock of the catalogue.
                client.batch_execute("SET LOCAL lock_timeout = 1").await?;
            }
            let parameters: Vec<&(dyn ToSql + Sync)> =
                self.parameters.iter().map(|it| &**it as &(dyn ToSql + Sync)).collect();
            let rows = client.query(&statement, &parameters).await?;
            if !self.ends.is_empty() {
                client.batch_execute(self.ends).await?;
            }
            Ok(rows)
        };
        match run.await {
            Ok(rows) => Answer { rows, failure: None },
            Err(error) => {
                // The server sends the error before it releases the locks, and this answer afterwards.
                client.simple_query("").await.unwrap();
                Answer { rows: Vec::new(), failure: Some(self.handles(&error)) }
            }
        }
    }

    fn handles(&self, error: &Error) -> Result<&'static str, String> {
        let code = error.code().map(SqlState::code);
        let handled = self.handled.iter().find(|handled| Some(**handled) == code);
        handled.copied().ok_or_else(|| format!("{} fails: {error:?}", self.name))
    }
}

/// The result of a step: rows, a failure that the program handles, or another one.
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    failure: Option<Result<&'static str, String>>,
}

impl Answer {
    /// The SQLSTATE of a failure.
    pub(super) fn failed(&self) -> Option<&'static str> {
        self.failure.as_ref().and_then(|failure| failure.as_ref().ok().copied())
    }

    /// The texts of a column.
    pub(super) fn texts(&self, column: &str) -> Vec<String> {
        self.rows.iter().map(|row| row.get(column)).collect()
    }
}

/// Returns the next step for the answer of the previous one; `None` at the end.
pub(super) type Script = Box<dyn FnMut(Option<&Answer>) -> Option<Step> + Send>;

/// Returns these steps for any answers.
pub(super) fn list(steps: impl IntoIterator<Item = Step>) -> Script {
    let mut steps: VecDeque<_> = steps.into_iter().collect();
    Box::new(move |_| steps.pop_front())
}

pub(super) struct Actor {
    pub(super) name: &'static str,
    pub(super) script: Script,
}

/// The sessions and the rules of an exploration.
pub(super) struct Case {
    pub(super) actors: fn() -> Vec<Actor>,
    /// The initial rows, as statements of PL/pgSQL.
    pub(super) begins: String,
    /// Steps after the end of all sessions.
    pub(super) finally: fn() -> Vec<Step>,
    /// Appended to `sql/invariants.sql`; `$6` and `$7` are the order ids and outcomes of all answers.
    pub(super) invariants: &'static str,
}

/// The result of an exploration.
#[derive(Debug)]
pub(super) struct Explored {
    /// Number of orders that were run.
    pub(super) orders: usize,
    /// Number of orders in which a session waited for a lock.
    pub(super) waited: usize,
    /// The first violation, with its steps.
    pub(super) violation: Option<String>,
}

/// The orders to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Orders {
    Every,
    /// This number of random orders, with this seed; an order may occur twice.
    Some(usize, u64),
}

/// Runs every order, up to the first violation.
pub(super) async fn every_order(world: &World, case: &Case) -> Explored {
    explore(world, case, Orders::Every).await
}

/// Runs these orders, up to the first violation.
pub(super) async fn explore(world: &World, case: &Case, orders: Orders) -> Explored {
    let sessions = Sessions::open(world, case).await;
    let (mut path, mut explored) =
        (Path::of(orders), Explored { orders: 0, waited: 0, violation: None });
    loop {
        sessions.monitor.execute(&sessions.reset, &[]).await.unwrap();
        sessions.gates.batch_execute(SHUT).await.unwrap();
        let mut run = Run::new(&sessions, (case.actors)());
        awaited("the end of every actor", run.run_all(&mut path)).await;
        explored.orders += 1;
        explored.waited += usize::from(run.has_waited);
        let broken = run.broken(case).await;
        if !broken.is_empty() {
            let steps = run.steps.join("\n");
            explored.violation = Some(format!("{steps}\n{}", broken.join("\n")));
        }
        if explored.violation.is_some() || !path.is_next() {
            return explored;
        }
    }
}

/// The choices of a run: the chosen index and the number of alternatives.
#[derive(Default)]
struct Path {
    choices: Vec<(usize, usize)>,
    at: usize,
    /// The generator and the number of remaining runs of a sample.
    random: Option<(StdRng, usize)>,
}

impl Path {
    fn of(orders: Orders) -> Self {
        let random = match orders {
            Orders::Every => None,
            Orders::Some(orders, seed) => Some((StdRng::seed_from_u64(seed), orders)),
        };
        Self { random, ..Self::default() }
    }

    fn choose(&mut self, of: usize) -> usize {
        if self.at == self.choices.len() {
            let chosen = self.random.as_mut().map_or(0, |(random, _)| random.random_range(0..of));
            self.choices.push((chosen, of));
        }
        let (chosen, before) = self.choices[self.at];
        assert_eq!(before, of, "the same steps have led to something else: {:?}", self.choices);
        self.at += 1;
        chosen
    }

    /// Moves to the next run; returns whether there is one.
    fn is_next(&mut self) -> bool {
        self.at = 0;
        if let Some((_, left)) = &mut self.random {
            *left -= 1;
            self.choices.clear();
            return *left > 0;
        }
        while let Some((chosen, of)) = self.choices.pop() {
            if chosen + 1 < of {
                self.choices.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

struct Sessions {
    of_actors: Vec<(Arc<ClientWrapper>, i32)>,
    /// Queries the server, and runs the test's statements.
    monitor: Arc<ClientWrapper>,
    /// Has the locks of the gates.
    gates: ClientWrapper,
    /// All sessions whose locks may be waited for.
    pids: Vec<i32>,
    reset: Statement,
    open: Statement,
    waits: Statement,
    invariants: Statement,
}

impl Sessions {
    async fn open(world: &World, case: &Case) -> Self {
        let connect = async || {
            // The connection leaves the pool, and its locks end with it.
            let client = Object::take(world.store.client().await.unwrap());
            let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
            (client, pid)
        };
        let (monitor, _) = connect().await;
        let (gates, gates_pid) = connect().await;
        let mut of_actors = Vec::new();
        for _ in (case.actors)() {
            let (client, pid) = connect().await;
            of_actors.push((Arc::new(client), pid));
        }
        let begins = &case.begins;
        monitor
            .batch_execute(&format!("{BEFORE} $$ BEGIN {FORGET} {begins} END $$"))
            .await
            .unwrap();
        let invariants = found(INVARIANTS);
        let invariants = format!("{invariants} {ANSWERED} {}", case.invariants);
        let prepare = async |sql: &str| monitor.prepare(sql).await.unwrap();
        let mut pids: Vec<i32> = of_actors.iter().map(|(_, pid)| *pid).collect();
        pids.push(gates_pid);
        Self {
            reset: prepare("SELECT begin_run()").await,
            waits: prepare(&WAITS.replace("{gates}", &gates_pid.to_string())).await,
            invariants: prepare(&invariants).await,
            open: gates.prepare(OPEN).await.unwrap(),
            of_actors,
            monitor: Arc::new(monitor),
            gates,
            pids,
        }
    }
}

/// The state of a running step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// The step runs.
    Nowhere,
    AtGate,
    /// The step waits for a lock of another session.
    Waits,
}

enum State {
    Ready(Step),
    Running { task: JoinHandle<Answer>, is_impatient: bool, then: &'static str, stands: Stands },
    Ended,
}

struct Run<'a> {
    sessions: &'a Sessions,
    actors: Vec<Actor>,
    states: Vec<State>,
    steps: Vec<String>,
    /// Order ids and outcomes of all answers.
    answers: (Vec<String>, Vec<String>),
    failures: Vec<String>,
    has_waited: bool,
}

impl<'a> Run<'a> {
    fn new(sessions: &'a Sessions, mut actors: Vec<Actor>) -> Self {
        let states = actors.iter_mut().map(|actor| State::next(actor, None)).collect();
        let (steps, answers, failures) = (Vec::new(), (Vec::new(), Vec::new()), Vec::new());
        Self { sessions, actors, states, steps, answers, failures, has_waited: false }
    }

    async fn run_all(&mut self, path: &mut Path) {
        loop {
            let can_go_on = |state: &State| {
                matches!(state, State::Ready(_) | State::Running { stands: Stands::AtGate, .. })
            };
            let ready: Vec<_> =
                (0..self.states.len()).filter(|n| can_go_on(&self.states[*n])).collect();
            if !ready.is_empty() {
                self.step(ready[path.choose(ready.len())]).await;
            } else if self.states.iter().all(|state| matches!(state, State::Ended)) {
                return;
            }
            // If no session can continue, the server detects the deadlock.
            self.settle().await;
        }
    }

    /// Runs the next step of a session, or opens its gate.
    async fn step(&mut self, actor: usize) {
        let (name, number) = (self.actors[actor].name, i32::try_from(actor).unwrap());
        match std::mem::replace(&mut self.states[actor], State::Ended) {
            State::Ready(mut step) => {
                self.steps.push(format!("{name}: {}", step.name));
                step.sql = step.sql.replace("{actor}", &number.to_string());
                let (has_gate, is_impatient, then) = (step.has_gate, step.is_impatient, step.then);
                let mut task =
                    tokio::spawn(step.run(Arc::clone(&self.sessions.of_actors[actor].0)));
                if !has_gate && let Ok(answer) = timeout(SOON, &mut task).await {
                    return self.answered(actor, answer.unwrap(), then).await;
                }
                self.states[actor] =
                    State::Running { task, is_impatient, then, stands: Stands::Nowhere };
            }
            State::Running { task, is_impatient, then, .. } => {
                self.steps.push(format!("{name}: goes on"));
                self.sessions.gates.execute(&self.sessions.open, &[&number]).await.unwrap();
                self.states[actor] =
                    State::Running { task, is_impatient, then, stands: Stands::Nowhere };
            }
            State::Ended => {}
        }
    }

    async fn answered(&mut self, actor: usize, answer: Answer, then: &str) {
        for row in &answer.rows {
            if let (Ok(order), Ok(outcome)) = (row.try_get("order_id"), row.try_get("outcome")) {
                self.answers.0.push(order);
                self.answers.1.push(outcome);
            }
        }
        if let Some(Err(failure)) = &answer.failure {
            self.failures.push(format!("{}: {failure}", self.actors[actor].name));
            self.sessions.of_actors[actor].0.batch_execute("ROLLBACK").await.unwrap();
            self.states[actor] = State::Ended;
            return;
        }
        if !then.is_empty() {
            self.sessions.monitor.batch_execute(then).await.unwrap();
        }
        self.states[actor] = State::next(&mut self.actors[actor], Some(&answer));
    }

    /// Waits until each running step has ended, is at its gate, or waits for another one. It must see this twice, because the
    /// server reads the sessions one after the other.
    async fn settle(&mut self) {
        let mut before = Vec::new();
        loop {
            for actor in 0..self.states.len() {
                if let State::Running { task, then, .. } = &mut self.states[actor]
                    && task.is_finished()
                {
                    let (answer, then) = (task.await.unwrap(), *then);
                    self.answered(actor, answer, then).await;
                }
            }
            let now = self.look().await;
            let is_settled = now.iter().all(|stands| *stands != Some(Stands::Nowhere));
            if is_settled && (now == before || now.iter().all(Option::is_none)) {
                return;
            }
            before = now;
        }
    }

    /// Reads the state of each running step.
    async fn look(&mut self) -> Vec<Option<Stands>> {
        let Sessions { of_actors, monitor, pids, waits, .. } = self.sessions;
        let is_running = |state: &State| matches!(state, State::Running { .. });
        let mut seen = vec![None; self.states.len()];
        if !self.states.iter().any(is_running) {
            return seen;
        }
        let of_actors: Vec<i32> = of_actors.iter().map(|(_, pid)| *pid).collect();
        let rows = monitor.query(waits, &[&of_actors, pids]).await.unwrap();
        for (actor, row) in rows.iter().enumerate() {
            if let State::Running { task, is_impatient, stands, .. } = &mut self.states[actor] {
                *stands = match (row.get("is_at_gate"), row.get("waits")) {
                    // The step has ended since, or will soon.
                    _ if task.is_finished() => Stands::Nowhere,
                    (true, _) => Stands::AtGate,
                    (_, true) if !*is_impatient => Stands::Waits,
                    _ => Stands::Nowhere,
                };
                self.has_waited |= *stands == Stands::Waits;
                seen[actor] = Some(*stands);
            }
        }
        seen
    }

    /// Returns the violations at the end.
    async fn broken(&mut self, case: &Case) -> Vec<String> {
        let monitor = &self.sessions.monitor;
        for step in (case.finally)() {
            if let Some(failure) = step.run(Arc::clone(monitor)).await.failure {
                self.failures.push(format!("in the end: {failure:?}"));
            }
        }
        let nothing: Vec<&str> = Vec::new();
        let parameters: [&(dyn ToSql + Sync); 7] =
            [&"", &STOCK, &true, &nothing, &nothing, &self.answers.0, &self.answers.1];
        let rows = monitor.query(&self.sessions.invariants, &parameters).await.unwrap();
        self.failures.iter().cloned().chain(broken_rows(&rows)).collect()
    }
}

impl State {
    fn next(actor: &mut Actor, answer: Option<&Answer>) -> Self {
        (actor.script)(answer).map_or(Self::Ended, Self::Ready)
    }
}
