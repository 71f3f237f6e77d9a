//! `overdue effect check` finds effects that act too early, and invalid outcomes.

use std::fs;

use crate::{
    own_tables::{shop, write_example, write_made},
    page::read,
    support::{Run, World},
};

/// Runs the check with another text in the effect's SQL.
fn check(world: &World, (from, to): (&str, &str), options: &[&str]) -> Run {
    let sql = read("tests/written/expire.sql");
    assert!(sql.contains(from), "{from}");
    fs::write(world.dir.path().join("expire.sql"), sql.replace(from, to)).unwrap();
    world.overdue(&[&["effect", "check", "expire"], options].concat())
}

const AS_IT_IS: (&str, &str) = ("", "");
const WITHOUT_A_GUARD: (&str, &str) = (" AND asked.due_at <= now()", "");
const WRONG_WORD: (&str, &str) = ("'not_due'", "'notdue'");
const WRONG_STATE: (&str, &str) = ("'done:expired'", "'done:Expired'");

#[apply(world_test)]
async fn an_effect_is_tried_on_orders_that_are_due_and_not_due() {
    let (world, _) = shop("bigint").await;
    write_example(&world);
    let found = |run: &Run, code: i32, texts: &[&str]| {
        assert_eq!(run.code, Some(code), "{run}");
        for text in texts {
            assert!(run.to_string().contains(text), "{text}\n{run}");
        }
        assert!(!run.to_string().contains("committed"), "{run}");
    };

    let untried =
        "there is no open order, so it is not known whether it closes orders before their deadline";
    let run = check(&world, AS_IT_IS, &[]);
    found(&run, 2, &["fits the tables, as far as it was tried", "tried on     no order", untried]);

    world
        .sql("INSERT INTO purchase (purchase_no, pay_until) VALUES (1, now() + interval '1 hour')")
        .await;
    let tried = ["expire.sql) fits the tables\n", "1 order, rolled back: 1 not_due"];
    found(&check(&world, AS_IT_IS, &[]), 0, &tried);
    for options in [&[][..], &["--order", "1"]] {
        let run = check(&world, WITHOUT_A_GUARD, options);
        found(&run, 2, &["order 1 is due at ", "and it would be expired now", "expire.sql) fails"]);
        let run = check(&world, WRONG_WORD, options);
        found(&run, 2, &["gave `notdue` as `outcome` for order 1"]);
        found(&check(&world, AS_IT_IS, options), 0, &[]);
    }

    // Overdue orders show nothing about the guard.
    world.sql("UPDATE purchase SET pay_until = now() - interval '1 hour'").await;
    let run = check(&world, AS_IT_IS, &[]);
    found(&run, 2, &["1 order, rolled back: 1 expired", "none is open whose deadline is to come"]);
    found(&check(&world, AS_IT_IS, &["--order", "1"]), 0, &[]);
    let run = check(&world, WRONG_STATE, &["--order", "1"]);
    found(&run, 2, &["gave `done:Expired` as `outcome` for order 1"]);
    assert_eq!(world.number("SELECT count(*) FROM purchase WHERE state = 10").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 0);
}

/// Publishers write UUIDs in capitals or in braces; the database returns its own spelling.
#[apply(world_test)]
async fn an_order_is_the_same_in_every_spelling() {
    let (world, effect) = shop("uuid").await;
    world.apply(&world.topology).await;
    let orders = [
        ("2f1c0a3b-0000-4000-8000-00000000000a", "2F1C0A3B-0000-4000-8000-00000000000A"),
        ("2f1c0a3b-0000-4000-8000-00000000000b", "{2f1c0a3b-0000-4000-8000-00000000000b}"),
        ("2f1c0a3b-0000-4000-8000-00000000000c", "2F1C0A3B00004000800000000000000C"),
        ("2f1c0a3b-0000-4000-8000-00000000000d", "2f1c0a3b-0000-4000-8000-00000000000d"),
    ];
    for (id, _) in orders {
        world
            .sql(&format!("INSERT INTO purchase (purchase_no, pay_until) VALUES ('{id}', now())"))
            .await;
    }
    write_made(&world);
    for (_, asked) in orders {
        let run = world.overdue(&["explain", "--order", asked]);
        assert!(run.stdout.contains("overdue: with a notice it is expired now"), "{run}");
        let run = world.overdue(&["effect", "check", "expire", "--order", asked]);
        assert!(run.stdout.contains("1 order, rolled back: 1 expired"), "{run}");
    }

    let worker = world.worker_of(effect, crate::support::worker::settings());
    world.publish("100ms", &orders.map(|(_, asked)| asked.to_owned())).await;
    let counts = worker.until("each is closed", |counts| counts.closed >= 4).await;
    assert_eq!((counts.retried, counts.parked), (0, 0), "{counts:?}");
    // Each order in two spellings, one after the other: in one batch the second spelling would be queried again.
    world.publish("100ms", &orders.map(|(_, asked)| asked.to_owned())).await;
    worker.until("each is final", |counts| counts.already_final >= 4).await;
    world.publish("100ms", &orders.map(|(id, _)| id.to_owned())).await;
    world.until_empty("orders.unpaid").await;
    assert_eq!(worker.stops_after(0, 0).await.closed, 4);
}
