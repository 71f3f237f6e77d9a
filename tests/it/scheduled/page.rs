//! The page that explains it is run, statement by statement and command by command.

use std::fs;

use crate::{
    page::{blocks, run_commands, run_statement},
    support::World,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_leads_from_init_to_closed_orders() {
    let world = World::of(include_str!("../../../topology.toml")).await;
    world.database_user().await;
    let (mut worker, mut gave) = (None, 0);
    for (language, text) in blocks("docs/publishing-from-sql.md") {
        match language.as_str() {
            "sh" => drop(run_commands(&world, &text, &mut worker).await),
            "sql" => gave += usize::from(run_statement(&world, &text).await),
            "text" => {}
            other => panic!("a block that nobody runs: {other}"),
        }
    }
    assert_eq!(gave, 2);
    let worker = worker.expect("the page runs a worker");
    assert!(!worker.log().contains("ERROR"), "{}", worker.log());

    // The triggers of the table of its own: a new row, a moved deadline, and what changes nothing.
    let held = async || {
        world.number("SELECT count(*) FROM scheduled_notices WHERE order_id = '900'").await
    };
    drop(worker);
    world.sql("INSERT INTO purchase VALUES (900, 10, now() + interval '1 day'), (901, 20, now()), (902, 10, NULL), (903, 10, 'infinity')").await;
    assert_eq!(held().await, 1);
    world.sql("UPDATE purchase SET state = state, pay_until = pay_until").await;
    assert_eq!(held().await, 1);
    world
        .sql("UPDATE purchase SET pay_until = now() + interval '1 hour' WHERE purchase_no = 900")
        .await;
    assert_eq!(held().await, 2);
    world.sql("UPDATE purchase SET state = 20 WHERE purchase_no = 900").await;
    assert_eq!(held().await, 2);
    assert_eq!(
        world
            .number(
                "SELECT count(*) FROM scheduled_notices WHERE order_id IN ('901', '902', '903')"
            )
            .await,
        0
    );
}

/// Each state of the reference tables that has a deadline, and each change of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_triggers_of_the_reference_tables_schedule_each_deadline() {
    let world = World::of(include_str!("../../../topology.toml")).await;
    for _ in 0..2 {
        let run = world.overdue(&["database", "init", "--trigger", "--yes"]);
        assert_eq!(run.code, Some(0), "{run}");
    }
    world.orders("o", 3, 60_000).await;
    assert!(world.pay("o-0").await);
    world.sql("UPDATE orders SET status = 'shipped', confirm_by = now() + interval '14 days' WHERE id = 'o-0'").await;
    world.sql("UPDATE orders SET due_at = now() WHERE id = 'o-1'").await;
    world.sql("UPDATE orders SET category = 'virtual' WHERE id = 'o-2'").await;
    world.sql("INSERT INTO orders (id, due_at) VALUES ('never', 'infinity')").await;
    let rows = world
        .rows("SELECT order_id || ' ' || timeout || ' ' || count(*) FROM scheduled_notices GROUP BY order_id, timeout ORDER BY 1")
        .await;
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(
        rows,
        ["o-0 unconfirmed 1", "o-0 unpaid 1", "o-0 unshipped 1", "o-1 unpaid 2", "o-2 unpaid 1"]
    );
    let same = "SELECT count(*) FROM scheduled_notices n JOIN orders o ON o.id = n.order_id
                WHERE n.due_at IN (o.due_at, o.ship_by, o.confirm_by)";
    assert_eq!(world.number(same).await, 5, "the old deadline of o-1 aside");

    // Without its tables, or without a timeout that they are for, it says so.
    fs::write(
        world.topology_file(),
        crate::support::world::TOPOLOGY
            .replace("after = \"1s\"", "after = \"1s\"\neffect = \"mine\""),
    )
    .unwrap();
    let run = world.overdue(&["database", "init", "--trigger", "--yes"]);
    assert_eq!(run.code, Some(78), "{run}");
    assert!(run.stderr.contains("docs/publishing-from-sql.md"), "{run}");
}
