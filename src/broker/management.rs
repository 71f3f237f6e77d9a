//! The management API: what the broker has, and one call per change of a plan.
//!
//! AMQP can neither list objects nor read their arguments, so the plan needs this API
//! (<https://www.rabbitmq.com/docs/http-api-reference>). Permission needed: the `management` tag to read,
//! configure and write on the topology's objects to change.

mod change;
mod each;
mod error;
mod nodes;

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;
use rabbitmq_http_client::error::Error as ApiError;
use serde::de::DeserializeOwned;

pub(crate) use each::DelayedOnNode;
pub use error::ManagementError;
use error::{ApiFailure, Caller};
use nodes::{ApiClient, Nodes, http_client, is_unreached};

use super::{
    BrokerAddress, ConnectError, Link,
    host_list::percent_decode,
    objects::{binding_of, exchange_of, queue_of},
};
use crate::{
    objects::{Exchange, Objects},
    plan::{counts::StatisticsInterval, saved::BrokerIdentity, snapshot::Snapshot},
    secret::Secret,
};

/// A client of the management API for one virtual host.
pub struct Management {
    pub(super) nodes: Nodes,
    http: reqwest::Client,
    password: Secret,
    pub(super) address: BrokerAddress,
    display: String,
    user: String,
    vhost: String,
    statistics_interval: StatisticsInterval,
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { display, user, vhost, .. } = self;
        write!(f, "Management({display} virtual host `{vhost}` as `{user}`)")
    }
}

impl Management {
    /// A client for the virtual host of `address`. Connects with the first call.
    ///
    /// # Errors
    /// The HTTP client cannot be built (TLS roots are missing).
    pub fn new(address: &BrokerAddress) -> Result<Self, ManagementError> {
        let display = address.management_display();
        let unbuilt = |reason: String| ManagementError::Unreachable {
            address: display.clone(),
            step: "set up the HTTP client".to_owned(),
            reason,
        };
        let http =
            http_client(address.management_tls.as_ref(), &address.timing).map_err(unbuilt)?;
        let urls = address.management.expose();
        let credentials = urls.first().map(|url| (url.username(), url.password()));
        let (user, password) = credentials.unwrap_or_default();
        let (user, password) = (percent_decode(user), percent_decode(password.unwrap_or_default()));
        let nodes = Nodes::new(urls, (&user, &password), &http).map_err(unbuilt)?;
        Ok(Self {
            nodes,
            http,
            password: Secret::new(password),
            address: address.clone(),
            display,
            user,
            vhost: address.virtual_host().to_owned(),
            statistics_interval: StatisticsInterval::default(),
        })
    }

    /// Makes a call, on another node where the first does not listen.
    pub(super) async fn call<'a, T>(
        &'a self,
        call: impl Fn(&'a ApiClient) -> BoxFuture<'a, Result<T, ApiFailure>>,
    ) -> Result<T, ApiFailure> {
        let mut round = self.nodes.round();
        loop {
            let answer = call(round.client()).await;
            if !round.goes_on(answer.as_ref().is_err_and(is_unreached)) {
                return answer;
            }
        }
    }

    /// The same client for a broker that takes its statistics at another interval than every five seconds.
    #[must_use]
    pub fn with_statistics_interval(self, statistics_interval: StatisticsInterval) -> Self {
        Self { statistics_interval, ..self }
    }

    /// How often the broker takes its statistics, and with that how old its counts are.
    #[must_use]
    pub fn statistics_interval(&self) -> StatisticsInterval {
        self.statistics_interval
    }

    /// What is read this long after an event has surely counted everything before it: enough to delete something.
    pub(super) fn surely_settle(&self) -> Duration {
        self.statistics_interval.surely_settle(self.address.timing.least_statistics_interval)
    }

    /// Where the broker is.
    #[must_use]
    pub fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// The virtual host all calls are about.
    #[must_use]
    pub fn virtual_host(&self) -> &str {
        &self.vhost
    }

    /// Where the management API is, without its password.
    pub(super) fn displayed(&self) -> &str {
        &self.display
    }

    /// Which broker and virtual host this is.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn identity(&self) -> Result<BrokerIdentity, ManagementError> {
        let identity = self.call(|client| Box::pin(client.get_cluster_name())).await;
        let identity = identity.map_err(|error| self.explain("read the cluster's name", error))?;
        Ok(BrokerIdentity { cluster: identity.name, virtual_host: self.vhost.clone() })
    }

    /// A GET that `rabbitmq_http_client` has no call for; `path` is below `/api`, unescaped.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ManagementError> {
        let failed = |error: reqwest::Error| self.explain(&reading(path), error.into());
        let response = self.respond(path, query).await?;
        let response = response.error_for_status().map_err(failed)?;
        response.json().await.map_err(failed)
    }

    /// `None` where there is no such object.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Option<T>, ManagementError> {
        let failed = |error: reqwest::Error| self.explain(&reading(path), error.into());
        let response = self.respond(path, query).await?;
        if response.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let response = response.error_for_status().map_err(failed)?;
        response.json().await.map(Some).map_err(failed)
    }

    /// The whole response to a GET, whatever its status.
    pub(super) async fn respond(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<reqwest::Response, ManagementError> {
        let sent = self.send(reqwest::Method::GET, path, query).await;
        sent.map_err(|error| self.explain(&reading(path), error.into()))
    }

    async fn send(
        &self,
        method: reqwest::Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<reqwest::Response, reqwest::Error> {
        let mut round = self.nodes.round();
        let mut may_repeat = method == reqwest::Method::GET;
        loop {
            let mut url = round.node().endpoint.clone();
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.pop_if_empty().push("api").extend(path);
            }
            url.query_pairs_mut().extend_pairs(query);
            let request = self.http.request(method.clone(), url);
            let sent = request.basic_auth(&self.user, Some(self.password.expose())).send().await;
            // A connection that was idle may be closed while a question is on its way: a new one has the answer.
            if may_repeat && sent.as_ref().is_err_and(was_cut) {
                may_repeat = false;
                continue;
            }
            if !round.goes_on(sent.as_ref().is_err_and(reqwest::Error::is_connect)) {
                return sent;
            }
        }
    }

    /// The user that reads and changes the broker through this API.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Every exchange, queue and binding of the virtual host, and what waits; changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn observe(&self) -> Result<Snapshot, ManagementError> {
        let exchanges =
            match self.call(|client| Box::pin(client.list_exchanges_in(&self.vhost))).await {
                Ok(exchanges) => exchanges,
                Err(error) => return Err(self.explain_first(error).await),
            };
        let queues = self.call(|client| Box::pin(client.list_queues_in(&self.vhost))).await;
        let queues = queues.map_err(|error| self.explain("list the queues", error))?;
        let bindings = self.call(|client| Box::pin(client.list_bindings_in(&self.vhost))).await;
        let bindings = bindings.map_err(|error| self.explain("list the bindings", error))?;
        let stats = self.queue_stats().await?;
        let used = stats.values().filter(|queue| queue.consumers.is_some_and(|number| number > 0));
        let consumed = used.map(|queue| queue.name.clone()).collect();
        let stats = stats.into_values();
        let messages = stats.filter_map(|queue| Some((queue.name, queue.messages?))).collect();
        let mut exchanges: Vec<Exchange> = exchanges.into_iter().map(exchange_of).collect();
        let internal = self.internal_exchanges().await?;
        for exchange in &mut exchanges {
            exchange.internal = internal.contains(&exchange.name);
        }
        let delayed = self.delayed(&exchanges).await?;
        let queues = queues.into_iter().map(queue_of);
        let objects = Objects {
            exchanges: exchanges
                .into_iter()
                .map(|exchange| (exchange.name.clone(), exchange))
                .collect(),
            queues: queues.map(|queue| (queue.name.clone(), queue)).collect(),
            bindings: bindings.into_iter().map(binding_of).collect(),
        };
        let virtual_host = self.vhost.clone();
        Ok(Snapshot { virtual_host, objects, messages, delayed, consumed, ..Snapshot::default() })
    }

    /// Why the exchanges cannot be listed. A virtual host that the user may not use is not there for this API on
    /// RabbitMQ 4.3, and on 4.0 it is answered like a wrong password; only AMQP shows which.
    async fn explain_first(&self, error: ApiFailure) -> ManagementError {
        let step = "list the exchanges";
        let explained = self.explain(step, error);
        if !matches!(
            explained,
            ManagementError::NoVirtualHost { .. } | ManagementError::NotPermitted { .. }
        ) {
            return explained;
        }
        match self.link("overdue: looking for the virtual host").await {
            Err(error @ ConnectError::NotAllowed { .. }) => ManagementError::NotPermitted {
                address: self.display.clone(),
                user: self.user.clone(),
                step: step.to_owned(),
                reason: error.to_string(),
            },
            _ => explained,
        }
    }

    /// Whether anything but the default exchange and a mark is bound to `queue`.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(super) async fn is_bound(&self, queue: &str) -> Result<bool, ManagementError> {
        match self.call(|client| Box::pin(client.list_queue_bindings(&self.vhost, queue))).await {
            Ok(bindings) => {
                let mut bindings = bindings.into_iter().map(binding_of);
                Ok(bindings
                    .any(|binding| !binding.source.is_empty() && binding.mark_of().is_none()))
            }
            Err(ApiError::NotFound) => Ok(false),
            Err(error) => Err(self.explain(&format!("list the bindings of {queue}"), error)),
        }
    }

    /// Deletes a classic queue, only if nothing is ready in it: the broker looks and deletes in one step.
    /// Quorum queues cannot do that.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(super) async fn delete_if_empty(&self, queue: &str) -> Result<bool, ManagementError> {
        let path = ["queues", &self.vhost, queue];
        let failed =
            |error: reqwest::Error| self.explain(&format!("delete queue {queue}"), error.into());
        let sent = self.send(reqwest::Method::DELETE, &path, &[("if-empty", "true")]).await;
        let response = sent.map_err(failed)?;
        match response.status().as_u16() {
            404 => Ok(true),
            400 => Ok(false),
            _ => response.error_for_status().map(|_| true).map_err(failed),
        }
    }

    /// What a failure of the HTTP client means, in `step`.
    pub(super) fn explain(&self, step: &str, error: ApiFailure) -> ManagementError {
        let caller = Caller { address: &self.display, user: &self.user, vhost: &self.vhost };
        caller.explain(step, error)
    }

    /// A connection with the credentials of `broker.url`, for what only AMQP can answer.
    pub(super) async fn link(&self, purpose: &str) -> Result<Link, ConnectError> {
        Link::open(&self.address, purpose).await
    }
}

fn reading(path: &[&str]) -> String {
    format!("read {}", path.join("/"))
}

/// Whether the connection ended before an answer came, and the time was not over.
fn was_cut(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}
