//! The broker and the database of the second stack: stopping, starting, and waiting until they serve.

use std::{env, process::Command, time::Duration};

use overdue::internals::broker::Link;
use reqwest::Method;
use serde_json::Value;
use tokio::time::{sleep, timeout};
use tokio_postgres::NoTls;

use crate::{
    networks::Networks,
    support::{Services, until, wait::awaited},
};

/// A running service usually answers in time, and a restart of a slow one does no harm; a frozen one never answers.
const ANSWER: Duration = Duration::from_secs(2);
/// RabbitMQ's default since 4.0, as a fraction of the memory.
const USUAL_WATERMARK: &str = "0.6";
/// The broker's memory use is always above this fraction.
const NO_MEMORY: &str = "0.00001";

/// Erlang for `rabbitmqctl eval`: moves the leadership of each quorum queue to another member (`ra:transfer_leadership`).
/// Queues without a known leader are skipped.
const MOVE_LEADERS: &str = r#"
    [case {ra_leaderboard:lookup_leader(Name), ra_leaderboard:lookup_members(Name)} of
         {{_, _} = Leader, Members} when is_list(Members), length(Members) > 1 ->
             ra:transfer_leadership(Leader, hd(Members -- [Leader]));
         _ -> unknown
     end || Queue <- rabbit_amqqueue:list(<<"$vhost">>), {Name, _} <- [amqqueue:get_pid(Queue)]]."#;

/// Erlang for `rabbitmqctl eval`: suspends or resumes the process of a queue.
const QUEUE_PROCESS: &str = r#"
    {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"$vhost">>, queue, <<"$queue">>)),
    {Name, _} = amqqueue:get_pid(Queue),
    sys:$call(Name)."#;

/// A queue that accepts messages and neither confirms nor nacks them; it is resumed on drop.
pub struct Suspended {
    container: String,
    resume: String,
}

impl Suspended {
    pub async fn resume(self) {
        docker(&["exec", &self.container, "rabbitmqctl", "eval", &self.resume]).await.unwrap();
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // A second resume has no effect. While a queue is suspended, its virtual host cannot be deleted.
        let resume = ["exec", &self.container, "rabbitmqctl", "eval", &self.resume];
        let _done = Command::new("docker").args(resume).output();
    }
}

/// Operations that broker and database share.
pub trait Container {
    /// `None` if other tests use the container as well: it is never stopped.
    fn name(&self) -> Option<&str>;

    /// Returns an error with the reason if the service does not answer.
    async fn health(&self) -> Result<(), String>;

    fn container(&self) -> &str {
        self.name().expect("a service that other tests use is not stopped")
    }

    /// SIGKILL, and a new start after `time`; confirmed and committed data are on the disk.
    async fn kill_for(&self, time: Duration) {
        docker(&["kill", self.container()]).await.unwrap();
        sleep(time).await;
        docker(&["start", self.container()]).await.unwrap();
        self.until_healthy().await;
    }

    /// SIGTERM and a new start. The broker closes connections with a reason; the database ends sessions with 57P01.
    async fn restart(&self) {
        docker(&["restart", self.container()]).await.unwrap();
        self.until_healthy().await;
    }

    /// Stops every process of the container for a while; the network still accepts connections.
    async fn freeze_for(&self, time: Duration) {
        pause(self.container()).await;
        sleep(time).await;
        docker(&["unpause", self.container()]).await.unwrap();
        self.until_healthy().await;
    }

    /// Connects the container to all its networks again, and waits until it is healthy.
    async fn join(&self) {
        Networks::of(self.container()).await.join().await;
        self.until_healthy().await;
    }

    async fn until_healthy(&self) {
        until("the service serves", async || self.health().await, Result::is_ok).await.unwrap();
    }
}

pub struct Broker {
    services: Services,
    /// `None` if other tests use the container as well: it is never stopped.
    container: Option<String>,
}

pub struct Database {
    services: Services,
    /// `None` if other tests use the container as well: it is never stopped.
    container: Option<String>,
}

impl Broker {
    /// The container of the second stack, or a broker that all tests share.
    pub async fn of(services: &Services) -> Self {
        let container = if services.has_chaos_broker() {
            Some(container(services, "OVERDUE_CHAOS_BROKER_CONTAINER", "rabbitmq").await)
        } else {
            None
        };
        Self { services: services.clone(), container }
    }

    /// A node of the cluster in `OVERDUE_CHAOS_BROKER_CONTAINERS`, or the only broker.
    pub async fn node(services: &Services, index: usize) -> Self {
        match env::var_os("OVERDUE_CHAOS_BROKER_CONTAINERS") {
            None => Self::of(services).await,
            Some(names) => {
                let names = names.into_string().unwrap();
                let container = names.split(',').nth(index).unwrap().to_owned();
                Self { services: services.clone(), container: Some(container) }
            }
        }
    }

    /// Starts or unpauses the container; does not wait until the broker is healthy.
    pub async fn set_going(&self) {
        if let Some(container) = &self.container
            && !timeout(ANSWER, self.health()).await.is_ok_and(|health| health.is_ok())
        {
            set_going(container).await;
        }
    }

    /// Raises the memory alarm: the broker blocks every connection that publishes.
    pub async fn raise_memory_alarm(&self) {
        self.set_watermark(NO_MEMORY).await;
        self.until_alarm(true).await;
    }

    /// Sets the default watermark, and waits until the alarm is gone.
    pub async fn clear_memory_alarm(&self) {
        self.set_watermark(USUAL_WATERMARK).await;
        self.until_alarm(false).await;
    }

    /// Undoes every fault of a test.
    pub async fn heal(&self) {
        if self.container.is_none() {
            return;
        }
        self.set_going().await;
        self.join().await;
        if self.has_alarm().await == Ok(true) {
            self.clear_memory_alarm().await;
        }
    }

    pub async fn networks(&self) -> Networks {
        Networks::of(self.container()).await
    }

    /// Gives every quorum queue of a virtual host another leader.
    pub async fn move_leaders(&self, vhost: &str) -> Result<(), String> {
        let move_all = MOVE_LEADERS.replace("$vhost", vhost);
        let moved = docker(&["exec", self.container(), "rabbitmqctl", "eval", &move_all]).await?;
        if moved.contains("ok") { Ok(()) } else { Err(format!("no leader was moved: {moved}")) }
    }

    /// Suspends the process of a quorum queue: the queue neither confirms nor nacks.
    pub async fn suspend(&self, vhost: &str, queue: &str) -> Suspended {
        let call = |call: &str| {
            let process = QUEUE_PROCESS.replace("$vhost", vhost).replace("$queue", queue);
            process.replace("$call", call)
        };
        let (container, resume) = (self.container().to_owned(), call("resume"));
        let said = docker(&["exec", &container, "rabbitmqctl", "eval", &call("suspend")]).await;
        assert_eq!(said.as_deref(), Ok("ok"));
        Suspended { container, resume }
    }

    async fn set_watermark(&self, part: &str) {
        let command =
            ["exec", self.container(), "rabbitmqctl", "set_vm_memory_high_watermark", part];
        docker(&command).await.unwrap();
    }

    async fn until_alarm(&self, wanted: bool) {
        let what = format!("memory alarm {wanted}");
        until(&what, async || self.has_alarm().await, |seen| *seen == Ok(wanted)).await.unwrap();
    }

    /// Reads the alarm itself: the figures of the node are five seconds old.
    async fn has_alarm(&self) -> Result<bool, String> {
        let path = ["health", "checks", "local-alarms"];
        match self.services.call(None, Method::GET, &path, Value::Null).await {
            Ok(_none) => Ok(false),
            Err(error) if error.starts_with("503") => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl Container for Broker {
    fn name(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// Calls the management API, then opens an AMQP connection.
    async fn health(&self) -> Result<(), String> {
        self.services.call(None, Method::GET, &["vhosts"], Value::Null).await?;
        let address = self.services.address("/", None);
        let link = Link::open(&address, "test: health").await.map_err(|error| error.to_string())?;
        link.close().await;
        Ok(())
    }
}

impl Database {
    /// The container of the second stack, or a database that all tests share.
    pub async fn of(services: &Services) -> Self {
        let container = if services.has_chaos_database() {
            Some(container(services, "OVERDUE_CHAOS_DATABASE_CONTAINER", "postgres").await)
        } else {
            None
        };
        Self { services: services.clone(), container }
    }

    /// Disconnects the container from the network of its clients.
    pub async fn cut_off(&self) {
        Networks::of(self.container()).await.cut_off_from_clients().await;
    }

    /// Makes new transactions of every session read-only, like a failover.
    pub async fn refuse_writes(&self) {
        self.configure("SET default_transaction_read_only = on").await;
        self.until_read_only("on").await;
    }

    pub async fn accept_writes(&self) {
        self.configure("RESET default_transaction_read_only").await;
        self.until_read_only("off").await;
    }

    /// Undoes every fault of a test.
    pub async fn heal(&self) {
        let Some(container) = &self.container else { return };
        if !timeout(ANSWER, self.health()).await.is_ok_and(|health| health.is_ok()) {
            set_going(container).await;
        }
        self.join().await;
        if self.read_only().await.as_deref() == Ok("on") {
            self.accept_writes().await;
        }
    }

    async fn configure(&self, change: &str) {
        // Two calls: `ALTER SYSTEM` cannot run in a transaction, and several statements in one call are one.
        self.ask(&format!("ALTER SYSTEM {change}")).await.unwrap();
        self.ask("SELECT pg_reload_conf()").await.unwrap();
    }

    async fn until_read_only(&self, wanted: &str) {
        let what = format!("default_transaction_read_only is {wanted}");
        let is_wanted = |seen: &Result<String, String>| seen.as_deref() == Ok(wanted);
        until(&what, async || self.read_only().await, is_wanted).await.unwrap();
    }

    async fn read_only(&self) -> Result<String, String> {
        self.ask("SHOW default_transaction_read_only").await
    }

    /// Returns the first value of a statement, on a new connection.
    pub async fn ask(&self, sql: &str) -> Result<String, String> {
        ask(&self.services.database_url(None), sql).await
    }
}

impl Container for Database {
    fn name(&self) -> Option<&str> {
        self.container.as_deref()
    }

    async fn health(&self) -> Result<(), String> {
        self.ask("SELECT 1").await.map(drop)
    }
}

/// Returns the first value of a statement, on a new connection.
pub async fn ask(url: &str, sql: &str) -> Result<String, String> {
    let said = |error: tokio_postgres::Error| {
        format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))
    };
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(said)?;
    // This task ends with the client.
    tokio::spawn(connection);
    let answers = client.simple_query(sql).await.map_err(said)?;
    let value = answers.iter().find_map(|answer| match answer {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(value.unwrap_or_default().to_owned())
}

/// Pauses a container. The engine refuses while a process waits for its disk, so the pause is repeated.
async fn pause(container: &str) {
    let pausing = async || docker(&["pause", container]).await;
    until("the container is frozen", pausing, Result::is_ok).await.unwrap();
}

/// Starts a stopped container, or unpauses a frozen one.
async fn set_going(container: &str) {
    // Fails if the container is not frozen.
    let _ = docker(&["unpause", container]).await;
    docker(&["start", container]).await.unwrap();
}

/// Returns the name that `docker/services.sh env` exports, or the default name.
pub async fn container(services: &Services, variable: &str, service: &str) -> String {
    if let Some(name) = env::var_os(variable) {
        return name.into_string().unwrap();
    }
    let project = env::var_os("OVERDUE_PROJECT").unwrap_or_else(|| "overdue".into());
    let project =
        format!("label=com.docker.compose.project={}-chaos", project.into_string().unwrap());
    let wanted = format!("label=com.docker.compose.service={service}");
    let found =
        docker(&["ps", "--all", "--quiet", "--filter", &project, "--filter", &wanted]).await;
    match found {
        Ok(id) if !id.is_empty() => id,
        Ok(_) => services.missing(&format!("the {service} container"), &"there is none"),
        Err(why) => services.missing("docker", &why),
    }
}

/// Runs `docker` to its end; returns its output, or the error text.
pub async fn docker(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("docker");
    command.args(arguments);
    // On a thread of its own, so that the runtime does not block.
    let running = tokio::task::spawn_blocking(move || command.output());
    let ran = awaited(&format!("docker {arguments:?}"), running).await.unwrap();
    let output = ran.map_err(|error| format!("docker: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
