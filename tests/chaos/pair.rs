//! A primary with an asynchronous standby, in two containers of one test.

use std::process::Command;

use url::Url;

use crate::{
    containers::{ask, container, docker},
    support::{Services, until},
};

/// Both are removed when this goes.
pub struct Pair {
    primary: Server,
    standby: Server,
}

struct Server {
    container: String,
    url: Url,
}

impl Pair {
    /// Returns when the standby streams. It is of the same image as the database of the second stack.
    pub async fn start() -> Self {
        let known =
            container(&Services::chaos(), "OVERDUE_CHAOS_DATABASE_CONTAINER", "postgres").await;
        let image = docker(&["inspect", "--format", "{{.Config.Image}}", &known]).await.unwrap();
        let first = ["POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"];
        let first = first.map(|name| format!("{name}=overdue"));
        let first: Vec<&str> = first.iter().flat_map(|set| ["--env", set]).collect();
        // The disk is not what this is about.
        let settings = ["-c", "track_commit_timestamp=on", "-c", "fsync=off"];
        let primary =
            Server::run(&first, &image, &[["postgres"].as_slice(), &settings].concat()).await;
        let hba = primary.until("SHOW hba_file", Result::is_ok).await;
        let replicates = format!("echo 'host replication all all scram-sha-256' >> {hba}");
        docker(&["exec", &primary.container, "sh", "-c", &replicates]).await.unwrap();
        primary.ask("SELECT pg_reload_conf()").await;
        let place = "{{.NetworkSettings.IPAddress}}{{range .NetworkSettings.Networks}} {{.IPAddress}}{{end}}";
        let place = docker(&["inspect", "--format", place, &primary.container]).await.unwrap();
        let place = place.split_whitespace().next().expect("an address in the engine's network");
        // What `pg_basebackup -R` writes may be for a newer server: it has the options of its own libpq.
        let copies = format!(
            "set -e; cd /tmp; from=postgres://overdue:overdue@{place}:5432; \
             pg_basebackup -d $from -D standby -X stream -c fast; \
             touch standby/standby.signal; \
             echo \"primary_conninfo = '$from'\" >> standby/postgresql.auto.conf; \
             exec postgres -D /tmp/standby {}",
            settings.join(" ")
        );
        let second = ["--user", "postgres", "--entrypoint", "bash"];
        let standby = Server::run(&second, &image, &["-c", &copies]).await;
        standby.until("SELECT 1", Result::is_ok).await;
        let pair = Self { primary, standby };
        pair.caught_up().await;
        pair
    }

    /// The primary's URL.
    pub fn primary(&self) -> Url {
        self.primary.url.clone()
    }

    /// The standby's.
    pub fn standby(&self) -> Url {
        self.standby.url.clone()
    }

    /// What a worker is given: both hosts.
    pub fn both(&self) -> String {
        let [first, second] = [&self.primary, &self.standby].map(|it| it.url.port().unwrap());
        format!(
            "postgres://overdue:overdue@127.0.0.1:{first},127.0.0.1:{second}/overdue?sslmode=disable&target_session_attrs=read-write"
        )
    }

    /// The standby has everything that was committed before.
    pub async fn caught_up(&self) {
        let written = self.primary.ask("SELECT pg_current_wal_lsn()").await;
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        self.standby.until(&replayed, |answer| answer.as_deref() == Ok("t")).await;
    }

    /// The standby gets nothing that is committed from now on.
    pub async fn cut(&self) {
        self.standby.ask("ALTER SYSTEM SET primary_conninfo = ''").await;
        self.standby.ask("SELECT pg_reload_conf()").await;
        let receives = "SELECT count(*) FROM pg_stat_wal_receiver";
        self.standby.until(receives, |answer| answer.as_deref() == Ok("0")).await;
        let sends = "SELECT count(*) FROM pg_stat_replication";
        self.primary.until(sends, |answer| answer.as_deref() == Ok("0")).await;
    }

    /// SIGKILL for the primary; then the standby is one.
    pub async fn fail_over(&self) {
        docker(&["kill", &self.primary.container]).await.unwrap();
        self.promote().await;
    }

    /// The standby is a primary as well.
    pub async fn promote(&self) {
        assert_eq!(self.standby.ask("SELECT pg_promote()").await, "t");
    }

    /// The first value, by the standby.
    pub async fn standby_says(&self, sql: &str) -> String {
        self.standby.ask(sql).await
    }
}

impl Server {
    async fn run(options: &[&str], image: &str, command: &[&str]) -> Self {
        let begin = ["run", "--detach", "--init", "--publish", "127.0.0.1::5432"];
        let all = [begin.as_slice(), options, &[image], command].concat();
        // Known from here on: it goes also if it never serves.
        let mut server = Self {
            container: docker(&all).await.unwrap(),
            url: Url::parse("postgres://overdue:overdue@127.0.0.1/overdue?sslmode=disable")
                .unwrap(),
        };
        let port = docker(&["port", &server.container, "5432/tcp"]).await.unwrap();
        let port = port.lines().next().and_then(|at| at.rsplit_once(':')).unwrap().1.parse();
        server.url.set_port(Some(port.unwrap())).unwrap();
        server
    }

    async fn ask(&self, sql: &str) -> String {
        ask(self.url.as_str(), sql).await.unwrap()
    }

    async fn until(&self, sql: &str, enough: impl Fn(&Result<String, String>) -> bool) -> String {
        until(sql, async || ask(self.url.as_str(), sql).await, enough).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs =
                Command::new("docker").args(["logs", "--tail", "20", &self.container]).output();
            let said = logs.map(|logs| [logs.stdout, logs.stderr].concat()).unwrap_or_default();
            eprintln!("--- {}\n{}", self.url, String::from_utf8_lossy(&said));
        }
        let removed =
            Command::new("docker").args(["rm", "--force", "--volumes", &self.container]).output();
        if !removed.is_ok_and(|removed| removed.status.success()) {
            eprintln!("left behind: the container {}", self.container);
        }
    }
}
