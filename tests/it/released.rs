//! The promises of docs/stability.md: files, objects, tables, messages and workers of each release work with this one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use reqwest::Method;
use serde_json::Value;

use crate::support::{
    Services, World,
    orders::Orders,
    process::{WorkerProcess, finish},
    text, until,
    world::TOPOLOGY,
};

fn folder(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released").join(release)
}

fn read(release: &str, name: &str) -> String {
    let path = folder(release).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[apply(world_test)]
async fn its_files_are_understood() {
    let world = World::empty().await;
    for release in ["0.1.0"] {
        for strategy in ["levels", "ladder", "delayed-exchange"] {
            let file = folder(release).join(format!("{strategy}.toml"));
            world.overdue(&["check", "--topology", file.to_str().unwrap()]).exits(0);
        }
        let file = folder(release).join("overdue.toml");
        world.overdue(&["config", "--config", file.to_str().unwrap()]).exits(0);
    }
}

#[apply(world_test)]
async fn its_objects_are_left_as_they_are() {
    for strategy in ["levels", "ladder"] {
        // The default limit was 20 in that release.
        let file = read("0.1.0", &format!("{strategy}.toml")).replace("[queues]\n", "");
        let file = file.replace("type = \"quorum\"\n", "") + "[queues]\ndelivery_limit = 20\n";
        let world = World::bare(Services::main(), &file).await;
        let made = read("0.1.0", &format!("{strategy}.definitions.json"));
        let made =
            serde_json::from_str(&made.replace("\"released\"", &format!("{:?}", world.vhost)));
        world.services.call(None, Method::POST, &["definitions"], made.unwrap()).await.unwrap();
        world.overdue(&["plan", "--check"]).exits(0);
    }
}

/// Every column, index, constraint and function of a schema, and the users who may call it.
const SHAPE: &str = "
    SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
        SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, is_nullable, column_default) AS line
        FROM information_schema.columns WHERE table_schema = current_schema()
        UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
        UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
                  WHERE connamespace = current_schema()::regnamespace
        UNION ALL SELECT pg_get_functiondef(oid) || ' ' || coalesce(proacl::text, '') FROM pg_proc
                  WHERE pronamespace = current_schema()::regnamespace
    ) AS lines";

async fn shape(world: &World) -> String {
    let row = world.store.client().await.unwrap().query_one(SHAPE, &[]).await.unwrap();
    row.get::<_, String>(0).replace(&world.schema, "<schema>")
}

#[apply(world_test)]
async fn its_tables_become_these_and_keep_their_rows() {
    let fresh = World::empty().await;
    fresh.store.init(&fresh.schema, false).await.unwrap();
    let world = World::empty().await;
    let rows = "INSERT INTO outbox (event, order_id) VALUES ('order.closed', 'o-1');
                INSERT INTO closures (order_id, effect, path, due_at) VALUES ('o-1', 'close', 'message', now());
                INSERT INTO schedule_timeouts (name, topology, after) VALUES ('unpaid', 'orders', '1 s');
                SELECT schedule('o-2', 'unpaid', '1 s'), schedule(7, 'unpaid')";
    world.store.run_script("released", &(read("0.1.0", "tables.sql") + rows)).await.unwrap();
    let run = world.overdue(&["run", "--no-declare"]);
    assert!(run.code == Some(78) && run.stderr.contains("belong to an older version"), "{run}");
    world.overdue(&["database", "init", "--yes"]).exits(0);
    assert_eq!(shape(&world).await, shape(&fresh).await);
    for (table, rows) in [("outbox", 1), ("closures", 1), ("scheduled_notices", 2)] {
        assert_eq!(world.rows_of(table).await, rows, "{table}");
    }
}

/// `database init` runs with each release, next to workers and order services. Without a change it waits for no transaction that writes
/// events or notices.
#[apply(world_test)]
async fn tables_that_are_as_they_should_be_are_not_locked() {
    let world = World::of_tables().await;
    let mut client = world.store.client().await.unwrap();
    let writer = client.transaction().await.unwrap();
    let lock =
        "LOCK TABLE outbox, scheduled_notices, scheduled_notices_refused IN ROW EXCLUSIVE MODE";
    writer.batch_execute(lock).await.unwrap();
    world.store.init(&world.schema, true).await.unwrap();
    writer.rollback().await.unwrap();
}

#[apply(world_test)]
async fn tables_of_a_newer_one_are_left_alone() {
    let world = World::of_tables().await;
    let newer =
        "CREATE OR REPLACE FUNCTION overdue_tables_version() RETURNS int LANGUAGE sql RETURN 1000";
    world.sql(newer).await;
    let before = shape(&world).await;
    let run = world.overdue(&["database", "init", "--yes"]);
    assert_ne!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("have version 1000, and this overdue makes version"), "{run}");
    assert_eq!(shape(&world).await, before);
}

fn properties(message: &Value) -> BasicProperties {
    let mut headers = FieldTable::default();
    for (name, value) in message["headers"].as_object().unwrap() {
        let value = match value.as_i64() {
            Some(number) => AMQPValue::LongInt(number.try_into().unwrap()),
            None => text(value.as_str().unwrap()),
        };
        headers.insert(name.as_str().into(), value);
    }
    let id = message["message_id"].as_str().unwrap();
    BasicProperties::default()
        .with_delivery_mode(2)
        .with_message_id(id.into())
        .with_headers(headers)
}

/// Messages wait for a month in a level, and in the parking lot.
#[apply(world_test)]
async fn its_messages_are_understood() {
    let world = World::new().await;
    let messages: Vec<Value> = serde_json::from_str(&read("0.1.0", "messages.json")).unwrap();
    let orders = messages.iter().filter_map(|it| it["order"].as_str().map(str::to_owned));
    let ids: Vec<String> = orders.collect();
    world.create(Orders { ids: &ids, due_in_ms: 0, category: "physical" }).await;
    let wire = world.wire().await;
    for message in &messages {
        let body = message["body"].as_str().unwrap().as_bytes();
        assert!(wire.publish("orders.dlx", "1s.unpaid", properties(message), body).await.is_ack());
    }
    let worker = world.worker();
    world.until_closed(ids.len()).await;
    world.until_empty("orders.unpaid").await;
    let parked = messages.iter().filter(|it| it["parked"].as_bool() == Some(true)).count();
    let ready = async || wire.ready("orders.parked").await as usize;
    until("the rest is parked", ready, |ready| *ready == parked).await;
    let headers = wire.take("orders.parked").await.unwrap().headers;
    for name in ["x-park-reason", "x-park-timeout", "x-parked-at"] {
        assert!(headers.contains_key(name), "{headers:?}");
    }
    assert_eq!(usize::try_from(world.rows_of("closures").await).unwrap(), ids.len());
    worker.stop().await;
}

/// A release's binary on a world.
struct Release<'a> {
    world: &'a World,
    binary: PathBuf,
}

impl Release<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let ours = self.world.command(arguments);
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear();
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(self.world.dir.path());
        command
    }

    fn done(&self, arguments: &[&str]) {
        finish(self.command(arguments), None).exits(0);
    }

    async fn worker(&self) -> WorkerProcess {
        let mut command = self.command(&["run"]);
        command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h").env("OVERDUE_WORKER__SWEEP_GRACE", "1h");
        let mut worker = self.world.spawn(command);
        worker.until_logged("worker ready").await;
        worker
    }
}

/// Creates orders, half with a message and half with `schedule()`; none may be closed early or stay open.
async fn load(world: &World, round: &str) {
    let orders = world.orders(round, 400, 2_000).await;
    world.publish("1s", &orders[..200]).await;
    let rest = format!(
        "SELECT count(schedule_at(id, 'unpaid', due_at)) FROM orders WHERE id = ANY ('{{{}}}')",
        orders[200..].join(",")
    );
    assert_eq!(world.number(&rest).await, 200);
}

/// Tables, topology and workers go to this version and back, while orders are created and fall due.
#[apply(world_test)]
async fn a_rolling_upgrade_and_the_way_back_lose_nothing() {
    let Some(binary) = std::env::var_os("OVERDUE_RELEASED_BINARY") else {
        eprintln!(
            "LEFT OUT: OVERDUE_RELEASED_BINARY names no released overdue; `make test-upgrade` builds one"
        );
        return;
    };
    // Both have the same queues: the default limit was 20.
    let limited = format!("{TOPOLOGY}\n[queues]\ndelivery_limit = 20\n");
    let world = World::bare(Services::main(), &limited).await;
    let old = Release { world: &world, binary: binary.into() };
    let new = Release { world: &world, binary: env!("CARGO_BIN_EXE_overdue").into() };
    old.done(&["database", "init", "--reference-tables", "--yes"]);
    old.done(&["apply", "--yes"]);
    let mut first = old.worker().await;
    load(&world, "before").await;
    new.done(&["database", "init", "--reference-tables", "--yes"]);
    new.done(&["apply", "--yes"]);
    load(&world, "tables").await;
    let mut second = new.worker().await;
    load(&world, "beside").await;
    first.signal("TERM");
    load(&world, "after").await;
    assert!(first.ended().await.success(), "{}", first.log());
    let third = old.worker().await;
    load(&world, "back").await;
    second.signal("TERM");
    load(&world, "gone").await;
    assert!(second.ended().await.success(), "{}", second.log());
    world.until_closed(6 * 400).await;
    world.assert_invariants().await;
    assert_eq!(world.rows_of("closures WHERE closed_at < due_at").await, 0);
    let left = "SELECT (SELECT count(*) FROM scheduled_notices) + (SELECT count(*) FROM outbox)";
    until("all is published", async || world.number(left).await, |left| *left == 0).await;
    assert_eq!(world.wire().await.ready("orders.parked").await, 0, "{}", third.log());
}
