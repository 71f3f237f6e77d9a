//! The doctor names what holds back VACUUM. The test has its own database, without transactions of other tests.

use overdue::Store;

use crate::support::{World, until};

/// A temporary database whose clock is five minutes ahead of the times of its sessions.
struct Own {
    world: World,
    name: String,
    store: Store,
}

/// Views and functions in `public` hide the server's objects of the same name: `pg_catalog` is last.
const SEARCH_PATH: &str = "public,pg_catalog";
const CLOCK: &str =
    "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
    AS 'SELECT pg_catalog.clock_timestamp() + interval ''5 min'''";

impl Own {
    async fn new() -> Self {
        let world = World::empty().await;
        let name = format!("{}_horizon", world.schema);
        world.sql(&format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let mut url = world.services.database.clone();
        url.set_path(&format!("/{name}"));
        let store = Store::new(url.as_str(), SEARCH_PATH, 4).unwrap();
        Self { world, name, store }
    }

    async fn run(&self, sql: &str) {
        self.store.client().await.unwrap().batch_execute(sql).await.unwrap();
    }

    /// Returns severity, message and fix.
    fn judged_as(&self, user: Option<&str>) -> [String; 3] {
        let mut url =
            user.map_or_else(|| self.world.services.database.clone(), |url| url.parse().unwrap());
        url.set_path(&format!("/{}", self.name));
        let settings = [
            ("OVERDUE_DATABASE__URL", url.as_str()),
            ("OVERDUE_DATABASE__SEARCH_PATH", SEARCH_PATH),
        ];
        let run = self.world.overdue_with(&["doctor", "-o", "json"], &settings);
        let report = run.json();
        let check =
            report["checks"].as_array().unwrap().iter().find(|it| it["rule"] == "xmin-horizon");
        let check = check.unwrap_or_else(|| panic!("no check: {run}"));
        ["severity", "message", "fix"]
            .map(|part| check[part].as_str().unwrap_or_default().to_owned())
    }

    fn judged(&self) -> [String; 3] {
        self.judged_as(None)
    }

    async fn drop(self) {
        self.world.sql(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

/// The doctor names a long transaction; the command in the fix ends it.
#[apply(world_test)]
async fn a_transaction_that_stays_open_is_named() {
    let own = Own::new().await;
    let mut client = own.store.client().await.unwrap();
    let held =
        client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let held = held.start().await.unwrap();
    held.batch_execute("SET LOCAL application_name = 'reports'").await.unwrap();
    let pid: i32 = held.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let [severity, message, _] = own.judged();
    assert_eq!(severity, "ok", "{message}");
    own.run(CLOCK).await;
    let named = format!("pid {pid} (reports, user ");
    let end = format!("SELECT pg_terminate_backend({pid})");
    // Autovacuum may have an older transaction for a moment.
    let judged = async || own.judged();
    let is_named = |[severity, message, fix]: &[String; 3]| {
        severity == "warning" && message.contains(&named) && fix.starts_with(&end)
    };
    let [_, message, _] = until("the session is named", judged, is_named).await;
    assert!(message.contains(", idle in transaction for "), "{message}");
    // Without the right to see other users' sessions, the doctor reports that right.
    let least = own.world.database_user().await;
    let [severity, message, fix] = own.judged_as(Some(&least));
    assert!(severity == "warning" && !message.contains(&named), "{message}");
    assert!(
        message.starts_with("not known: ") && message.ends_with(" of other users cannot be seen"),
        "{message}"
    );
    assert!(fix.starts_with("GRANT pg_read_all_stats TO "), "{fix}");
    own.run(&end).await;
    until("nothing holds it", judged, |[severity, ..]| severity == "ok").await;
    drop(held);
    drop(client);
    own.drop().await;
}

/// Views replace features that this server's settings exclude: one value at the limit, and one just below.
#[apply(world_test)]
async fn prepared_transactions_slots_and_standbys_are_named() {
    const NOW: &str = "pg_current_xact_id()::xid";
    const OLD: &str = "((pg_current_xact_id()::text::bigint + 4292967296) % 4294967296)::text::xid";
    let own = Own::new().await;
    let views = [
        (
            "pg_prepared_xacts (transaction, gid, prepared, owner, database)",
            format!(
                "({NOW}, 'two phase', now() - interval '1 h', current_user, current_database()), \
                 ({NOW}, 'elsewhere', now() - interval '1 h', current_user, 'template1')"
            ),
            &["prepared transaction 'two phase' of "][..],
        ),
        (
            "pg_replication_slots (slot_name, active, xmin, catalog_xmin, wal_status, inactive_since)",
            format!(
                "('gone', false, {NOW}, NULL::xid, 'reserved', now() - interval '1 h'), \
                 ('short', false, {NOW}, NULL, 'reserved', now()), \
                 ('lost', false, {NOW}, NULL, 'lost', now() - interval '1 h'), \
                 ('idle', false, NULL, NULL, 'reserved', now() - interval '1 h'), \
                 ('cdc', true, NULL, {OLD}, 'reserved', NULL)"
            ),
            &["replication slot gone, not in use, for ", "replication slot cdc, in use, for 2"],
        ),
        (
            "pg_stat_replication (pid, application_name, usename, state, backend_xmin)",
            format!(
                "(7, 'b', current_user, 'streaming', {OLD}), (8, 'near', current_user, 'streaming', {NOW}), \
                 (9, 'no feedback', current_user, 'streaming', NULL)"
            ),
            &["standby b (hot_standby_feedback, pid 7), for 2"],
        ),
    ];
    for (view, rows, named) in views {
        own.run(&format!("CREATE VIEW public.{view} AS VALUES {rows}")).await;
        let [severity, message, fix] = own.judged();
        assert!(severity == "warning" && !fix.is_empty(), "{view}: {message}");
        assert!(named.iter().all(|name| message.contains(name)), "{view}: {message}");
        let others = ["elsewhere", "short", "lost", "idle", "near", "no feedback", " more"];
        assert!(!others.iter().any(|other| message.contains(other)), "{view}: {message}");
        own.run(&format!("DROP VIEW public.{}", view.split(' ').next().unwrap())).await;
    }
    let judged = async || own.judged();
    until("nothing holds it", judged, |[severity, ..]| severity == "ok").await;
    own.drop().await;
}
