//! The grants that `overdue permissions --database` prints: the commands work with them, and none of them can go, of which
//! `make test` tries some.

use std::{collections::BTreeSet, path::Path, process::Command};

use overdue::internals::{
    effect::Statements,
    permissions::grants::{DatabaseRequest, DatabaseRole, EffectSql, Grant},
};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, error::SqlState};

use super::necessary::Tried;
use crate::support::{
    Run, World,
    process::finish,
    statements::{found, statements},
    until,
};

/// The words after `role.` in the names of the roles.
const ADMINISTRATOR: usize = 0;
const WORKER: usize = 1;
const PUBLISHER: usize = 2;
const ON_CALL: usize = 3;

/// A database with no schema of overdue, and the roles.
struct Roles {
    world: World,
    /// The superuser of the tests.
    superuser: Client,
    roles: Vec<DatabaseRole>,
}

impl Roles {
    async fn new() -> Self {
        let world = World::empty().await;
        world.apply(&world.topology).await;
        world.sql(&format!("DROP SCHEMA {}", world.schema)).await;
        let (superuser, connection) =
            tokio_postgres::connect(&world.services.database_url(None), NoTls).await.unwrap();
        tokio::spawn(connection);
        let prefix = format!("{}_", world.schema);
        let roles = DatabaseRole::all(&DatabaseRequest {
            schemas: vec![&world.schema],
            user_prefix: &prefix,
            create_users: true,
            effects: vec![EffectSql { name: "close", file: None }],
        });
        Self { world, superuser, roles }
    }

    /// As `psql` runs what is printed: it goes on after an error. Gives the errors.
    async fn run_printed(&self) -> Vec<SqlState> {
        let prefix = format!("{}_", self.world.schema);
        let arguments = ["permissions", "--database", "--create-users", "--user-prefix", &prefix];
        let printed = self.world.overdue(&arguments).exits(0);
        let mut errors = Vec::new();
        for line in printed.stdout.lines().filter(|line| !line.starts_with("--")) {
            if let Err(error) = self.superuser.batch_execute(line).await {
                errors.push(error.code().unwrap_or_else(|| panic!("{error}")).clone());
            }
        }
        errors
    }

    /// The roles with passwords, the tables, and the grants.
    async fn prepared(&self) {
        let undefined = [SqlState::UNDEFINED_TABLE, SqlState::UNDEFINED_FUNCTION];
        let before = self.run_printed().await;
        assert!(before.iter().all(|code| undefined.contains(code)), "{before:?}");
        for role in &self.roles {
            let password = format!("ALTER ROLE {} PASSWORD 'secret'", role.name);
            self.superuser.batch_execute(&password).await.unwrap();
        }
        self.run_as(ADMINISTRATOR, &["database", "init", "--reference-tables", "--yes"]).exits(0);
        let after = self.run_printed().await;
        let there = [SqlState::DUPLICATE_OBJECT, SqlState::DUPLICATE_SCHEMA];
        assert!(after.iter().all(|code| there.contains(code)), "{after:?}");
    }

    fn command_as(&self, role: usize, arguments: &[&str]) -> Command {
        let mut url = self.world.services.database.clone();
        url.set_username(&self.roles[role].name).unwrap();
        url.set_password(Some("secret")).unwrap();
        let mut command = self.world.command(arguments);
        command.env("OVERDUE_DATABASE__URL", url.as_str());
        command
    }

    fn run_as(&self, role: usize, arguments: &[&str]) -> Run {
        finish(self.command_as(role, arguments), None)
    }

    /// Statements as one of the roles, rolled back.
    async fn as_role(&self, role: usize, sql: &str) -> Result<Vec<String>, SqlState> {
        let (name, schema) = (&self.roles[role].name, &self.world.schema);
        let begin = format!("BEGIN; SET LOCAL search_path = {schema}; SET LOCAL ROLE {name}");
        self.superuser.batch_execute(&begin).await.unwrap();
        let done = self.superuser.simple_query(sql).await;
        self.superuser.batch_execute("ROLLBACK; DEALLOCATE ALL").await.unwrap();
        let rows = done.map_err(|error| match error.code() {
            Some(code) => code.clone(),
            None => panic!("{sql}: {error}"),
        })?;
        let text = |message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        Ok(rows.into_iter().filter_map(text).collect())
    }

    /// What this role cannot do of what it does.
    async fn failures(&self, role: usize) -> BTreeSet<String> {
        let mut failures = BTreeSet::new();
        for (name, sql) in work(role) {
            match self.as_role(role, &sql).await {
                Ok(_) => {}
                // A schema that may not be used is passed over, and what is in it is not there.
                Err(
                    SqlState::INSUFFICIENT_PRIVILEGE
                    | SqlState::UNDEFINED_TABLE
                    | SqlState::UNDEFINED_FUNCTION,
                ) => drop(failures.insert(name)),
                Err(code) => panic!("{name}: {code:?}"),
            }
        }
        failures
    }

    /// Each grant of those that are tried that can be taken away, and nothing fails.
    async fn needless(&self, role: usize, tried: Tried) -> Vec<Grant> {
        assert_eq!(self.failures(role).await, BTreeSet::new());
        let DatabaseRole { name, grants, .. } = &self.roles[role];
        let mut needless = Vec::new();
        let grants = grants.iter().filter(|grant| !grant.object.is_empty()).collect();
        for grant in tried.of::<&Grant>(grants) {
            let Grant { privilege, object, .. } = grant;
            let change = |verb, to| format!("{verb} {privilege} ON {object} {to} {name}");
            self.superuser.batch_execute(&change("REVOKE", "FROM")).await.unwrap();
            if self.failures(role).await.is_empty() {
                needless.push(grant.clone());
            }
            self.superuser.batch_execute(&change("GRANT", "TO")).await.unwrap();
        }
        needless
    }
}

/// Names and statements: for tables those of `sql`, which are planned and not carried out.
fn work(role: usize) -> Vec<(String, String)> {
    if role == PUBLISHER {
        let calls = [
            "SELECT schedule('o', 'unpaid')",
            "SELECT schedule(1::bigint, 'unpaid')",
            "SELECT schedule('4f5b1a4e-0000-4000-8000-000000000000'::uuid, 'unpaid')",
            "SELECT schedule('o', 'unpaid', '1 h')",
            "SELECT schedule(1::bigint, 'unpaid', '1 h')",
            "SELECT schedule('4f5b1a4e-0000-4000-8000-000000000000'::uuid, 'unpaid', '1 h')",
            "SELECT schedule_at('o', 'unpaid', now())",
            "SELECT schedule_at(1::bigint, 'unpaid', now())",
            "SELECT schedule_at('4f5b1a4e-0000-4000-8000-000000000000'::uuid, 'unpaid', now())",
            "CREATE TEMPORARY TABLE own (id text, due timestamptz);
             CREATE TRIGGER own AFTER INSERT ON own FOR EACH ROW EXECUTE FUNCTION schedule_row('unpaid', 'id', 'due')",
        ];
        return calls.map(|call| (call.to_owned(), call.to_owned())).to_vec();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let Statements { lock, close, close_contended, overdue } = statements("close");
    let overdue = overdue.unwrap();
    let mut work = vec![
        planned("lock", &lock.unwrap()),
        planned("close", &close),
        planned("close_contended", &close_contended.unwrap()),
        planned("overdue", &overdue),
    ];
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !is_done_by(role, &name) {
            continue;
        }
        let sql = std::fs::read_to_string(&path).unwrap();
        // What stands around the statement of an effect.
        work.push(planned(&name, &found(&sql).replace("{sql}", &overdue)));
    }
    assert!(work.len() > 7);
    work
}

fn planned(name: &str, sql: &str) -> (String, String) {
    let parameters = (1..20).take_while(|n| sql.contains(&format!("${n}"))).count();
    let nulls = if parameters == 0 {
        String::new()
    } else {
        format!("({})", vec!["NULL"; parameters].join(", "))
    };
    (name.to_owned(), format!("PREPARE work AS {sql};\nEXPLAIN EXECUTE work{nulls}"))
}

fn is_done_by(role: usize, statement: &str) -> bool {
    if statement == "blocker" || statement.starts_with("effect_") {
        return true;
    }
    let of_worker =
        ["history_", "outbox_", "outgoing_", "pauses_", "schedule_", "watch_", "table_"];
    let scripts = ["schedule_known", "schedule_timeouts", "schedule_triggers", "schedule_callers"];
    if role == WORKER {
        return !scripts.contains(&statement)
            && of_worker.iter().any(|prefix| statement.starts_with(prefix));
    }
    let of_on_call = [
        "action",
        "doctor_",
        "order_",
        "refused_",
        "status_",
        "parked_",
        "pause_",
        "pauses_in_force",
        "outbox_waiting",
        "schedule_waiting",
        "schedule_lacks",
    ];
    let changes = ["pause", "resume"].contains(&statement);
    changes || of_on_call.iter().any(|prefix| statement.starts_with(prefix))
}

#[apply(world_test)]
async fn the_commands_work_with_the_grants_that_are_printed() {
    let roles = Roles::new().await;
    roles.prepared().await;
    let world = &roles.world;
    roles.run_as(ADMINISTRATOR, &["database", "init", "--yes"]).exits(0);
    let mut worker = world.spawn(roles.command_as(WORKER, &["run", "--no-declare"]));
    worker.until_logged("worker ready").await;
    let order = world.orders("scheduled", 1, 0).await.remove(0);
    let schedule = format!("SELECT schedule('{order}', 'unpaid', '0 s'); COMMIT; BEGIN");
    roles.as_role(PUBLISHER, &schedule).await.unwrap();
    world.until_closed(1).await;
    let waiting = async || world.number("SELECT count(*) FROM outbox").await;
    until("an empty outbox", waiting, |events| *events == 0).await;
    for refused in ["not permitted", "permission denied", "unusable", "failed"] {
        assert_eq!(worker.logged(refused), 0, "{}", worker.log());
    }
    drop(worker);
    // Due, and parked for nobody's reason.
    let order = world.orders("parked", 1, 0).await;
    world.wire().await.publish_all(&world.topology.park_exchange(), "1s.unpaid", &order).await;
    for arguments in [
        &["status"][..],
        &["doctor"],
        &["parked", "list"],
        &["parked", "drop", "--all", "--because", "a test", "--yes"],
        &["pause", "unpaid", "--for", "1h", "--why", "a test"],
        &["resume", "unpaid", "--rate", "1"],
        &["resume", "unpaid"],
    ] {
        let run = roles.run_as(ON_CALL, arguments).exits(0);
        assert!(!run.to_string().contains("permission denied"), "{run}");
        assert!(!run.stdout.contains("lacks"), "{run}");
    }
    let doctor = roles.run_as(WORKER, &["doctor"]);
    assert!(!doctor.stdout.contains("lacks") && doctor.code == Some(0), "{doctor}");
    assert!(doctor.stdout.contains("no other role may create in its schemas"), "{doctor}");
}

#[apply(world_test)]
async fn some_of_the_grants_cannot_go() {
    assert_no_grant_can_go(Tried::Some).await;
}

#[apply(world_test)]
#[ignore = "takes minutes: `make proof PART=services`"]
async fn none_of_the_grants_can_go() {
    assert_no_grant_can_go(Tried::Each).await;
}

async fn assert_no_grant_can_go(tried: Tried) {
    let roles = Roles::new().await;
    roles.prepared().await;
    for role in [WORKER, PUBLISHER, ON_CALL] {
        assert_eq!(roles.needless(role, tried).await, [], "{}", roles.roles[role].name);
    }
    let seen =
        "SELECT count(*) FROM pg_stat_activity WHERE usename <> current_user AND state IS NOT NULL";
    for role in [WORKER, ON_CALL] {
        let name = &roles.roles[role].name;
        assert_ne!(roles.as_role(role, seen).await.unwrap(), ["0"]);
        let revoke = format!("REVOKE pg_read_all_stats FROM {name}");
        roles.superuser.batch_execute(&revoke).await.unwrap();
        assert_eq!(roles.as_role(role, seen).await.unwrap(), ["0"]);
    }
}

#[apply(world_test)]
async fn what_is_refused_names_the_grant() {
    let roles = Roles::new().await;
    let schema = &roles.world.schema;
    for role in &roles.roles {
        let create = format!("CREATE ROLE {} LOGIN PASSWORD 'secret'", role.name);
        roles.superuser.batch_execute(&create).await.unwrap();
    }
    let refused = |run: &Run, texts: &[&str]| {
        assert_eq!(run.code, Some(77), "{run}");
        for text in texts {
            assert!(run.stderr.contains(text), "{text}: {run}");
        }
        assert!(!run.stderr.contains("run `overdue database init`"), "{run}");
    };
    // Nobody made the schema.
    let init = roles.run_as(ADMINISTRATOR, &["database", "init", "--reference-tables", "--yes"]);
    refused(&init, &["permission denied for database", "`overdue permissions --database` prints"]);
    roles.superuser.batch_execute(&roles.roles[ADMINISTRATOR].before[1]).await.unwrap();
    roles.run_as(ADMINISTRATOR, &["database", "init", "--reference-tables", "--yes"]).exits(0);
    // The tables are there, and this user cannot see them.
    let worker = &roles.roles[WORKER].name;
    let usage = format!("GRANT USAGE ON SCHEMA {schema} TO {worker}");
    for arguments in [&["run", "--no-declare"][..], &["effect", "check", "--all"], &["rebuild"]] {
        refused(&roles.run_as(WORKER, arguments), &[&usage, "`overdue permissions --database`"]);
    }
    roles.run_as(WORKER, &["doctor"]).prints(&format!("lacks USAGE on schema {schema}"));
    roles.superuser.batch_execute(&usage).await.unwrap();
    let run = roles.run_as(WORKER, &["run", "--no-declare"]);
    refused(
        &run,
        &["permission denied for table", "`overdue permissions --database` prints the grants"],
    );
    let init = roles.run_as(WORKER, &["database", "init", "--yes"]);
    refused(&init, &["permission denied for table", "run it as the owner of the tables"]);
}
