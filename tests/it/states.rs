//! The states of the reference orders: three timeouts with their built-in effects, and no other transition.

use std::collections::BTreeSet;

use overdue::internals::order::{FinalState, OrderId, Outcome};
use overdue::internals::store::orders::{ClosingPath, Effect};

use super::parked::ends;
use crate::support::{
    World, ids,
    orders::{WRITTEN, written},
    samples::orders,
    statements::{contended, effect, statements},
    until,
};

/// The three timeouts of the repository's file, with a delay for a test.
fn topology() -> String {
    let timeouts = [
        ("unpaid", "100ms", "close"),
        ("unshipped", "100ms", "cancel"),
        ("unconfirmed", "100ms", "complete"),
    ];
    orders("levels = ['100ms']", &timeouts, "['100ms']")
}

const STATES: [&str; 6] = ["unpaid", "paid", "shipped", "completed", "closed", "cancelled"];
/// The allowed transitions: from, to.
const ALLOWED: [(&str, &str); 5] = [
    ("unpaid", "paid"),
    ("unpaid", "closed"),
    ("paid", "shipped"),
    ("paid", "cancelled"),
    ("shipped", "completed"),
];

/// Six overdue orders: two unpaid, two paid, two shipped.
async fn overdue_in_each_state(world: &World) {
    for (state, prefix) in [("unpaid", "u"), ("paid", "p"), ("shipped", "s")] {
        for id in world.orders(prefix, 2, 0).await {
            world.bring_to(&id, state).await;
        }
    }
    let deadlines = "UPDATE orders SET ship_by = now() WHERE status = 'paid';
                     UPDATE orders SET confirm_by = now() WHERE status = 'shipped'";
    world.sql(deadlines).await;
}

async fn until_ended(world: &World) {
    let ended = [("cancelled", 2), ("closed", 2), ("completed", 2)];
    let ended = ended.map(|(state, orders)| (state.to_owned(), orders)).into();
    until("each in its final state", async || world.statuses().await, |seen| *seen == ended).await;
    world.assert_invariants().await;
    assert_eq!(world.number("SELECT sum(reserved)::bigint FROM stock").await, 0);
    let said = "SELECT effect || ' ' || outcome || ' ' || count(*) FROM closures GROUP BY effect, outcome ORDER BY 1";
    assert_eq!(
        world.texts(said).await,
        ["cancel cancelled 2", "close closed 2", "complete completed 2"]
    );
}

/// The binary works without settings about effects.
#[apply(world_test)]
async fn three_timeouts_work_out_of_the_box_and_each_outcome_is_called_what_it_is() {
    let world = World::of(&topology()).await;
    overdue_in_each_state(&world).await;
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "order.*").await;
    let mut worker = world.started(|it| _ = it.env("OVERDUE_LOG__FILTER", "overdue=debug")).await;
    for (timeout, prefix) in [("unpaid", "u"), ("unshipped", "p"), ("unconfirmed", "s")] {
        wire.publish_all("orders.in", &format!("100ms.{timeout}"), &ids(prefix, 2)).await;
    }
    until_ended(&world).await;
    let expected: BTreeSet<String> = [("cancelled", "p"), ("closed", "u"), ("completed", "s")]
        .into_iter()
        .flat_map(|(event, prefix)| ids(prefix, 2).into_iter().map(move |id| (event, id)))
        .map(|(event, id)| format!("order.{event} {id}"))
        .collect();
    // An event whose confirm was late arrives twice.
    let mut events = BTreeSet::new();
    let look = async || {
        while let Some(event) = wire.take(&subscriber).await {
            let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
            events.insert(format!("{} {}", event.key, body["order_id"].as_str().unwrap()));
        }
        events.clone()
    };
    until("an event of each order", look, |events| *events == expected).await;
    for state in ["states=cancelled", "states=closed", "states=completed"] {
        worker.until_logged(state).await;
    }
    world.parked(0).await;
}

/// PostgreSQL counts a row whose change a BEFORE trigger has undone as updated, and returns it by RETURNING.
#[apply(world_test)]
async fn nothing_becomes_of_an_order_whose_state_a_trigger_keeps() {
    let world = World::of_tables().await;
    overdue_in_each_state(&world).await;
    world
        .sql(
            "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$;
             CREATE TRIGGER keep BEFORE UPDATE ON orders FOR EACH ROW WHEN (OLD.id LIKE '%-0') EXECUTE FUNCTION keep()",
        )
        .await;
    let mut effects = Vec::new();
    for (prefix, name) in [("u", "close"), ("p", "cancel"), ("s", "complete")] {
        effects.push((prefix, effect(name, contended(&statements(name)))));
        effects.push((prefix, Effect::built_in(name).unwrap()));
    }
    let stock = "SELECT string_agg(concat_ws(' ', sku, available, reserved, sold), ', ' ORDER BY sku) FROM stock";
    let before = world.texts(stock).await;
    for (prefix, effect) in &effects {
        let kept = OrderId::parse(&format!("{prefix}-0")).unwrap();
        let outcomes = world.store.run_effect(effect, &[kept], ClosingPath::Sweep).await.unwrap();
        assert!(outcomes[0].is_guarded(), "{effect:?}: {outcomes:?}");
    }
    assert_eq!(world.texts(stock).await, before);
    assert_eq!((world.rows_of("closures").await, world.rows_of("outbox").await), (0, 0));
    // Another order in the same batch is closed.
    for (prefix, effect) in &effects {
        let both = ids(prefix, 2);
        let both: Vec<OrderId> = both.iter().map(|id| OrderId::parse(id).unwrap()).collect();
        world.store.run_effect(effect, &both, ClosingPath::Sweep).await.unwrap();
    }
    let closed = world.texts("SELECT order_id FROM closures ORDER BY order_id").await;
    assert_eq!(closed, ["p-1", "s-1", "u-1"]);
    world.assert_invariants().await;
}

/// No order has a message.
#[apply(world_test)]
async fn the_built_in_effects_pass_their_check_and_the_sweep_finds_what_is_overdue_in_each_state() {
    let world = World::of(&topology()).await;
    overdue_in_each_state(&world).await;
    // Each built-in effect has an index for its queries, and locks rows in an order.
    let run = ends(&world, 0, &["effect", "check", "--all"]);
    for ended in ["2 closed", "2 cancelled", "2 completed"] {
        let tried = format!("tried on     2 orders, rolled back: {ended}");
        assert!(run.stdout.contains(&tried), "{tried}\n{run}");
    }
    assert!(!run.stdout.contains("warning"), "{run}");
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 0);
    ends(&world, 64, &["effect", "check"]).reports("<NAME|--all>");
    let sweeps = [("OVERDUE_WORKER__SWEEP_EVERY", "500ms"), ("OVERDUE_WORKER__SWEEP_GRACE", "1ms")];
    let mut worker = world.started(|it| _ = it.envs(sweeps)).await;
    until_ended(&world).await;
    for state in ["states=cancelled", "states=closed", "states=completed"] {
        worker.until_logged(state).await;
    }
}

/// The table refuses the transition for any client and any statement.
#[apply(world_test)]
async fn a_transition_that_is_not_allowed_cannot_be_written() {
    let world = World::of_tables().await;
    let client = world.store.client().await.unwrap();
    for from in STATES {
        for to in STATES {
            let id = world.orders(&format!("{from}-{to}"), 1, 0).await.remove(0);
            world.bring_to(&id, from).await;
            let sql = format!(
                "UPDATE orders SET status = '{to}', ship_by = now(), confirm_by = now() WHERE id = '{id}'"
            );
            let written = client.batch_execute(&sql).await;
            let allowed = from == to || ALLOWED.contains(&(from, to));
            assert_eq!(written.is_ok(), allowed, "{from} to {to}: {written:?}");
            assert_eq!(world.status(&id).await, if allowed { to } else { from });
            if let Err(error) = written {
                let refused = error.as_db_error().unwrap();
                assert_eq!(refused.message(), format!("order {id} cannot go from {from} to {to}"));
                assert_eq!(refused.constraint(), Some("orders_transition"));
            }
        }
    }
    // A state without its deadline would never be overdue.
    world.orders("paid", 1, 0).await;
    let without =
        client.batch_execute("UPDATE orders SET status = 'paid' WHERE id = 'paid-0'").await;
    let refused = without.unwrap_err();
    assert_eq!(refused.as_db_error().unwrap().constraint(), Some("orders_paid_has_ship_by"));
}

/// An effect changes only orders of its own state, and never before their deadline, for any state and any delay.
#[apply(world_test)]
async fn an_effect_changes_orders_of_its_own_state_only_and_says_done_in_its_own_word() {
    let world = World::of_tables().await;
    let run = async |effect: &Effect, ids: &[String]| {
        let ids: Vec<OrderId> = ids.iter().map(|id| OrderId::parse(id).unwrap()).collect();
        world.store.run_effect(effect, &ids, ClosingPath::Message).await.unwrap()
    };
    for (effect, from, to) in [
        (Effect::close(), "unpaid", "closed"),
        (Effect::built_in("cancel").unwrap(), "paid", "cancelled"),
        (Effect::built_in("complete").unwrap(), "shipped", "completed"),
    ] {
        let orders = world.orders(to, STATES.len(), 0).await;
        for (id, state) in orders.iter().zip(STATES) {
            world.bring_to(id, state).await;
        }
        let passed =
            "UPDATE orders SET due_at = now() - interval '1 h', ship_by = now() - interval '1 h',
                      confirm_by = now() - interval '1 h'";
        world.sql(passed).await;
        let outcomes = run(&effect, &orders).await;
        for ((id, state), outcome) in orders.iter().zip(STATES).zip(outcomes) {
            let now = world.status(id).await;
            if state == from {
                assert_eq!(now, to);
                assert!(closed_as(&outcome, to), "{outcome:?}");
            } else {
                assert_eq!(now, state);
                assert_eq!(outcome, Outcome::AlreadyFinal, "{} of {state}", effect.name);
            }
        }
    }
    let order = world.orders("early", 1, 0).await;
    for (state, effect, days) in [
        ("paid", Effect::built_in("cancel").unwrap(), 30),
        ("shipped", Effect::built_in("complete").unwrap(), 14),
    ] {
        let id = &order[0];
        assert!(if state == "paid" { world.pay(id).await } else { world.ship(id).await });
        let outcomes = run(&effect, &order).await;
        let Outcome::NotDue { remaining } = outcomes[0] else { panic!("{outcomes:?}") };
        let left = remaining.as_secs().div_ceil(24 * 60 * 60);
        assert_eq!(left, days, "{remaining:?}");
        assert_eq!(world.status(id).await, state);
    }
    let cases = [("done:written_off", "written_off"), ("done", "done"), ("closed", "closed")];
    for (outcome, word) in cases {
        let sql = WRITTEN.replace("'closed' AS outcome", &format!("'{outcome}' AS outcome"));
        assert_eq!(sql == WRITTEN, outcome == "closed");
        let order = world.orders(&format!("by-{word}"), 1, 0).await;
        let outcomes = run(&written(&sql), &order).await;
        assert_eq!(FinalState::of_outcome(outcome).unwrap().as_str(), word);
        assert!(closed_as(&outcomes[0], word), "{outcomes:?}");
    }
}

fn closed_as(outcome: &Outcome, word: &str) -> bool {
    matches!(outcome, Outcome::Closed { state, .. } if state.as_str() == word)
}
