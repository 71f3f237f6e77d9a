//! A test's own virtual host and schema. Both go with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use lapin::types::FieldTable;
use overdue::{
    broker::{BrokerAddress, Management, PublishError, Publisher, TopologyChange},
    topology::{Topology, check::BrokerVersion},
    wire::Message,
};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use super::run::{Run, finish};
use crate::support::samples::{TWO_TIMEOUTS, two_timeouts};

/// Every user that a test makes has it.
const PASSWORD: &str = "drift";

/// A virtual host with a random name, a schema of the same name, and a folder with the topology.
pub(crate) struct Place {
    /// Its name.
    pub(crate) name: String,
    dir: TempDir,
    users: Mutex<BTreeSet<String>>,
}

impl Place {
    /// An empty virtual host, no schema yet.
    pub(crate) async fn new() -> Self {
        let name = format!("drift_{:016x}", rand::random::<u64>());
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("topology.toml"), TWO_TIMEOUTS).unwrap();
        let place = Self { name, dir, users: Mutex::default() };
        if let Err(why) = call(Method::PUT, &["vhosts", &place.name], Value::Null).await {
            panic!("this test needs RabbitMQ: {why}\n  start the services with: make services");
        }
        place
    }

    /// With the topology applied.
    pub(crate) async fn applied() -> Self {
        let place = Self::new().await;
        place.apply(&two_timeouts()).await;
        place
    }

    /// Applies a topology.
    pub(crate) async fn apply(&self, topology: &Topology) {
        let management = self.management();
        TopologyChange::new(&management, topology).apply().await.unwrap();
    }

    /// The management API as the program uses it.
    pub(crate) fn management(&self) -> Management {
        crate::support::Services::main().management_of(&self.address())
    }

    /// Where the program finds the broker.
    pub(crate) fn address(&self) -> BrokerAddress {
        BrokerAddress::parse(self.broker(None).as_str(), Some(management(None).as_str())).unwrap()
    }

    fn broker(&self, user: Option<&str>) -> Url {
        let default = "amqp://admin:admin@127.0.0.1:28672/%2f";
        let mut url = login(setting("OVERDUE_BROKER__URL", default), user);
        url.set_path(&format!("/{}", self.name));
        url
    }

    /// A user without permissions, with these tags.
    pub(crate) async fn user(&self, tags: &str) -> String {
        let name = format!("{}-{}", self.name, tags);
        let body = json!({ "password": PASSWORD, "tags": tags });
        call(Method::PUT, &["users", &name], body).await.unwrap();
        self.users.lock().unwrap().insert(name.clone());
        name
    }

    /// Lets a user do everything in this virtual host.
    pub(crate) async fn permit(&self, user: &str, configure: &str, write: &str, read: &str) {
        let body = json!({ "configure": configure, "write": write, "read": read });
        call(Method::PUT, &["permissions", &self.name, user], body).await.unwrap();
    }

    /// `overdue` in this place; `user` in place of the administrator.
    pub(crate) fn command(&self, arguments: &[&str], user: Option<&str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overdue"));
        command.args(arguments).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        for name in ["PATH", "HOME", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("OVERDUE_BROKER__URL", self.broker(user).as_str())
            .env("OVERDUE_BROKER__MANAGEMENT_URL", management(user).as_str())
            .env(
                "OVERDUE_BROKER__STATISTICS_INTERVAL",
                crate::support::Services::main().statistics_interval,
            )
            .env("OVERDUE_DATABASE__URL", database().as_str())
            .env("OVERDUE_DATABASE__SEARCH_PATH", &self.name);
        command
    }

    /// Runs `overdue` to its end.
    pub(crate) fn overdue(&self, arguments: &[&str]) -> Run {
        finish(self.command(arguments, None))
    }

    /// `overdue verify` finds something: severity, rule and subject of each.
    pub(crate) fn findings(&self) -> Vec<String> {
        let run = self.overdue(&["verify", "-o", "json"]);
        assert_eq!(run.code, Some(2), "{run}");
        run.findings()
    }

    /// A call of the management API below this virtual host, e.g. `queues` `<vhost>` `orders.unpaid`.
    pub(crate) async fn api(&self, how: Method, kind: &str, rest: &[&str], body: Value) -> Value {
        self.try_api(how, kind, rest, body).await.unwrap()
    }

    async fn try_api(
        &self,
        how: Method,
        kind: &str,
        rest: &[&str],
        body: Value,
    ) -> Result<Value, String> {
        let mut path = vec![kind, &self.name];
        path.extend(rest);
        call(how, &path, body).await
    }

    /// Declares a queue.
    pub(crate) async fn queue(&self, name: &str, arguments: Value) {
        let body = json!({ "durable": true, "arguments": arguments });
        self.api(Method::PUT, "queues", &[name], body).await;
    }

    /// Declares an exchange.
    pub(crate) async fn exchange(&self, name: &str, kind: &str, arguments: Value) {
        let body = json!({ "type": kind, "durable": true, "arguments": arguments });
        self.api(Method::PUT, "exchanges", &[name], body).await;
    }

    /// Binds a queue.
    pub(crate) async fn bind(&self, exchange: &str, queue: &str, key: &str) {
        let body = json!({ "routing_key": key });
        self.api(Method::POST, "bindings", &["e", exchange, "q", queue], body).await;
    }

    /// Takes a binding of a queue away.
    pub(crate) async fn unbind(&self, exchange: &str, queue: &str, key: &str) {
        let path = ["e", exchange, "q", queue, key];
        self.api(Method::DELETE, "bindings", &path, Value::Null).await;
    }

    /// Sets a policy for queues.
    pub(crate) async fn policy(&self, kind: &str, name: &str, pattern: &str, definition: Value) {
        self.try_policy(kind, name, pattern, definition).await.unwrap();
    }

    /// Sets a policy for queues, if the broker knows its keys; the text of a refusal.
    pub(crate) async fn try_policy(
        &self,
        kind: &str,
        name: &str,
        pattern: &str,
        definition: Value,
    ) -> Result<(), String> {
        let body = json!({ "pattern": pattern, "definition": definition, "apply-to": "queues" });
        self.try_api(Method::PUT, kind, &[name], body).await.map(drop)
    }

    /// Deletes an object, e.g. `queues` `orders.unpaid`.
    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(Method::DELETE, kind, &[name], Value::Null).await;
    }

    /// Publishes messages with one key; returns when all are confirmed.
    pub(crate) async fn publish(&self, exchange: &str, key: &str, count: usize) {
        for result in self.try_publish(exchange, key, count).await {
            result.unwrap();
        }
    }

    /// Publishes messages with one key: what the broker answered to each.
    pub(crate) async fn try_publish(
        &self,
        exchange: &str,
        key: &str,
        count: usize,
    ) -> Vec<Result<(), PublishError>> {
        let publisher = Publisher::connect(&self.address(), "test").await.unwrap();
        let sent = (0..count).map(|n| {
            publisher.publish(Message {
                exchange: exchange.to_owned(),
                routing_key: key.to_owned(),
                message_id: format!("{key}-{n}"),
                content_type: None,
                headers: FieldTable::default(),
                body: format!("o-{n}").into_bytes(),
            })
        });
        futures_util::future::join_all(sent).await
    }

    /// Takes what is in a queue, up to 1,000 messages.
    pub(crate) async fn take(&self, queue: &str) -> Vec<Value> {
        let body = json!({ "count": 1000, "ackmode": "ack_requeue_false", "encoding": "auto" });
        let taken = self.api(Method::POST, "queues", &[queue, "get"], body).await;
        taken.as_array().unwrap().clone()
    }

    /// Messages of a queue by a field of the management API; `None` where there is no number yet.
    pub(crate) async fn count(&self, queue: &str, field: &str) -> Option<u64> {
        self.api(Method::GET, "queues", &[queue], Value::Null).await[field].as_u64()
    }

    /// The policies of the virtual host: name and definition.
    pub(crate) async fn policies(&self) -> BTreeMap<String, Value> {
        let all = self.api(Method::GET, "policies", &[], Value::Null).await;
        let all = all.as_array().unwrap().iter();
        all.map(|p| (p["name"].as_str().unwrap().to_owned(), p["definition"].clone())).collect()
    }

    /// The version of the broker.
    pub(crate) async fn version(&self) -> BrokerVersion {
        let overview = call(Method::GET, &["overview"], Value::Null).await.unwrap();
        overview["rabbitmq_version"].as_str().unwrap().parse().unwrap()
    }

    /// Runs statements in the schema.
    pub(crate) async fn sql(&self, script: &str) {
        sql(&format!("SET search_path TO {}; {script}", self.name)).await.unwrap();
    }
}

/// A call of the management API as administrator; the answer, or status and text of a refusal.
async fn call(how: Method, path: &[&str], body: Value) -> Result<Value, String> {
    let mut url = management(None);
    let (name, password) =
        (url.username().to_owned(), url.password().unwrap_or_default().to_owned());
    url.set_username("").unwrap();
    url.set_password(None).unwrap();
    let mut text = format!("{}/api", url.as_str().trim_end_matches('/'));
    for part in path {
        text.push('/');
        text.extend(url::form_urlencoded::byte_serialize(part.as_bytes()));
    }
    let request = reqwest::Client::new().request(how, text).basic_auth(name, Some(password));
    let answer = request.json(&body).send().await.map_err(|error| format!("{error:?}"))?;
    let status = answer.status();
    let text = answer.text().await.map_err(|error| error.to_string())?;
    if !status.is_success() {
        return Err(format!("{status}: {text}"));
    }
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

async fn sql(script: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) =
        tokio_postgres::connect(database().as_str(), tokio_postgres::NoTls).await?;
    let driver = tokio::spawn(connection);
    let done = client.batch_execute(script).await;
    drop(client);
    let _ended = driver.await;
    done
}

fn management(user: Option<&str>) -> Url {
    login(setting("OVERDUE_BROKER__MANAGEMENT_URL", "http://admin:admin@127.0.0.1:28673"), user)
}

fn database() -> Url {
    setting("OVERDUE_DATABASE__URL", "postgres://overdue:overdue@127.0.0.1:28432/overdue")
}

fn login(mut url: Url, user: Option<&str>) -> Url {
    if let Some(user) = user {
        url.set_username(user).unwrap();
        url.set_password(Some(PASSWORD)).unwrap();
    }
    url
}

#[expect(clippy::disallowed_methods, reason = "a test's settings are what the shell has")]
fn setting(name: &str, default: &str) -> Url {
    std::env::var(name).unwrap_or_else(|_| default.to_owned()).parse().unwrap()
}

impl Drop for Place {
    fn drop(&mut self) {
        let name = self.name.clone();
        let users = std::mem::take(&mut *self.users.lock().unwrap());
        // A runtime of its own: this may run while the test's runtime unwinds.
        let deleting = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                for user in &users {
                    let _gone = call(Method::DELETE, &["users", user], Value::Null).await;
                }
                if let Err(why) = call(Method::DELETE, &["vhosts", &name], Value::Null).await {
                    eprintln!("left behind: virtual host {name}: {why}");
                }
                // Most tests have none.
                let _gone = sql(&format!("DROP SCHEMA IF EXISTS {name} CASCADE")).await;
            });
        });
        let _panicked = deleting.join();
    }
}
