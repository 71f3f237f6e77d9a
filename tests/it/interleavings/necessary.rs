//! What the locks are for: without one of them, an order of steps is found that breaks something.

use overdue::internals::effect::Statements;

use super::{
    ALL, Actor, CANCEL, CLOSE, CLOSE_UNLESS, COUNTED, Explored, FLOORS, GUARD, PAY, PAYMENT,
    PUBLISHED, Step, TAKEN, cancelling, charging, closing, commit, edit, event, every_order,
    extension, floors, guarded, list, looking, messages, one_order, paused, pausing, pending,
    relay, relays, world,
};
use crate::support::statements::found;

/// It is found out.
fn breaks(explored: &Explored, what: &str) {
    let violation = explored.violation.as_ref().expect("nothing is found");
    assert!(violation.contains(what), "{violation}");
}

/// How the second statement finds the rows that the first one has locked.
const READ: &str = "row.ctid = ANY (nullif(current_setting('overdue.locked', true), '')::tid[])";

/// Neither locked, nor changed at the place where it was read.
fn unlocked() -> Statements {
    let Statements { lock, close, .. } = &*CLOSE;
    let lock = lock.as_ref().unwrap();
    let unlocked = lock.replacen(" FOR NO KEY UPDATE OF row SKIP LOCKED", "", 1);
    assert_ne!(unlocked, *lock);
    let unlocked = unlocked.replacen("row.ctid AS found", "row.id AS found", 1);
    let by_key = "row.id = ANY (nullif(current_setting('overdue.locked', true), '')::text[])";
    let close = close.replacen(READ, by_key, 1);
    Statements { lock: Some(unlocked), close: anywhere(&close), ..CLOSE.clone() }
}

/// A row that was changed after it was read is not at its place.
fn anywhere(close: &str) -> String {
    let anywhere = close.replacen("row.ctid = due.overdue_place", "row.id = due.overdue_key", 1);
    assert_ne!(anywhere, close);
    anywhere
}

#[apply(world_test)]
async fn without_the_lock_an_order_is_closed_twice_or_early() {
    let world = world("").await;
    let twice =
        closing(|| vec![messages(&unlocked(), &ALL, true), messages(&unlocked(), &ALL, true)]);
    breaks(&every_order(&world, &twice).await, "no order is closed twice: o-0, 2 times");
    let early = closing(|| vec![messages(&unlocked(), &ALL, true), extension()]);
    breaks(&every_order(&world, &early).await, "no order is closed before its deadline: o-0");
    let paid = closing(|| {
        vec![messages(&unlocked(), &ALL, true), one_order("payment", PAY, "o-1", "COMMIT")]
    });
    breaks(&every_order(&world, &paid).await, "order o-1 cannot go from paid to closed");
}

/// One statement that locks and closes: it closes by what it read before it had the locks.
fn at_once(statements: &Statements) -> Statements {
    let locked = "row.id = ANY ($1::text[]) ORDER BY row.id FOR UPDATE OF row SKIP LOCKED";
    let close = statements.close.replacen(READ, locked, 1);
    assert_ne!(close, statements.close);
    Statements { lock: None, close: anywhere(&close), ..Statements::default() }
}

#[apply(world_test)]
async fn locked_and_closed_by_one_statement_an_order_gives_back_what_its_items_were() {
    let world = world("").await;
    let closes =
        closing(|| vec![messages(&at_once(&CLOSE), &ALL, true), edit("o-1", "unpaid", "reserved")]);
    breaks(&every_order(&world, &closes).await, "stock is reserved by unpaid orders");
    let cancels =
        cancelling(|| vec![messages(&at_once(&CANCEL), &ALL, true), edit("o-1", "paid", "sold")]);
    breaks(&every_order(&world, &cancels).await, "and sold by paid ones");
}

#[apply(world_test)]
async fn locked_and_closed_by_one_statement_an_order_is_closed_that_is_being_paid() {
    let case = charging(|| vec![messages(&at_once(&CLOSE_UNLESS), &ALL, true), pending("o-1")]);
    let explored = every_order(&world(PAYMENT).await, &case).await;
    breaks(&explored, "no order is closed that has a pending payment: o-1");
}

/// A foreign key locks the row that it refers to FOR KEY SHARE, which the weaker lock lets by.
#[apply(world_test)]
async fn with_a_weaker_lock_an_order_is_closed_that_is_being_paid() {
    let case = charging(|| {
        let Statements { lock, .. } = &*CLOSE_UNLESS;
        let weaker = lock.as_ref().map(|sql| sql.replacen("FOR UPDATE", "FOR NO KEY UPDATE", 1));
        assert_ne!(&weaker, lock);
        let weaker = Statements { lock: weaker, ..CLOSE_UNLESS.clone() };
        vec![messages(&weaker, &ALL, false), pending("o-1")]
    });
    let explored = every_order(&world(PAYMENT).await, &case).await;
    breaks(&explored, "no order is closed that has a pending payment: o-1");
}

#[apply(world_test)]
async fn a_payment_without_the_lock_pays_a_closed_order() {
    let case = closing(|| {
        let pay = PAY.replacen(" FOR NO KEY UPDATE", "", 1);
        let pay = Step::new("payment", pay, vec![Box::new("o-1")]);
        let payment = Actor { name: "payment", script: list([pay.begins(), commit()]) };
        vec![messages(&CLOSE, &ALL, true), payment]
    });
    let explored = every_order(&world("").await, &case).await;
    breaks(&explored, "order o-1 cannot go from closed to paid");
}

#[apply(world_test)]
async fn without_its_locks_a_pause_returns_too_early() {
    let returns = "nothing is closed from the moment at which pause returns";
    let world = world(COUNTED).await;
    let impatient = paused(|| {
        let operator = Actor { name: "operator", script: pausing(None) };
        vec![operator, guarded("messages", GUARD, Some("unpaid"))]
    });
    breaks(&every_order(&world, &impatient).await, returns);
    let function = include_str!("../../../sql/pauses.sql").replacen(
        "IF NOT pg_try",
        "IF false AND NOT pg_try",
        1,
    );
    world.sql(&found(&function)).await;
    let unguarded = paused(|| {
        let operator = Actor { name: "operator", script: pausing(Some(TAKEN)) };
        vec![operator, guarded("messages", GUARD, Some("unpaid"))]
    });
    breaks(&every_order(&world, &unguarded).await, returns);
}

#[apply(world_test)]
async fn relays_that_do_not_lead_publish_an_event_again() {
    let case =
        relays(|| vec![relay("one", false, false), relay("other", false, false), event(false)]);
    breaks(&every_order(&world(PUBLISHED).await, &case).await, "an event comes again only");
}

#[apply(world_test)]
async fn a_relay_that_asks_for_no_writers_passes_over_an_event() {
    let case = floors(|| vec![looking(false), event(true), event(false)]);
    breaks(&every_order(&world(FLOORS).await, &case).await, "no event is passed over");
}

#[apply(world_test)]
async fn a_deadlock_is_found() {
    let case = closing(|| {
        let locks = |name, first, second| {
            let script = list([Step::sql(first).begins(), Step::sql(second), commit()]);
            Actor { name, script }
        };
        let (a, b) = (
            "SELECT FROM stock WHERE sku = 'a' FOR UPDATE",
            "SELECT FROM stock WHERE sku = 'b' FOR UPDATE",
        );
        vec![locks("one", a, b), locks("other", b, a)]
    });
    breaks(&every_order(&world("").await, &case).await, "deadlock detected");
}
