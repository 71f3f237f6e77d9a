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

/// One that runs answers within, as a rule, and is not harmed if it does not; one that is frozen never does.
const ANSWER: Duration = Duration::from_secs(2);
/// RabbitMQ's default since 4.0, as a part of the memory.
const USUAL_WATERMARK: &str = "0.6";
/// So little that the broker is always above it.
const NO_MEMORY: &str = "0.00001";

/// Erlang, for `rabbitmqctl eval`: what Ra calls the transfer of a leadership, for each queue to a member that has
/// not got it. Queues whose leader is not known at the moment are left alone.
const MOVE_LEADERS: &str = r#"
    [case {ra_leaderboard:lookup_leader(Name), ra_leaderboard:lookup_members(Name)} of
         {{_, _} = Leader, Members} when is_list(Members), length(Members) > 1 ->
             ra:transfer_leadership(Leader, hd(Members -- [Leader]));
         _ -> unknown
     end || Queue <- rabbit_amqqueue:list(<<"$vhost">>), {Name, _} <- [amqqueue:get_pid(Queue)]]."#;

/// The same: the process of a queue does nothing until it is resumed.
const QUEUE_PROCESS: &str = r#"
    {ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"$vhost">>, queue, <<"$queue">>)),
    {Name, _} = amqqueue:get_pid(Queue),
    sys:$call(Name)."#;

/// A queue that takes messages and says nothing of them; it goes on when this goes.
pub struct Suspended {
    container: String,
    resume: String,
}

impl Suspended {
    /// It goes on.
    pub async fn resume(self) {
        docker(&["exec", &self.container, "rabbitmqctl", "eval", &self.resume]).await.unwrap();
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // A second time it does nothing; without it the virtual host could not be deleted.
        let resume = ["exec", &self.container, "rabbitmqctl", "eval", &self.resume];
        let _done = Command::new("docker").args(resume).output();
    }
}

/// What the two have in common.
pub trait Container {
    /// None where other tests use it, too: it can be asked, not stopped.
    fn name(&self) -> Option<&str>;

    /// It serves, or why it does not.
    async fn health(&self) -> Result<(), String>;

    fn container(&self) -> &str {
        self.name().expect("a service that other tests use is not stopped")
    }

    /// SIGKILL, and a new start after a while; what it has confirmed or committed is on its disk.
    async fn kill_for(&self, time: Duration) {
        docker(&["kill", self.container()]).await.unwrap();
        sleep(time).await;
        docker(&["start", self.container()]).await.unwrap();
        self.until_healthy().await;
    }

    /// SIGTERM, which closes a broker's connections with a reason and ends a database's sessions with 57P01, and a new start.
    async fn restart(&self) {
        docker(&["restart", self.container()]).await.unwrap();
        self.until_healthy().await;
    }

    /// Stops every process of it for a while; the network goes on accepting for it.
    async fn freeze_for(&self, time: Duration) {
        pause(self.container()).await;
        sleep(time).await;
        docker(&["unpause", self.container()]).await.unwrap();
        self.until_healthy().await;
    }

    /// Brings it back to every network, and waits until it serves.
    async fn join(&self) {
        Networks::of(self.container()).await.join().await;
        self.until_healthy().await;
    }

    async fn until_healthy(&self) {
        until("the service serves", async || self.health().await, Result::is_ok).await.unwrap();
    }
}

/// The broker's container.
pub struct Broker {
    services: Services,
    /// None where other tests use it, too: it can be asked, not stopped.
    container: Option<String>,
}

/// The database's container.
pub struct Database {
    services: Services,
    /// None where other tests use it, too: it can be asked, not stopped.
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

    /// One node of several, whose containers `OVERDUE_CHAOS_BROKER_CONTAINERS` names; or the only one.
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

    /// Whatever state it was left in; does not wait until it serves.
    pub async fn set_going(&self) {
        if let Some(container) = &self.container
            && !timeout(ANSWER, self.health()).await.is_ok_and(|health| health.is_ok())
        {
            set_going(container).await;
        }
    }

    /// Leaves it no memory: it blocks every connection that publishes.
    pub async fn raise_memory_alarm(&self) {
        self.set_watermark(NO_MEMORY).await;
        self.until_alarm(true).await;
    }

    /// Gives it its usual memory back.
    pub async fn clear_memory_alarm(&self) {
        self.set_watermark(USUAL_WATERMARK).await;
        self.until_alarm(false).await;
    }

    /// Undoes whatever a test did to it.
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

    /// The networks of its container.
    pub async fn networks(&self) -> Networks {
        Networks::of(self.container()).await
    }

    /// Gives every quorum queue of a virtual host another leader.
    pub async fn move_leaders(&self, vhost: &str) -> Result<(), String> {
        let move_all = MOVE_LEADERS.replace("$vhost", vhost);
        let moved = docker(&["exec", self.container(), "rabbitmqctl", "eval", &move_all]).await?;
        if moved.contains("ok") { Ok(()) } else { Err(format!("no leader was moved: {moved}")) }
    }

    /// From now on a quorum queue gives neither ack nor nack.
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

    /// As the broker decides it, without the five seconds that the node's figures are behind.
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

    /// The management API answers, and so does AMQP.
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

    /// Takes it off the network that its clients reach it through.
    pub async fn cut_off(&self) {
        Networks::of(self.container()).await.cut_off_from_clients().await;
    }

    /// Every transaction that begins from now on is read-only, in every session, like after a failover.
    pub async fn refuse_writes(&self) {
        self.configure("SET default_transaction_read_only = on").await;
        self.until_read_only("on").await;
    }

    /// Transactions write again.
    pub async fn accept_writes(&self) {
        self.configure("RESET default_transaction_read_only").await;
        self.until_read_only("off").await;
    }

    /// Undoes whatever a test did to it.
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
        // Two calls: it runs in no transaction, and several statements in one call are one.
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

    /// The first value that a statement gives, on a new connection.
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

/// The first value that a statement gives, on a new connection.
pub async fn ask(url: &str, sql: &str) -> Result<String, String> {
    let said = |error: tokio_postgres::Error| {
        format!("{error}: {:?}", std::error::Error::source(&error).map(ToString::to_string))
    };
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(said)?;
    // Ends with the client.
    tokio::spawn(connection);
    let answers = client.simple_query(sql).await.map_err(said)?;
    let value = answers.iter().find_map(|answer| match answer {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(value.unwrap_or_default().to_owned())
}

/// The engine cannot freeze a process that waits for its disk, and says so: then it is asked again.
async fn pause(container: &str) {
    let pausing = async || docker(&["pause", container]).await;
    until("the container is frozen", pausing, Result::is_ok).await.unwrap();
}

/// Runs a container that was stopped, and continues one that was frozen.
async fn set_going(container: &str) {
    // Fails where it is not frozen.
    let _ = docker(&["unpause", container]).await;
    docker(&["start", container]).await.unwrap();
}

/// The name that `docker/services.sh env` exports, or the container that it would name.
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

/// Runs `docker` to its end; what it printed, or why it failed.
pub async fn docker(arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("docker");
    command.args(arguments);
    // A thread of its own: the runtime goes on with what the test does meanwhile.
    let running = tokio::task::spawn_blocking(move || command.output());
    let ran = awaited(&format!("docker {arguments:?}"), running).await.unwrap();
    let output = ran.map_err(|error| format!("docker: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
