//! Rows that are deleted before their notice arrives, and rows whose deadline is NULL.

use overdue::internals::{
    store::{Store, orders::Effect},
    worker::Counts,
};

use crate::support::{World, orders::described, worker::settings, world::CLASSIC};

/// A table of carts whose rows are deleted.
const TABLE: &str = "
CREATE TABLE cart (id text PRIMARY KEY, state text NOT NULL DEFAULT 'open', leave_at timestamptz);
CREATE INDEX ON cart (leave_at) WHERE state = 'open';
";
const DESCRIBED: &str = r#"
table = "cart"
key = "id"
open = "state = 'open'"
deadline = "leave_at"
since = "all"
set = { state = "'left'" }
"#;

fn effect() -> Effect {
    described("close", DESCRIBED)
}

async fn world(gone: &str) -> World {
    let topology = CLASSIC.replace("[\"100ms\", \"200ms\", \"300ms\"]\n", "[\"2s\", \"100ms\"]\n");
    let topology =
        topology.replace("after = \"1s\"\n", &format!("after = \"1s\"\ngone = \"{gone}\"\n"));
    let world = World::of(&topology).await;
    world.sql(TABLE).await;
    world
}

async fn publish(world: &World, id: &str) {
    world.publish("100ms", &[id.to_owned()]).await;
}

async fn parked_reason(world: &World) -> String {
    world.parked(1).await.remove(0).reason()
}

#[apply(world_test)]
async fn a_row_that_is_gone_is_parked_unless_the_timeout_says_otherwise() {
    let world = world("park").await;
    let worker = world.worker_of(effect(), settings());
    publish(&world, "deleted").await;
    let reason = parked_reason(&world).await;
    assert_eq!(reason, "the database does not know this order; given up after 2 retries");
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.gone), (2, 1, 0), "{counts:?}");
}

#[apply(world_test)]
async fn a_row_that_is_gone_is_acked_after_one_retry() {
    let world = world("ack").await;
    // This row exists, and is never due.
    world.sql("INSERT INTO cart VALUES ('never', 'open', NULL)").await;
    let worker = world.worker_of(effect(), settings());
    publish(&world, "deleted").await;
    publish(&world, "never").await;
    let is_done = |counts: &Counts| counts.gone == 1 && counts.already_final == 1;
    worker.until("both are settled", is_done).await;
    world.until_empty("orders.unpaid").await;
    let counts = worker.stop().await;
    assert_eq!((counts.retried, counts.parked, counts.closed), (1, 0, 0), "{counts:?}");
    assert_eq!(world.texts("SELECT state FROM cart").await, ["open"]);
}

/// The transaction that inserts the row has not committed when its notice arrives.
#[apply(world_test)]
async fn a_row_that_appears_before_the_second_question_is_closed() {
    let world = world("ack").await;
    let worker = world.worker_of(effect(), settings());
    // The notice waits in the retry level longer than the insert takes.
    publish(&world, "late").await;
    worker.until("the first question", |counts| counts.retried == 1).await;
    world.sql("INSERT INTO cart VALUES ('late', 'open', now())").await;
    let counts = worker.until("it is closed", |counts| counts.closed + counts.gone == 1).await;
    assert_eq!((counts.closed, counts.retried, counts.gone), (1, 1, 0), "{counts:?}");
}

#[apply(world_test)]
async fn a_row_that_may_be_hidden_is_parked() {
    let world = world("ack").await;
    let url = world.database_user().await;
    let schema = &world.schema;
    world
        .sql(&format!(
            "GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema};
             GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {schema};
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {schema};
             INSERT INTO cart VALUES ('hidden', 'open', now());
             ALTER TABLE cart ENABLE ROW LEVEL SECURITY;
             CREATE POLICY own ON cart USING (id LIKE 'seen%')"
        ))
        .await;
    let store = Store::new(&url, &world.search_path, 8).unwrap();
    let worker = world.worker_in(store, effect(), settings());
    publish(&world, "hidden").await;
    let reason = parked_reason(&world).await;
    assert!(
        reason.starts_with(
            "the database does not know this order: row level security hides rows of cart from this login"
        ),
        "{reason}"
    );
    let counts = worker.stop().await;
    assert_eq!((counts.parked, counts.gone), (1, 0), "{counts:?}");
}

/// The program does not know the tables of an SQL file: it trusts the file's answer.
#[apply(world_test)]
async fn a_written_effect_is_believed() {
    let world = world("ack").await;
    let sql = "SELECT id AS order_id, 'already_final'::text AS outcome, leave_at AS due_at, now() AS decided_at
               FROM cart WHERE id = ANY ($1::text[]) AND $2::text IS NOT NULL";
    let worker = world.worker_of(Effect::written("close", sql, None), settings());
    publish(&world, "deleted").await;
    let counts = worker.until("it is acked", |counts| counts.gone == 1).await;
    assert_eq!((counts.retried, counts.parked), (1, 0), "{counts:?}");
}
