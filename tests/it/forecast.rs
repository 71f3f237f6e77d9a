//! The forecast of the next hours and the results of the last one, from the indexes of a real database.

use overdue::internals::{
    status::{ClosingRate, DueSoon, Known},
    store::orders::Effect,
};

use crate::support::{
    World,
    orders::WRITTEN,
    statements::{found, statements},
};

async fn soon(world: &World, hours: u32) -> DueSoon {
    let rate = ClosingRate { per_s: 1_000.0, measured: false };
    let effects = [Effect::close(), Effect::built_in("cancel").unwrap()];
    match world.store.due_soon(&effects, hours, rate).await.unwrap() {
        Known::Known(soon) => soon,
        Known::Unknown(why) => panic!("{why}"),
    }
}

#[apply(world_test)]
async fn what_comes_due_of_several_effects_with_the_largest_burst() {
    let world = World::new().await;
    world
        .sql(
            "INSERT INTO orders (id, due_at) SELECT 'late-' || n, now() - interval '1 d' FROM generate_series(1, 7) n;
             INSERT INTO orders (id, due_at) SELECT 'burst-' || n, now() + interval '90 min' FROM generate_series(1, 3000) n;
             INSERT INTO orders (id, due_at) SELECT 'far-' || n, now() + interval '9 h' FROM generate_series(1, 11) n;
             INSERT INTO orders (id, due_at) VALUES ('never', 'infinity');
             INSERT INTO orders (id, status, due_at, ship_by) SELECT 'paid-' || n, 'paid', now(), now() + interval '3 h' FROM generate_series(1, 5) n",
        )
        .await;
    let within = soon(&world, 6).await;
    assert_eq!(
        (within.overdue, within.buckets.iter().sum::<u64>(), within.more),
        (7, 3_005, false)
    );
    let burst = within.bursts[0];
    assert_eq!((burst.orders, burst.late_s), (3_000, 3.0), "{within:?}");
    // The query took a moment.
    assert!((5_000..=5_400).contains(&burst.in_s), "{burst:?}");
    assert_eq!(soon(&world, 12).await.buckets.iter().sum::<u64>(), 3_016);
    let blind = Effect::written("close", WRITTEN, None);
    let rate = ClosingRate { per_s: 1_000.0, measured: false };
    let unknown = world.store.due_soon([&blind], 6, rate).await.unwrap();
    assert_eq!(unknown, Known::Unknown("effect `close` has no overdue_sql".to_owned()));
}

#[apply(world_test)]
async fn the_last_hour_by_path_and_minute() {
    let world = World::of_tables().await;
    let nothing = world.store.last_hour().await.unwrap();
    assert_eq!((nothing.all.orders, nothing.by_path.len(), nothing.rate.measured), (0, 0, false));
    assert_eq!(nothing.minutes, [0; 60]);
    world
        .sql(
            "INSERT INTO closures (order_id, effect, path, due_at, closed_at)
             SELECT 'm-' || n, 'close', 'message', closed_at - interval '10 ms', closed_at
             FROM generate_series(1, 100) n, LATERAL (SELECT now() - interval '1 min' - n * interval '1 s' AS closed_at) AS at;
             INSERT INTO closures (order_id, effect, path, due_at, closed_at)
             SELECT 'b-' || n, 'close', 'burst', now() - interval '30 min 5 s', date_trunc('second', now()) - interval '30 min'
             FROM generate_series(1, 700) n;
             INSERT INTO closures (order_id, effect, path, due_at, closed_at)
             VALUES ('s', 'close', 'sweep', '-infinity', now()), ('old', 'close', 'sweep', now(), now() - interval '61 min')",
        )
        .await;
    let hour = world.store.last_hour().await.unwrap();
    assert_eq!(hour.all.orders, 801);
    let [message, burst, sweep] = ["message", "burst", "sweep"].map(|path| hour.by_path[path]);
    assert_eq!((message.orders, message.p50_s, message.p99_s), (100, 0.01, 0.01));
    assert_eq!((burst.orders, sweep.orders, sweep.max_s), (700, 1, 0.0));
    assert!((4.0..=5.0).contains(&burst.p99_s), "{burst:?}");
    assert_eq!(hour.minutes.iter().sum::<u64>(), 801);
    assert_eq!(hour.rate, ClosingRate { per_s: 700.0, measured: true });
}

/// The indexes serve any number of orders, closures and actions.
#[apply(world_test)]
async fn all_is_read_by_its_index() {
    let world = World::of_tables().await;
    world
        .sql(
            "INSERT INTO orders (id, due_at) SELECT 'o-' || n, now() + n * interval '1 s' FROM generate_series(1, 5000) n;
             INSERT INTO closures (order_id, effect, path, due_at, closed_at)
             SELECT 'c-' || n, 'close', 'message', now(), now() - (200000 - n) * interval '1 s' FROM generate_series(1, 200000) n;
             INSERT INTO actions (via, action, what, orders) SELECT 'cli', 'test', 'test', ARRAY['o-' || n, 'p-' || n] FROM generate_series(1, 5000) n",
        )
        .await;
    let client = world.store.client().await.unwrap();
    client.batch_execute("VACUUM ANALYZE orders, closures, actions").await.unwrap();
    let overdue = statements("close").overdue.unwrap();
    let around = |sql: &str| sql.replace("{sql}", &overdue);
    let due = "Index Only Scan using orders_unpaid_due";
    for (sql, parameters, index) in [
        (
            around(include_str!("../../sql/due_soon.sql")),
            "(1000000, -21600000, '-infinity', '')",
            due,
        ),
        (
            around(include_str!("../../sql/status_due.sql")),
            "(1000000, -3600000, '-infinity', '')",
            due,
        ),
        (include_str!("../../sql/last_hour.sql").to_owned(), "", "closures_by_time"),
        (include_str!("../../sql/order_closures.sql").into(), "('{c-7}', 20)", "closures_pkey"),
        (include_str!("../../sql/actions_of_order.sql").into(), "('{o-7}', 20)", "actions_orders"),
    ] {
        client.batch_execute(&format!("PREPARE asked AS {}", found(&sql))).await.unwrap();
        let rows = client.query(&format!("EXPLAIN EXECUTE asked{parameters}"), &[]).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(plan.iter().any(|line| line.contains(index)), "{plan:#?}");
        assert!(!plan.iter().any(|line| line.contains("Seq Scan")), "{plan:#?}");
        client.batch_execute("DEALLOCATE asked").await.unwrap();
    }
}
