//! The nodes of a cluster: the management API of each node answers for all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, redirect};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::error::ApiFailure;
use crate::{
    config::{Login, UrlFile},
    telemetry,
    timing::Timing,
    tls::Tls,
};

/// RabbitMQ closes a connection that was idle for five seconds (Cowboy's `request_timeout`), and with it a request that arrives
/// at this moment. The client therefore drops an idle connection much earlier.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(3);

/// The nodes of a cluster, at least one, and the login for them.
pub(in crate::administration) struct Nodes {
    /// URLs without user and password.
    urls: Vec<Url>,
    /// The node that answered last.
    current: AtomicUsize,
    http: Client,
    login: Login,
    /// The file from which the login is read again.
    file: Option<Arc<UrlFile>>,
}

impl Nodes {
    pub(super) fn new(
        urls: &[Url],
        login: Login,
        file: Option<Arc<UrlFile>>,
        http: Client,
    ) -> Result<Self, String> {
        let mut urls = urls.to_vec();
        for url in &mut urls {
            // Both calls succeed for a URL with a host; `BrokerAddress::parse` accepts only http(s).
            let _cleared = url.set_username("").and_then(|()| url.set_password(None));
        }
        if urls.is_empty() {
            return Err("the URL has no host".to_owned());
        }
        Ok(Self { urls, current: AtomicUsize::new(0), http, login, file })
    }

    pub(super) fn user(&self) -> &str {
        &self.login.user
    }

    /// Returns one value per node, which asks only that node.
    pub(in crate::administration) fn each(&self) -> impl Iterator<Item = Self> {
        self.urls.iter().map(|url| Self {
            urls: vec![url.clone()],
            current: AtomicUsize::new(0),
            http: self.http.clone(),
            login: self.login.clone(),
            file: self.file.clone(),
        })
    }

    /// Sends a GET and parses the answer. An answer about another virtual host is an error.
    pub(in crate::administration) async fn ask<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ApiFailure> {
        let Some(vhost) = virtual_host_in(path) else {
            let response = self.send(Method::GET, path, query, None).await?;
            return read(&Box::pin(response.bytes()).await?);
        };
        let columns = query.iter().find(|(name, _)| *name == "columns");
        let columns = columns.map(|(_, columns)| format!("{columns},vhost"));
        let others = query.iter().copied().filter(|(name, _)| *name != "columns");
        let query: Vec<_> =
            others.chain(columns.as_deref().map(|columns| ("columns", columns))).collect();
        let response = self.send(Method::GET, path, &query, None).await?;
        let body = Box::pin(response.bytes()).await?;
        match other_virtual_host(&body, vhost)? {
            Some(other) => Err(ApiFailure::OtherVirtualHost(other)),
            None => read(&body),
        }
    }

    /// Sends every request of this API: to the node that answered last, and to the next one if that node does not listen, or
    /// does not answer a GET. A change without an answer is not repeated; the next request begins at another node. `path` is
    /// below `/api`, unescaped.
    pub(in crate::administration) async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Response, ApiFailure> {
        if let Some(name) = path.iter().find(|name| !fits_in_a_path(name)) {
            return Err(ApiFailure::Unnameable((*name).to_owned()));
        }
        let mut index = self.current.load(Ordering::Relaxed);
        let mut others = self.urls.len() - 1;
        let mut may_repeat = method == Method::GET;
        let mut login = self.newest_login();
        let mut may_read_again = self.file.as_ref();
        loop {
            let request = self.request(&self.urls[index], &login, method.clone(), path, query);
            let request = match body {
                Some(body) => request.json(body),
                None => request,
            };
            let sent = Box::pin(request.send()).await;
            // A node may close an idle connection while a request is sent: a GET is repeated once on a new connection.
            if may_repeat && sent.as_ref().is_err_and(was_cut) {
                may_repeat = false;
                continue;
            }
            let is_refused = sent.as_ref().is_ok_and(|it| it.status() == StatusCode::UNAUTHORIZED);
            if is_refused && may_read_again.take().is_some_and(|it| it.read_again(&login)) {
                telemetry::url_file_read_again("management API");
                login = self.newest_login();
                continue;
            }
            let next = (index + 1) % self.urls.len();
            let is_silent = sent.as_ref().is_err_and(reqwest::Error::is_timeout);
            let at_the_next = sent.as_ref().is_err_and(reqwest::Error::is_connect)
                || is_silent && method == Method::GET;
            if others == 0 || !at_the_next {
                self.current.store(if is_silent { next } else { index }, Ordering::Relaxed);
                return Box::pin(ApiFailure::unless_done(sent?)).await;
            }
            others -= 1;
            index = next;
        }
    }

    fn newest_login(&self) -> Login {
        let first = self.login.clone();
        match &self.file {
            Some(file) => file.login(first),
            None => first,
        }
    }

    fn request(
        &self,
        node: &Url,
        login: &Login,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        let mut url = node.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("api").extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url).basic_auth(&login.user, Some(login.password.expose()))
    }
}

/// The virtual host of a path below `/api`; `None` if the answer names no virtual host.
fn virtual_host_in<'a>(path: &[&'a str]) -> Option<&'a str> {
    match path {
        ["queues", "quorum", _, _, "status"] => None,
        ["exchanges" | "queues" | "bindings" | "policies" | "operator-policies", vhost, ..] => {
            Some(vhost)
        }
        _ => None,
    }
}

/// Returns a virtual host in an answer that differs from the requested one. The API answers a path with an empty virtual host
/// for all virtual hosts. A proxy that decodes `%2F` and merges slashes makes such a path.
fn other_virtual_host(body: &[u8], asked: &str) -> Result<Option<String>, ApiFailure> {
    #[derive(Deserialize)]
    struct Item {
        #[serde(default)]
        vhost: String,
    }
    #[derive(Deserialize)]
    struct Answer {
        vhost: Option<String>,
        #[serde(default)]
        items: Vec<Item>,
    }
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let answer = if is_list { Answer { vhost: None, items: read(body)? } } else { read(body)? };
    let named = answer.items.into_iter().map(|item| item.vhost).chain(answer.vhost);
    Ok(named.into_iter().find(|vhost| vhost != asked))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiFailure> {
    serde_json::from_slice(body).map_err(|error| ApiFailure::NotJson(error.to_string()))
}

/// Whether a URL can have `name` in its path: other names are left out or lose characters, and the URL names another object.
pub(super) fn fits_in_a_path(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains(['\t', '\r', '\n'])
}

/// Whether an open connection ended before the answer and before the time-out.
fn was_cut(error: &reqwest::Error) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}

pub(super) fn http_client(tls: Option<&Tls>, timing: &Timing) -> Result<Client, String> {
    let http = match tls {
        Some(tls) => {
            let config = tls.client().map_err(|error| error.to_string())?;
            Client::builder().tls_backend_preconfigured(config)
        }
        // Reading the root certificates of this machine takes time, and without TLS they are not used.
        None => Client::builder().tls_certs_only([]),
    };
    // Only the broker may get the password, so no proxy is used. After a redirect the client would send a GET for a POST, and
    // report success.
    http.no_proxy()
        .redirect(redirect::Policy::none())
        .connect_timeout(timing.connect)
        .timeout(timing.api_call)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tcp_keepalive(KEEPALIVE)
        .build()
        .map_err(|error| error.to_string())
}
