//! Runs the page about `schedule()`, statement by statement and command by command.

use std::fs;

use crate::{
    page::{blocks, run_commands, run_statement},
    support::{Services, World, process::finish, programs::program},
};

/// Code around the lines of the page: the connection of a user with only the page's rights, and the id.
const PROGRAMS: [(&str, &str, &str); 5] = [
    (
        "python",
        "order_service.py",
        "import sys, psycopg
order_id = 'python'
with psycopg.connect(sys.argv[1]) as connection:
    LINES",
    ),
    (
        "javascript",
        "order_service.js",
        "const client = new (require('pg').Client)(process.argv[2]);
async function main(orderId) { await client.connect(); LINES await client.end(); }
main('javascript');",
    ),
    (
        "java",
        "OrderService.java",
        "class OrderService { public static void main(String[] args) throws Exception {
var url = new java.net.URI(args[0]);
var user = url.getUserInfo().split(\":\");
var address = \"jdbc:postgresql://\" + url.getAuthority().split(\"@\")[1] + url.getPath();
var orderId = \"java\";
try (var connection = java.sql.DriverManager.getConnection(address, user[0], user[1])) { LINES } } }",
    ),
    (
        "go",
        "order_service.go",
        "package main
import (\"database/sql\"; \"os\"; _ \"github.com/lib/pq\")
func main() {
database, err := sql.Open(\"postgres\", os.Args[1])
transaction, err := database.Begin()
orderID := \"go\"
LINES
if err == nil { err = transaction.Commit() }
if err != nil { panic(err) }
}",
    ),
    (
        "php",
        "order_service.php",
        "<?php
$url = parse_url($argv[1]);
$pdo = new PDO(\"pgsql:host=$url[host];port=$url[port];dbname=\" . trim($url['path'], '/'), $url['user'], $url['pass']);
$orderId = 'php';
LINES",
    ),
];

/// Runs the lines of a program, or their statement if there is no program. Returns false if the machine lacks the language.
async fn makes_an_order(world: &World, shop: &str, language: &str, lines: &str) -> bool {
    world.sql(&format!("GRANT INSERT ON orders TO {}", world.schema)).await;
    let lines = lines.replace("overdue.", &format!("{}.", world.schema));
    let around = PROGRAMS.iter().find(|(known, ..)| *known == language);
    let Some((_, file, around)) = around else {
        let statement = lines.split('"').nth(1).unwrap();
        world.store.client().await.unwrap().execute(statement, &[&language]).await.unwrap();
        return true;
    };
    let source = world.dir.path().join(file);
    fs::write(&source, around.replace("LINES", lines.trim_end().replace('\n', "\n    ").as_str()))
        .unwrap();
    let Some(mut command) = program(&source) else { return false };
    command.arg(shop);
    finish(command, None).exits(0);
    true
}

#[apply(world_test)]
async fn the_page_leads_from_init_to_closed_orders() {
    let world = World::of(include_str!("../../../topology.toml")).await;
    let shop = world.database_user().await;
    let (mut worker, mut gave, mut made) = (None, 0, 0);
    for (language, text) in blocks("docs/publishing-from-sql.md") {
        match language.as_str() {
            "sh" => drop(run_commands(&world, &text, &mut worker).await),
            "sql" => gave += usize::from(run_statement(&world, &text).await),
            "text" => {}
            _ => made += u32::from(makes_an_order(&world, &shop, &language, &text).await),
        }
    }
    assert_eq!(gave, 2);
    assert!(made >= 3, "Python, and the statements of C# and Rust");
    world.wire().await.until_ready("orders.delay.30m", made).await;
    let worker = worker.expect("the page runs a worker");
    assert!(!worker.log().contains("ERROR"), "{}", worker.log());

    // Triggers of the own table: a new row, a moved deadline, and an update without a change.
    let held = async || world.rows_of("scheduled_notices WHERE order_id = '900'").await;
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
    let others = "scheduled_notices WHERE order_id IN ('901', '902', '903')";
    assert_eq!(world.rows_of(others).await, 0);
}

/// Each state of the reference tables that has a deadline, and each change of one.
#[apply(world_test)]
async fn the_triggers_of_the_reference_tables_schedule_each_deadline() {
    let world = World::bare(Services::main(), include_str!("../../../topology.toml")).await;
    world.store.init(&world.schema, true).await.unwrap();
    for _ in 0..2 {
        world.overdue(&["database", "init", "--trigger", "--yes"]).exits(0);
    }
    world.orders("o", 3, 60_000).await;
    assert!(world.pay("o-0").await);
    world.sql("UPDATE orders SET status = 'shipped', confirm_by = now() + interval '14 days' WHERE id = 'o-0'").await;
    world.sql("UPDATE orders SET due_at = now() WHERE id = 'o-1'").await;
    world.sql("UPDATE orders SET category = 'virtual' WHERE id = 'o-2'").await;
    world.sql("INSERT INTO orders (id, due_at) VALUES ('never', 'infinity')").await;
    let rows = "SELECT order_id || ' ' || timeout || ' ' || count(*) FROM scheduled_notices GROUP BY order_id, timeout ORDER BY 1";
    assert_eq!(
        world.texts(rows).await,
        ["o-0 unconfirmed 1", "o-0 unpaid 1", "o-0 unshipped 1", "o-1 unpaid 2", "o-2 unpaid 1"]
    );
    let same = "SELECT count(*) FROM scheduled_notices n JOIN orders o ON o.id = n.order_id
                WHERE n.due_at IN (o.due_at, o.ship_by, o.confirm_by)";
    assert_eq!(world.number(same).await, 5, "the old deadline of o-1 aside");

    // The command reports missing tables, and a missing timeout.
    fs::write(
        world.topology_file(),
        crate::support::world::TOPOLOGY
            .replace("after = \"1s\"", "after = \"1s\"\neffect = \"mine\""),
    )
    .unwrap();
    let run = world.overdue(&["database", "init", "--trigger", "--yes"]).exits(78);
    assert!(run.stderr.contains("docs/publishing-from-sql.md"), "{run}");
    // It does not remove a timeout that a trigger calls.
    assert_eq!(world.rows_of("schedule_timeouts WHERE removed_at IS NOT NULL").await, 0);
}
