//! The statements of the described effects: how they are planned, and what they do with rows that change meanwhile.

use overdue::internals::{
    effect::Statements,
    order::{OrderId, Outcome},
    store::{
        Store,
        orders::{ClosingPath, Effect},
    },
};
use tokio_postgres::types::ToSql;

use crate::support::{
    World,
    orders::written,
    statements::{contended, found, statements},
};

fn parsed(ids: &[String]) -> Vec<OrderId> {
    ids.iter().map(|id| OrderId::parse(id).unwrap()).collect()
}

/// With one connection for what closes and one for all else, so that each is always the same.
fn on_one_connection(world: &World) -> Store {
    Store::new(&world.services.database_url(None), &world.schema, 1).unwrap()
}

#[apply(world_test)]
async fn an_effect_is_prepared_and_planned_once_per_connection_whatever_the_size_of_a_batch() {
    let world = World::of_tables().await;
    let store = on_one_connection(&world);
    let ids = parsed(&world.orders("o", 140, 0).await);
    let (single, batches) = ids.split_at(20);
    let effect = Effect::close();
    for batch in single.chunks(1).chain(batches.chunks(60)) {
        let outcomes = store.run_effect(&effect, batch, ClosingPath::Message).await.unwrap();
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Closed { .. })));
    }
    for statement in ["first", "second"] {
        let plans = format!(
            "(SELECT generic_plans || '_' || custom_plans FROM pg_prepared_statements
              WHERE statement LIKE '-- close, {statement}%')"
        );
        let said = said_by_a_closing_session(&store, &ids[..1], &plans).await;
        assert_eq!(said, "is_22_0", "{statement}");
    }
}

/// The plan of a part of a statement, in the session of a worker.
async fn plan_of(store: &Store, sql: &str, part: &str) -> String {
    let client = store.client().await.unwrap();
    client.batch_execute(&format!("PREPARE part (text[], text, jsonb) AS {sql}")).await.unwrap();
    let explain = "EXPLAIN (COSTS OFF) EXECUTE part (ARRAY['a', 'b'], 'message', NULL)";
    let lines = client.query(explain, &[]).await.unwrap();
    let lines: Vec<String> = lines.iter().map(|row| row.get(0)).collect();
    client.batch_execute("DEALLOCATE part").await.unwrap();
    let begin = lines.iter().position(|line| line.trim() == format!("CTE {part}")).unwrap();
    let depth = |line: &String| line.len() - line.trim_start().len();
    let end = lines[begin + 1..].iter().position(|line| depth(line) <= depth(&lines[begin]));
    lines[begin..=begin + end.unwrap()].join("\n")
}

/// What the other tests read has been made without a database.
#[apply(world_test)]
async fn the_statements_of_the_tests_are_those_that_run() {
    let world = World::of_tables().await;
    let schema = format!("{}.", world.schema);
    for name in ["close", "cancel", "complete"] {
        let run = world.store.statements(&Effect::built_in(name).unwrap()).await.unwrap();
        let found = |sql: &str| sql.replace(&schema, "");
        let run = Statements {
            lock: run.lock.as_deref().map(found),
            close: found(&run.close),
            close_contended: run.close_contended.as_deref().map(found),
            overdue: run.overdue.as_deref().map(found),
        };
        assert_eq!(statements(name), run);
    }
}

/// Whoever locks stock does it in SKU order: then nobody deadlocks. It follows from the plan, so the plan is looked at.
#[apply(world_test)]
async fn stock_is_released_in_sku_order_whatever_the_size_of_the_tables() {
    let world = World::of_tables().await;
    let store = on_one_connection(&world);
    let waits = statements("close");
    let passes = contended(&waits);
    let parts = [
        (&waits.close, "back_1"),
        (&waits.close, "released_1"),
        (&passes.close, "held_1"),
        (&passes.close, "released_1"),
    ];
    let mut plans = Vec::new();
    for skus in [0, 1, 5, 100, 20_000] {
        world
            .sql(&format!(
                "TRUNCATE stock CASCADE;
                 INSERT INTO stock (sku, available) SELECT 'sku-' || n, 0 FROM generate_series(1, {skus}) n;
                 INSERT INTO orders (id, due_at) SELECT 'o-' || n, now() FROM generate_series(1, {skus}) n
                 ON CONFLICT DO NOTHING;
                 INSERT INTO order_items (order_id, sku, qty)
                 SELECT 'o-' || n, 'sku-' || n, 1 FROM generate_series(1, {skus}) n;
                 ANALYZE stock, orders, order_items"
            ))
            .await;
        for (sql, part) in parts {
            plans.push(plan_of(&store, sql, part).await);
        }
    }
    for ((_, part), plan) in parts.iter().cycle().zip(&plans) {
        // The sums in their order; from there to the stock one by one; or locked in the order of SKUs.
        let steps = match *part {
            "back_1" => ["GroupAggregate", "Sort Key: needed_1.key_1"],
            "held_1" => ["LockRows", "stock_pkey"],
            _ => ["Nested Loop", "Index Scan using stock_pkey on stock"],
        };
        assert!(steps.iter().all(|step| plan.contains(step)), "{plan}");
    }
    insta::assert_snapshot!(plans[plans.len() - parts.len()..].join("\n"));
}

/// Changes an order when the first statement has its snapshot and before it locks; what the second one says of the order.
async fn changed_meanwhile(
    world: &World,
    Statements { lock, close, .. }: &Statements,
    prefix: &str,
    change: &str,
) -> String {
    let key = format!("hashtext('{}'), hashtext('{prefix}')", world.schema);
    let gate = format!("ANY ($1::text[]) AND (SELECT pg_advisory_xact_lock({key}) IS NOT NULL)");
    let lock = lock.as_ref().unwrap().replacen("ANY ($1::text[])", &gate, 1);
    assert!(lock.contains("pg_advisory"));
    let id = world.orders(prefix, 1, 0).await.remove(0);
    let holder = world.store.client().await.unwrap();
    holder.batch_execute(&format!("BEGIN; SELECT pg_advisory_xact_lock({key})")).await.unwrap();
    let mut connection = world.store.client().await.unwrap();
    let pid: i32 = connection.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let (ids, close) = (vec![id.clone()], close.clone());
    let closing = tokio::spawn(async move {
        let transaction = connection.transaction().await?;
        transaction.query_one(&lock, &[&ids]).await?;
        let parameters: [&(dyn ToSql + Sync); 3] = [&ids, &"message", &None::<serde_json::Value>];
        let rows = transaction.query(&close, &parameters).await?;
        transaction.commit().await?;
        Ok::<_, tokio_postgres::Error>(rows)
    });
    let waiting = format!("pg_locks WHERE pid = {pid} AND locktype = 'advisory' AND NOT granted");
    world.until_rows(&waiting, 1).await;
    world.sql(&format!("UPDATE orders SET {change} WHERE id = '{id}'")).await;
    holder.batch_execute("COMMIT").await.unwrap();
    let rows = closing.await.unwrap().unwrap();
    assert_eq!(rows.len(), 1);
    let status = world.status(&id).await;
    let closures = world.rows_of(&format!("closures WHERE order_id = '{id}'")).await;
    assert_eq!(closures, i64::from(status == "closed"));
    format!("{}, {status}", rows[0].get::<_, &str>(1))
}

#[apply(world_test)]
async fn an_order_that_changes_before_it_is_locked_is_decided_by_its_latest_row() {
    let world = World::of_tables().await;
    let waits = statements("close");
    for (way, statements) in [("passes", &contended(&waits)), ("waits", &waits)] {
        let change = async |name: &str, change: &str| {
            changed_meanwhile(&world, statements, &format!("{way}-{name}"), change).await
        };
        let paid = change("paid", "status = 'paid', ship_by = now()").await;
        assert_eq!(paid, "already_final, paid");
        let later = change("later", "due_at = now() + interval '1 hour'").await;
        assert_eq!(later, "not_due, unpaid");
        let other = change("other", "category = 'virtual'").await;
        assert_eq!(other, "closed, closed");
    }
}

/// What a closing statement answers that says a setting of its own session.
async fn said_by_a_closing_session(store: &Store, id: &[OrderId], setting: &str) -> String {
    let sql = format!(
        "SELECT ($1::text[])[1] AS order_id, 'done:is_' || {setting} AS outcome, now() AS due_at, now() AS decided_at
         WHERE $2::text IS NOT NULL"
    );
    let effect = written(&sql);
    let outcomes = store.run_effect(&effect, id, ClosingPath::Message).await.unwrap();
    let [Outcome::Closed { state, .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
    state.as_str().to_owned()
}

/// A lock time-out in the URL is for all other statements.
#[apply(world_test)]
async fn statements_that_close_have_a_lock_timeout_of_their_own_whatever_the_url_says() {
    let world = World::of_tables().await;
    let id = parsed(&["o-0".to_owned()]);
    let url = world.services.database_url(None);
    let sign = if url.contains('?') { "&" } else { "?" };
    for (options, other) in [("", "5s"), ("options=-clock_timeout%3D7s", "7s")] {
        let store = Store::new(&format!("{url}{sign}{options}"), &world.schema, 1).unwrap();
        let setting = "current_setting('lock_timeout')";
        assert_eq!(said_by_a_closing_session(&store, &id, setting).await, "is_50ms");
        let client = store.client().await.unwrap();
        let limit = client.query_one("SHOW lock_timeout", &[]).await.unwrap();
        assert_eq!(limit.get::<_, &str>(0), other);
    }
}

/// A relay keeps its connection while it publishes, and the reader of a burst for as long as that lasts.
#[apply(world_test)]
async fn what_closes_orders_waits_for_no_connection_that_others_keep() {
    let world = World::of_tables().await;
    let ids = parsed(&world.orders("o", 2, 0).await);
    let store = on_one_connection(&world);
    let effect = Effect::close();
    // As a worker does it before it takes messages.
    store.check_effect(&effect).await.unwrap();
    let _kept = store.client().await.unwrap();
    let closed = store.run_effect(&effect, &ids, ClosingPath::Message).await.unwrap();
    assert!(matches!(closed[..], [Outcome::Closed { .. }, Outcome::Closed { .. }]), "{closed:?}");
}

/// Where few rows are expected (the tables were empty, or nobody knows how many ids there are) PostgreSQL joins by comparing each
/// with each: 2,000 orders of which one was paid took five times as long, and a claim of 2,000 events a hundred times.
#[apply(world_test)]
async fn no_statement_compares_each_with_each() {
    const CLOSES: &str = "('{}', 'message', NULL)";
    let world = World::of_tables().await;
    world.sql("VACUUM ANALYZE orders, order_items, stock, closures, outbox, outbox_refused").await;
    let client = world.store.client().await.unwrap();
    let claim = found(include_str!("../../sql/outbox_claim.sql"));
    let mut all = vec![(claim, "(2000, '{}', 0, 1)")];
    for name in ["close", "cancel", "complete"] {
        let Statements { lock, close, close_contended, overdue } = statements(name);
        all.extend([
            (lock.unwrap(), "('{}')"),
            (close, CLOSES),
            (close_contended.unwrap(), CLOSES),
            (overdue.unwrap(), "(10, 0, '-infinity', '')"),
        ]);
    }
    for (sql, parameters) in all {
        client.batch_execute(&format!("PREPARE part AS {sql}")).await.unwrap();
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE part {parameters}");
        let rows = client.query(&explain, &[]).await.unwrap();
        let plan: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
        client.batch_execute("DEALLOCATE part").await.unwrap();
        assert!(!plan.iter().any(|line| line.contains("Join Filter")), "{}", plan.join("\n"));
    }
}
