//! Effects are tried in transactions that are rolled back: one order's failure proves nothing about the others.

use std::time::Duration;

use jiff::Timestamp;
use overdue::internals::{obstacle::Obstacle, store::orders::Effect, timing::Timing};

use crate::{bad_rows::refuse, support::World};

/// The reason why orders of a world cannot be closed.
async fn obstacle(world: &World) -> Option<Obstacle> {
    let effects = [("close".to_owned(), Ok(Effect::close()))];
    let facts = world.store.facts(&effects, || Timestamp::UNIX_EPOCH).await;
    let attempt = facts.attempts.into_iter().next().expect("an effect that fits").1;
    attempt.expect("an answer").obstacle
}

async fn reason(world: &World) -> String {
    obstacle(world).await.map(|found| found.reason).unwrap_or_default()
}

/// Creates a trigger on closed rows, with this body.
async fn trigger(world: &World, each: &str, body: &str) {
    world
        .sql(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH {each} EXECUTE FUNCTION refuse()"
        ))
        .await;
}

/// A trigger may raise any SQLSTATE, including those for missing rights, time-outs and full disks.
#[apply(world_test)]
async fn one_bad_order_is_named_and_the_effect_is_usable() {
    let world = World::new().await;
    world.orders("o", 30, -5_000).await;
    for code in ["P0001", "42501", "57014", "08006"] {
        refuse(&world, &[code]).await;
        let run = world.overdue(&["effect", "check", "close"]).exits(0);
        let bad = format!("order o-0: SQLSTATE {code}: ");
        for text in [
            "fits the tables\n",
            "20 orders, rolled back: 19 closed, 1 failed",
            &format!("warning      others can be closed, and not {bad}"),
        ] {
            assert!(run.stdout.contains(text), "{text}\n{run}");
        }
        // A person names that order.
        let run = world
            .overdue(&["effect", "check", "close", "--order", "o-0", "--order", "o-1"])
            .exits(2);
        assert!(run.stderr.contains(&format!("effect `close` fails: {bad}")), "{run}");
        let reason = reason(&world).await;
        let cause = format!("order o-0 cannot be closed: SQLSTATE {code}: ");
        assert!(reason.starts_with(&cause), "{reason}");
        world.sql("DROP FUNCTION refuse CASCADE").await;
    }
    assert_eq!(obstacle(&world).await, None);
}

#[apply(world_test)]
async fn what_fails_without_orders_is_no_fault_of_an_order() {
    let world = World::new().await;
    world.orders("o", 30, -5_000).await;
    trigger(&world, "STATEMENT", "RAISE EXCEPTION 'maintenance'").await;
    let run = world.overdue(&["effect", "check", "close"]);
    assert!(run.code != Some(0) && run.stderr.contains("maintenance"), "{run}");
    assert!(!run.to_string().contains("o-"), "{run}");
    let reason = reason(&world).await;
    assert!(reason.starts_with("orders cannot be closed: effect `close` "), "{reason}");
    assert!(reason.ends_with("maintenance"), "{reason}");
}

/// A deferred constraint that the commit would check.
#[apply(world_test)]
async fn what_fails_at_the_commit_fails_in_a_trial() {
    let world = World::new().await;
    world.orders("o", 2, -5_000).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'too late'; END $$;
             CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON orders DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
             WHEN (NEW.id = 'o-0') EXECUTE FUNCTION refuse()",
        )
        .await;
    let run = world.overdue(&["effect", "check", "close"]).exits(0);
    for text in ["2 orders, rolled back: 1 closed, 1 failed", "and not order o-0: SQLSTATE P0001: "]
    {
        assert!(run.stdout.contains(text), "{text}\n{run}");
    }
    let reason = reason(&world).await;
    assert!(reason.starts_with("order o-0 cannot be closed: SQLSTATE P0001: "), "{reason}");
    assert_eq!(world.closed().await, 0);
    // A failed trial was rolled back as well: no transaction has a lock on the table.
    world.sql("DROP FUNCTION refuse CASCADE").await;
    assert_eq!(obstacle(&world).await, None);
}

/// The old orders have been open for months, each with its own reason.
#[apply(world_test)]
async fn old_orders_do_not_hide_why_new_ones_are_not_closed() {
    let world = World::new().await;
    world.orders("old", 8, -8_000_000_000).await;
    trigger(
        &world,
        "ROW",
        "IF NEW.id LIKE 'old-%' THEN RAISE EXCEPTION 'long ago'; ELSIF NEW.id LIKE 'bad-%' THEN RAISE EXCEPTION 'today'; END IF",
    )
    .await;
    let reason = async || reason(&world).await;
    assert!(reason().await.ends_with("long ago"), "{}", reason().await);
    for (age, due_in_ms) in [("day", -40_000_000), ("hour", -600_000), ("minute", -20_000)] {
        // Orders that can be closed hide no reason.
        world.orders(&format!("good-{age}"), 1, due_in_ms).await;
        assert!(reason().await.ends_with("long ago"), "{}", reason().await);
        // A second before the good order, however long the inserts take.
        world
            .sql(&format!(
                "INSERT INTO orders (id, due_at)
                 SELECT 'bad-{age}-0', due_at - interval '1 s' FROM orders WHERE id = 'good-{age}-0'"
            ))
            .await;
        let found = reason().await;
        let order = format!("order bad-{age}-0 cannot be closed: ");
        assert!(found.starts_with(&order) && found.ends_with("today"), "{found}");
        world.sql("DELETE FROM orders WHERE id LIKE 'bad-%'").await;
    }
}

#[apply(world_test)]
async fn a_trial_has_a_limit_of_its_own() {
    let mut world = World::new().await;
    trigger(&world, "ROW", "RAISE EXCEPTION 'limit %', current_setting('statement_timeout')").await;
    world.orders("o", 1, -5_000).await;
    // The limit of worker, doctor and status.
    world.overdue(&["effect", "check", "close"]).reports("limit 5s");
    let trial = Duration::from_secs(2);
    world.store = world.store.clone().with_timing(Timing { trial, ..Timing::often() }.into());
    assert!(reason(&world).await.ends_with("limit 2s"), "{}", reason(&world).await);

    // The order that reaches the limit is named; if all orders reach it, the effect is named.
    world.sql("DROP FUNCTION refuse CASCADE").await;
    trigger(&world, "ROW", "PERFORM pg_sleep(600)").await;
    let found = reason(&world).await;
    assert!(found.starts_with("order o-0 cannot be closed: SQLSTATE 57014: "), "{found}");
    world.orders("more", 8, -5_000).await;
    let found = reason(&world).await;
    assert!(found.starts_with("orders cannot be closed: effect `close` "), "{found}");
    assert!(found.contains("statement timeout"), "{found}");
}
