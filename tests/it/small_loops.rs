//! A worker's repeated queries: each once, and no more than it needs.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use overdue::internals::{broker::BrokerAddress, store::orders::Effect};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::support::{World, orders::WRITTEN, samples::orders, until, worker::settings};

fn two_timeouts() -> String {
    let timeouts = [("unpaid", "500ms", "close"), ("unshipped", "1s", "close")];
    orders("levels = ['500ms', '1s']", &timeouts, "['500ms']")
}

/// Time and first line of each request.
type Requests = Arc<Mutex<Vec<(Instant, String)>>>;

/// A management API that knows no queue and records its requests.
async fn management_api() -> (u16, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Requests::default();
    let written = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            answer(stream, &written).await;
        }
    });
    (port, requests)
}

async fn answer(stream: TcpStream, requests: &Requests) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.unwrap() == 0 {
            return;
        }
    }
    let first = head.lines().next().unwrap().to_owned();
    let none = if first.contains("page=") { r#"{"items":[],"page_count":1}"# } else { "[]" };
    requests.lock().unwrap().push((Instant::now(), first));
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{none}",
        none.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

/// A worker lists queues once, by name, however many timeouts it has. It reads once the exchanges that route to its levels and queues,
/// and their bindings, however many others the virtual host has.
#[apply(world_test)]
async fn a_look_for_new_queues_is_one_request_for_names() {
    let world = World::of(&two_timeouts()).await;
    let (port, requests) = management_api().await;
    let api = format!("http://admin:admin@127.0.0.1:{port}");
    let address = BrokerAddress::parse(&world.broker_url(), Some(&api)).unwrap();
    let worker = world.worker_at(address, &world.services.database_url(None), settings());
    let looks = |line: &str| line.contains("disable_stats=true") && line.contains("columns=name");
    let asked = async || {
        let requests = requests.lock().unwrap();
        requests.iter().filter(|(_, line)| looks(line)).count()
    };
    until("4 looks", asked, |asked| *asked >= 4).await;
    worker.stop().await;
    let all = requests.lock().unwrap();
    let (requests, others): (Vec<_>, Vec<_>) = all.iter().partition(|(_, line)| looks(line));
    for of in ["in", "dlx"] {
        for of in [format!("/orders.{of} HTTP"), format!("/orders.{of}/bindings/source HTTP")] {
            let number = others.iter().filter(|(_, line)| line.contains(&of)).count();
            assert!(number.abs_diff(requests.len()) <= 1, "{of}: {all:?}");
        }
    }
    let is_one = |line: &str| line.contains("/orders.in") || line.contains("/orders.dlx");
    assert!(others.iter().all(|(_, line)| is_one(line)), "{all:?}");
    let gaps: Vec<Duration> = requests.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().all(|gap| *gap > Duration::from_millis(300)), "{gaps:?}");
    // Jitter: no two pauses are equal.
    assert!(gaps.windows(2).any(|pair| pair[0].abs_diff(pair[1]) > Duration::from_millis(1)));
}

/// Two timeouts with the same effect would find the same orders.
#[apply(world_test)]
async fn a_sweep_asks_once_for_two_timeouts_with_one_effect() {
    // A query without a grace counts due orders.
    const COUNTED: &str = "WITH asked AS (INSERT INTO sweeps SELECT now() WHERE $2::bigint > 0)
         SELECT id AS order_id, due_at FROM orders
         WHERE status = 'unpaid' AND due_at <= now() - $2::bigint * interval '1 ms' AND (due_at, id) > ($3, $4)
         ORDER BY due_at, id LIMIT $1";
    let world = World::of(&two_timeouts()).await;
    world.sql("CREATE TABLE sweeps (at timestamptz DEFAULT now())").await;
    let effect = Effect::written("close", WRITTEN, Some(COUNTED));
    let worker = world.worker_of(effect, settings());
    world.publish_orders("500ms", "o", 5, 500).await;
    world.until_closed(5).await;
    let sweeps = async || world.number("SELECT count(*) FROM sweeps").await;
    until("a sweep", sweeps, |sweeps| *sweeps > 0).await;
    assert_eq!(worker.stop().await.closed, 5);
    assert_eq!(sweeps().await, 1);
}
