//! The nodes of a cluster: the management API of each of them answers for all.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use rabbitmq_http_client::{
    api::{Client, ClientBuilder},
    error::Error as ApiError,
};
use reqwest::redirect;
use url::Url;

use super::error::ApiFailure;
use crate::{timing::Timing, tls::Tls};

/// RabbitMQ closes a connection that was idle for five seconds (Cowboy's `request_timeout`), and with it a request
/// that comes at this moment. So none is used again that was idle for nearly as long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Between two keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(3);

pub(in crate::broker) type ApiClient = Client<String, String, String>;

/// One node of a cluster.
pub(super) struct Node {
    client: ApiClient,
    pub(super) endpoint: Url,
}

impl Node {
    fn new(
        url: &Url,
        (user, password): (&str, &str),
        http: &reqwest::Client,
    ) -> Result<Self, String> {
        let mut endpoint = url.clone();
        // A URL with a host takes both; `BrokerAddress::parse` lets only http(s) through.
        let _cleared = endpoint.set_username("").and_then(|()| endpoint.set_password(None));
        let client = ClientBuilder::new()
            .with_endpoint(format!("{}/api", endpoint.as_str().trim_end_matches('/')))
            .with_basic_auth_credentials(user.to_owned(), password.to_owned())
            .with_client(http.clone())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { client, endpoint })
    }
}

/// At least one node.
pub(in crate::broker) struct Nodes {
    nodes: Vec<Node>,
    /// The node that answered last.
    current: AtomicUsize,
}

impl Nodes {
    pub(super) fn new(
        urls: &[Url],
        credentials: (&str, &str),
        http: &reqwest::Client,
    ) -> Result<Self, String> {
        let nodes = urls.iter().map(|url| Node::new(url, credentials, http));
        let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err("the URL has no host".to_owned());
        }
        Ok(Self { nodes, current: AtomicUsize::new(0) })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Where the management API of one of them is.
    pub(super) fn endpoint(&self, index: usize) -> Option<&Url> {
        self.nodes.get(index).map(|node| &node.endpoint)
    }

    /// Begins with the node that answered last.
    pub(super) fn round(&self) -> Round<'_> {
        let index = self.current.load(Ordering::Relaxed);
        Round { nodes: self, index, others: self.nodes.len() - 1 }
    }
}

/// One request's way through the nodes.
pub(super) struct Round<'a> {
    nodes: &'a Nodes,
    index: usize,
    others: usize,
}

impl<'a> Round<'a> {
    /// The node to ask now.
    pub(super) fn node(&self) -> &'a Node {
        &self.nodes.nodes[self.index]
    }

    /// The client of that node.
    pub(super) fn client(&self) -> &'a ApiClient {
        &self.node().client
    }

    /// Whether another node is to be asked, because this one was not reached.
    pub(super) fn goes_on(&mut self, unreached: bool) -> bool {
        if !unreached || self.others == 0 {
            self.nodes.current.store(self.index, Ordering::Relaxed);
            return false;
        }
        self.others -= 1;
        self.index = (self.index + 1) % self.nodes.nodes.len();
        true
    }
}

/// Nobody has got the request.
pub(super) fn is_unreached(error: &ApiFailure) -> bool {
    matches!(error, ApiError::RequestError { error, .. } if error.is_connect())
}

pub(super) fn http_client(tls: Option<&Tls>, timing: &Timing) -> Result<reqwest::Client, String> {
    let http = match tls {
        Some(tls) => {
            let config = tls.client().map_err(|error| error.to_string())?;
            reqwest::Client::builder().tls_backend_preconfigured(config)
        }
        // The roots of this machine take a while to read, and nothing asks for them.
        None => reqwest::Client::builder().tls_certs_only([]),
    };
    // The password is for the broker alone, so no proxy gets it. After a redirect a POST would be a GET, whose 200 says nothing.
    let refused = redirect::Policy::custom(|attempt| {
        let to = attempt.url().origin().ascii_serialization();
        attempt.error(format!(
            "it redirects to {to}: write where it is in truth into broker.management_url"
        ))
    });
    http.no_proxy()
        .redirect(refused)
        .connect_timeout(timing.connect)
        .timeout(timing.api_call)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_keepalive(KEEPALIVE)
        .build()
        .map_err(|error| error.to_string())
}
