//! Notices that cannot be published: `schedule()` refuses them, and the relay moves others away with the reason.

use overdue::internals::{order::OrderId, store::Store};

use crate::support::{Parked, World, samples::HALF_HOUR};

/// Message and hint of a refused statement.
async fn refusal(world: &World, sql: &str) -> String {
    let client = world.store.client().await.unwrap();
    let error = client.query(&format!("SELECT {sql}"), &[]).await.expect_err(sql);
    let error = error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}"));
    assert_eq!(error.code().code(), "22023", "{sql}");
    format!("{sql}\n  {}\n  {}", error.message(), error.hint().unwrap_or_default())
}

#[apply(world_test)]
async fn a_bad_row_is_refused_in_the_transaction_of_its_order() {
    let world = World::of_tables().await;
    let mut texts = vec![refusal(&world, "schedule('o', 'unpaid', '1 min')").await];
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min'), ('unshipped', '30 min')").await;
    for sql in [
        "schedule('o', 'unpiad', '1 min')",
        "schedule('o', NULL, '1 min')",
        "schedule('', 'unpaid', '1 min')",
        "schedule(NULL::text, 'unpaid', '1 min')",
        "schedule('4711 ', 'unpaid', '1 min')",
        "schedule(repeat('é', 101), 'unpaid', '1 min')",
        "schedule('o', 'unpaid', '-1 s')",
        "schedule('o', 'unpaid', '10 years 1 s')",
        "schedule('o', 'unpaid', NULL)",
        "schedule_at('o', 'unpaid', 'infinity')",
        "schedule_at('o', 'unpaid', '-infinity')",
        "schedule_at('o', 'unpaid', NULL)",
    ] {
        texts.push(refusal(&world, sql).await);
    }
    insta::assert_snapshot!(texts.join("\n"));
    // The order does not exist either.
    let client = world.store.client().await.unwrap();
    let both = "INSERT INTO orders (id, due_at) VALUES ('o', schedule('o', 'unpiad', '1 min'))";
    assert!(client.execute(both, &[]).await.is_err());
    assert_eq!((world.rows_of("orders").await, world.rows_of("scheduled_notices").await), (0, 0));
}

/// The delay is from the last worker or `database init`.
#[apply(world_test)]
async fn without_an_interval_it_is_the_delay_of_the_topology_file() {
    let world = World::of_tables().await;
    let unknown = refusal(&world, "schedule('o', 'unpaid')").await;
    assert!(unknown.contains("no timeout is known yet"), "{unknown}");
    let due = async || {
        let sql = "SELECT concat_ws(' ', schedule('a', 'unpaid') - now(), schedule(4711, 'unpaid') - now(),
                                    schedule(gen_random_uuid(), 'unpaid') - now())";
        world.texts(sql).await.remove(0)
    };
    world.store.register_timeouts("orders", &[("unpaid", HALF_HOUR)]).await.unwrap();
    assert_eq!(due().await, "00:30:00 00:30:00 00:30:00");
    world.store.register_timeouts("orders", &[("unpaid", 2 * HALF_HOUR)]).await.unwrap();
    assert_eq!(due().await, "01:00:00 01:00:00 01:00:00");
    world.store.set_timeouts("orders", &[("unpaid", HALF_HOUR)], &[]).await.unwrap();
    assert_eq!(due().await, "00:30:00 00:30:00 00:30:00");

    world.store.register_timeouts("returns", &[("unpaid", HALF_HOUR)]).await.unwrap();
    assert_eq!(due().await, "00:30:00 00:30:00 00:30:00");
    world.store.register_timeouts("returns", &[("unpaid", 4 * HALF_HOUR)]).await.unwrap();
    let refused = refusal(&world, "schedule('o', 'unpaid')").await;
    assert!(refused.contains("different delays: 00:30:00, 02:00:00"), "{refused}");
    world.store.set_timeouts("returns", &[], &["unpaid".to_owned()]).await.unwrap();
    assert_eq!(due().await, "00:30:00 00:30:00 00:30:00");
    // A worker with an older file does not restore a removed timeout, whatever the file contains.
    world.store.register_timeouts("returns", &[("unpaid", 4 * HALF_HOUR)]).await.unwrap();
    assert_eq!(due().await, "00:30:00 00:30:00 00:30:00");
    let unknown = refusal(&world, "schedule('o', 'unpiad')").await;
    assert!(unknown.contains("there is no timeout `unpiad`; there is `unpaid`"), "{unknown}");
}

/// Function and worker have the same rule for order ids.
#[apply(world_test)]
async fn the_function_takes_the_ids_that_a_message_can_carry() {
    let world = World::of_tables().await;
    world.knows_timeouts().await;
    let client = world.store.client().await.unwrap();
    let sql = "SELECT schedule($1::text, 'unpaid', '40 minutes')";
    // Each character of a PostgreSQL text, up to the end of general punctuation, and some beyond.
    let characters = (1..=0x3100).chain([0xfeff, 0x1_f600, 0x10_ffff]).filter_map(char::from_u32);
    let source = "SELECT substring(prosrc FROM $r$order_id ~ '(\\[[^']*\\])'$r$) FROM pg_proc
                  WHERE oid = 'schedule_at(text, text, timestamptz)'::regprocedure";
    let class: String = client.query_one(source, &[]).await.unwrap().get(0);
    assert!(characters.clone().count() > 12_000);
    let ids: Vec<String> = characters.map(|c| format!("a{c}b")).collect();
    let refused = client
        .query("SELECT id FROM unnest($1::text[]) id WHERE id ~ $2", &[&ids, &class])
        .await
        .unwrap();
    let refused: Vec<String> = refused.iter().map(|row| row.get(0)).collect();
    let unreadable: Vec<String> =
        ids.iter().filter(|id| OrderId::parse(id).is_err()).cloned().collect();
    assert_eq!(refused, unreadable);
    for id in ["x".repeat(200), "é".repeat(100), "4711".to_owned(), "a\u{feff}b".to_owned()] {
        assert!(OrderId::parse(&id).is_ok());
        assert!(client.query(sql, &[&id]).await.is_ok(), "{id}");
    }
    for id in ["x".repeat(201), "é".repeat(101), String::new()] {
        assert!(OrderId::parse(&id).is_err());
        assert!(client.query(sql, &[&id]).await.is_err(), "{id}");
    }
}

/// Rows written without the function, into a table whose constraints were dropped.
#[apply(world_test)]
async fn bad_rows_between_good_ones_are_set_aside_with_their_reason() {
    let (world, wire) = World::new().await.wired().await;
    let along = wire.listen("orders.again", "#").await;
    world
        .sql(
            "ALTER TABLE scheduled_notices ALTER order_id DROP NOT NULL, ALTER timeout DROP NOT NULL,
                 ALTER due_at DROP NOT NULL, ALTER scheduled_at DROP NOT NULL;
             INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES
                 ('good-1', 'unpaid', now() + interval '40 minutes'), (NULL, 'unpaid', now()), ('', 'unpaid', now()),
                 ('a b', 'unpaid', now()), (repeat('x', 1000000), 'unpaid', now()), ('o', NULL, now()),
                 ('o', 'unpiad', now()), ('o', repeat('t', 1000000), now()), ('o', 'unpaid', NULL),
                 ('o', 'unpaid', 'infinity'), ('o', 'unpaid', '-infinity'), ('o', 'unpaid', '0044-03-15 BC'),
                 ('o', 'unpaid', '9999-12-31 23:59:59Z'), ('good-2', 'unpaid', now() + interval '40 minutes');
             INSERT INTO scheduled_notices (order_id, timeout, due_at, scheduled_at)
             VALUES ('good-3', 'unpaid', now() + interval '40 minutes', 'infinity')",
        )
        .await;
    let _worker = world.worker();
    let mut orders: Vec<String> =
        wire.take_many(&along, 3).await.iter().map(Parked::order).collect();
    orders.sort();
    assert_eq!(orders, ["good-1", "good-2", "good-3"]);
    // No worker has these timeouts.
    world.until_rows("scheduled_notices", 3).await;
    let reasons = world.texts("SELECT reason FROM scheduled_notices_refused ORDER BY id").await;
    insta::assert_snapshot!(reasons.join("\n"));
}

/// Neither an old worker nor another topology with the timeout restores it.
#[apply(world_test)]
async fn a_timeout_that_was_taken_out_of_the_file_is_refused() {
    let world = World::new().await;
    let without = std::fs::read_to_string(world.topology_file()).unwrap();
    let with = format!("{without}\n[[timeout]]\nname = \"unclaimed\"\nafter = \"30m\"\n");
    let init = |text: &str| {
        std::fs::write(world.topology_file(), text).unwrap();
        let run = world.overdue(&["database", "init", "--yes"]).exits(0);
        run.stdout
    };
    let wanted = "schedule('o', 'unclaimed', '40 minutes')";
    let taken = async || world.sql(&format!("SELECT {wanted}")).await;
    let refused = async || {
        let text = refusal(&world, wanted).await;
        assert!(
            text.contains("the timeout `unclaimed` was removed; there is `unpaid`\n"),
            "{text}"
        );
        assert!(text.contains("a worker that starts does not bring it back"), "{text}");
    };
    assert!(!init(&with).contains("removes"));
    taken().await;
    // The command names the timeout before any change.
    std::fs::write(world.topology_file(), &without).unwrap();
    let unasked = world.overdue(&["database", "init"]).exits(64);
    assert!(unasked.stdout.contains("removes the timeout `unclaimed`, which "), "{unasked}");
    taken().await;
    assert!(init(&without).starts_with(&unasked.stdout));
    assert!(!init(&without).contains("removes"));
    refused().await;

    std::fs::write(world.topology_file(), &with).unwrap();
    let old = world.started(|_| {}).await;
    world.wire().await.until_ready("orders.delay.30m", 2).await;
    let warning = "these timeouts are recorded as removed by `overdue database init`";
    assert_eq!(old.logged(warning), 1, "{}", old.log());
    assert!(old.log().contains("timeouts=\"unclaimed\""), "{}", old.log());
    refused().await;
    drop(old);

    // Both topologies have the timeout; one gives it up.
    world.store.register_timeouts("returns", &[("unclaimed", HALF_HOUR)]).await.unwrap();
    taken().await;
    world.store.set_timeouts("returns", &[], &["unclaimed".to_owned()]).await.unwrap();
    refused().await;
    init(&with);
    taken().await;
}

/// Functions with the owner's rights use no object of the caller.
#[apply(world_test)]
async fn tables_and_functions_of_the_caller_are_not_used() {
    let world = World::of_tables().await;
    world.knows_timeouts().await;
    let url = world.database_user().await;
    let schema = &world.schema;
    world.sql(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {schema}")).await;
    let service = Store::new(&url, "pg_temp,public", 1).unwrap();
    let client = service.client().await.unwrap();
    client
        .batch_execute(
            "CREATE TEMP TABLE scheduled_notices (order_id text, timeout text, due_at timestamptz);
             CREATE TEMP TABLE schedule_timeouts (name text);
             INSERT INTO schedule_timeouts VALUES ('mine');
             CREATE FUNCTION pg_temp.octet_length(text) RETURNS int LANGUAGE sql RETURN 0;
             CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql RETURN timestamptz '2001-01-01';
             CREATE FUNCTION pg_temp.schedule_at(text, text, timestamptz) RETURNS timestamptz LANGUAGE sql RETURN timestamptz '2001-01-01'",
        )
        .await
        .unwrap();
    let late = format!("SELECT {schema}.schedule('o', 'unpaid', '40 minutes') > clock_timestamp()");
    assert!(client.query_one(&late, &[]).await.unwrap().get::<_, bool>(0));
    let mine = client.query(&format!("SELECT {schema}.schedule('o', 'mine', '1 s')"), &[]).await;
    assert!(mine.unwrap_err().as_db_error().unwrap().message().contains("no timeout `mine`"));
    assert_eq!(world.rows_of("scheduled_notices").await, 1);
}
