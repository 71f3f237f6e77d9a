//! The management API: what the broker has, and one call per change of a plan.
//!
//! AMQP can neither list objects nor read their arguments, so the plan needs this API
//! (<https://www.rabbitmq.com/docs/http-api-reference>). Permission needed: the `management` tag to read,
//! configure and write on the topology's objects to change.

mod change;
mod error;
mod nodes;

use std::{collections::BTreeSet, fmt, time::Duration};

use futures_util::future::try_join_all;
use jiff::{Timestamp, fmt::rfc2822};
use reqwest::{Method, header::DATE};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};

pub(super) use error::ApiFailure;
use error::Caller;
pub use error::ManagementError;
pub(super) use nodes::Nodes;
use nodes::{fits_in_a_path, http_client};

use super::objects::{BindingInfo, ExchangeInfo, QueueInfo};
use crate::{
    config::Login,
    messaging::{BrokerAddress, ConnectError, Link, product},
    objects::{Binding, Exchange, Objects, Queue},
    plan::{
        counts::StatisticsInterval,
        json::BrokerIdentity,
        snapshot::{QueueStats, Snapshot},
    },
    text::percent_decode,
    topology::{Topology, level_routes::LevelRoutes},
};

#[derive(Deserialize)]
struct Cluster {
    name: String,
}

/// The answer of `GET /overview`.
#[derive(Deserialize)]
pub(super) struct Overview {
    pub(super) rabbitmq_version: String,
    #[serde(default)]
    pub(super) exchange_types: Vec<Named>,
    /// Of the one that answers; a user without the tag `monitoring` is not given it.
    pub(super) node: Option<String>,
}

impl Overview {
    pub(super) const QUERY: [(&str, &str); 1] =
        [("columns", "rabbitmq_version,exchange_types,node")];
}

/// The name of an object, which is all that is read of it.
#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

/// An exchange that every virtual host has.
const EVERYWHERE: &str = "amq.direct";

/// A client of the management API for one virtual host.
pub struct Management {
    pub(super) nodes: Nodes,
    pub(super) address: BrokerAddress,
    display: String,
    vhost: String,
    statistics_interval: StatisticsInterval,
}

impl fmt::Debug for Management {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { display, vhost, .. }, user) = (self, self.user());
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
        let login = Login { user, password: password.into() };
        let file = address.management_file();
        let nodes = Nodes::new(urls, login, file, http).map_err(unbuilt)?;
        Ok(Self {
            nodes,
            address: address.clone(),
            display,
            vhost: address.virtual_host().to_owned(),
            statistics_interval: StatisticsInterval::default(),
        })
    }

    /// The same client for a broker that takes its statistics at another interval than every five seconds.
    pub fn with_statistics_interval(self, statistics_interval: StatisticsInterval) -> Self {
        Self { statistics_interval, ..self }
    }

    /// How often the broker takes its statistics, and with that how old its counts are.
    pub fn statistics_interval(&self) -> StatisticsInterval {
        self.statistics_interval
    }

    /// What is read this long after an event has surely counted everything before it: enough to delete something.
    pub(super) fn surely_settle(&self) -> Duration {
        self.statistics_interval.surely_settle(self.address.timing.least_statistics_interval)
    }

    /// Where the broker is.
    pub fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// The virtual host all calls are about.
    pub fn virtual_host(&self) -> &str {
        &self.vhost
    }

    /// Where the management API is, without its password.
    pub(super) fn displayed(&self) -> &str {
        &self.display
    }

    /// Which broker and virtual host this is.
    pub async fn identity(&self) -> Result<BrokerIdentity, ManagementError> {
        let Cluster { name } = self.get(&["cluster-name"], &[]).await?;
        Ok(BrokerIdentity { cluster: name, virtual_host: self.vhost.clone() })
    }

    /// A GET; `path` is below `/api`, unescaped.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ManagementError> {
        self.ask(path, query).await.map_err(|error| self.explain(&reading(path), error))
    }

    /// `None` where there is no such object.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Option<T>, ManagementError> {
        match self.ask(path, query).await {
            Err(error) if error.is(404) => Ok(None),
            answer => answer.map(Some).map_err(|error| self.explain(&reading(path), error)),
        }
    }

    /// A GET, for who takes some failures for an answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ApiFailure> {
        self.nodes.ask(path, query).await
    }

    /// The user that reads and changes the broker through this API.
    pub fn user(&self) -> &str {
        self.nodes.user()
    }

    /// Every exchange, queue and binding of the virtual host, and what waits; changes nothing.
    pub async fn observe(&self) -> Result<Snapshot, ManagementError> {
        self.is_rabbitmq().await?;
        let path = ["exchanges", &self.vhost];
        let exchanges: Vec<ExchangeInfo> = match self.ask(&path, &ExchangeInfo::QUERY).await {
            Ok(exchanges) => exchanges,
            Err(error) => return Err(self.explain_first(error).await),
        };
        let exchanges: Vec<Exchange> = exchanges.into_iter().map(Exchange::from).collect();
        let queues: Vec<QueueInfo> = self.get(&["queues", &self.vhost], &QueueInfo::QUERY).await?;
        let queues = queues.into_iter().map(Queue::from);
        let bindings: Vec<BindingInfo> = self.get(&["bindings", &self.vhost], &[]).await?;
        let (policies, operator_policies) =
            tokio::try_join!(self.policies(), self.operator_policies())?;
        let stats = self.queue_stats().await?;
        let used = stats.values().filter(|queue| queue.consumers.is_some_and(|number| number > 0));
        let consumed = used.map(|queue| queue.name.clone()).collect();
        let stats = stats.into_values();
        let held = |queue: QueueStats| queue.held().map(|held| (queue.name, held));
        let messages = stats.filter_map(held).collect();
        let delayed = self.delayed(&exchanges).await?;
        let objects = Objects {
            exchanges: exchanges
                .into_iter()
                .map(|exchange| (exchange.name.clone(), exchange))
                .collect(),
            queues: queues.map(|queue| (queue.name.clone(), queue)).collect(),
            bindings: bindings.into_iter().map(Binding::from).collect(),
        };
        let virtual_host = self.vhost.clone();
        Ok(Snapshot {
            virtual_host,
            objects,
            messages,
            delayed,
            consumed,
            policies,
            operator_policies,
            ..Snapshot::default()
        })
    }

    /// Why the exchanges cannot be listed. A virtual host that the user may not use is not there for this API on
    /// RabbitMQ 4.3, and on 4.0 it is answered like a wrong password; only AMQP shows which.
    async fn explain_first(&self, error: ApiFailure) -> ManagementError {
        let step = "list the exchanges";
        let explained = self.explain(step, error);
        let is_not_found = match explained {
            ManagementError::NotFound { .. } => true,
            ManagementError::NotPermitted { .. } => false,
            _ => return explained,
        };
        let (address, user) = (self.display.clone(), self.user().to_owned());
        match self.link("overdue: looking for the virtual host").await {
            Err(error @ ConnectError::NotAllowed { .. }) => ManagementError::NotPermitted {
                address,
                user,
                step: step.to_owned(),
                reason: error.to_string(),
            },
            Err(ConnectError::NoVirtualHost { .. }) if is_not_found => {
                ManagementError::NoVirtualHost { address, vhost: self.vhost.clone(), user }
            }
            Ok(link) if is_not_found => {
                link.close().await;
                // Every login may ask who it is: where even that is not found, something else answers.
                if self.ask::<IgnoredAny>(&["whoami"], &[]).await.is_err_and(|it| it.is(404)) {
                    return explained;
                }
                ManagementError::OnlyByAmqp { address, vhost: self.vhost.clone(), user }
            }
            _ => explained,
        }
    }

    /// Whether anything but the default exchange and a mark is bound to `queue`.
    pub(super) async fn is_bound(&self, queue: &str) -> Result<bool, ManagementError> {
        let path = ["queues", &self.vhost, queue, "bindings"];
        let bindings: Option<Vec<BindingInfo>> = self.find(&path, &[]).await?;
        let mut bindings = bindings.into_iter().flatten().map(Binding::from);
        Ok(bindings.any(|binding| !binding.source.is_empty() && binding.mark_of().is_none()))
    }

    /// Deletes a classic queue, only if nothing is ready in it: the broker looks and deletes in one step.
    /// Quorum queues cannot do that.
    pub(super) async fn delete_if_empty(&self, queue: &str) -> Result<bool, ManagementError> {
        let path = ["queues", &self.vhost, queue];
        match self.nodes.send(Method::DELETE, &path, &[("if-empty", "true")], None).await {
            Err(error) if error.is(400) => Ok(false),
            Err(error) if !error.is(404) => {
                Err(self.explain(&format!("delete queue {queue}"), error))
            }
            _deleted => Ok(true),
        }
    }

    /// What a failure of the HTTP client means, in `step`.
    pub(super) fn explain(&self, step: &str, error: ApiFailure) -> ManagementError {
        let caller = Caller {
            address: &self.display,
            user: self.user(),
            vhost: &self.vhost,
            within: self.address.timing.api_call,
        };
        caller.explain(step, error)
    }

    /// A connection with the credentials of `broker.url`, for what only AMQP can answer.
    pub(super) async fn link(&self, purpose: &str) -> Result<Link, ConnectError> {
        Link::open(&self.address, purpose).await
    }

    /// Whether this is RabbitMQ. An answer that says nothing of it, or none, is judged by what is asked next.
    async fn is_rabbitmq(&self) -> Result<(), ManagementError> {
        #[derive(Deserialize)]
        struct Product {
            product_name: Option<String>,
            #[serde(default)]
            lavinmq_version: Option<String>,
        }
        const COLUMNS: [(&str, &str); 1] = [("columns", "product_name,lavinmq_version")];
        let Ok(Product { product_name, lavinmq_version }) = self.ask(&["overview"], &COLUMNS).await
        else {
            return Ok(());
        };
        let product = lavinmq_version.map(|_| "LavinMQ".to_owned()).or(product_name);
        match product.filter(|product| !product::is_rabbitmq(product)) {
            Some(product) => {
                Err(ManagementError::OtherProduct { address: self.display.clone(), product })
            }
            None => Ok(()),
        }
    }

    /// What the broker says of itself.
    pub(super) async fn overview(&self) -> Result<Overview, ManagementError> {
        self.get(&["overview"], &Overview::QUERY).await
    }

    /// The exchange types that every running node has, or the one that answers if this user may not list the nodes (tag
    /// `monitoring`): with a plugin that some node lacks, its queues hand nothing on.
    pub(super) async fn exchange_types(&self, overview: &Overview) -> Vec<String> {
        #[derive(Deserialize)]
        struct Node {
            exchange_types: Option<Vec<Named>>,
        }
        let nodes = self.get::<Vec<Node>>(&["nodes"], &[("columns", "name,exchange_types")]).await;
        let mut types: Vec<String> =
            overview.exchange_types.iter().map(|kind| kind.name.clone()).collect();
        for node in nodes.unwrap_or_default().into_iter().filter_map(|node| node.exchange_types) {
            types.retain(|name| node.iter().any(|kind| kind.name == *name));
        }
        types
    }

    /// The clock of the broker, in seconds since 1970.
    pub(super) async fn now_s(&self) -> Result<u64, ManagementError> {
        let now = self.now().await?;
        Ok(u64::try_from(now.as_second()).unwrap_or_default())
    }

    /// The clock of the broker, by the `Date` of a small answer: whole seconds.
    pub(super) async fn now(&self) -> Result<Timestamp, ManagementError> {
        let step = "read the broker's clock";
        let response = self.nodes.send(Method::GET, &["whoami"], &[], None).await;
        let response = response.map_err(|error| self.explain(step, error))?;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| rfc2822::parse(date).ok());
        date.map(|date| date.timestamp()).ok_or_else(|| ManagementError::Refused {
            address: self.display.clone(),
            step: step.to_owned(),
            reason: "its answer has no date".to_owned(),
        })
    }

    /// Which of the topology's levels the broker routes to, and which of its timeouts have a queue, by its exchanges and
    /// bindings; changes nothing.
    ///
    /// It holds for the moment of the answer: ask again after `overdue apply`, or every few seconds. It asks for the
    /// exchanges that notices can pass, one by one: what else the virtual host has makes it no slower.
    /// Permission needed: the `management` tag.
    pub async fn level_routes(&self, topology: &Topology) -> Result<LevelRoutes, ManagementError> {
        let mut objects = Objects::default();
        let mut asked = BTreeSet::new();
        let entries = topology.entries().into_iter().map(|entry| entry.exchange);
        let mut next: BTreeSet<String> = entries.chain([topology.due_exchange()]).collect();
        while !next.is_empty() {
            let answers = try_join_all(next.iter().map(|name| self.exchange(name))).await?;
            if answers.iter().any(Option::is_none) {
                self.has_virtual_host().await?;
            }
            asked.append(&mut next);
            for (exchange, bindings) in answers.into_iter().flatten() {
                next.extend(leads_to(&exchange, &bindings));
                objects.exchanges.insert(exchange.name.clone(), exchange);
                objects.bindings.extend(bindings);
            }
            next.retain(|name| !asked.contains(name));
        }
        Ok(LevelRoutes::of_objects(topology, &objects))
    }

    /// For a user without permissions in it, RabbitMQ 4.3 answers as if it had no objects.
    async fn has_virtual_host(&self) -> Result<(), ManagementError> {
        let path = ["exchanges", self.virtual_host(), EVERYWHERE];
        match self.ask::<IgnoredAny>(&path, &[]).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.explain_first(error).await),
        }
    }

    /// An exchange and what is bound to it; none where it is not there.
    async fn exchange(
        &self,
        name: &str,
    ) -> Result<Option<(Exchange, Vec<Binding>)>, ManagementError> {
        let path = ["exchanges", self.virtual_host(), name, "bindings", "source"];
        let (exchange, bindings) = tokio::try_join!(
            self.find::<ExchangeInfo>(&path[..3], &[]),
            self.find::<Vec<BindingInfo>>(&path, &[]),
        )?;
        Ok(exchange.zip(bindings).map(|(exchange, bindings)| {
            (exchange.into(), bindings.into_iter().map(Binding::from).collect())
        }))
    }
}

pub(super) fn reading(path: &[&str]) -> String {
    format!("read {}", path.join("/"))
}

/// Exchanges that take what an exchange takes.
fn leads_to(exchange: &Exchange, bindings: &[Binding]) -> Vec<String> {
    let bound = bindings.iter().filter(|binding| !binding.to_queue);
    let bound = bound.map(|binding| binding.destination.as_str());
    // The default exchange has no name to ask for, and leads to no level; an exchange of another name that cannot be asked for is
    // not ours.
    let is_asked = |name: &&str| !name.is_empty() && fits_in_a_path(name);
    let all = bound.chain(exchange.alternate()).filter(is_asked);
    all.map(str::to_owned).collect()
}
