//! The doctor on a real broker and a real database.

use std::collections::BTreeMap;

use overdue::{
    Store,
    internals::{
        diagnostic::Fix,
        doctor::{HeldBy, Holder, Session, database::judge_pooler, horizon::judge_horizon},
    },
};

use super::parked::ends;
use crate::support::{Run, World};
use crate::verify::{applied, empty};

/// Area and name of every check, with its severity and message.
fn checks(run: &Run) -> BTreeMap<String, (String, String)> {
    let diagnosis = run.json();
    let checks = diagnosis["checks"].as_array().unwrap().clone();
    let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let entry = |check: serde_json::Value| {
        let name = format!("{} {}", word(&check["subject"]["name"]), word(&check["rule"]));
        (name, (word(&check["severity"]), word(&check["message"])))
    };
    checks.into_iter().map(entry).collect()
}

/// Checks with a finding, without checks that depend on the broker's version or on transactions of other tests in the database.
fn not_ok(run: &Run) -> Vec<String> {
    let elsewhere = ["Broker known-defects", "Database xmin-horizon"];
    let checks = checks(run).into_iter();
    checks
        .filter(|(name, (severity, _))| severity != "ok" && !elsewhere.contains(&name.as_str()))
        .map(|(n, (c, _))| format!("{c} {n}"))
        .collect()
}

async fn prepared() -> World {
    let world = applied().await;
    ends(&world, 0, &["database", "init", "--reference-tables", "--yes"]);
    // A new parking lot has no count at first, which is a warning of its own.
    world.until_all_counted().await;
    world
}

fn diagnosed(world: &World, environment: &[(&str, &str)]) -> Run {
    world.overdue_with(&["doctor", "-o", "json"], environment)
}

#[apply(world_test)]
async fn nothing_applied_and_no_tables() {
    let world = empty().await;
    let run = ends(&world, 2, &["doctor", "-o", "json"]);
    assert_eq!(
        not_ok(&run),
        [
            "warning Database closing",
            "error Database effects",
            "warning Database outbox",
            "warning Database sweep-index",
            "error Database tables",
            "error Topology applied",
            "warning Topology consumers",
        ],
        "{run}"
    );
    let (_, finding) = &checks(&run)["Topology consumers"];
    assert_eq!(finding, "orders.unpaid, orders.unshipped are not there yet");
    // Without broker, database and topology: no check stops another one.
    let nowhere = [
        ("OVERDUE_BROKER__URL", "amqp://127.0.0.1:1/%2f"),
        ("OVERDUE_BROKER__MANAGEMENT_URL", "http://127.0.0.1:1"),
        ("OVERDUE_DATABASE__URL", "postgres://127.0.0.1:1/nowhere"),
        ("OVERDUE_TOPOLOGY", "nowhere.toml"),
    ];
    let run = diagnosed(&world, &nowhere).exits(2);
    let checks = checks(&run);
    assert_eq!(checks.len(), 45);
    let errors = checks.iter().filter(|(_, (severity, _))| severity == "error");
    let errors: Vec<&str> = errors.map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        errors,
        ["Broker management-api", "Broker reachable", "Database reachable", "Topology file"]
    );
    for reason in ["the management API at", "cannot read the topology file"] {
        assert_eq!(run.stdout.matches(reason).count(), 1, "{reason} is said once: {run}");
    }
}

/// A worker is missing; then logins are wrong, and then the users have few rights.
#[apply(world_test)]
async fn a_prepared_world_and_logins_that_see_less_of_it() {
    let world = prepared().await;
    let run = ends(&world, 0, &["doctor", "-o", "json"]);
    assert_eq!(not_ok(&run), ["warning Topology consumers"], "{run}");
    ends(&world, 0, &["doctor"]).prints("\n45 checks: ");

    let [broker, management] = world.urls_of(None);
    let wrong = |url: &str| url.replace(":admin@", ":wrong@").replace(":overdue@", ":wrong@");
    let logins = [
        ("OVERDUE_BROKER__URL", &*wrong(&broker)),
        ("OVERDUE_BROKER__MANAGEMENT_URL", &wrong(&management)),
        ("OVERDUE_DATABASE__URL", &wrong(&world.services.database_url(None))),
    ];
    let run = diagnosed(&world, &logins);
    for (name, severity) in [
        ("Broker reachable", "ok"),
        ("Broker login", "error"),
        ("Broker management-api", "warning"),
        ("Database reachable", "ok"),
        ("Database login", "error"),
    ] {
        assert_eq!(checks(&run)[name].0, severity, "{name}: {run}");
    }
    assert!(!run.stdout.contains("wrong"), "no password is shown: {run}");
    let elsewhere = broker.replace(&world.vhost, "nowhere");
    let found = checks(&diagnosed(&world, &[("OVERDUE_BROKER__URL", &elsewhere)]));
    assert_eq!((&*found["Broker login"].0, &*found["Broker virtual-host"].0), ("ok", "error"));

    // The user has the tag, and lacks access to the virtual host.
    let user = world.user("management").await;
    let run = world.overdue_as(&["doctor", "-o", "json"], &user).exits(2);
    let found = checks(&run);
    assert_eq!(found["Broker management-api"].0, "ok", "{run}");
    let reason = format!("may not use virtual host {}", world.vhost);
    for (name, severity, text) in [
        ("Broker virtual-host", "error", "rabbitmqctl set_permissions"),
        ("Topology applied", "warning", &reason),
    ] {
        assert!(found[name].0 == severity && found[name].1.contains(text), "{run}");
    }
    // Least rights: a warning names the tag that shows the missing facts.
    world.permit(&user, ["^$", r"^orders\.", r"^orders\."]).await;
    let run = world.overdue_as(&["doctor", "-o", "json"], &user).exits(0);
    assert_eq!(
        not_ok(&run),
        [
            "warning Topology administrator-rights",
            "warning Topology consumers",
            "warning Topology worker-rights",
        ],
        "{run}"
    );
    let (_, finding) = &checks(&run)["Topology worker-rights"];
    assert!(finding.contains("takes the administrator tag"), "{finding}");
    // A worker needs no tag.
    assert!(!run.stdout.contains("add the tag"), "{run}");
    assert!(run.stdout.contains("the management URL of an administrator (--management-url)"));
}

/// No relay publishes the outbox, no index serves the sweep, and then overdue orders cannot be closed.
#[apply(world_test)]
async fn what_is_wrong_in_the_database() {
    let world = prepared().await;
    let check = |name: &str| checks(&ends(&world, 0, &["doctor", "-o", "json"]))[name].clone();
    world.sql("DROP INDEX orders_unpaid_due").await;
    world
        .sql(
            "INSERT INTO outbox (event, order_id, created_at)
             VALUES ('order.closed', 'o-1', now() - interval '2 minutes')",
        )
        .await;
    let (severity, finding) = check("Database sweep-index");
    let end = "reads orders from end to end";
    assert!(severity == "warning" && finding.contains(end), "{finding}");
    assert_eq!(check("Database outbox").0, "warning");
    // An index that the query cannot use does not help.
    world.sql("CREATE INDEX ON orders (due_at) WHERE status = 'paid'").await;
    assert_eq!(check("Database sweep-index").0, "warning");

    world.orders("o", 3, -5_000).await;
    assert_eq!(check("Database closing").0, "ok");
    let mut client = world.store.client().await.unwrap();
    let held = crate::support::hold(&mut client, "o-0").await;
    held.batch_execute("SET LOCAL application_name = 'backoffice'").await.unwrap();
    let (severity, finding) = check("Database closing");
    let lock = "effect close: order o-0 cannot be closed: a row of orders is locked by pid ";
    assert!(severity == "warning" && finding.starts_with(lock), "{finding}");
    held.rollback().await.unwrap();
    world.sql("ALTER TABLE orders ADD CHECK (status <> 'closed')").await;
    let run = ends(&world, 2, &["doctor", "-o", "json"]);
    let (severity, finding) = &checks(&run)["Database closing"];
    assert!(severity == "error" && finding.contains("order o-2 cannot be closed: "), "{finding}");
}

/// A person can run the printed command without a change.
#[apply(world_test)]
async fn a_role_is_quoted_in_the_sql_that_helps() {
    let world = World::empty().await;
    let role = format!("{}-App", world.schema);
    world.sql(&format!("CREATE ROLE \"{role}\" LOGIN PASSWORD 'secret'")).await;
    let mut url = world.services.database.clone();
    url.set_username(&role).unwrap();
    url.set_password(Some("secret")).unwrap();
    let store = Store::new(url.as_str(), "public", 4).unwrap();
    let mut client = store.client().await.unwrap();
    let held =
        client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let held = held.start().await.unwrap();
    held.batch_execute("SELECT 1").await.unwrap();
    let facts = store.facts(&[], || jiff::Timestamp::UNIX_EPOCH).await;
    let Session::Open(mut server) = facts.session else { panic!("{:?}", facts.session) };
    server.behind_pooler = Some(vec![("jit".to_owned(), "off".to_owned())]);
    let mut horizon = facts.horizon.unwrap();
    let of_role =
        |it: &Holder| matches!(&it.by, HeldBy::Session { user, .. } if user.contains(&role));
    horizon.holders.retain(of_role);
    horizon.holders.iter_mut().for_each(|it| it.transactions = u64::MAX);
    let fixes = [judge_pooler(&server), judge_horizon(&horizon)].map(|draft| match draft.fix {
        Some(Fix::Text(fix)) => fix,
        fix => panic!("{fix:?}"),
    });
    for fix in &fixes {
        let sql = fix.find("ALTER ROLE ").map(|at| &fix[at..]).unwrap();
        world.sql(sql.split(" (docs/").next().unwrap()).await;
    }
    let set =
        format!("SELECT cardinality(rolconfig)::bigint FROM pg_roles WHERE rolname = '{role}'");
    assert_eq!(world.number(&set).await, 2, "{fixes:?}");
}
