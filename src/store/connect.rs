//! Opens a connection to one of several hosts or addresses, one after the other. The client's own time-out covers TCP alone: it
//! would wait for the login at one address until no time is left for the next address.

use std::{
    path::Path,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use deadpool_postgres::Connect;
use futures_util::future::join_all;
use parking_lot::Mutex;
use rand::seq::SliceRandom as _;
use tokio::{net::lookup_host, task::JoinHandle, time::timeout};
use tokio_postgres::{
    Client, Config, Error, NoTls,
    config::{Host, LoadBalanceHosts},
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{CONNECT_TIMEOUT, TlsConnect};
use crate::{
    config::{Login, UrlFile},
    telemetry,
};

/// Opens connections, and remembers the address of the newest one.
#[derive(Clone)]
pub(super) struct Connector {
    tls: Option<MakeRustlsConnect>,
    newest: Arc<Mutex<Option<Config>>>,
    /// The file with user and password.
    file: Arc<Mutex<Option<Arc<UrlFile>>>>,
    /// The time since which every login was refused and no statement succeeded.
    refused: Arc<Mutex<Option<Instant>>>,
}

type Opened = (Client, JoinHandle<()>);

impl Connector {
    pub(super) fn new(tls: Option<MakeRustlsConnect>) -> Self {
        Self { tls, newest: Arc::default(), file: Arc::default(), refused: Arc::default() }
    }

    /// Sets the file with the URL, also for existing pools.
    pub(super) fn reads_again(&self, path: &Path) {
        *self.file.lock() = Some(UrlFile::new(path));
    }

    /// Records that a statement has succeeded.
    pub(super) fn succeeded(&self) {
        *self.refused.lock() = None;
    }

    /// Time for which every login has been refused.
    pub(super) fn refused_for(&self) -> Duration {
        self.refused.lock().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Uses the login that was last read from the file. If that login is refused, the file is read again.
    async fn log_in(&self, config: &Config) -> Result<Opened, Error> {
        let first = Login {
            user: config.get_user().unwrap_or_default().to_owned(),
            password: String::from_utf8_lossy(config.get_password().unwrap_or_default())
                .into_owned()
                .into(),
        };
        let file = self.file.lock().clone();
        let Some(file) = file else { return self.open_any(config).await };
        let login = file.login(first.clone());
        let opened = self.open_any(&with_login(config, &login)).await;
        if opened.as_ref().is_err_and(is_refusal) && file.read_again(&login) {
            telemetry::url_file_read_again("database");
            return self.open_any(&with_login(config, &file.login(first))).await;
        }
        opened
    }

    /// Sends an empty query to the address of the newest connection, on a separate connection.
    pub(super) async fn say_hello(&self) -> Result<(), Error> {
        let newest = self.newest.lock().clone();
        let Some(address) = newest else { return Ok(()) };
        let (client, connection) = self.open(&address).await?;
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

    /// Tries the address of the last connection first, then the others in the order of the URL. If no address answers, it tries all
    /// of them again, until the pool's time-out.
    async fn open_any(&self, config: &Config) -> Result<Opened, Error> {
        let mut addresses =
            join_all(each_host(config).into_iter().map(each_address)).await.concat();
        if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            addresses.shuffle(&mut rand::rng());
        } else if let Some(newest) = &*self.newest.lock() {
            addresses.sort_by_key(|address| address != newest);
        }
        loop {
            let mut failure = None;
            for address in &addresses {
                match timeout(CONNECT_TIMEOUT, self.open(address)).await {
                    Ok(Ok(opened)) => {
                        *self.newest.lock() = Some(address.clone());
                        return Ok(opened);
                    }
                    Ok(Err(error)) => failure = Some(error),
                    Err(_silent) => {}
                }
            }
            if let Some(failure) = failure {
                return Err(failure);
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
        Box::pin(async move {
            let opened = self.log_in(&config).await;
            if opened.as_ref().is_err_and(is_refusal) {
                self.refused.lock().get_or_insert_with(Instant::now);
            }
            opened
        })
    }
}

/// Class 28 of the SQLSTATEs: invalid authorization.
fn is_refusal(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("28"))
}

fn with_login(config: &Config, login: &Login) -> Config {
    let mut config = config.clone();
    if !login.user.is_empty() {
        config.user(&login.user);
    }
    if !login.password.expose().is_empty() {
        config.password(login.password.expose());
    }
    config
}

async fn open<T: TlsConnect>(host: &Config, tls: T) -> Result<Opened, Error>
where
    T::Stream: 'static,
{
    let (client, connection) = host.connect(tls).await?;
    let task = tokio::spawn(async move {
        // Statements that wait for an answer get this error.
        let _ended = connection.await;
    });
    Ok((client, task))
}

/// Returns a configuration for each host, or the given configuration unchanged if the client must report a mistake in it.
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

/// Returns a configuration for each address of the host, or the unchanged one if the host has a single address or is not found.
async fn each_address(host: Config) -> Vec<Config> {
    let name = match (host.get_hosts(), host.get_hostaddrs()) {
        ([Host::Tcp(name)], []) => name.as_str(),
        _ => return vec![host],
    };
    let port = host.get_ports().first().copied().unwrap_or(5432);
    let Ok(Ok(found)) = timeout(CONNECT_TIMEOUT, lookup_host((name, port))).await else {
        return vec![host];
    };
    let one = |address: std::net::SocketAddr| {
        let mut one = host.clone();
        one.hostaddr(address.ip());
        one
    };
    match found.map(one).collect::<Vec<_>>() {
        addresses if addresses.len() > 1 => addresses,
        _ => vec![host],
    }
}

/// A copy of the configuration without hosts: the client can add a host, but not remove one.
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
