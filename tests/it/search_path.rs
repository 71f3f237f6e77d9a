//! No statement finds a function or an operator that another role made in a schema of the search path: PostgreSQL takes those
//! with exactly the types of a call before its own that need a conversion. And none finds a table of a team that is called as one of ours.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::SystemTime,
};

use overdue::internals::{
    effect::Statements,
    store::{Store, orders::Effect},
};
use tokio_postgres::{Client, Error, NoTls, error::DbError, types::ToSql};
use url::Url;

use crate::support::World;

/// Operators and functions for every pair of types that PostgreSQL itself has none for, with the names that are given. They are gone
/// with the transaction.
const TRAPS: &str = r"
CREATE FUNCTION pg_temp.lay_traps(trap text, names text[]) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
    types text[] := ARRAY['boolean', 'integer', 'bigint', 'numeric', 'double precision', 'text', 'name',
        'timestamp with time zone', 'timestamp without time zone', 'interval', 'oid', 'regclass', 'xid', 'tid',
        'text[]', 'bigint[]', 'boolean[]'];
    few text[] := ARRAY['integer', 'bigint', 'numeric', 'double precision', 'text', 'timestamp with time zone', 'interval', 'oid',
        'regclass', 'text[]'];
    compares text[] := ARRAY['=', '<>', '<', '<=', '>', '>=', '~', '!~'];
    l text;
    r text;
    operator text;
    like_it record;
    arguments text;
BEGIN
    FOREACH l IN ARRAY types LOOP
        FOREACH r IN ARRAY types LOOP
            EXECUTE format('CREATE FUNCTION %I.compared(%s, %s) RETURNS boolean LANGUAGE sql AS ''SELECT true''', trap, l, r);
            EXECUTE format('CREATE FUNCTION %I.calculated(%s, %s) RETURNS %s LANGUAGE sql AS ''SELECT $1''', trap, l, r, l);
            FOREACH operator IN ARRAY compares || ARRAY['+', '-', '*', '/', '%', '&', '>>', '^', '||'] LOOP
                CONTINUE WHEN EXISTS (SELECT FROM pg_operator WHERE oprname = operator AND oprleft = l::regtype
                                      AND oprright = r::regtype AND oprnamespace = 'pg_catalog'::regnamespace);
                EXECUTE format('CREATE OPERATOR %I.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %I.%I)', trap, operator, l, r, trap,
                               CASE WHEN operator = ANY (compares) THEN 'compared' ELSE 'calculated' END);
            END LOOP;
        END LOOP;
    END LOOP;
    FOR like_it IN SELECT proname, pronargs, min(CASE WHEN typtype = 'p' THEN 'text' ELSE format_type(prorettype, NULL) END) AS gives
                   FROM pg_proc JOIN pg_type ON pg_type.oid = prorettype
                   WHERE proname = ANY (names) AND pronamespace = 'pg_catalog'::regnamespace AND pronargs IN (1, 2)
                   GROUP BY proname, pronargs LOOP
        FOREACH l IN ARRAY CASE like_it.pronargs WHEN 1 THEN types ELSE few END LOOP
            FOREACH r IN ARRAY CASE like_it.pronargs WHEN 1 THEN ARRAY[''] ELSE few END LOOP
                arguments := concat_ws(', ', l, nullif(r, ''));
                CONTINUE WHEN EXISTS (SELECT FROM pg_proc WHERE proname = like_it.proname AND oidvectortypes(proargtypes) = arguments
                                      AND pronamespace = 'pg_catalog'::regnamespace);
                EXECUTE format('CREATE FUNCTION %I.%I(%s) RETURNS %s LANGUAGE sql AS ''SELECT NULL::%s''', trap, like_it.proname,
                               arguments, like_it.gives, like_it.gives);
            END LOOP;
        END LOOP;
    END LOOP;
END
$body$";

/// Tables and a function that are called as ours, in another schema.
const NAMESAKES: &str = r"
DO $$
DECLARE
    own text;
BEGIN
    FOR own IN SELECT tablename FROM pg_tables WHERE schemaname = '{own}' AND tablename NOT IN ('orders', 'order_items', 'stock') LOOP
        EXECUTE format('CREATE TABLE {theirs}.%I (theirs text)', own);
    END LOOP;
END
$$;
CREATE FUNCTION {theirs}.refuse_paused(text, text, text, integer) RETURNS void LANGUAGE sql AS 'SELECT 1 / 0';";

/// What a statement is made of that stands in the schema of the traps.
const CAUGHT: &str = "
SELECT DISTINCT pg_describe_object(refclassid, refobjid, 0)
FROM pg_depend
WHERE classid = 'pg_proc'::regclass
  AND objid = (SELECT oid FROM pg_proc WHERE proname = 'found' AND pronamespace = $1::text::regnamespace)
  AND refobjid IN (SELECT oid FROM pg_proc WHERE pronamespace = $1::text::regnamespace
                   UNION ALL SELECT oid FROM pg_operator WHERE oprnamespace = $1::text::regnamespace)
ORDER BY 1";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn namesakes(own: &str, theirs: &str) -> String {
    NAMESAKES.replace("{own}", own).replace("{theirs}", theirs)
}

/// Every statement that is prepared, with its file.
async fn statements(store: &Store) -> Vec<(String, String)> {
    // Run with our own schema alone in the search path, or without any name to be found.
    let scripts = "schema schedule worker_tables pauses schedule_triggers drop_own foreign_tables tables_version";
    let mut statements = Vec::new();
    for effect in ["close", "cancel", "complete"] {
        let of_effect = store.statements(&Effect::built_in(effect).unwrap()).await.unwrap();
        let Statements { lock, close, close_contended, overdue } = &*of_effect;
        for (name, sql) in [
            ("lock", lock.as_ref().unwrap()),
            ("close", close),
            ("contended", close_contended.as_ref().unwrap()),
            ("overdue", overdue.as_ref().unwrap()),
        ] {
            statements.push((format!("{effect}, {name}"), sql.clone()));
        }
    }
    let overdue = store.statements(&Effect::close()).await.unwrap().overdue.clone().unwrap();
    for folder in ["sql", "examples/own-tables"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            if path.extension().is_none_or(|it| it != "sql")
                || name == "tables"
                || scripts.split(' ').any(|it| it == name)
            {
                continue;
            }
            // One that is made around the statement of an effect; one that begins with BEGIN.
            let sql = read(&path).replace("{sql}", &overdue).replace("BEGIN;\n", "");
            statements.push((name, store.in_own_schema(&sql).into_owned()));
        }
    }
    assert!(statements.len() > 50);
    statements
}

/// Words before a parenthesis.
fn called(sql: &str) -> impl Iterator<Item = &str> {
    sql.match_indices('(').filter_map(|(at, _)| {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = sql[..at].rsplit(|c| !word(c)).next().unwrap_or_default();
        (!name.is_empty()).then_some(name)
    })
}

struct Traps {
    client: Client,
    path: String,
    trap: String,
}

impl Traps {
    async fn caught(&self, sql: &str) -> Result<Vec<String>, Error> {
        let Self { client, path, trap } = self;
        client
            .batch_execute(&format!("SET LOCAL search_path = {path}; PREPARE one AS {sql}"))
            .await?;
        client.batch_execute("SET LOCAL search_path = pg_catalog").await?;
        let types = "SELECT coalesce(array_to_string(parameter_types::text[], ', '), '') FROM pg_prepared_statements WHERE name = 'one'";
        let types: String = client.query_one(types, &[]).await?.get(0);
        let found = format!(
            "SET LOCAL search_path = {path};
             CREATE FUNCTION {trap}.found({types}) RETURNS void BEGIN ATOMIC {sql}; END;
             SET LOCAL search_path = pg_catalog"
        );
        client.batch_execute(&found).await?;
        let caught = client.query(CAUGHT, &[trap]).await?;
        Ok(caught.iter().map(|row| row.get(0)).collect())
    }
}

#[apply(world_test)]
async fn every_statement_finds_postgresqls_own_functions_and_operators() {
    let world = World::new().await;
    let (client, connection) =
        tokio_postgres::connect(&world.services.database_url(None), NoTls).await.unwrap();
    tokio::spawn(connection);
    let (schema, trap) = (world.schema.clone(), format!("{}_trap", world.schema));
    let statements = statements(&world.store).await;
    let names: BTreeSet<&str> = statements.iter().flat_map(|(_, sql)| called(sql)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let begin = format!("BEGIN; CREATE SCHEMA {trap}; {TRAPS}; SET LOCAL search_path = {schema}");
    client.batch_execute(&begin).await.unwrap();
    client.batch_execute(&namesakes(&schema, &trap)).await.unwrap();
    client.batch_execute(&read(&root().join("examples/own-tables/tables.sql"))).await.unwrap();
    client.execute("SELECT pg_temp.lay_traps($1, $2)", &[&trap, &names]).await.unwrap();
    let traps = Traps { client, path: format!("{trap}, {schema}"), trap };
    // They catch what they should.
    let inexact = "SELECT now() - $1::bigint * interval '1 ms', unnest($2::text[]), 'a'::text || 1, extract(epoch FROM now()) * 1000";
    let mut wrong = Vec::new();
    for (name, sql) in [("inexact".to_owned(), inexact.to_owned())].into_iter().chain(statements) {
        traps.client.batch_execute("SAVEPOINT one").await.unwrap();
        match traps.caught(&sql).await {
            Ok(caught) if name == "inexact" => assert_eq!(caught.len(), 5, "{caught:?}"),
            Ok(caught) if caught.is_empty() => {}
            Ok(caught) => wrong.push(format!("{name}: {}", caught.join(", "))),
            Err(error) => {
                let why = error.as_db_error().map_or("?", DbError::message);
                wrong.push(format!("{name}: {why}"));
            }
        }
        traps.client.batch_execute("ROLLBACK TO one; DEALLOCATE ALL").await.unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The user of a pooler has it with a space, and may have more in it than a worker that asks the database itself.
#[apply(world_test)]
async fn a_lock_is_the_same_one_however_the_search_path_is_written() {
    const HELD: &str =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    let world = World::of_tables().await;
    let schema = &world.schema;
    let [mut one, mut other] =
        [world.store.client().await.unwrap(), world.store.client().await.unwrap()];
    let (first, second) = (one.transaction().await.unwrap(), other.transaction().await.unwrap());
    let part: [&(dyn ToSql + Sync); 3] = [&SystemTime::UNIX_EPOCH, &0_i64, &1_i64];
    let effect: [&(dyn ToSql + Sync); 1] = [&"close"];
    for (sql, parameters) in [
        (include_str!("../../sql/burst_lock.sql"), &effect[..]),
        (include_str!("../../sql/history_closures.sql"), &part),
        (include_str!("../../sql/history_dropped.sql"), &part),
        (include_str!("../../sql/history_actions.sql"), &part),
    ] {
        let mut taken = Vec::new();
        for (session, path) in [(&first, schema.clone()), (&second, format!("{schema}, public"))] {
            session.batch_execute(&format!("SET LOCAL search_path = {path}")).await.unwrap();
            let before: i64 = session.query_one(HELD, &[]).await.unwrap().get(0);
            let sql = &*world.store.in_own_schema(sql);
            session.query_one(sql, parameters).await.unwrap();
            let after: i64 = session.query_one(HELD, &[]).await.unwrap().get(0);
            taken.push(after - before);
        }
        assert_eq!(taken, [1, 0], "{sql}");
    }
}

/// By `ALTER ROLE`, by a pooler, or by the URL as here a session has another search path than `database.search_path`.
#[apply(world_test)]
async fn tables_of_a_team_are_never_taken_for_ours() {
    let mut world = World::new().await;
    let (own, theirs) = (world.schema.clone(), format!("{}_theirs", world.schema));
    world.sql(&format!("CREATE SCHEMA {theirs}; {}", namesakes(&own, &theirs))).await;
    let url = world.services.database_url(None);
    let joint = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{joint}options=-c%20search_path%3D{theirs},{own}");
    world.moves_to(Url::parse(&url).unwrap());
    let path = Store::new(&url, &own, 2).unwrap().client().await.unwrap();
    let path: String = path.query_one("SHOW search_path", &[]).await.unwrap().get(0);
    assert_eq!(path, format!("{theirs},{own}"));

    world.overdue(&["database", "init", "--reference-tables", "--yes"]).exits(0);
    let often = [("KEEP_HISTORY", "1d"), ("SWEEP_EVERY", "100ms"), ("SWEEP_GRACE", "1ms")]
        .map(|(name, value)| (format!("OVERDUE_WORKER__{name}"), value));
    let mut worker = world.started(|it| _ = it.envs(often)).await;
    world.sql("INSERT INTO closures (order_id, effect, path, due_at, closed_at) VALUES ('old', 'close', 'message', '2020-01-01', '2020-01-01')").await;
    world.publish_orders("100ms", "o", 5, 100).await;
    // The sweep finds the first order, and the notice of the second is in our table.
    world.orders("swept", 1, -60_000).await;
    let order = world.orders("scheduled", 1, 0).await.remove(0);
    world.sql(&format!("SELECT {own}.schedule('{order}', 'unpaid', '0 s')")).await;
    world.until_closed(7).await;
    for waiting in ["outbox", "scheduled_notices", "closures WHERE order_id = 'old'"] {
        world.until_rows(waiting, 0).await;
    }
    // Parked for no reason.
    let order = world.orders("parked", 1, 3_600_000).await;
    world.wire().await.publish_all(&world.topology.park_exchange(), "1s.unpaid", &order).await;
    world.overdue(&["effect", "check", "close"]).exits(0);
    for arguments in [
        &["status"][..],
        &["doctor"],
        &["explain", "--order", "o-0"],
        &["pause", "unpaid", "--for", "1h", "--why", "a test"],
        &["resume", "unpaid"],
        &["parked", "drop", "--all", "--because", "a test", "--yes"],
    ] {
        let run = world.overdue(arguments).exits(0);
        assert!(!run.to_string().contains("does not exist"), "{run}");
    }
    worker.signal("TERM");
    worker.until_logged("worker stopped").await;
    for wrong in ["ERROR", "failed", "fails"] {
        assert_eq!(worker.logged(wrong), 0, "{}", worker.log());
    }
    let names = format!("SELECT tablename::text FROM pg_tables WHERE schemaname = '{theirs}'");
    let tables = world.rows(&names).await;
    assert!(tables.len() > 8);
    for table in &tables {
        let name: String = table.get(0);
        assert_eq!(
            world.number(&format!("SELECT count(*) FROM {theirs}.{name}")).await,
            0,
            "{name}"
        );
    }
}
