//! A primary with an asynchronous standby, in two containers of one test.

use std::process::Command;

use url::Url;

use crate::{
    containers::{ask, container, docker},
    support::{Services, until},
};

/// A primary and its standby; both containers are removed on drop.
pub struct Pair {
    primary: Server,
    standby: Server,
}

struct Server {
    container: String,
    url: Url,
}

impl Pair {
    /// Returns when the standby streams. Both run the image of the second stack.
    pub async fn start() -> Self {
        let known =
            container(&Services::chaos(), "OVERDUE_CHAOS_DATABASE_CONTAINER", "postgres").await;
        let image = docker(&["inspect", "--format", "{{.Config.Image}}", &known]).await.unwrap();
        let first = ["POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"];
        let first = first.map(|name| format!("{name}=overdue"));
        let first: Vec<&str> = first.iter().flat_map(|set| ["--env", set]).collect();
        // This test is not about the disk.
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
        // The settings of `pg_basebackup -R` may be for a newer server: they have the options of its own libpq.
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

    pub fn primary(&self) -> Url {
        self.primary.url.clone()
    }

    pub fn standby(&self) -> Url {
        self.standby.url.clone()
    }

    /// The worker's URL, with both hosts.
    pub fn both(&self) -> String {
        let [first, second] = [&self.primary, &self.standby].map(|it| it.url.port().unwrap());
        format!(
            "postgres://overdue:overdue@127.0.0.1:{first},127.0.0.1:{second}/overdue?sslmode=disable&target_session_attrs=read-write"
        )
    }

    /// Waits until the standby has replayed all earlier commits.
    pub async fn caught_up(&self) {
        let written = self.primary.ask("SELECT pg_current_wal_lsn()").await;
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        self.standby.until(&replayed, |answer| answer.as_deref() == Ok("t")).await;
    }

    /// Stops replication: the standby gets no later commit.
    pub async fn cut(&self) {
        self.standby.ask("ALTER SYSTEM SET primary_conninfo = ''").await;
        self.standby.ask("SELECT pg_reload_conf()").await;
        let receives = "SELECT count(*) FROM pg_stat_wal_receiver";
        self.standby.until(receives, |answer| answer.as_deref() == Ok("0")).await;
        let sends = "SELECT count(*) FROM pg_stat_replication";
        self.primary.until(sends, |answer| answer.as_deref() == Ok("0")).await;
    }

    /// Kills the primary with SIGKILL, and promotes the standby.
    pub async fn fail_over(&self) {
        docker(&["kill", &self.primary.container]).await.unwrap();
        self.promote().await;
    }

    /// Promotes the standby; the old primary runs on.
    pub async fn promote(&self) {
        assert_eq!(self.standby.ask("SELECT pg_promote()").await, "t");
    }

    /// Returns the first value of a statement on the standby.
    pub async fn standby_says(&self, sql: &str) -> String {
        self.standby.ask(sql).await
    }
}

impl Server {
    async fn run(options: &[&str], image: &str, command: &[&str]) -> Self {
        let begin = ["run", "--detach", "--init", "--publish", "127.0.0.1::5432"];
        let all = [begin.as_slice(), options, &[image], command].concat();
        // Registered before it serves, so that the container is removed in any case.
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
