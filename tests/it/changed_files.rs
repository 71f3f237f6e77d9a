//! A worker that looks at its files: what has changed is checked when it stands still, and taken as after SIGHUP.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use overdue::internals::topology::Topology;

use crate::support::{WorkerProcess, World, proxy::Proxy, until, world::TOPOLOGY};

const RELOADED: &str = "reloaded: settings, topology and effects are those of the files now";
const REFUSED: &str = "not reloaded: everything goes on as before";

/// In one step: half a file that stands still for two looks would be refused.
fn write(folder: &Path, name: &str, text: &str) {
    let part = folder.join(format!("{name}.part"));
    fs::write(&part, text).unwrap();
    fs::rename(part, folder.join(name)).unwrap();
}

fn looking(command: &mut Command) {
    command.env("OVERDUE_WORKER__RELOAD_ON_CHANGE", "100ms");
}

/// Waits for the `count`th line with `text`.
async fn says(worker: &WorkerProcess, text: &str, count: usize) -> String {
    until(text, async || worker.logged(text), |seen| *seen >= count).await;
    let log = worker.log();
    assert_eq!(worker.logged(text), count, "{log}");
    log.lines().rfind(|line| line.contains(text)).unwrap().to_owned()
}

/// The sweep is far away: messages close them.
async fn closes(world: &World, prefix: &str) {
    let orders = world.orders(prefix, 20, 100).await;
    world.publish("100ms", &orders).await;
    for id in orders {
        until("closed", async || world.status(&id).await, |status| status == "closed").await;
    }
}

async fn ends_well(mut worker: WorkerProcess) {
    assert!(worker.is_running());
    worker.signal("TERM");
    assert_eq!(worker.ended(Duration::from_mins(1)).await.code(), Some(0), "{}", worker.log());
}

fn with_level(level: &str) -> String {
    TOPOLOGY.replace("\"30m\"]", &format!("\"{level}\", \"30m\"]"))
}

/// As Kubernetes has files of a `ConfigMap`: links to a folder that is a link, which is replaced.
fn swap(folder: &Path, version: &str, topology: &str) {
    fs::create_dir(folder.join(version)).unwrap();
    write(&folder.join(version), "topology.toml", topology);
    symlink(version, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_swapped_is_taken_and_the_same_content_is_not() {
    let world = World::new().await;
    let folder = world.dir.path();
    fs::remove_file(world.topology_file()).unwrap();
    swap(folder, "..1", TOPOLOGY);
    symlink("..data/topology.toml", world.topology_file()).unwrap();
    let worker = world.started(looking).await;
    let wire = world.wire().await;
    swap(folder, "..2", &with_level("5m"));
    let said = says(&worker, RELOADED, 1).await;
    assert!(said.contains("INFO"), "{said}");
    let said = says(&worker, "files have changed: they are checked", 1).await;
    assert!(said.contains("topology.toml"), "{said}");
    assert_eq!(wire.ready("orders.delay.5m").await, 0);
    // Another time and another folder, and nothing else: it is the next one that is taken.
    swap(folder, "..3", &with_level("5m"));
    let file = fs::File::options().append(true).open(world.topology_file()).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    closes(&world, "same").await;
    let more = with_level("5m").replace("\"5m\"", "\"5m\", \"10m\"");
    assert!(Topology::parse(&more).is_ok());
    swap(folder, "..4", &more);
    says(&worker, RELOADED, 2).await;
    assert_eq!(wire.ready("orders.delay.10m").await, 0);
    assert_eq!(worker.logged(REFUSED), 0, "{}", worker.log());
    closes(&world, "more").await;
    ends_well(worker).await;
}

/// Each content is refused once; what is taken in between shows that it was not tried again meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_invalid_or_is_gone_is_refused_once() {
    let world = World::new().await;
    let folder = world.dir.path();
    let close = include_str!("../../sql/close.sql");
    let topology = TOPOLOGY.replace("[retry]", "effect = \"mine\"\n\n[retry]");
    let settings = "[effects.mine]\nsql = \"mine.sql\"\n";
    let files =
        [("topology.toml", topology.as_str()), ("overdue.toml", settings), ("mine.sql", close)];
    for (name, text) in files {
        write(folder, name, text);
    }
    let worker = world.started(looking).await;
    let cases = [
        (
            "topology.toml",
            Some(topology.replace("after = \"1s\"", "aftr = \"1s\"")),
            "topology.toml:9:1",
        ),
        ("topology.toml", Some(topology.replace("\"2s\", ", "")), "queue orders.delay.2s"),
        ("topology.toml", None, "cannot read the topology file"),
        (
            "overdue.toml",
            Some(format!("{settings}\n[worker]\nbatch_size = 0\n")),
            "overdue.toml:5:",
        ),
        ("overdue.toml", Some(settings.replace("mine.sql", "gone.sql")), "gone.sql"),
        ("mine.sql", Some(close.replace("due_at <= now()", "dew_at <= now()")), "mine.sql, line"),
        ("mine.sql", None, "cannot read the SQL of effect `mine`"),
    ];
    for (count, (name, text, named)) in (1..).zip(cases) {
        match text {
            Some(text) => write(folder, name, &text),
            None => fs::remove_file(folder.join(name)).unwrap(),
        }
        let said = says(&worker, REFUSED, count).await;
        assert!(said.contains(named), "{named}: {said}");
        closes(&world, &format!("o{count}")).await;
        let good = files.iter().find(|(file, _)| *file == name).unwrap().1;
        write(folder, name, good);
        says(&worker, RELOADED, count).await;
        assert_eq!(worker.logged(REFUSED), count, "{}", worker.log());
    }
    world.assert_invariants().await;
    ends_well(worker).await;
}

/// A file that was not there, one that it names, and the interval itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settings_file_that_appears_is_taken_with_what_it_names() {
    let world = World::new().await;
    let folder = world.dir.path();
    let mut worker = world.started(looking).await;
    let settings = "[[alert]]\nname = \"a\"\nformat = \"slack\"\nurl_file = \"slack.url\"\n";
    write(folder, "overdue.toml", settings);
    let said = says(&worker, REFUSED, 1).await;
    assert!(said.contains("alert `a`: cannot read url_file slack.url"), "{said}");
    write(folder, "slack.url", "http://127.0.0.1:9/x\n");
    says(&worker, RELOADED, 1).await;
    // What the settings name now is looked at as well.
    write(folder, "slack.url", "http://127.0.0.1:9/x\nhttp://127.0.0.1:9/y\n");
    let said = says(&worker, REFUSED, 2).await;
    assert!(said.contains("has to be one line"), "{said}");
    // SIGHUP says it again to the one who asks.
    worker.signal("HUP");
    says(&worker, REFUSED, 3).await;
    assert!(worker.is_running());
    ends_well(worker).await;
}

/// As a network file system that does not answer; then it does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_never_answers_holds_up_nothing() {
    let world = World::new().await;
    let (file, pipe) = (world.topology_file(), world.dir.path().join("pipe"));
    let worker = world.started(looking).await;
    // It is opened when somebody writes, and nobody does.
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::rename(&pipe, &file).unwrap();
    let said = says(&worker, "not known whether files have changed", 1).await;
    assert!(said.contains("the files cannot be read within 3 s"), "{said}");
    closes(&world, "silent").await;
    worker.signal("HUP");
    let said = says(&worker, REFUSED, 1).await;
    assert!(said.contains("the files cannot be read within 3 s"), "{said}");
    closes(&world, "refused").await;
    assert_eq!(worker.logged(RELOADED), 0, "{}", worker.log());
    fs::rename(&file, &pipe).unwrap();
    write(world.dir.path(), "topology.toml", &with_level("5m"));
    drop(fs::File::options().write(true).open(&pipe).unwrap());
    says(&worker, RELOADED, 1).await;
    assert_eq!(worker.logged("not known whether files have changed"), 1, "{}", worker.log());
    ends_well(worker).await;
}

/// It is the database that refuses, not the content: this is tried again, and the same reason is logged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_checked_is_checked_when_the_database_answers() {
    let world = World::new().await;
    let database = &world.services.database;
    let proxy = Proxy::to(&format!("127.0.0.1:{}", database.port().unwrap())).await;
    proxy.refuse();
    let mut worker = world
        .started(|command| {
            looking(command);
            command.env_remove("OVERDUE_DATABASE__URL");
            let url = world.services.database_url(None);
            write(world.dir.path(), "overdue.toml", &format!("[database]\nurl = \"{url}\"\n"));
        })
        .await;
    let url = world.services.database_url(Some(proxy.port()));
    write(world.dir.path(), "overdue.toml", &format!("[database]\nurl = \"{url}\"\n"));
    worker.until_logged(REFUSED).await;
    let tried = proxy.attempts();
    until("tried again", async || proxy.attempts(), |attempts| *attempts > tried + 9).await;
    closes(&world, "away").await;
    proxy.pass();
    says(&worker, RELOADED, 1).await;
    let log = worker.log();
    let refusals = log.lines().filter_map(|line| line.split_once(REFUSED));
    let reasons: Vec<&str> = refusals.map(|(_, reason)| reason).collect();
    let different: BTreeSet<&str> = reasons.iter().copied().collect();
    assert_eq!(different.len(), reasons.len(), "{log}");
    closes(&world, "back").await;
    ends_well(worker).await;
}

/// Without the setting nothing is taken that nobody asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_default_a_file_is_read_when_somebody_asks() {
    let world = World::new().await;
    let worker = world.started(|_| {}).await;
    write(world.dir.path(), "topology.toml", &format!("{TOPOLOGY}\n[["));
    write(world.dir.path(), "overdue.toml", "[worker]\nreload_on_change = \"100ms\"\n");
    worker.signal("HUP");
    says(&worker, REFUSED, 1).await;
    write(world.dir.path(), "topology.toml", TOPOLOGY);
    worker.signal("HUP");
    says(&worker, RELOADED, 1).await;
    assert_eq!(worker.logged("files have changed"), 0, "{}", worker.log());
    // From now on it looks by itself.
    write(world.dir.path(), "topology.toml", &with_level("5m"));
    says(&worker, RELOADED, 2).await;
    assert_eq!(worker.logged("files have changed"), 1, "{}", worker.log());
    ends_well(worker).await;
}
