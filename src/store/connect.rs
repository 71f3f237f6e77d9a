//! How a connection is opened where the URL names several hosts: one that says nothing holds up none of the others. The client
//! has a limit for TCP alone, and would wait for the login of one host until there is no time for the next one.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::Connect;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rand::seq::SliceRandom as _;
use tokio::{task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, Config, Error, NoTls,
    config::{Host, LoadBalanceHosts},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::TlsConnect;

/// Longer than TCP, TLS and login take with a server that is well, and a small part of the time that a connection has.
const HEAD_START: Duration = Duration::from_secs(1);

/// Opens connections, and knows which host took the newest one.
#[derive(Clone)]
pub(super) struct Connector {
    tls: Option<MakeRustlsConnect>,
    /// The place of that host in the URL.
    newest: Arc<AtomicUsize>,
}

type Opened = (Client, JoinHandle<()>);

impl Connector {
    pub(super) fn new(tls: Option<MakeRustlsConnect>) -> Self {
        Self { tls, newest: Arc::default() }
    }

    /// Asks the host of the newest connection for nothing, on a connection of its own.
    pub(super) async fn say_hello(&self, config: &Config) -> Result<(), Error> {
        let hosts = each_host(config);
        let Some(host) = hosts.get(self.newest.load(Ordering::Relaxed)) else { return Ok(()) };
        let (client, connection) = self.open(host).await?;
        let asked = client.simple_query("").await;
        connection.abort();
        asked.map(drop)
    }

    async fn open(&self, host: &Config) -> Result<Opened, Error> {
        match &self.tls {
            Some(tls) => open(host, tls.clone()).await,
            None => open(host, NoTls).await,
        }
    }

    /// In the order of the URL; the next host also when the one before has not answered for [`HEAD_START`].
    async fn open_any(&self, config: &Config) -> Result<Opened, Error> {
        let mut hosts: Vec<_> = each_host(config).into_iter().enumerate().collect();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            hosts.shuffle(&mut rand::rng());
        }
        let mut hosts = hosts.into_iter();
        let mut trying = FuturesUnordered::new();
        loop {
            if let Some((place, host)) = hosts.next() {
                trying.push(async move { (place, self.open(&host).await) });
            }
            match timeout(HEAD_START, trying.next()).await {
                Ok(Some((place, Ok(opened)))) => {
                    self.newest.store(place, Ordering::Relaxed);
                    return Ok(opened);
                }
                Ok(Some((_, Err(error)))) if trying.is_empty() && hosts.len() == 0 => {
                    return Err(error);
                }
                _ => {}
            }
        }
    }
}

impl Connect for Connector {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<Opened, Error>> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move { self.open_any(&config).await })
    }
}

async fn open<T: TlsConnect>(host: &Config, tls: T) -> Result<Opened, Error>
where
    T::Stream: 'static,
{
    let (client, connection) = host.connect(tls).await?;
    let task = tokio::spawn(async move {
        // What waits for an answer gets this error.
        let _ended = connection.await;
    });
    Ok((client, task))
}

/// The same for each host alone; the whole where the client has to say what is wrong with it.
fn each_host(config: &Config) -> Vec<Config> {
    let (names, addresses, ports) =
        (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = names.len().max(addresses.len());
    let fits = |given: usize| given == count || given == 0;
    if count < 2
        || !fits(names.len())
        || !fits(addresses.len())
        || ports.len() != 1 && !fits(ports.len())
    {
        return vec![config.clone()];
    }
    let one = |place: usize| {
        let mut one = without_hosts(config);
        match names.get(place) {
            Some(Host::Tcp(name)) => _ = one.host(name),
            #[cfg(unix)]
            Some(Host::Unix(path)) => _ = one.host_path(path),
            None => {}
        }
        addresses.get(place).map(|address| one.hostaddr(*address));
        ports.get(place).or(ports.first()).map(|port| one.port(*port));
        one
    };
    (0..count).map(one).collect()
}

/// The client can add a host, and take none away.
fn without_hosts(config: &Config) -> Config {
    let mut copy = Config::new();
    config.get_user().map(|user| copy.user(user));
    config.get_password().map(|password| copy.password(password));
    config.get_dbname().map(|database| copy.dbname(database));
    config.get_options().map(|options| copy.options(options));
    config.get_application_name().map(|name| copy.application_name(name));
    config.get_connect_timeout().map(|limit| copy.connect_timeout(*limit));
    config.get_tcp_user_timeout().map(|limit| copy.tcp_user_timeout(*limit));
    config.get_keepalives_interval().map(|interval| copy.keepalives_interval(interval));
    config.get_keepalives_retries().map(|retries| copy.keepalives_retries(retries));
    copy.ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .channel_binding(config.get_channel_binding());
    copy
}
