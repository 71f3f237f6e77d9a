//! Who may schedule, and what it can reach.

use overdue::internals::store::Store;

use crate::support::World;

/// An order service with nothing but the two grants of the page.
#[apply(world_test)]
async fn an_order_service_needs_a_schema_and_a_function() {
    let world = World::of_tables().await;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min')").await;
    let url = world.database_user().await;
    let schema = &world.schema;
    let service = Store::new(&url, "pg_catalog", 1).unwrap();
    let client = service.client().await.unwrap();
    let call = format!("SELECT {schema}.schedule('o', 'unpaid', '40 minutes')");
    let refused = client.query(&call, &[]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "42501", "{refused}");
    world.sql(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {schema}")).await;
    client.query(&call, &[]).await.unwrap();
    // Again and again without effect, on the rights as well.
    world.store.init(schema, true).await.unwrap();
    client.query(&call, &[]).await.unwrap();
    let number = format!("SELECT {schema}.schedule(4711, 'unpaid', '40 minutes')");
    client.query(&number, &[]).await.unwrap();
    for table in ["scheduled_notices", "scheduled_notices_refused", "schedule_timeouts"] {
        let read = client.query(&format!("SELECT * FROM {schema}.{table}"), &[]).await.unwrap_err();
        assert_eq!(read.code().unwrap().code(), "42501", "{table}");
    }
    assert_eq!(world.number("SELECT count(*) FROM scheduled_notices").await, 3);
}

/// What runs as the owner looks at nothing of the caller's.
#[apply(world_test)]
async fn tables_and_functions_of_the_caller_are_not_used() {
    let world = World::of_tables().await;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min')").await;
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
    let row = client
        .query_one(
            &format!("SELECT {schema}.schedule('o', 'unpaid', '40 minutes') > clock_timestamp()"),
            &[],
        )
        .await
        .unwrap();
    assert!(row.get::<_, bool>(0));
    let mine = client.query(&format!("SELECT {schema}.schedule('o', 'mine', '1 s')"), &[]).await;
    assert!(mine.unwrap_err().as_db_error().unwrap().message().contains("no timeout `mine`"));
    assert_eq!(world.number("SELECT count(*) FROM scheduled_notices").await, 1);
}
