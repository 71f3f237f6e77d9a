//! RabbitMQ and PostgreSQL that speak TLS themselves, as docker/tls configures them: what works over it, and what is said
//! where a certificate is not the right one. Certificates that servers should not have: `tls.rs`.

use reqwest::Method;
use serde_json::Value;
use url::Url;

use crate::support::{
    Services, World,
    process::{Run, finish},
    tls::Ca,
    until,
};

/// The three URLs of a world over TLS.
struct Secure {
    broker: Url,
    management: Url,
    database: Url,
}

impl Secure {
    fn of(world: &World) -> Self {
        let Services { management, database, .. } = Services::over_tls();
        let broker = Services::over_tls().broker_url(&world.vhost, None).parse().unwrap();
        Self { broker, management, database }
    }

    fn settings(&self) -> [(&'static str, &str); 3] {
        [
            ("OVERDUE_BROKER__URL", self.broker.as_str()),
            ("OVERDUE_BROKER__MANAGEMENT_URL", self.management.as_str()),
            ("OVERDUE_DATABASE__URL", self.database.as_str()),
        ]
    }

    fn run(&self, world: &World, arguments: &[&str]) -> Run {
        let mut command = world.command(arguments);
        command.envs(self.settings());
        finish(command, None)
    }
}

/// The URL with other values for some of its parameters; without those whose value is empty.
fn with(url: &Url, parameters: &[(&str, &str)]) -> Url {
    let mut changed = url.clone();
    let named = |name: &str| parameters.iter().any(|(changed, _)| *changed == name);
    let kept = url.query_pairs().filter(|(name, _)| !named(name));
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    changed.query_pairs_mut().clear().extend_pairs(kept).extend_pairs(given);
    changed
}

/// How many of this virtual host's connections are encrypted, and how many are not, as the broker sees them.
async fn broker_connections(world: &World) -> [usize; 2] {
    let path = ["vhosts", &world.vhost, "connections"];
    let seen = world.services.call(None, Method::GET, &path, Value::Null).await.unwrap();
    let ours = seen.as_array().unwrap().iter();
    let ours = ours.filter(|each| each["user_provided_name"].as_str().is_some_and(is_worker));
    let [mut encrypted, mut plain] = [0, 0];
    for connection in ours {
        *if connection["ssl"] == true { &mut encrypted } else { &mut plain } += 1;
    }
    [encrypted, plain]
}

const VERIFIED: &str = "in use, and the certificate is verified";

fn is_worker(name: &str) -> bool {
    name.starts_with("overdue worker")
}

#[apply(world_test)]
async fn orders_are_published_and_closed_and_doctor_finds_all_verified() {
    let world = World::new().await;
    let secure = Secure::of(&world);
    let doctor = secure.run(&world, &["doctor"]);
    assert_eq!(doctor.stdout.matches(VERIFIED).count(), 2, "{doctor}");
    secure.run(&world, &["plan"]).exits(0);
    // Whether its connection is encrypted is in each row, said by the server.
    world
        .sql(
            "CREATE FUNCTION encrypted() RETURNS boolean LANGUAGE sql
             AS 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()';
             ALTER TABLE closures ADD encrypted boolean NOT NULL DEFAULT encrypted()",
        )
        .await;
    let _worker = world
        .started(|command| {
            command.envs(secure.settings());
        })
        .await;
    for id in world.orders("o", 3, 0).await {
        secure.run(&world, &["publish", &id, "--level", "100ms"]).exits(0);
    }
    world.until_closed(3).await;
    let encrypted = "SELECT count(*) FROM closures WHERE encrypted";
    assert_eq!(world.number(encrypted).await, 3);
    let connections = async || broker_connections(&world).await;
    // One that consumes, one that shows whether the broker is there, and one for each thing that it has published.
    let [_, unencrypted] =
        until("the connections", connections, |seen| seen[0] + seen[1] >= 2).await;
    assert_eq!(unencrypted, 0);
}

/// Each of the three: another CA, and at the listener that wants one no client certificate or a stranger's; and a scheme and a port that
/// do not fit each other.
#[apply(world_test)]
async fn what_a_certificate_lacks_is_said() {
    let world = World::of_tables().await;
    let (right, strangers) = (Secure::of(&world), Ca::new());
    let (ca, [certificate, key]) = (strangers.file(), strangers.client());
    let broker = |parameters| with(&right.broker, parameters);
    let plain = right.broker.as_str().split('?').next().unwrap().replace("amqps://", "amqp://");
    let other_ca =
        "its certificate is signed by no CA that is trusted here: name the CA's file with";
    for (variable, url, command, code, said) in [
        (
            "OVERDUE_BROKER__URL",
            broker(&[("cacertfile", &ca)]),
            "run",
            78,
            format!("{other_ca} cacertfile"),
        ),
        (
            "OVERDUE_BROKER__MANAGEMENT_URL",
            with(&right.management, &[("cacertfile", &ca)]),
            "plan",
            69,
            format!("{other_ca} cacertfile"),
        ),
        (
            "OVERDUE_DATABASE__URL",
            with(&right.database, &[("sslrootcert", &ca)]),
            "run",
            78,
            format!("{other_ca} sslrootcert"),
        ),
        (
            "OVERDUE_BROKER__URL",
            broker(&[("certfile", ""), ("keyfile", "")]),
            "run",
            78,
            "it wants a client certificate: set certfile and keyfile".to_owned(),
        ),
        (
            "OVERDUE_BROKER__URL",
            broker(&[("certfile", &certificate), ("keyfile", &key)]),
            "run",
            78,
            "it refuses our client certificate".to_owned(),
        ),
        (
            "OVERDUE_BROKER__URL",
            plain.parse().unwrap(),
            "run",
            78,
            "write amqps:// if it expects TLS".to_owned(),
        ),
        (
            "OVERDUE_BROKER__URL",
            world.broker_url().replace("amqp://", "amqps://").parse().unwrap(),
            "run",
            78,
            "it does not speak TLS on this port".to_owned(),
        ),
    ] {
        let mut process = world.command(&[command]);
        process.envs(right.settings()).env(variable, url.as_str());
        finish(process, None).exits(code).reports(&said);
    }
    // Without a connection nothing is known of its encryption: of the database alone.
    let mut secure = right;
    secure.broker = with(&secure.broker, &[("certfile", ""), ("keyfile", "")]);
    let doctor = secure.run(&world, &["doctor"]).exits(2);
    assert_eq!(doctor.stdout.matches(VERIFIED).count(), 1, "{doctor}");
}
