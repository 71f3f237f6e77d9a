//! The management API for tests: raw calls, and objects that a test makes or breaks by hand.

use std::collections::BTreeMap;

use overdue::internals::topology::check::BrokerVersion;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Services, World, services::http_client, until, users::PASSWORD};

impl Services {
    /// Calls as administrator or as a test's user; returns the answer, or status and text of the refusal.
    pub async fn call(
        &self,
        user: Option<&str>,
        how: Method,
        path: &[&str],
        body: Value,
    ) -> Result<Value, String> {
        let mut url = self.management.clone();
        let (name, password) = match user {
            Some(user) => (user.to_owned(), PASSWORD.to_owned()),
            None => (url.username().to_owned(), url.password().unwrap_or_default().to_owned()),
        };
        url.set_username("").unwrap();
        url.set_password(None).unwrap();
        url.path_segments_mut().unwrap().pop_if_empty().push("api").extend(path);
        let request = http_client().request(how, url).basic_auth(name, Some(password)).json(&body);
        let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(format!("{status}: {text}"));
        }
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Deletes an object, e.g. `users` `<name>`, if it exists.
    pub async fn forget(&self, kind: &str, name: &str) -> Result<(), String> {
        match self.call(None, Method::DELETE, &[kind, name], Value::Null).await {
            Err(error) if !error.starts_with("404") => Err(error),
            _gone => Ok(()),
        }
    }

    pub async fn broker_version(&self) -> BrokerVersion {
        let overview = self.call(None, Method::GET, &["overview"], Value::Null).await.unwrap();
        overview["rabbitmq_version"].as_str().unwrap().parse().unwrap()
    }

    /// The broker's exchange types, with those from plugins.
    pub async fn exchange_types(&self) -> Vec<String> {
        let overview = self.call(None, Method::GET, &["overview"], Value::Null).await.unwrap();
        let types = overview["exchange_types"].as_array().unwrap();
        types.iter().map(|known| known["name"].as_str().unwrap().to_owned()).collect()
    }
}

impl World {
    /// Calls as administrator below this virtual host, e.g. `queues` `<vhost>` `orders.unpaid`.
    pub async fn call(&self, how: Method, kind: &str, rest: &[&str], body: Value) -> Value {
        self.try_call(how, kind, rest, body).await.unwrap()
    }

    /// Like [`World::call`]; returns status and text of a refusal.
    pub async fn try_call(
        &self,
        how: Method,
        kind: &str,
        rest: &[&str],
        body: Value,
    ) -> Result<Value, String> {
        let mut path = vec![kind, &self.vhost];
        path.extend(rest);
        self.services.call(None, how, &path, body).await
    }

    /// Unacked messages of a queue, by the newest statistics; `None` before the first.
    pub async fn unacked(&self, queue: &str) -> Option<u64> {
        let queue = self.call(Method::GET, "queues", &[queue], Value::Null).await;
        queue["messages_unacknowledged"].as_u64()
    }

    /// Declares a durable queue.
    pub async fn queue(&self, name: &str, arguments: Value) {
        let body = json!({ "durable": true, "arguments": arguments });
        self.call(Method::PUT, "queues", &[name], body).await;
    }

    /// Declares a durable exchange.
    pub async fn exchange(&self, name: &str, kind: &str, arguments: Value) {
        let body = json!({ "type": kind, "durable": true, "arguments": arguments });
        self.call(Method::PUT, "exchanges", &[name], body).await;
    }

    pub async fn bind(&self, exchange: &str, queue: &str, key: &str) {
        let body = json!({ "routing_key": key });
        self.call(Method::POST, "bindings", &["e", exchange, "q", queue], body).await;
    }

    pub async fn unbind(&self, exchange: &str, queue: &str, key: &str) {
        let path = ["e", exchange, "q", queue, key];
        self.call(Method::DELETE, "bindings", &path, Value::Null).await;
    }

    /// Sets a policy for queues; `kind` is `policies` or `operator-policies`.
    pub async fn policy(&self, kind: &str, name: &str, pattern: &str, definition: Value) {
        self.try_policy(kind, name, pattern, definition).await.unwrap();
    }

    /// Like [`World::policy`]; returns the refusal of a broker that does not know its keys.
    pub async fn try_policy(
        &self,
        kind: &str,
        name: &str,
        pattern: &str,
        definition: Value,
    ) -> Result<(), String> {
        let body = json!({ "pattern": pattern, "definition": definition, "apply-to": "queues" });
        self.try_call(Method::PUT, kind, &[name], body).await.map(drop)
    }

    /// The AMQP connections of the virtual host, by the late statistics.
    pub async fn connections(&self) -> Vec<Value> {
        let path = ["vhosts", &self.vhost, "connections"];
        let listed = self.services.call(None, Method::GET, &path, Value::Null).await;
        listed.ok().and_then(|listed| listed.as_array().cloned()).unwrap_or_default()
    }

    /// Closes the connection of this name, if it exists, as an administrator does in the management UI.
    pub async fn close_connection(&self, name: &str) {
        let look = async || {
            let is_its = |it: &Value| it["client_properties"]["connection_name"] == name;
            self.connections().await.into_iter().find(is_its)
        };
        let connection = until(&format!("connection `{name}`"), look, Option::is_some).await;
        let connection = connection.unwrap();
        self.services.forget("connections", connection["name"].as_str().unwrap()).await.unwrap();
    }

    /// The policies of the virtual host: name and definition.
    pub async fn policies(&self) -> BTreeMap<String, Value> {
        let all = self.call(Method::GET, "policies", &[], Value::Null).await;
        let all = all.as_array().unwrap().iter();
        all.map(|p| (p["name"].as_str().unwrap().to_owned(), p["definition"].clone())).collect()
    }

    /// Deletes an object, e.g. `queues` `orders.unpaid`.
    pub async fn delete(&self, kind: &str, name: &str) {
        self.call(Method::DELETE, kind, &[name], Value::Null).await;
    }

    /// Gets up to 1,000 messages of a queue, as the management API shows them; none if the queue is deleted, which a list of
    /// queues may still contain.
    pub async fn take(&self, queue: &str) -> Vec<Value> {
        let body = json!({ "count": 1000, "ackmode": "ack_requeue_false", "encoding": "auto" });
        match self.try_call(Method::POST, "queues", &[queue, "get"], body).await {
            Err(error) if error.starts_with("404") => Vec::new(),
            taken => taken.unwrap().as_array().unwrap().clone(),
        }
    }

    /// A number of a queue, by the late statistics; `None` before the first.
    pub async fn count(&self, queue: &str, field: &str) -> Option<u64> {
        self.call(Method::GET, "queues", &[queue], Value::Null).await[field].as_u64()
    }
}

impl World {
    /// Waits until the management API has numbers of every queue of the topology; it has none of new queues.
    pub async fn until_all_counted(&self) {
        let queues = self.topology.objects().queues;
        let look = async || {
            let seen = self.management().observe().await.unwrap();
            queues.keys().filter(|queue| seen.messages_in(queue).is_none()).count()
        };
        until("every queue counted", look, |missing| *missing == 0).await;
    }

    /// Waits until a policy is in effect on a queue.
    pub async fn until_policy(&self, queue: &str, policy: &str) {
        let look = async || {
            let queue = self.call(Method::GET, "queues", &[queue], Value::Null).await;
            ["policy", "operator_policy"].map(|kind| queue[kind].as_str() == Some(policy))
        };
        super::until(&format!("policy {policy} on {queue}"), look, |seen| seen.contains(&true))
            .await;
    }
}
