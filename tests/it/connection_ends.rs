//! What is asked while a connection ends is answered: with its end, where nothing else comes.

use std::sync::Arc;

use overdue::internals::broker::{BrokerAddress, Link, consume::Subscription, passive};
use tokio::task::JoinSet;

use crate::support::{Proxy, Services, wait::awaited};

const ROUNDS: usize = 5;
/// So many ask at the same time that some of them do so at the very moment.
const ASKING: usize = 40;

/// The client forgets a channel that is asked for between the end of its socket and the moment at which it knows. A worker
/// that waited for one consumed nothing until it was started again.
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
        // Each has had an answer: they are in the middle of it.
        assert!(!passive::queue_exists(&link, "there.is.none").await.unwrap());
        proxy.cut();
        let all = async { while asking.join_next().await.is_some() {} };
        awaited(&format!("an answer to everybody in round {round}"), all).await;
        let subscribed = Subscription::open(&link, "there.is.none", 1).await;
        assert!(subscribed.is_err());
    }
}

/// Whatever the client does with a question.
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
