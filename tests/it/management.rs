//! The client of the management API and its connections.

use std::{collections::BTreeSet, time::Duration};

use overdue::internals::{
    broker::{BrokerAddress, Management},
    objects::Binding,
    plan::{Change, Snapshot},
    timing::Timing,
    verify::MemberState,
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::support::{Proxy, World, pages::metrics, until, wait::awaited};

const NOTHING: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]";

/// Listens on a port, as the URL of a management API.
async fn listens() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://admin:s3cret@{}", listener.local_addr().unwrap());
    (listener, url)
}

fn client(url: &str) -> Management {
    Management::new(&BrokerAddress::parse("amqp://127.0.0.1:1/%2f", Some(url)).unwrap()).unwrap()
}

/// A client of an API that gives each request this answer: status and more headers, body.
async fn answering<A>(answer: A) -> Management
where
    A: Fn(&str) -> (&'static str, &'static str) + Copy + Send + 'static,
{
    let (listener, url) = listens().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let request = read_request(&mut stream).await;
                let (status, body) = answer(request.lines().next().unwrap_or_default());
                let head = "content-type: application/json\r\nconnection: close\r\n";
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\n{head}content-length: {length}\r\n\r\n{body}");
                stream.get_mut().write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    client(&url)
}

/// Reads a request without a body.
async fn read_request(stream: &mut BufReader<TcpStream>) -> String {
    let mut request = String::new();
    while stream.read_line(&mut request).await.unwrap() > 2 {}
    request
}

/// RabbitMQ closes a connection after five idle seconds, and loses a request of that moment. So the client closes
/// it first; its default is 90 seconds, longer than any wait here.
#[apply(world_test)]
async fn an_idle_connection_is_closed_by_the_client() {
    let (listener, url) = listens().await;
    let (closed, mut seen_closed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut stream = BufReader::new(listener.accept().await.unwrap().0);
        read_request(&mut stream).await;
        stream.get_mut().write_all(NOTHING).await.unwrap();
        let mut line = String::new();
        closed.send(stream.read_line(&mut line).await.unwrap()).unwrap();
    });
    let management = client(&url);
    assert_eq!(management.policies().await.unwrap(), []);
    assert_eq!(awaited("the end of the idle connection", seen_closed.recv()).await, Some(0));
    // The client must live until here: its connections end with it.
    drop(management);
}

/// A redirect would turn the POST of a change into a GET of another URL, with status 200. A redirect without another URL has
/// changed nothing either.
#[apply(world_test)]
async fn a_redirect_is_no_answer() {
    let binding = Binding { source: "one".to_owned(), to_queue: true, ..Binding::default() };
    let binding = Binding { destination: "two".to_owned(), ..binding };
    let changes = [Change::Bind(binding), Change::DeleteExchange { exchange: "one".to_owned() }];
    for (moved, said) in [
        (
            "302 Found\r\nlocation: /elsewhere",
            "/elsewhere: write the URL of the management API itself",
        ),
        ("302 Found", "(it redirects (302 Found) and names no target: write the URL"),
    ] {
        let answer =
            move |it: &str| if it.starts_with("GET") { ("200 OK", "[]") } else { (moved, "") };
        let management = answering(answer).await;
        for change in &changes {
            let refused = management.apply(change).await.unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
            assert!(refused.contains("into broker.management_url"), "{refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }
}

/// The management API behind a proxy that changes the path of each request.
async fn behind(world: &World, url: &str, change: fn(&str) -> String) -> Management {
    let (listener, proxy) = listens().await;
    let proxy = proxy.replace("s3cret", "admin");
    let service = world.services.management_socket();
    tokio::spawn(async move {
        loop {
            let mut program = BufReader::new(listener.accept().await.unwrap().0);
            let request = read_request(&mut program).await;
            let (first, rest) = request.split_once("\r\n").unwrap();
            let request = format!("{}\r\nconnection: close\r\n{rest}", change(first));
            let mut service = TcpStream::connect(&service).await.unwrap();
            service.write_all(request.as_bytes()).await.unwrap();
            copy(&mut service, &mut program).await.unwrap();
        }
    });
    Management::new(&BrokerAddress::parse(url, Some(&proxy)).unwrap()).unwrap()
}

/// A path with an empty virtual host returns the objects of all virtual hosts, including the test's own.
#[apply(world_test)]
async fn objects_of_all_virtual_hosts_are_not_taken_for_those_of_one() {
    let world = World::new().await;
    let default = world.broker_url().replace(&world.vhost, "%2f");
    let merged = behind(&world, &default, |line| line.replace("/%2F", "/")).await;
    let refused = merged.observe().await.unwrap_err().to_string();
    assert!(refused.contains("when it is asked about `/`"), "{refused}");
    assert!(refused.contains("nothing is known of `/`: a proxy in between"), "{refused}");
    let kept = behind(&world, &default, str::to_owned).await;
    kept.observe().await.unwrap();
    // A path that the API does not have is not a missing virtual host.
    let elsewhere =
        behind(&world, &world.broker_url(), |line| line.replace("/api", "/mq/api")).await;
    let refused = elsewhere.observe().await.unwrap_err().to_string();
    let path = format!("not found: /api/exchanges/{} at http://127.0.0.1:", world.vhost);
    assert!(refused.starts_with(&path), "{refused}");
    assert!(!refused.contains("add_vhost"), "{refused}");
}

/// The management API, except requests with `is_too_much`, which are never answered.
async fn slow(world: &World, api_call: Duration, is_too_much: fn(&str) -> bool) -> Management {
    let (listener, url) = listens().await;
    let url = url.replace("s3cret", "admin");
    let service = world.services.management_socket();
    tokio::spawn(async move {
        let mut unanswered = Vec::new();
        loop {
            let mut program = BufReader::new(listener.accept().await.unwrap().0);
            let request = read_request(&mut program).await;
            if is_too_much(request.lines().next().unwrap()) {
                unanswered.push(program);
                continue;
            }
            let mut service = TcpStream::connect(&service).await.unwrap();
            let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            service.write_all(request.as_bytes()).await.unwrap();
            copy(&mut service, &mut program).await.unwrap();
        }
    });
    let address = BrokerAddress::parse(&world.broker_url(), Some(url.as_str())).unwrap();
    let timing = Timing { api_call, ..Timing::often() };
    Management::new(&address.with_timing(timing.into())).unwrap()
}

/// A small broker takes longer than a call may for the numbers of ten thousand queues at once.
#[apply(world_test)]
async fn numbers_of_many_queues_are_asked_for_page_by_page() {
    let world = World::new().await;
    let names: BTreeSet<String> = (0..600).map(|n| format!("other.{n}")).collect();
    let queue =
        |name| json!({ "name": name, "durable": true, "auto_delete": false, "arguments": {} });
    let queues: Vec<_> = names.iter().map(queue).collect();
    world.call(Method::POST, "definitions", &[], json!({ "queues": queues })).await;
    let too_much = |request: &str| {
        let is_list = request.starts_with("GET /api/queues/") && request.matches('/').count() == 4;
        is_list && !request.contains("page_size=500") && !request.contains("disable_stats=true")
    };
    let management = slow(&world, Timing::often().api_call, too_much).await;
    let observe = async || management.observe().await.unwrap();
    let counted = |seen: &Snapshot| names.iter().all(|name| seen.messages_in(name) == Some(0));
    let seen = until("every queue is counted", observe, counted).await;
    let others = |name: &&String| name.starts_with("other.");
    assert_eq!(seen.objects.queues.keys().filter(others).count(), names.len());
    assert!(names.is_subset(&management.stats_and_policies().await.unwrap().into_keys().collect()));
    // The error names the time-out.
    let first = |request: &str| request.contains("/api/exchanges/");
    let management = slow(&world, Duration::from_secs(1), first).await;
    let silent = management.observe().await.unwrap_err().to_string();
    assert!(silent.contains("did not list the exchanges within 1s: look at"), "{silent}");
}

/// The environment configures a proxy for other programs.
#[apply(world_test)]
async fn no_proxy_gets_the_password() {
    let world = World::new().await;
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    let names =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    world.overdue_with(&["plan"], &names.map(|name| (name, url.as_str()))).exits(0);
    proxy.set_nonblocking(true).unwrap();
    assert!(proxy.accept().is_err(), "it was asked");
}

/// A worker that declares nothing starts without the API. A failure at its start does not prove that its user lacks the right.
#[apply(world_test)]
async fn an_api_that_fails_while_a_worker_starts_is_asked_again() {
    let world = World::new().await;
    let proxy = Proxy::to(&world.services.management_socket()).await;
    proxy.refuse();
    let url = format!("http://admin:admin@127.0.0.1:{}", proxy.port());
    let (_process, address) = world
        .listening(|it| _ = it.arg("--no-declare").env("OVERDUE_BROKER__MANAGEMENT_URL", url))
        .await;
    assert!(proxy.attempts() > 0, "it has failed");
    proxy.pass();
    let look = async || metrics(address).await;
    let is_counted = |series: &String| {
        series.starts_with("overdue_queue_messages{") && series.contains("\"orders.unpaid\"")
    };
    until("its queue is counted", look, |seen| seen.keys().any(is_counted)).await;
}

/// A broker closes an idle connection at the moment of a request: the client repeats the request on a new connection, and the broker
/// answers.
#[apply(world_test)]
async fn a_question_on_a_connection_that_was_just_closed_is_asked_once_more() {
    let world = World::new().await;
    world.policy("policies", "limit", "^audit$", json!({ "max-length": 7 })).await;
    let (listener, url) = listens().await;
    let url = url.replace("s3cret", "admin");
    let service = world.services.management_socket();
    let (cut, mut seen_cut) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let mut first = BufReader::new(listener.accept().await.unwrap().0);
            read_request(&mut first).await;
            first.get_mut().write_all(NOTHING).await.unwrap();
            // After two idle seconds the client has closed the connection; then the test tries again.
            if let Ok(began) = first.read_u8().await {
                cut.send(began).unwrap();
                break;
            }
        }
        let (mut second, _) = listener.accept().await.unwrap();
        let mut service = TcpStream::connect(service).await.unwrap();
        // The copy ends with the client.
        let _ = copy_bidirectional(&mut second, &mut service).await;
    });
    let broker = world.services.broker_url(&world.vhost, None);
    let address = BrokerAddress::parse(&broker, Some(url.as_str())).unwrap();
    let management = Management::new(&address).unwrap();
    assert_eq!(management.policies().await.unwrap(), []);
    let policies = async || management.policies().await.unwrap();
    let policies = until("an answer of the broker", policies, |seen| !seen.is_empty()).await;
    assert_eq!(policies, world.management().policies().await.unwrap());
    assert_eq!(policies.len(), 1);
    assert_eq!(seen_cut.recv().await, Some(b'G'), "it was on the connection that was kept");
}

/// A URL drops `.` and tabs: the request would read or delete another object.
#[apply(world_test)]
async fn a_name_that_a_url_cannot_have_leads_to_no_other_object() {
    let world = World::new().await;
    let exchange = |name| json!({ "name": name, "type": "fanout", "durable": true, "auto_delete": false, "internal": false, "arguments": {} });
    let binding = json!({
        "source": world.topology.entries()[0].exchange, "destination": ".", "destination_type": "exchange", "routing_key": ".", "arguments": {}
    });
    let theirs = json!({ "exchanges": [exchange("."), exchange("ab")], "bindings": [binding] });
    world.call(Method::POST, "definitions", &[], theirs).await;
    let management = world.management();
    management.level_routes(&world.topology).await.unwrap();
    for name in ["a\tb", "a\nb", ".", ".."] {
        let delete = Change::DeleteExchange { exchange: name.to_owned() };
        let refused = management.apply(&delete).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("like {name:?}")), "{refused}");
    }
    assert!(world.objects().await.exchanges.contains_key("ab"));
}

/// The answers of an API that does not have the check.
fn refusing(
    status: &'static str,
    overview: &'static str,
) -> impl Fn(&str) -> (&'static str, &'static str) + Copy {
    move |it| if it.contains("/api/overview") { ("200 OK", overview) } else { (status, "{}") }
}

/// A node without a member of the queue knows no leader: the client queries the members.
#[apply(world_test)]
async fn a_queue_has_no_leader_if_none_of_its_members_leads_it() {
    const SUSPECTED: &str = r#"{"status": "failed", "reason": "…", "queues": [
        {"name": "orders.unpaid"}, {"name": "orders.parked"}, {"name": "orders.delay.1s"},
        {"name": "shop.orders.unpaid"}]}"#;
    let management = answering(|request| match request {
        it if it.contains("without-elected-leaders/vhost/%2F/pattern/orders%5C.") => {
            ("503 x", SUSPECTED)
        }
        it if it.contains("/orders.unpaid/status") => (
            "200 OK",
            r#"[{"Node Name": "a", "Raft State": "noproc", "Term": 3},
                {"Node Name": "b", "Raft State": "pre_vote", "Term": 3}]"#,
        ),
        it if it.contains("/orders.delay.1s/status") => (
            "200 OK",
            r#"[{"Node Name": "a", "Raft State": "follower", "Term": 3},
                {"Node Name": "b", "Raft State": "leader", "Term": 3},
                {"Node Name": "c", "Raft State": "nodedown", "Term": ""}]"#,
        ),
        it if it.contains("/orders.parked/status") => ("500 x", "{}"),
        other => panic!("{other}"),
    });
    let found = management.await.without_leader("orders").await.unwrap();
    let state =
        |node: &str, state: &str| MemberState { node: node.to_owned(), state: state.to_owned() };
    let expected = [
        ("orders.parked".to_owned(), vec![]),
        ("orders.unpaid".to_owned(), vec![state("a", "noproc"), state("b", "pre_vote")]),
    ];
    assert_eq!(found, expected.into());

    let (old, newer) = (r#"{"rabbitmq_version": "4.0.9"}"#, r#"{"rabbitmq_version": "4.2.1"}"#);
    let newest = r#"{"rabbitmq_version": "4.3.6"}"#;
    for (answer, is_known) in [
        (answering(|_| ("200 OK", r#"{"status": "ok"}"#)).await, true),
        // RabbitMQ 4.0 has no such check; the refusals of 4.1 and 4.2 were not tried.
        (answering(refusing("400 x", old)).await, true),
        (answering(refusing("404 x", newer)).await, true),
        (answering(refusing("400 x", newest)).await, false),
        (answering(refusing("404 x", newest)).await, false),
        (answering(|_| ("500 x", "{}")).await, false),
        (answering(|_| ("503 x", "down for maintenance")).await, false),
    ] {
        let found = answer.without_leader("orders").await.map(|found| found.len());
        assert_eq!(found.ok(), is_known.then_some(0));
    }
}
