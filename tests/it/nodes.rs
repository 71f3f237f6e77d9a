//! Several nodes in one URL: a node that is down, silent or refuses costs only a moment.

use std::time::Duration;

use overdue::internals::{
    broker::{BrokerAddress, Link, Management},
    order::{OrderId, Outcome},
    plan::Change,
    store::{
        FailureKind, Store,
        orders::{ClosingPath, Effect},
    },
    timing::Timing,
};
use reqwest::Method;
use serde_json::json;
use tokio::net::TcpSocket;

use super::parked::ends;
use crate::support::{Proxy, Services, World, orders::written, until};

/// Reserves a port on which no program listens.
fn nobody() -> u16 {
    let socket: &'static TcpSocket = Box::leak(Box::new(TcpSocket::new_v4().unwrap()));
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.local_addr().unwrap().port()
}

fn hosts(url: &str, port: u16, hosts: &str) -> String {
    let replaced = url.replace(&format!("127.0.0.1:{port}"), hosts);
    assert_ne!(replaced, url);
    replaced
}

#[apply(world_test)]
async fn the_first_node_that_takes_the_connection_has_it() {
    let services = Services::main();
    let silent = Proxy::to(&services.broker_socket()).await;
    silent.freeze_to_program();
    let good = Proxy::to(&services.broker_socket()).await;
    let (dead, silent, port) = (nobody(), silent.port(), good.port());
    let url = services.broker_url("/", Some(port));
    for order in [
        format!("127.0.0.1:{dead},127.0.0.1:{silent},127.0.0.1:{port}"),
        format!("127.0.0.1:{port},127.0.0.1:{dead}"),
        format!("127.0.0.1:{silent},127.0.0.1:{port}"),
    ] {
        let address =
            BrokerAddress::parse(&hosts(&url, port, &order), Some("http://localhost")).unwrap();
        assert_eq!(address.to_string(), format!("amqp://{order} virtual host `/`"));
        let link = Link::open(&address, "test: several nodes").await.unwrap();
        assert!(link.is_connected());
        link.close().await;
    }
    let all_dead = format!("127.0.0.1:{dead},127.0.0.1:{}", nobody());
    let address = BrokerAddress::parse(&hosts(&url, port, &all_dead), None).unwrap();
    let refused = Link::open(&address, "test: several nodes").await.map(drop).unwrap_err();
    let refused = refused.to_string();
    let unreachable = format!("cannot reach the broker at amqp://{all_dead}");
    assert!(refused.contains(&unreachable), "{refused}");
    let derived = " (derived from broker.url: broker.management_url is not set)";
    let expected = format!("http://127.0.0.1:15672,127.0.0.1:15672{derived}");
    assert_eq!(address.management_display(), expected);
    // Managed brokers use 443, which is tried only if the certificate is checked.
    for (url, ports) in [
        ("amqps://mq.example", "15671,mq.example:443"),
        ("amqps://mq.example?verify=verify_none", "15671"),
    ] {
        let address = BrokerAddress::parse(url, None).unwrap();
        assert_eq!(address.management_display(), format!("https://mq.example:{ports}{derived}"));
    }

    // The answer of one node counts for all of them.
    let next = Proxy::to(&services.broker_socket()).await;
    let both = format!("127.0.0.1:{port},127.0.0.1:{}", next.port());
    let wrong = hosts(&url, port, &both).replace(":admin@", ":wrong@");
    let address = BrokerAddress::parse(&wrong, None).unwrap();
    let refused = Link::open(&address, "test: wrong password").await.map(drop).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("refuses the login of user `admin`"), "{refused}");
    assert_eq!(next.attempts(), 0);
}

#[apply(world_test)]
async fn a_worker_goes_on_at_another_node() {
    let world = World::new().await;
    let [first, second] = [
        Proxy::to(&world.services.broker_socket()).await,
        Proxy::to(&world.services.broker_socket()).await,
    ];
    let (port, other) = (first.port(), second.port());
    let url = world.services.broker_url(&world.vhost, Some(port));
    let both = hosts(&url, port, &format!("127.0.0.1:{port},127.0.0.1:{other}"));
    let process = world.started(|it| _ = it.env("OVERDUE_BROKER__URL", &both)).await;
    let orders = world.orders("o", 20, 0).await;
    world.publish("100ms", &orders[..10]).await;
    world.until_closed(10).await;
    let tried = first.attempts();
    first.refuse();
    world.publish("100ms", &orders[10..]).await;
    world.until_closed(20).await;
    // The session that lost its node ended, and no later one failed: there is no back-off between the two nodes.
    assert_eq!(process.logged("session ended"), 1, "{}", process.log());
    assert!(first.attempts() > tried && second.attempts() > 0);
}

/// The client leaves a silent node for the next one; a change is not made twice.
#[apply(world_test)]
async fn the_management_api_of_any_node_answers() {
    let world = World::new().await;
    let silent = Proxy::to(&world.services.management_socket()).await;
    silent.freeze_to_program();
    let (socket, dead) = (world.services.management_socket(), nobody());
    let address = |hosts: &str| {
        let url = format!("http://admin:admin@{hosts}");
        BrokerAddress::parse(&world.broker_url(), Some(&url)).unwrap()
    };
    for hosts in [format!("127.0.0.1:{dead},{socket}"), format!("{socket},127.0.0.1:{dead}")] {
        let management = Management::new(&address(&hosts)).unwrap();
        // The broker caches a slow list, and answers with it for a while. For a moment the list may contain the lock's queue of the client
        // that declared the others.
        let wanted = world.topology.objects().queues.len();
        let seen = async || management.observe().await.unwrap().objects.queues.len();
        until("all are seen", seen, |seen| *seen >= wanted).await;
        let names = async || management.queue_names("orders").await.unwrap().len();
        until("all are listed", names, |names| *names >= wanted).await;
    }
    let address = address(&format!("127.0.0.1:{},{socket}", silent.port()));
    let asking = Management::new(&address).unwrap();
    assert!(!asking.observe().await.unwrap().objects.queues.is_empty());
    let tried = silent.attempts();
    assert!(!asking.observe().await.unwrap().objects.queues.is_empty());
    assert_eq!(silent.attempts(), tried);

    let changing = Management::new(&address).unwrap();
    let change = Change::DeleteQueue { queue: "nobodys".to_owned(), lost: 0 };
    changing.apply(&change).await.unwrap_err();
    assert_eq!(silent.attempts(), tried + 1);
    assert!(!changing.observe().await.unwrap().objects.queues.is_empty());
    assert_eq!(silent.attempts(), tried + 1);
}

/// Each of the three URLs has a flag for a file; a password on the command line gives a warning.
#[apply(world_test)]
async fn urls_can_come_from_files() {
    let world = World::new().await;
    let url = world.broker_url();
    let file = world.dir.path().join("broker.url");
    std::fs::write(&file, format!("{url}\n")).unwrap();
    let file = file.to_str().unwrap();
    let nowhere = [("OVERDUE_BROKER__URL", "amqp://u:p@127.0.0.1:1")];
    let published =
        world.overdue_with(&["publish", "4711", "--broker-url-file", file], &nowhere).exits(0);
    assert!(!published.stderr.contains("warning"), "{published}");
    let flagged = world.overdue_with(&["publish", "4711", "--broker-url", &url], &nowhere).exits(0);
    let warned =
        "warning: the password in --broker-url can be read by everybody who lists processes";
    assert_eq!(flagged.stderr.matches(warned).count(), 1, "{flagged}");
    for (content, said) in
        [(None, "cannot read --broker-url-file"), (Some("\n"), "has to be one line, a URL")]
    {
        match content {
            None => std::fs::remove_file(file).unwrap(),
            Some(text) => std::fs::write(file, text).unwrap(),
        }
        ends(&world, 78, &["publish", "4711", "--broker-url-file", file]).reports(said);
    }
}

/// A wrong login ends a worker at its start, where a person can correct it; later it would be an outage. The limit of connections
/// is temporary, and a missing permission is not.
#[apply(world_test)]
async fn a_login_that_is_refused_at_the_start_ends_run() {
    let world = World::new().await;
    let wrong = |url: String| url.replace(":admin@", ":wrong@").replace(":overdue@", ":wrong@");
    for (name, url, says) in [
        ("OVERDUE_BROKER__URL", world.broker_url(), "refuses the login of user `admin`"),
        ("OVERDUE_DATABASE__URL", world.services.database_url(None), ""),
    ] {
        world.overdue_with(&["run"], &[(name, &wrong(url))]).exits(77).reports(says);
    }
    let limit = ["vhost-limits", &world.vhost, "max-connections"];
    let services = &world.services;
    services.call(None, Method::PUT, &limit, json!({ "value": 0 })).await.unwrap();
    let refused = ends(&world, 69, &["publish", "4711", "--level", "100ms"]);
    refused.reports("takes no more connections").reports("connection limit");
    let doctor = ends(&world, 2, &["doctor"]);
    assert!(doctor.stdout.contains("key max-connections"), "{doctor}");
}

/// The session is open, and no queue has a connection.
#[apply(world_test)]
async fn a_worker_that_consumes_nothing_does_not_say_that_it_is_ready() {
    let world = World::new().await;
    let limit = ["vhost-limits", &world.vhost, "max-connections"];
    let at_most = async |connections: i32| {
        let body = json!({ "value": connections });
        world.services.call(None, Method::PUT, &limit, body).await.unwrap();
    };
    at_most(1).await;
    let mut worker = world.start(|command| {
        command.arg("--no-declare");
    });
    worker.until_logged("this queue is not consumed at present").await;
    assert_eq!(worker.logged("worker ready"), 0, "{}", worker.log());
    at_most(-1).await;
    worker.until_logged("worker ready").await;
    assert_eq!(worker.logged("queues=\"orders.unpaid\""), 1, "{}", worker.log());
}

/// The database keeps its connections and does not answer, like a frozen machine.
#[apply(world_test)]
async fn a_database_that_falls_silent_is_given_up() {
    let world = World::new().await;
    let proxy = Proxy::to(&world.services.database_socket()).await;
    let url = world.services.database_url(Some(proxy.port()));
    let store = Store::new(&url, &world.schema, 2).unwrap();
    // A connection of each pool: a connection that is opened later would not have fallen silent.
    let close = Effect::close();
    store.ping().await.unwrap();
    store.run_effect(&close, &[], ClosingPath::Message).await.unwrap();
    proxy.freeze_to_program();
    let effect = store.run_effect(&close, &[], ClosingPath::Message);
    let (ping, effect) = tokio::join!(store.ping(), effect);
    for silent in [ping.unwrap_err(), effect.unwrap_err()] {
        assert!(silent.to_string().contains("does not answer any more"), "{silent}");
        assert_eq!(silent.kind(), FailureKind::Unavailable);
    }
    proxy.pass();
    store.drop_connections();
    store.ping().await.unwrap();
}

/// The first host accepts connections and does not answer, like a paused machine.
#[apply(world_test)]
async fn a_silent_host_of_the_database_costs_a_moment() {
    let world = World::new().await;
    let [first, second] = [
        Proxy::to(&world.services.database_socket()).await,
        Proxy::to(&world.services.database_socket()).await,
    ];
    let url = world.services.database_url(Some(first.port()));
    let both = format!("127.0.0.1:{},127.0.0.1:{}", first.port(), second.port());
    let url = hosts(&url, first.port(), &both);
    let url = format!("{url}&target_session_attrs=read-write");
    first.freeze_to_program();
    let store = Store::new(&url, &world.schema, 2).unwrap();
    store.ping().await.unwrap();
    store.run_effect(&Effect::close(), &[], ClosingPath::Message).await.unwrap();
    // The pool's connections are to the second host, so that host is checked.
    let tried = first.attempts();
    // The statement takes several times as long as the silence after which the server is checked.
    let ids = [OrderId::parse(&world.orders("o", 1, 0).await[0]).unwrap()];
    let sql = "SELECT id AS order_id, 'already_final' AS outcome, due_at, now() AS decided_at
               FROM orders, pg_sleep(2) WHERE id = ANY ($1) AND $2::text IS NOT NULL";
    let slow = written(sql);
    let timing = Timing { database_silence: Duration::from_millis(250), ..Timing::often() };
    let store = store.with_timing(timing.into());
    let outcomes = store.run_effect(&slow, &ids, ClosingPath::Message).await.unwrap();
    assert_eq!(outcomes, [Outcome::AlreadyFinal]);
    assert_eq!(first.attempts(), tried);
}
