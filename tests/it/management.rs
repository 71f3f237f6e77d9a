//! The client of the management API and the connections that it keeps.

use overdue::internals::broker::{BrokerAddress, Management};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    sync::mpsc,
};

/// RabbitMQ closes a connection after five idle seconds, which a request of that moment does not survive. So the
/// client closes it first; by default it would keep it for 90 seconds, longer than anything here waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_is_closed_by_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://admin:admin@{}", listener.local_addr().unwrap());
    let (closed, mut seen_closed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        let mut line = String::new();
        while stream.read_line(&mut line).await.unwrap() > 2 {
            line.clear();
        }
        let answer =
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]";
        stream.get_mut().write_all(answer).await.unwrap();
        line.clear();
        closed.send(stream.read_line(&mut line).await.unwrap()).unwrap();
    });
    let address = BrokerAddress::parse("amqp://127.0.0.1:1/%2f", Some(url.as_str())).unwrap();
    let management = Management::new(&address).unwrap();
    assert_eq!(management.policies().await.unwrap(), []);
    let deadline = crate::support::wait::DEADLINE;
    let end = tokio::time::timeout(deadline, seen_closed.recv()).await;
    assert_eq!(end.expect("the idle connection is kept"), Some(0));
    // Until here: a client that is gone has no connections.
    drop(management);
}
