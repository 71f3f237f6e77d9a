//! Sessions that work on the same orders, stepped statement by statement: in whatever order their statements run, what
//! `sql/invariants.sql` says holds. `make test` runs some orders of each script, `make proof PART=services` every one. And the locks
//! are necessary: without one of them, the search through every order finds one that breaks an invariant.

mod necessary;
mod stepped;

use std::{collections::VecDeque, sync::LazyLock};

use futures_util::{StreamExt, stream};
use overdue::internals::{
    effect::{Description, Statements},
    low_watermark::LowWatermark,
};

use self::stepped::{
    Actor, Answer, Case, Explored, Orders, Parameter, Script, Step, every_order, explore, list,
};
use crate::support::{
    World,
    statements::{contended, description, of, statements},
};

/// The statements of the effects, and of those that wait for no lock.
static CLOSE: LazyLock<Statements> = LazyLock::new(|| statements("close"));
static CONTENDED: LazyLock<Statements> = LazyLock::new(|| contended(&CLOSE));
static CANCEL: LazyLock<Statements> = LazyLock::new(|| statements("cancel"));
static CANCEL_CONTENDED: LazyLock<Statements> = LazyLock::new(|| contended(&CANCEL));
static COMPLETE: LazyLock<Statements> = LazyLock::new(|| statements("complete"));
/// `close`, unless somebody is about to pay.
static CLOSE_UNLESS: LazyLock<Statements> = LazyLock::new(|| {
    let pending = "EXISTS (SELECT FROM payment WHERE payment.order_id = row.id AND payment.status = 'pending')";
    of(&Description { unless: Some(pending.to_owned()), ..description("close") })
});
const PAY: &str = include_str!("../../sql/pay.sql");
const SHIP: &str = include_str!("../../sql/ship.sql");
const CONFIRM: &str = include_str!("../../sql/confirm.sql");
const GUARD: &str = include_str!("../../sql/pauses_refuse.sql");
const PAUSE: &str = include_str!("../../sql/pause.sql");
const TAKEN: &str = include_str!("../../sql/pause_taken.sql");
const RESUME: &str = include_str!("../../sql/resume.sql");
const LEAD: &str = include_str!("../../sql/outgoing_lead.sql");
const CLAIM: &str = include_str!("../../sql/outbox_claim.sql");
const DONE: &str = include_str!("../../sql/outbox_done.sql");
const WRITERS: &str = include_str!("../../sql/outgoing_writers.sql");
/// As docs/pause.md has it.
const EXTEND: &str = "UPDATE orders SET due_at = due_at + interval '1 hour'
                      WHERE status = 'unpaid' AND due_at > now() - interval '1 hour'";

/// Three overdue orders of the same two SKUs, and one with so much of them that no CHECK hides what is released twice.
const UNPAID: &str = "
    INSERT INTO stock (sku, available, reserved) VALUES ('a', 999987, 13), ('b', 999987, 13);
    INSERT INTO orders (id, due_at) SELECT 'o-' || n, clock_timestamp() - interval '1 min' FROM generate_series(0, 2) n;
    INSERT INTO orders (id, due_at) VALUES ('large', clock_timestamp() + interval '1 day');
    INSERT INTO order_items (order_id, sku, qty) SELECT id, sku, CASE id WHEN 'large' THEN 10 ELSE 1 END FROM orders, stock;";
const PAID: &str = "
    INSERT INTO stock (sku, available, sold) VALUES ('a', 999997, 3), ('b', 999997, 3);
    INSERT INTO orders (id, status, due_at, paid_at, ship_by)
    SELECT 'o-' || n, 'paid', clock_timestamp(), clock_timestamp(), clock_timestamp() - interval '1 min' FROM generate_series(0, 2) n;
    INSERT INTO order_items (order_id, sku, qty) SELECT id, sku, 1 FROM orders, stock;";
const SHIPPED: &str = "
    INSERT INTO stock (sku, available, sold) VALUES ('a', 999997, 3), ('b', 999997, 3);
    INSERT INTO orders (id, status, due_at, paid_at, ship_by, confirm_by)
    SELECT 'o-' || n, 'shipped', clock_timestamp(), clock_timestamp(), clock_timestamp(), clock_timestamp() - interval '1 min'
    FROM generate_series(0, 2) n;
    INSERT INTO order_items (order_id, sku, qty) SELECT id, sku, 1 FROM orders, stock;";
const ALL: [&str; 3] = ["o-0", "o-1", "o-2"];

/// The statements of an effect, one after the other in a transaction that somebody else begins.
fn effect(effect: &Statements, orders: &[&str], path: &'static str) -> Vec<Step> {
    let orders: Vec<String> = orders.iter().map(|&order| order.to_owned()).collect();
    let keys: Parameter = Box::new(orders.clone());
    let lock = effect.lock.as_ref().map(|sql| Step::new("lock", sql, vec![keys]));
    let parameters: [Parameter; 3] =
        [Box::new(orders), Box::new(path), Box::new(None::<serde_json::Value>)];
    lock.into_iter().chain([Step::new("close", &effect.close, parameters.into())]).collect()
}

fn commit() -> Step {
    Step::sql("COMMIT")
}

/// A worker, for messages; with a gate others may go on between its first snapshot and its locks.
fn messages(statements: &Statements, orders: &[&str], has_gate: bool) -> Actor {
    let mut steps = VecDeque::from(effect(statements, orders, "message"));
    let first = steps.pop_front().unwrap().begins();
    steps.push_front(if has_gate { first.with_gate() } else { first });
    steps.push_back(commit());
    Actor { name: "messages", script: list(steps) }
}

/// The rest of a transaction: locks, and then closes and commits.
fn closes(orders: &[&str], path: &'static str) -> VecDeque<Step> {
    let mut steps = VecDeque::from(effect(&CLOSE, orders, path));
    let close = steps.pop_back().unwrap();
    steps.push_back(close.ends("COMMIT"));
    steps
}

/// Reads a page, and closes what is on it.
fn pager(path: &'static str) -> Actor {
    let parameters: [Parameter; 4] = [
        Box::new(10_i64),
        Box::new(0_i64),
        Box::new(std::time::SystemTime::UNIX_EPOCH),
        Box::new(""),
    ];
    let page = CLOSE.overdue.as_ref().unwrap();
    let mut steps = VecDeque::from([Step::new("page", page, parameters.into())]);
    let mut has_read = false;
    let script = move |answer: Option<&Answer>| {
        if let Some(page) = answer.filter(|_| !has_read) {
            has_read = true;
            let orders = page.texts("order_id");
            let orders: Vec<&str> = orders.iter().map(String::as_str).collect();
            if !orders.is_empty() {
                steps = closes(&orders, path);
                let lock = steps.pop_front().unwrap();
                steps.push_front(lock.begins());
            }
        }
        steps.pop_front()
    };
    Actor { name: path, script: Box::new(script) }
}

/// A worker whose lock time-out passes where it has to wait: then it takes what is free.
fn hurried(orders: &'static [&'static str]) -> Actor {
    const AGAIN: &str = "ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED";
    let all = |statements: &Statements| {
        <[Step; 2]>::try_from(effect(statements, orders, "message")).ok().unwrap()
    };
    let [lock, close] = all(&CLOSE);
    let close = close.impatient().may_fail(&["55P03"]);
    let mut steps = VecDeque::from([lock.begins(), close, commit()]);
    let script = move |answer: Option<&Answer>| {
        if answer.and_then(Answer::failed).is_some() {
            let [lock, close] = all(&CONTENDED);
            steps = [lock.behind(AGAIN), close, commit()].into();
        }
        steps.pop_front()
    };
    Actor { name: "hurried", script: Box::new(script) }
}

/// A worker that asks first whether the timeout is paused; of what it has found by its effect it knows no timeout.
fn guarded(name: &'static str, guard: &'static str, timeout: Option<&'static str>) -> Actor {
    let parameters: [Parameter; 4] =
        [Box::new("orders"), Box::new(timeout), Box::new("close"), Box::new(3_i32)];
    let mut steps = closes(&ALL, "message");
    steps.push_front(Step::new("guard", guard, parameters.into()).begins().may_fail(&["OV001"]));
    let script = move |answer: Option<&Answer>| {
        if answer.is_some_and(|answer| answer.failed().is_some()) {
            steps = [Step::sql("ROLLBACK")].into();
        }
        steps.pop_front()
    };
    Actor { name, script: Box::new(script) }
}

fn one_order(name: &'static str, sql: &str, order: &'static str, end: &'static str) -> Actor {
    let change = Step::new(name, sql, vec![Box::new(order)]);
    Actor { name, script: list([change.begins(), Step::sql(end)]) }
}

fn extension() -> Actor {
    Actor { name: "extension", script: list([Step::sql(EXTEND).begins(), commit()]) }
}

/// What is left over is closed in the end.
fn finally(statements: &Statements) -> Vec<Step> {
    let mut steps = effect(statements, &ALL, "finally");
    let close = steps.pop().unwrap().ends("COMMIT");
    let lock = steps.pop().unwrap().begins();
    vec![lock, close]
}

fn closing(actors: fn() -> Vec<Actor>) -> Case {
    Case { actors, begins: UNPAID.to_owned(), finally: || finally(&CLOSE), invariants: "" }
}

/// A shop that adds a piece to each item of an order in this state, and takes it from what is available.
fn edit(order: &'static str, state: &str, stock: &str) -> Actor {
    let edit = format!(
        "WITH mine AS (UPDATE orders SET due_at = due_at WHERE id = $1 AND status = '{state}' RETURNING id),
              items AS (UPDATE order_items SET qty = qty + 1 FROM mine WHERE order_id = mine.id RETURNING sku)
         UPDATE stock SET available = available - 1, {stock} = {stock} + 1 FROM items WHERE stock.sku = items.sku"
    );
    let edit = Step::new("edit", edit, vec![Box::new(order)]);
    Actor { name: "edit", script: list([edit.begins(), commit()]) }
}

fn cancelling(actors: fn() -> Vec<Actor>) -> Case {
    Case { actors, begins: PAID.to_owned(), finally: || finally(&CANCEL), invariants: "" }
}

const PAYMENT: &str = "
    CREATE TABLE payment (order_id text NOT NULL REFERENCES orders ON DELETE CASCADE, status text NOT NULL);
    CREATE TABLE charged (order_id text)";

/// A buyer is about to pay, as a shop writes it that looks at the order first.
fn pending(order: &'static str) -> Actor {
    let order = || -> Vec<Parameter> { vec![Box::new(order)] };
    let looks = "SELECT status FROM orders WHERE id = $1 FOR KEY SHARE";
    let pays =
        "INSERT INTO payment SELECT id, 'pending' FROM orders WHERE id = $1 AND status = 'unpaid'";
    let (looks, pays) = (Step::new("looks", looks, order()), Step::new("pays", pays, order()));
    Actor { name: "buyer", script: list([looks.begins(), pays, commit()]) }
}

/// The payments end when all have ended, and nobody is charged for what is closed.
fn charging(actors: fn() -> Vec<Actor>) -> Case {
    Case {
        actors,
        begins: format!("DELETE FROM charged; {UNPAID}"),
        finally: || {
            let ends = "WITH ended AS (DELETE FROM payment RETURNING order_id)
                        INSERT INTO charged SELECT order_id FROM ended JOIN closures USING (order_id)";
            [Step::sql(ends)].into_iter().chain(finally(&CLOSE_UNLESS)).collect()
        },
        invariants: "
            UNION ALL
            SELECT 'no order is closed that has a pending payment', count(*), min(order_id) FROM charged",
    }
}

/// A database with our tables and these, which nothing but the sessions touches.
async fn world(tables: &str) -> World {
    // Where vacuum gives pages back it locks a table for a moment, and somebody who waits for no lock has to.
    const QUIET: &str = "
        DO $$ DECLARE name text; BEGIN
            FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
                EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', name);
            END LOOP;
        END $$";
    let world = World::of_tables().await;
    world.sql(tables).await;
    world.sql(QUIET).await;
    world
}

/// `overdue pause` returns after `taken`; what was closed by then, and when it is resumed.
fn pausing(taken: Option<&'static str>) -> Script {
    const COUNT: &str = "INSERT INTO counted SELECT count(*) FROM closures";
    let parameters: [Parameter; 5] = [
        Box::new("orders"),
        Box::new("unpaid"),
        Box::new("close"),
        // data: it is resumed
        Box::new(3_600_000_i64),
        Box::new("a test"),
    ];
    let pause = Step::new("pause", PAUSE, parameters.into());
    let parameters: [Parameter; 3] = [Box::new("orders"), Box::new("unpaid"), Box::new("close")];
    let taken = taken.map(|sql| Step::new("taken", sql, parameters.into()).alone().then(COUNT));
    let pause = if taken.is_some() { pause } else { pause.then(COUNT) };
    let parameters: [Parameter; 3] =
        [Box::new("orders"), Box::new("unpaid"), Box::new(None::<i32>)];
    let resume = Step::new("resume", RESUME, parameters.into()).behind(COUNT);
    list([Some(pause), taken, Some(resume)].into_iter().flatten())
}

const COUNTED: &str = "CREATE TABLE counted (closures bigint)";

fn paused(actors: fn() -> Vec<Actor>) -> Case {
    let invariants = "
        UNION ALL
        SELECT 'nothing is closed from the moment at which pause returns', max(closures) - min(closures), NULL FROM counted";
    let begins = format!("{UNPAID} DELETE FROM counted;");
    Case { begins, invariants, ..closing(actors) }
}

/// Publishes what is there, one time; nobody else does meanwhile. One that dies has not deleted it.
fn relay(name: &'static str, leads: bool, dies: bool) -> Actor {
    const ENDS: &str = "SELECT pg_advisory_unlock_all()";
    let (mut step, mut tries) = (usize::from(!leads), 0);
    let mut events: Vec<i64> = Vec::new();
    let script = move |answer: Option<&Answer>| {
        step += 1;
        match (step, answer) {
            (2, Some(answer)) if answer.rows.is_empty() => {
                tries += 1;
                step = if tries == 2 { 5 } else { 1 };
            }
            (3, Some(answer)) => events = answer.rows.iter().map(|row| row.get("id")).collect(),
            _ => {}
        }
        let events = || -> Parameter { Box::new(events.clone()) };
        match step {
            1 => {
                let parameters: [Parameter; 3] =
                    [Box::new("outbox"), Box::new(vec!["all"]), Box::new(false)];
                Some(Step::new("lead", LEAD, parameters.into()))
            }
            2 => Some(claim()),
            3 => {
                let publishes = "INSERT INTO published SELECT unnest($1::bigint[]), $2";
                Some(Step::new("publish", publishes, vec![events(), Box::new(name)]))
            }
            4 if dies => Some(Step::sql(ENDS)),
            4 => Some(Step::new("done", DONE, vec![events()]).ends(ENDS)),
            _ => None,
        }
    };
    Actor { name, script: Box::new(script) }
}

fn claim() -> Step {
    let parameters: [Parameter; 4] =
        [Box::new(10_i64), Box::new(Vec::<i64>::new()), Box::new(0_i64), Box::new(1_i64)];
    Step::new("claim", CLAIM, parameters.into())
}

const EVENT: &str = "INSERT INTO outbox (event, order_id) VALUES ('order.paid', 'o')";

/// An order service that writes an event: in a transaction, or by one statement.
fn event(in_transaction: bool) -> Actor {
    let script = if in_transaction {
        list([Step::sql(EVENT).begins(), commit()])
    } else {
        list([Step::sql(EVENT)])
    };
    Actor { name: "order service", script }
}

const PUBLISHED: &str = "CREATE TABLE published (id bigint, by text)";

fn relays(actors: fn() -> Vec<Actor>) -> Case {
    Case {
        actors,
        begins: format!("DELETE FROM published; {EVENT};"),
        finally: || {
            let rest = "WITH rest AS (DELETE FROM outbox RETURNING id) INSERT INTO published SELECT id, 'dies' FROM rest";
            vec![Step::sql(rest)]
        },
        invariants: "
            UNION ALL
            SELECT 'both events are published', abs(count(DISTINCT id) - 2), NULL FROM published
            UNION ALL
            SELECT 'an event comes again only if a relay died', count(*) - count(DISTINCT id), NULL FROM published WHERE by <> 'dies'",
    }
}

/// Looks at everything three times, and says what it passes over from then on. What it has claimed is published and deleted at once.
fn looking(knows_writers: bool) -> Actor {
    let (mut step, mut last, mut floor) = (0, None, LowWatermark::default());
    let script = move |answer: Option<&Answer>| {
        step += 1;
        match (step, answer) {
            (2 | 4 | 6, Some(answer)) => {
                last = answer.rows.iter().map(|row| row.get("id")).max();
                if let Some(last) = last {
                    floor.saw(last);
                }
            }
            (3 | 5 | 7, Some(answer)) => {
                let writers = answer.texts("writer");
                floor.looked(last, if knows_writers { writers } else { Vec::new() });
            }
            _ => {}
        }
        let floor = || -> Parameter { Box::new(floor.row()) };
        match step {
            1 | 3 | 5 => Some(claim().then("DELETE FROM outbox")),
            2 | 4 | 6 => Some(Step::new("writers", WRITERS, vec![Box::new("outbox")])),
            7 => Some(Step::new("passes over", "INSERT INTO floors VALUES ($1)", vec![floor()])),
            _ => None,
        }
    };
    Actor { name: "relay", script: Box::new(script) }
}

const FLOORS: &str = "CREATE TABLE lost (id bigint); CREATE TABLE floors (floor bigint)";

fn floors(actors: fn() -> Vec<Actor>) -> Case {
    Case {
        actors,
        begins: "DELETE FROM lost; DELETE FROM floors;".to_owned(),
        finally: || {
            let lost = "WITH rest AS (DELETE FROM outbox RETURNING id) INSERT INTO lost SELECT id FROM rest JOIN floors ON id <= floor";
            vec![Step::sql(lost)]
        },
        invariants: "
            UNION ALL
            SELECT 'no event is passed over', count(*), NULL FROM lost",
    }
}

/// Orders of each script that `make test` runs.
const SAMPLE: usize = 24;
/// The seed that chooses them.
const SEED: u64 = 44;
/// Scripts at once; each has half a dozen sessions.
const AT_ONCE: usize = 4;

/// A script, with all orders that it has and whether sessions wait for locks in some of them.
struct Row {
    name: &'static str,
    tables: &'static str,
    case: Case,
    orders: usize,
    waits: bool,
}

fn row(name: &'static str, orders: usize, case: Case) -> Row {
    Row { name, tables: "", case, orders, waits: true }
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn scripts() -> Vec<Row> {
    vec![
        row(
            "payments and a batch",
            150,
            closing(|| {
                vec![
                    messages(&CLOSE, &ALL, true),
                    one_order("payment", PAY, "o-1", "COMMIT"),
                    one_order("payment that fails", PAY, "o-2", "ROLLBACK"),
                ]
            }),
        ),
        row(
            "a deadline that moves and a batch",
            840,
            closing(|| vec![messages(&CLOSE, &ALL, true), extension(), hurried(&ALL)]),
        ),
        // The second statement reads the items when the order is locked.
        row(
            "items that change and a batch",
            10,
            closing(|| vec![messages(&CLOSE, &ALL, true), edit("o-1", "unpaid", "reserved")]),
        ),
        row(
            "items that change and free orders",
            12,
            closing(|| vec![messages(&CONTENDED, &ALL, true), edit("o-1", "unpaid", "reserved")]),
        ),
        row(
            "items that change and a cancellation",
            10,
            cancelling(|| vec![messages(&CANCEL, &ALL, true), edit("o-1", "paid", "sold")]),
        ),
        row(
            "items that change and a cancellation of free orders",
            12,
            cancelling(|| {
                vec![messages(&CANCEL_CONTENDED, &ALL, true), edit("o-1", "paid", "sold")]
            }),
        ),
        Row {
            tables: PAYMENT,
            ..row(
                "payments with a foreign key",
                846,
                charging(|| {
                    let insert = "INSERT INTO payment VALUES ($1, 'pending')";
                    vec![
                        messages(&CLOSE_UNLESS, &ALL, true),
                        pending("o-1"),
                        one_order("payment that fails", insert, "o-2", "ROLLBACK"),
                    ]
                }),
            )
        },
        row(
            "sweep, burst and messages",
            1630,
            closing(|| vec![messages(&CLOSE, &ALL[1..], false), pager("sweep"), pager("burst")]),
        ),
        row(
            "batches of two workers and a payment",
            1638,
            closing(|| {
                vec![
                    messages(&CLOSE, &["o-0", "o-1"], true),
                    messages(&CLOSE, &["o-2", "o-1"], true),
                    one_order("payment", PAY, "o-0", "COMMIT"),
                ]
            }),
        ),
        row(
            "a worker that waits for no stock",
            1743,
            closing(|| {
                vec![
                    hurried(&ALL),
                    messages(&CONTENDED, &["o-2", "o-1"], true),
                    one_order("payment", PAY, "o-0", "COMMIT"),
                ]
            }),
        ),
        row(
            "parcels against cancel",
            2018,
            cancelling(|| {
                vec![
                    messages(&CANCEL, &ALL, true),
                    messages(&CANCEL, &ALL[..2], true),
                    one_order("parcel", SHIP, "o-1", "COMMIT"),
                ]
            }),
        ),
        row(
            "buyers against complete",
            2310,
            Case {
                actors: || {
                    vec![
                        messages(&COMPLETE, &ALL, true),
                        messages(&COMPLETE, &ALL[..2], true),
                        one_order("buyer", CONFIRM, "o-1", "COMMIT"),
                    ]
                },
                begins: SHIPPED.to_owned(),
                finally: || finally(&COMPLETE),
                invariants: "",
            },
        ),
        Row {
            tables: COUNTED,
            ..row(
                "a pause and those who close",
                502,
                paused(|| {
                    vec![
                        Actor { name: "operator", script: pausing(Some(TAKEN)) },
                        guarded("messages", GUARD, Some("unpaid")),
                        guarded("sweep", GUARD, None),
                    ]
                }),
            )
        },
        Row {
            tables: PUBLISHED,
            waits: false,
            ..row(
                "two relays of which one dies",
                162,
                relays(|| {
                    vec![relay("dies", true, true), relay("takes over", true, false), event(false)]
                }),
            )
        },
        Row {
            tables: FLOORS,
            waits: false,
            ..row(
                "a relay and transactions that write events",
                360,
                floors(|| vec![looking(true), event(true), event(false)]),
            )
        },
    ]
}

/// Nothing breaks in up to `most` orders; where those are all, the script has the orders that it had.
async fn assert_holds(row: &Row, most: usize) {
    let orders = if row.orders <= most { Orders::Every } else { Orders::Some(most, SEED) };
    let explored = explore(&world(row.tables).await, &row.case, orders).await;
    if let Some(violation) = &explored.violation {
        panic!("{}: in the {}. order:\n{violation}", row.name, explored.orders);
    }
    let expected = (row.orders.min(most), row.waits);
    assert_eq!((explored.orders, explored.waited > 0), expected, "{}: {explored:?}", row.name);
}

async fn assert_all_hold(most: usize) {
    let scripts = scripts();
    let all = scripts.iter().map(|row| assert_holds(row, most));
    stream::iter(all).buffer_unordered(AT_ONCE).collect::<()>().await;
}

#[apply(world_test)]
async fn some_orders_of_each_script() {
    assert_all_hold(SAMPLE).await;
}

#[apply(world_test)]
#[ignore = "takes minutes: `make proof PART=services`"]
async fn every_order_of_each_script() {
    assert_all_hold(usize::MAX).await;
}
