//! The client of the management API and the connections that it keeps.

use std::time::Duration;

use overdue::broker::{BrokerAddress, Management};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// One answer per connection; a second request finds it closed, as if it had come a moment too late.
async fn answer_once(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    for is_last in [false, true] {
        let mut line = String::new();
        while stream.read_line(&mut line).await.unwrap_or_default() > 2 {
            line.clear();
        }
        if !is_last {
            let answer =
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]";
            stream.get_mut().write_all(answer).await.unwrap();
        }
    }
}

/// RabbitMQ closes a connection after five idle seconds, which a request of that moment does not survive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_was_idle_for_long_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://admin:admin@{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_once(stream));
        }
    });
    let address = BrokerAddress::parse("amqp://127.0.0.1:1/%2f", Some(url.as_str())).unwrap();
    let management = Management::new(&address).unwrap();
    assert_eq!(management.policies().await.unwrap(), []);
    // Its age is the matter, so here time itself has to pass.
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(management.policies().await.unwrap(), []);
}
