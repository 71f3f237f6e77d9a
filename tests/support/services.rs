//! The addresses of the services: the variables of `docker/services.sh env`, or the same ports by default.

use std::{env, sync::Arc, thread};

use overdue::internals::{
    broker::{BrokerAddress, Management},
    config::Settings,
    plan::StatisticsInterval,
    timing::Timing,
    topology::level::Interval,
};
use url::Url;

use super::wait::PATIENCE;

/// A broker and a database that tests may use.
#[derive(Clone, Debug)]
pub struct Services {
    /// AMQP URI; its virtual host is replaced by each test's own.
    pub broker: Url,
    /// Management API, with credentials of an administrator.
    pub management: Url,
    pub database: Url,
    /// The broker's statistics interval, as a setting.
    pub statistics_interval: String,
    /// The number of dead letters that a queue forwards at once.
    pub dead_letter_slots: String,
    /// The command that starts these services.
    pub start: &'static str,
    /// Time-outs and intervals of the clients.
    pub timing: Arc<Timing>,
}

/// Settings of the brokers that `docker/services.sh` starts.
const STATISTICS_INTERVAL: &str = "1s";
const DEAD_LETTER_SLOTS: &str = "1000";

impl Services {
    pub fn main() -> Self {
        Self {
            broker: setting("OVERDUE_BROKER__URL", "amqp://admin:admin@127.0.0.1:28672/%2f"),
            management: setting(
                "OVERDUE_BROKER__MANAGEMENT_URL",
                "http://admin:admin@127.0.0.1:28673",
            ),
            database: setting(
                "OVERDUE_DATABASE__URL",
                "postgres://overdue:overdue@127.0.0.1:28432/overdue?sslmode=disable",
            ),
            statistics_interval: statistics_interval(),
            dead_letter_slots: dead_letter_slots(),
            start: "make services",
            timing: Timing::often().into(),
        }
    }

    /// The services of main over TLS, with the certificates in `target/tls`.
    pub fn over_tls() -> Self {
        let made = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tls/overdue");
        let [ca, certificate, key] =
            ["ca.pem", "client.pem", "client.key"].map(|file| format!("{made}/{file}"));
        Self {
            broker: setting(
                "OVERDUE_TLS_BROKER_URL",
                &format!(
                    "amqps://admin:admin@localhost:28671/%2f?cacertfile={ca}&certfile={certificate}&keyfile={key}"
                ),
            ),
            management: setting(
                "OVERDUE_TLS_MANAGEMENT_URL",
                &format!("https://admin:admin@localhost:28675?cacertfile={ca}"),
            ),
            database: setting(
                "OVERDUE_TLS_DATABASE_URL",
                &format!(
                    "postgres://overdue:overdue@localhost:28432/overdue?sslmode=verify-full&sslrootcert={ca}"
                ),
            ),
            ..Self::main()
        }
    }

    /// The second pair, which fault tests stop and start.
    pub fn chaos() -> Self {
        Self {
            broker: setting("OVERDUE_CHAOS_BROKER_URL", "amqp://admin:admin@127.0.0.1:29672/%2f"),
            management: setting(
                "OVERDUE_CHAOS_MANAGEMENT_URL",
                "http://admin:admin@127.0.0.1:29673",
            ),
            database: setting(
                "OVERDUE_CHAOS_DATABASE_URL",
                "postgres://overdue:overdue@127.0.0.1:29432/overdue",
            ),
            statistics_interval: STATISTICS_INTERVAL.to_owned(),
            dead_letter_slots: DEAD_LETTER_SLOTS.to_owned(),
            start: "docker/services.sh up chaos",
            timing: Timing::often().into(),
        }
    }

    /// The pair whose broker has the delayed message exchange plugin. `None` without `OVERDUE_DELAYED_BROKER_URL`; then standard error
    /// reports that the test was left out.
    pub fn delayed() -> Option<Self> {
        let name = "OVERDUE_DELAYED_BROKER_URL";
        let Some(broker) = variable(name) else {
            let test = thread::current().name().unwrap_or("a test").to_owned();
            eprintln!(
                "LEFT OUT: {test}: no broker has the delayed message exchange plugin; `make test-delayed` starts one"
            );
            return None;
        };
        Some(Self {
            broker: setting(name, &broker),
            management: setting(
                "OVERDUE_DELAYED_MANAGEMENT_URL",
                "http://admin:admin@127.0.0.1:31373",
            ),
            database: setting(
                "OVERDUE_DELAYED_DATABASE_URL",
                "postgres://overdue:overdue@127.0.0.1:31132/overdue",
            ),
            statistics_interval: STATISTICS_INTERVAL.to_owned(),
            dead_letter_slots: DEAD_LETTER_SLOTS.to_owned(),
            start: "docker/services.sh up delayed",
            timing: Timing::often().into(),
        })
    }

    /// The services of main with a RabbitMQ 4.4 as the broker. `None` without its two variables; then standard error
    /// reports that the test was left out.
    pub fn rabbitmq_44() -> Option<Self> {
        let (broker, management) = ("OVERDUE_44_BROKER_URL", "OVERDUE_44_MANAGEMENT_URL");
        let (Some(broker_url), Some(management_url)) = (variable(broker), variable(management))
        else {
            let test = thread::current().name().unwrap_or("a test").to_owned();
            eprintln!(
                "LEFT OUT: {test}: {broker} and {management} name no RabbitMQ 4.4 (docs/services.md)"
            );
            return None;
        };
        Some(Self {
            broker: setting(broker, &broker_url),
            management: setting(management, &management_url),
            // A default broker, not configured for tests.
            statistics_interval: "5s".to_owned(),
            dead_letter_slots: "32".to_owned(),
            start: "see docs/services.md",
            ..Self::main()
        })
    }

    /// These services with a tenth of all time-outs, for tests in which a service is silent.
    pub fn given_up_soon(self) -> Self {
        Self { timing: Timing::tenth().into(), ..self }
    }

    /// The variable that gives a process of the program the same [`Timing`].
    pub fn timing_variable(&self) -> (&'static str, &'static str) {
        let known = [("often", Timing::often()), ("tenth", Timing::tenth())];
        let word = known.into_iter().find(|(_, timing)| *timing == *self.timing);
        ("OVERDUE_TEST_TIMING", word.expect("a timing that a process knows").0)
    }

    /// The broker of the second pair and the shared database, for tests that stop only a broker.
    pub fn chaos_broker() -> Self {
        Self { database: Self::main().database, ..Self::chaos() }
    }

    /// The database of the second pair and the shared broker, for tests that stop only a database.
    pub fn chaos_database() -> Self {
        Self { broker: Self::main().broker, management: Self::main().management, ..Self::chaos() }
    }

    /// Whether the broker is of the second pair.
    pub fn has_chaos_broker(&self) -> bool {
        self.broker_socket() == Self::chaos().broker_socket()
    }

    /// Whether the database is of the second pair.
    pub fn has_chaos_database(&self) -> bool {
        self.database_socket() == Self::chaos().database_socket()
    }

    /// The AMQP URI of a virtual host, optionally through another port of this machine.
    pub fn broker_url(&self, vhost: &str, port: Option<u16>) -> String {
        let mut url = through(&self.broker, port);
        url.set_path(&format!("/{}", vhost.replace('/', "%2f")));
        url.to_string()
    }

    /// The URL of the database, optionally through another port of this machine.
    pub fn database_url(&self, port: Option<u16>) -> String {
        through(&self.database, port).to_string()
    }

    pub fn address(&self, vhost: &str, port: Option<u16>) -> BrokerAddress {
        let url = self.broker_url(vhost, port);
        let address = BrokerAddress::parse(&url, Some(self.management.as_str())).unwrap();
        address.with_timing(self.timing.clone())
    }

    /// The management API of a virtual host, as the program uses it.
    pub fn management_of(&self, address: &BrokerAddress) -> Management {
        let interval = self.statistics_interval.parse::<Interval>().unwrap().as_duration();
        Management::new(address)
            .unwrap()
            .with_statistics_interval(StatisticsInterval::new(interval))
    }

    /// `host:port` of the broker.
    pub fn broker_socket(&self) -> String {
        socket(&self.broker, 5672)
    }

    /// `host:port` of the management API.
    pub fn management_socket(&self) -> String {
        socket(&self.management, 15672)
    }

    /// `host:port` of the database.
    pub fn database_socket(&self) -> String {
        socket(&self.database, 5432)
    }

    /// Fails a test whose services are missing.
    pub fn missing(&self, what: &str, why: &dyn std::fmt::Display) -> ! {
        panic!(
            "this test needs {what}, and it cannot be used: {why}\n  start the services with: {}",
            self.start
        )
    }
}

/// A client without the TLS roots of this machine: reading them takes longer than most tests.
pub(super) fn http_client() -> reqwest::Client {
    // No answer comes after this time, e.g. from a stopped broker; the caller repeats the request.
    let client = reqwest::Client::builder().timeout(PATIENCE / 5).tls_certs_only([]);
    // The broker closes an idle connection, perhaps during the next request.
    let client = client.pool_max_idle_per_host(0);
    client.build().unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "where the services are comes from the script that started them"
)]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

/// Another broker has the program's default, unless the variable is set.
fn statistics_interval() -> String {
    let default = match variable("OVERDUE_BROKER__URL") {
        Some(_) => Settings::default().broker.statistics_interval.into(),
        None => STATISTICS_INTERVAL.to_owned(),
    };
    variable("OVERDUE_BROKER__STATISTICS_INTERVAL").unwrap_or(default)
}

fn dead_letter_slots() -> String {
    let default = match variable("OVERDUE_BROKER__URL") {
        Some(_) => Settings::default().broker.dead_letter_slots.to_string(),
        None => DEAD_LETTER_SLOTS.to_owned(),
    };
    variable("OVERDUE_BROKER__DEAD_LETTER_SLOTS").unwrap_or(default)
}

fn setting(name: &str, default: &str) -> Url {
    let text = variable(name).unwrap_or_else(|| default.to_owned());
    Url::parse(&text).unwrap_or_else(|error| panic!("{name}={text} is no URL: {error}"))
}

fn through(url: &Url, port: Option<u16>) -> Url {
    let mut url = url.clone();
    if let Some(port) = port {
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
    }
    url
}

fn socket(url: &Url, default_port: u16) -> String {
    format!("{}:{}", url.host_str().unwrap_or("localhost"), url.port().unwrap_or(default_port))
}
