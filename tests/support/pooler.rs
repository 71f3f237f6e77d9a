//! `PgBouncer` between a worker and the database, as docs/settings.md has it.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use tokio::net::UnixStream;
use url::Url;

use super::{WorkerProcess, World, until};

const PAGE: &str = include_str!("../../docs/settings.md");
/// The first that keeps statements prepared in transaction mode.
const OLDEST: (u32, u32) = (1, 21);
/// Names the socket in the pooler's own folder: it listens on no port of the machine.
const PORT: u16 = 6432;

/// The block of the page's section in that language.
fn block(language: &str) -> &'static str {
    let section = PAGE.split("\n## A pooler\n").nth(1).unwrap().split("\n## ").next().unwrap();
    section.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap()
}

/// A pooler of one world, with a user of its own; it ends when this goes.
pub struct Pooler {
    program: PathBuf,
    folder: PathBuf,
    user: String,
    database: String,
    process: Option<WorkerProcess>,
}

impl Pooler {
    /// One that runs; the user has what the page's SQL gives it. None where the machine has none.
    pub async fn of(world: &World) -> Option<Self> {
        let pooler = Self::without_settings(world).await?;
        world.sql(&pooler.settings(world)).await;
        Some(pooler)
    }

    /// The same without that SQL.
    pub async fn without_settings(world: &World) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!(
                "LEFT OUT: a worker behind a pooler: no PgBouncer 1.21 or newer; OVERDUE_TEST_ALL=1 builds one on Debian, as root"
            );
            return None;
        };
        let user = world.schema.clone();
        world.database_user().await;
        let grants = ["TABLES", "SEQUENCES", "FUNCTIONS"]
            .map(|what| format!("GRANT ALL ON ALL {what} IN SCHEMA {user} TO {user};"));
        world.sql(&grants.concat()).await;
        let folder = world.dir.path().join("pooler");
        fs::create_dir(&folder).unwrap();
        // Of root it takes no orders: then it runs as another user, who looks into this folder.
        for (path, mode) in [(world.dir.path(), 0o755), (folder.as_path(), 0o777)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let database = world.services.database.path().trim_start_matches('/').to_owned();
        fs::write(folder.join("users"), format!("\"{user}\" \"secret\"\n")).unwrap();
        let mut pooler = Self { program, folder, user, database, process: None };
        pooler.configure(&world.services.database);
        pooler.start(world).await;
        Some(pooler)
    }

    /// The SQL of the page, for this user and schema.
    pub fn settings(&self, world: &World) -> String {
        let sql = block("sql").replace("overdue, public", &world.search_path);
        sql.replace("ROLE overdue ", &format!("ROLE {} ", self.user))
    }

    /// What a worker's `database.url` is.
    pub fn url(&self) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://{}@{folder}:{PORT}/{}", self.user, self.database)
    }

    /// The page's other mode, from here on.
    pub async fn in_session_mode(&mut self, world: &World) {
        let path = self.folder.join("pgbouncer.ini");
        let settings = fs::read_to_string(&path).unwrap();
        let (from, to) = ("pool_mode = transaction", "pool_mode = session");
        assert!(settings.contains(from), "{settings}");
        fs::write(path, settings.replace(from, to)).unwrap();
        self.restart(world).await;
    }

    /// As it was before version 1.21, from here on.
    pub async fn without_statements(&mut self, world: &World) {
        let path = self.folder.join("pgbouncer.ini");
        let settings = fs::read_to_string(&path).unwrap();
        let (kept, rest) = settings.split_once("max_prepared_statements = ").unwrap();
        let rest = rest.split_once('\n').unwrap().1;
        fs::write(path, format!("{kept}max_prepared_statements = 0\n{rest}")).unwrap();
        self.restart(world).await;
    }

    /// SIGKILL, and another one: every connection ends, on both sides.
    pub async fn restart(&mut self, world: &World) {
        self.process = None;
        // It would refuse to take the place of one that may be there.
        let _gone = fs::remove_file(self.socket());
        self.start(world).await;
    }

    /// New transactions go to another database server; one that is open stays where it is.
    pub fn moves_to(&self, database: &Url) {
        self.configure(database);
        self.process.as_ref().unwrap().signal("HUP");
    }

    fn configure(&self, database: &Url) {
        let (host, port) = (database.host_str().unwrap(), database.port().unwrap_or(5432));
        let folder = self.folder.display();
        // A login that the new settings interrupt counts as failed: 15 s without a connection, if nothing else is said.
        let retry = "server_login_retry = 1\n";
        let user = if is_root() { "user = nobody\n" } else { "" };
        let settings = format!(
            "[databases]\n* = host={host} port={port}\n[pgbouncer]\n{}\
             listen_addr =\nlisten_port = {PORT}\nunix_socket_dir = {folder}\n\
             auth_type = trust\nauth_file = {folder}/users\n{retry}{user}",
            block("ini"),
        );
        fs::write(self.folder.join("pgbouncer.ini"), settings).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{PORT}"))
    }

    async fn start(&mut self, world: &World) {
        let mut command = Command::new(&self.program);
        command.arg(self.folder.join("pgbouncer.ini"));
        self.process = Some(world.spawn(command));
        let look = async || UnixStream::connect(self.socket()).await.map(drop);
        until("the pooler listens", look, Result::is_ok).await.unwrap();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The one that `docker/test.sh` builds, or the machine's own, if it is not too old.
fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pgbouncer/pgbouncer");
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&folders).chain([PathBuf::from("/usr/sbin")]);
    let candidates = [built].into_iter().chain(folders.map(|folder| folder.join("pgbouncer")));
    candidates.filter(|program| program.exists()).find(|program| version(program) >= Some(OLDEST))
}

fn version(program: &Path) -> Option<(u32, u32)> {
    let said = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut numbers = said.strip_prefix("PgBouncer ")?.lines().next()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
