//! Requests that are open at the end of a connection fail with that end.

use std::sync::Arc;

use overdue::internals::broker::{BrokerAddress, Link, consume::Subscription, passive};
use tokio::task::JoinSet;

use crate::support::{Proxy, Services, wait::awaited};

const ROUNDS: usize = 5;
/// Number of concurrent requests, so that some are open at the very moment of the end.
const ASKING: usize = 40;

/// The client forgets a channel that is requested between the end of its socket and the moment it notices. A worker
/// that waited for one consumed nothing until its restart.
#[apply(world_test)]
async fn whoever_asks_while_a_connection_ends_hears_of_it() {
    let services = Services::main();
    let proxy = Proxy::to(&services.broker_socket()).await;
    let url = services.broker_url("/", Some(proxy.port()));
    let address = BrokerAddress::parse(&url, None).unwrap();
    for round in 0..ROUNDS {
        let link = Arc::new(Link::open(&address, "test: it ends").await.unwrap());
        let mut asking = JoinSet::new();
        for number in 0..ASKING {
            let link = Arc::clone(&link);
            asking.spawn(async move {
                match number % 3 {
                    0 => while link.channel().await.is_ok() {},
                    1 => while passive::exchange_exists(&link, "amq.direct").await.is_ok() {},
                    _ => while passive::queue_exists(&link, "there.is.none").await.is_ok() {},
                }
            });
        }
        // Each request has had an answer: the loops are running.
        assert!(!passive::queue_exists(&link, "there.is.none").await.unwrap());
        proxy.cut();
        let all = async { while asking.join_next().await.is_some() {} };
        awaited(&format!("an answer to everybody in round {round}"), all).await;
        let subscribed = Subscription::open(&link, "there.is.none", 1).await;
        assert!(subscribed.is_err());
    }
}

/// A request ends with its connection, however the client handles it.
#[apply(world_test)]
async fn what_is_never_answered_ends_with_its_connection() {
    let services = Services::main();
    let proxy = Proxy::to(&services.broker_socket()).await;
    let url = services.broker_url("/", Some(proxy.port()));
    let address = BrokerAddress::parse(&url, None).unwrap();
    let link = Arc::new(Link::open(&address, "test: no answer").await.unwrap());
    let waiting = Arc::clone(&link);
    let asking =
        tokio::spawn(
            async move { waiting.answered(std::future::pending::<Result<(), _>>()).await },
        );
    assert!(link.answered(link.channel()).await.is_ok(), "others are answered");
    assert!(!asking.is_finished(), "as long as it stands, an answer may come");
    proxy.cut();
    let ended = awaited("the end of the question", asking).await.unwrap();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the connection ended before there was an answer"), "{error}");
}
