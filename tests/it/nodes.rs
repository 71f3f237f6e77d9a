//! Several nodes in one URL: those that are down, silent or refuse cost nothing but a moment.

use std::time::{Duration, Instant};

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

use crate::support::{Proxy, Services, World, until};

/// A port on which nobody listens, and nobody else will: it is taken.
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
    let refused =
        Link::open(&address, "test: several nodes").await.map(drop).unwrap_err().to_string();
    assert!(
        refused.contains(&format!("cannot reach the broker at amqp://{all_dead}")),
        "{refused}"
    );
    assert_eq!(address.management_display(), "http://127.0.0.1:15672,127.0.0.1:15672");
}

/// A node that answers has answered for all of them.
#[apply(world_test)]
async fn a_refused_login_is_not_tried_on_the_next_node() {
    let services = Services::main();
    let port = services.broker_socket().rsplit(':').next().unwrap().parse().unwrap();
    let url = services.broker_url("/", None).replace(":admin@", ":wrong@");
    let twice = hosts(&url, port, &format!("127.0.0.1:{port},127.0.0.1:{port}"));
    let address = BrokerAddress::parse(&twice, None).unwrap();
    let refused =
        Link::open(&address, "test: wrong password").await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("refuses the login of user `admin`"), "{refused}");
}

/// It passes, and a missing permission does not.
#[apply(world_test)]
async fn a_limit_of_connections_is_not_a_missing_permission() {
    let world = World::empty().await;
    let limit = ["vhost-limits", &world.vhost, "max-connections"];
    let services = &world.services;
    services.call(None, Method::PUT, &limit, json!({ "value": 0 })).await.unwrap();
    let run = world.overdue(&["publish", "4711", "--level", "100ms"]);
    assert_eq!(run.code, Some(69), "{run}");
    assert!(run.stderr.contains("connection limit"), "{run}");
}

#[apply(world_test)]
async fn the_management_api_of_any_node_answers() {
    let world = World::new().await;
    let socket = world.services.management_socket();
    let dead = nobody();
    for hosts in [format!("127.0.0.1:{dead},{socket}"), format!("{socket},127.0.0.1:{dead}")] {
        let url = format!("http://admin:admin@{hosts}");
        let address = BrokerAddress::parse(&world.broker_url(), Some(&url)).unwrap();
        let management = Management::new(&address).unwrap();
        // The broker keeps a list that it took long for, and answers with it for a while. Beside these there may be the queue that
        // is the lock of whoever has declared them, for a moment.
        let wanted = world.topology.objects().queues.len();
        let seen = async || management.observe().await.unwrap().objects.queues.len();
        until("all are seen", seen, |seen| *seen >= wanted).await;
        let names = async || management.queue_names("orders").await.unwrap().len();
        until("all are listed", names, |names| *names >= wanted).await;
    }
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
    let process = world
        .started(|command| {
            command.env("OVERDUE_BROKER__URL", &both);
        })
        .await;
    let orders = world.orders("o", 20, 0).await;
    world.publish("100ms", &orders[..10]).await;
    world.until_closed(10).await;
    let tried = first.attempts();
    first.refuse();
    world.publish("100ms", &orders[10..]).await;
    world.until_closed(20).await;
    // The one that lost its node, and none that failed after it: no back-off lies between the two nodes.
    assert_eq!(process.logged("session ended"), 1, "{}", process.log());
    assert!(first.attempts() > tried && second.attempts() > 0);
}

/// One that takes connections and says nothing is left for the next one; a change is not made twice.
#[apply(world_test)]
async fn a_management_api_that_says_nothing_is_left_for_the_next_one() {
    let world = World::new().await;
    let silent = Proxy::to(&world.services.management_socket()).await;
    silent.freeze_to_program();
    let hosts = format!("127.0.0.1:{},{}", silent.port(), world.services.management_socket());
    let url = format!("http://admin:admin@{hosts}");
    let address = BrokerAddress::parse(&world.broker_url(), Some(&url)).unwrap();
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

/// Only a node that says nothing is given time before the next one is tried.
#[apply(world_test)]
async fn nodes_that_are_down_cost_less_than_one_that_is_silent() {
    let services = Services::main();
    let silent = Proxy::to(&services.broker_socket()).await;
    silent.freeze_to_program();
    let good = Proxy::to(&services.broker_socket()).await;
    let (silent, port) = (silent.port(), good.port());
    let dead = format!("127.0.0.1:{}", nobody());
    let url = services.broker_url("/", Some(port));
    let takes = async |before: String| {
        let several = hosts(&url, port, &format!("{before},127.0.0.1:{port}"));
        let address = BrokerAddress::parse(&several, Some("http://localhost")).unwrap();
        let began = Instant::now();
        let link = Link::open(&address, "test: several nodes").await.unwrap();
        let took = began.elapsed();
        link.close().await;
        took
    };
    let (mut down, mut quiet) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        down.push(takes([dead.as_str(); 4].join(",")).await);
        quiet.push(takes(format!("127.0.0.1:{silent}")).await);
    }
    // The quickest of each: whatever else this machine does, it is never quicker than the time that is given.
    assert!(down.iter().min() < quiet.iter().min(), "{down:?} {quiet:?}");
}

/// Which of three urls is meant by a flag for a file, and what is said of a password in a command line.
#[apply(world_test)]
async fn urls_can_come_from_files() {
    let world = World::new().await;
    let url = world.broker_url();
    let file = world.dir.path().join("broker.url");
    std::fs::write(&file, format!("{url}\n")).unwrap();
    let file = file.to_str().unwrap();
    let nowhere = [("OVERDUE_BROKER__URL", "amqp://u:p@127.0.0.1:1")];
    let published = world.overdue_with(&["publish", "4711", "--broker-url-file", file], &nowhere);
    assert_eq!(published.code, Some(0), "{published}");
    assert!(!published.stderr.contains("warning"), "{published}");
    let flagged = world.overdue_with(&["publish", "4711", "--broker-url", &url], &nowhere);
    assert_eq!(flagged.code, Some(0), "{flagged}");
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
        let refused = world.overdue(&["publish", "4711", "--broker-url-file", file]);
        assert_eq!(refused.code, Some(78), "{refused}");
        assert!(refused.stderr.contains(said), "{refused}");
    }
}

/// Somebody is there to correct it when the worker starts; later it would be an outage.
#[apply(world_test)]
async fn a_login_that_is_refused_at_the_start_ends_run() {
    let world = World::new().await;
    let wrong = world.broker_url().replace(":admin@", ":wrong@");
    let run = world.overdue_with(&["run"], &[("OVERDUE_BROKER__URL", &wrong)]);
    assert_eq!(run.code, Some(77), "{run}");
    assert!(run.stderr.contains("refuses the login of user `admin`"), "{run}");
    let wrong = world.services.database_url(None).replace("overdue:overdue@", "overdue:wrong@");
    let run = world.overdue_with(&["run"], &[("OVERDUE_DATABASE__URL", &wrong)]);
    assert_eq!(run.code, Some(77), "{run}");
}

/// It keeps its connections and answers nothing, like a machine that was frozen.
#[apply(world_test)]
async fn a_database_that_falls_silent_is_given_up() {
    let world = World::new().await;
    let proxy = Proxy::to(&world.services.database_socket()).await;
    let url = world.services.database_url(Some(proxy.port()));
    let store = Store::new(&url, &world.schema, 2).unwrap();
    // A connection of each pool: one that is begun later has not fallen silent, it has never answered.
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

/// For one order, several times as long as the time after which the server is asked whether it is there.
async fn slow_effect(world: &World) -> (Effect, [OrderId; 1]) {
    let ids = [OrderId::parse(&world.orders("o", 1, 0).await[0]).unwrap()];
    let sql = "SELECT id AS order_id, 'already_final' AS outcome, due_at, now() AS decided_at
               FROM orders, pg_sleep(2) WHERE id = ANY ($1) AND $2::text IS NOT NULL";
    (Effect { sql: sql.to_owned(), ..Effect::close() }, ids)
}

#[apply(world_test)]
async fn a_slow_statement_of_a_server_that_answers_is_waited_for() {
    let world = World::of_tables().await;
    let (slow, ids) = slow_effect(&world).await;
    let timing = Timing { database_silence: Duration::from_millis(500), ..Timing::often() };
    let store = world.store.clone().with_timing(timing.into());
    let outcomes = store.run_effect(&slow, &ids, ClosingPath::Message).await.unwrap();
    assert_eq!(outcomes, [Outcome::AlreadyFinal]);
}

/// The first accepts connections and does not answer, like a machine that is paused.
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
    // Its connections are to the second one, so that is the one to ask whether it is there.
    let tried = first.attempts();
    let (slow, ids) = slow_effect(&world).await;
    let timing = Timing { database_silence: Duration::from_millis(250), ..Timing::often() };
    let store = store.with_timing(timing.into());
    let outcomes = store.run_effect(&slow, &ids, ClosingPath::Message).await.unwrap();
    assert_eq!(outcomes, [Outcome::AlreadyFinal]);
    assert_eq!(first.attempts(), tried);
}
