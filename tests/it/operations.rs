//! The procedures of docs/operations.md for running workers, on real services.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::support::{WorkerProcess, World, pages::get, process::finish, python::manifests, until};

/// The rights of a worker in docs/permissions.md.
const WORKER: [&str; 3] = ["^$", r"^orders\.(again|events|park)$", r"^orders\.unpaid(\.[0-9]+)?$"];

/// Writes the three files of URLs into a folder; returns the flags that name them.
fn url_files(
    world: &World,
    folder: &str,
    [broker, management, database]: [&str; 3],
) -> Vec<String> {
    let path = world.dir.path().join(folder);
    fs::create_dir(&path).unwrap();
    let files = [("broker", broker), ("management", management), ("database", database)];
    let flags = files.map(|(name, url)| {
        let file = path.join(format!("{name}.url"));
        fs::write(&file, format!("{url}\n")).unwrap();
        [format!("--{name}-url-file"), file.display().to_string()]
    });
    flags.concat()
}

async fn worker(world: &World, flags: &[String]) -> WorkerProcess {
    let arguments: Vec<&str> =
        flags.iter().map(String::as_str).chain(["run", "--no-declare"]).collect();
    let mut command = world.command(&arguments);
    command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h").env("OVERDUE_WORKER__SWEEP_GRACE", "1h");
    for name in ["OVERDUE_BROKER__URL", "OVERDUE_BROKER__MANAGEMENT_URL", "OVERDUE_DATABASE__URL"] {
        command.env_remove(name);
    }
    let mut process = world.spawn(command);
    process.until_logged("worker ready").await;
    process
}

async fn grant(world: &World, role: &str) {
    let schema = &world.schema;
    let sql = format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role};
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
         GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
    );
    world.sql(&sql).await;
}

/// Two users of broker and database with the same rights, and the URLs of each.
struct Users {
    old_user: String,
    old_role: String,
    old: [String; 3],
    new: [String; 3],
}

impl Users {
    async fn of(world: &World) -> Self {
        let [old_user, new_user] = ["old", "new"].map(|name| format!("{}-{name}", world.vhost));
        for user in [&old_user, &new_user] {
            world.user_named(user, "management").await;
            world.permit(user, WORKER).await;
        }
        let new_database = world.database_user().await;
        let old_role = format!("{}_old", world.schema);
        world.sql(&format!("CREATE ROLE {old_role} LOGIN PASSWORD 'old'")).await;
        let (new_login, old_login) =
            (format!("{}:secret@", world.schema), format!("{old_role}:old@"));
        let old_database = new_database.replace(&new_login, &old_login);
        grant(world, &old_role).await;
        grant(world, &world.schema).await;
        let [[old_broker, old_api], [new_broker, new_api]] =
            [&old_user, &new_user].map(|user| world.urls_of(Some(user)));
        let old = [old_broker, old_api, old_database];
        Self { old_user, old_role, old, new: [new_broker, new_api, new_database] }
    }

    /// Waits until the old users have no session, and deletes them.
    async fn delete_old(&self, world: &World) {
        let role = &self.old_role;
        let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{role}'");
        let look = async || world.number(&sessions).await;
        until("no session of the old role", look, |sessions| *sessions == 0).await;
        world.services.forget("users", &self.old_user).await.unwrap();
        world.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    }
}

async fn publish(world: &World, prefix: &str) {
    world.publish_orders("500ms", prefix, 100, 500).await;
}

/// Asserts that each order was closed once by its message, and no connection was lost.
async fn assert_no_outage(world: &World, processes: &[&WorkerProcess]) {
    assert_eq!(world.number("SELECT count(*) FROM closures WHERE path = 'sweep'").await, 0);
    for process in processes {
        assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    }
    world.assert_invariants().await;
}

/// A worker with the new users starts, then the old one stops, while orders arrive all the time.
#[apply(world_test)]
async fn passwords_are_rotated_by_another_worker_without_an_outage() {
    let world = World::new().await;
    let users = Users::of(&world).await;
    let old_files = url_files(&world, "old", users.old.each_ref().map(String::as_str));
    let new_files = url_files(&world, "new", users.new.each_ref().map(String::as_str));
    let mut old = worker(&world, &old_files).await;
    publish(&world, "a").await;
    let new = worker(&world, &new_files).await;
    publish(&world, "b").await;
    old.signal("TERM");
    publish(&world, "c").await;
    let status = old.ended().await;
    assert_eq!(status.code(), Some(0), "{}", old.log());
    users.delete_old(&world).await;
    publish(&world, "d").await;
    world.until_closed(400).await;
    assert_no_outage(&world, &[&old, &new]).await;
}

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The arguments of a manifest, with paths of this machine.
fn arguments(manifest: &Value, root: &str) -> Vec<String> {
    let container = &manifest["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter();
    arguments.map(|it| it.as_str().unwrap().replace("/etc/overdue", root)).collect()
}

/// Runs the commands of the manifests one after the other: the two Jobs, then a worker that becomes ready.
#[apply(world_test)]
async fn the_commands_of_the_manifests_lead_to_a_worker_that_is_ready() {
    let world = World::empty().await;
    let root = world.dir.path().display().to_string();
    fs::create_dir(world.dir.path().join("settings")).unwrap();
    for name in ["overdue.toml", "topology.toml"] {
        let text = read(&format!("deploy/kubernetes/base/{name}")).replace("/etc/overdue", &root);
        fs::write(world.dir.path().join("settings").join(name), text).unwrap();
    }
    let [broker, management] = world.urls_of(None);
    url_files(&world, "urls", [&broker, &management, &world.services.database_url(None)]);
    let command = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command: Command = world.command(&arguments);
        for name in
            ["OVERDUE_BROKER__URL", "OVERDUE_BROKER__MANAGEMENT_URL", "OVERDUE_DATABASE__URL"]
        {
            command.env_remove(name);
        }
        command
    };
    for job in ["base/tables", "overlays/apply/topology"] {
        let job = &manifests(&read(&format!("deploy/kubernetes/{job}.yaml")))[0];
        // The Jobs can be repeated.
        for _ in 0..2 {
            finish(command(&arguments(job, &root)), None).exits(0);
        }
    }
    // A shop has its own tables instead.
    world.overdue(&["database", "init", "--reference-tables", "--yes"]).exits(0);
    let worker = manifests(&read("deploy/kubernetes/base/worker.yaml"));
    let mut command = command(&arguments(&worker[0], &root));
    command.env("OVERDUE_WORKER__LISTEN", "127.0.0.1:0").env("OVERDUE_LOG__FORMAT", "text");
    let mut process = world.spawn(command);
    let address = process.listens_at().await;
    until("ready", async || get(address, "/readyz").await, |page| page.status == 200).await;
    assert_eq!(get(address, "/livez").await.status, 200);
}
