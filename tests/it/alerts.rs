//! `[[alert]]`: messages to a real HTTP server and a real mail server, and closing that goes on whatever these do.

use std::{fs, path::Path, process::Command, time::Duration};

use serde_json::Value;

use crate::support::{
    Run, WorkerProcess, World, process, python,
    tls::{Begins, Ca, Shown, TlsServer},
    until,
    webhook::{Answer, Posted, Webhook},
};

pub(super) const OK: Answer = Answer::Status(200, "fine");

/// Writes overdue.toml; the URL is in a file, as it should be.
pub(super) fn settings(world: &World, webhook: &Webhook, more: &str) {
    fs::write(world.dir.path().join("webhook.url"), format!("{}\n", webhook.url())).unwrap();
    let text = format!(
        "[[alert]]\nname = \"on-call\"\nformat = \"json\"\nurl_file = \"webhook.url\"\nsecret = \"s3cret-key\"\n{more}\n"
    );
    fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
}

/// Short enough for a test.
pub(super) const QUICK: &str =
    "at_most_every = \"0s\"\nover_after = \"1s\"\nnot_ready_for = \"0s\"\nlate_after = \"500ms\"";

pub(super) async fn worker(world: &World) -> WorkerProcess {
    let quick = |command: &mut Command| {
        command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
        command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
    };
    world.started(quick).await
}

fn item<'a>(message: &'a Value, kind: &str) -> Option<&'a Value> {
    message["items"].as_array().unwrap().iter().find(|item| item["kind"] == kind)
}

/// A message that says so of this kind.
pub(super) fn says(posted: &Posted, kind: &str, condition: &str) -> bool {
    let message = posted.json();
    item(&message, kind).is_some_and(|item| item["condition"] == condition)
}

pub(super) async fn until_said(webhook: &Webhook, kind: &str, condition: &str) -> Value {
    let what = format!("{kind}: {condition}");
    let posted = webhook.until(&what, |posted| says(posted, kind, condition)).await;
    let message = posted.json();
    item(&message, kind).unwrap().clone()
}

/// The function of docs/alerts.md, on a request.
fn verified(posted: &Posted, secret: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/alerts.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, code) = page.split_once("```python\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    let ask = "\nimport sys, json\nbody = sys.stdin.buffer.read()\n\
               print(verified(sys.argv[1].encode(), json.loads(sys.argv[2]), body))\n";
    let headers = serde_json::to_string(&posted.headers).unwrap();
    let mut command = Command::new(python::interpreter());
    command.args(["-c", &format!("{code}{ask}"), secret, &headers]);
    let run = process::finish(command, Some(posted.body.as_bytes()));
    assert_eq!(run.code, Some(0), "{run}");
    run.stdout.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_said_signed_and_then_that_it_is_over() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    settings(&world, &webhook, QUICK);
    let process = worker(&world).await;
    let wire = world.wire().await;
    // One: of two, the second might come when the first is over.
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    let parked = until_said(&webhook, "parked", "wrong").await;
    assert_eq!(parked["runbook"], "docs/runbooks.md#overdueparked");
    // No message comes for it, and the sweep is switched off.
    let lost = world.orders("lost", 1, -2_000).await;
    let late = until_said(&webhook, "late", "wrong").await;
    let text = late["text"].as_str().unwrap();
    assert!(text.starts_with("an order of effect close has been overdue for "), "{text}");
    // A worker that has just started is not ready either.
    let stuck = |posted: &Posted| {
        let message = posted.json();
        let text =
            item(&message, "not-ready").map(|item| item["text"].as_str().unwrap().to_owned());
        text.is_some_and(|text| text.starts_with("closing: effect close: "))
    };
    webhook.until("that it closes nothing", stuck).await;
    let over = until_said(&webhook, "parked", "over").await;
    assert_eq!(over["count"], 1, "{over}");
    assert_eq!(over["text"], "1 message put into the parking lot (unpaid, unreadable: 1)");
    assert!(world.pay(&lost[0]).await);
    until_said(&webhook, "late", "over").await;
    until_said(&webhook, "not-ready", "over").await;
    let first = &webhook.posted()[0];
    assert_eq!(first.headers["content-type"], "application/json; charset=utf-8");
    assert_eq!(verified(first, "s3cret-key"), "True");
    assert_eq!(verified(first, "another-key"), "False");
    let forged = Posted { body: first.body.replace("orders", "0rders"), ..first.clone() };
    assert_eq!(verified(&forged, "s3cret-key"), "False");
    assert_eq!(first.json()["topology"], "orders");
    assert!(!process.log().contains("s3cret"), "{}", process.log());
}

/// Each message that is parked, swept or late is one of many: there are few messages about them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_finds_and_drift_are_said_and_a_flood_is_one_message() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    settings(&world, &webhook, "on = [\"sweep\", \"drift\", \"parked\"]\nat_most_every = \"1h\"");
    // The comparison at the start finds it.
    world.delete("queues", "orders.delay.30m").await;
    world.orders("lost", 20, -10_000).await;
    let mut command = world.command(&["run", "--no-declare"]);
    command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
    command.env("OVERDUE_WORKER__SWEEP_EVERY", "200ms").env("OVERDUE_WORKER__SWEEP_GRACE", "5s");
    let mut process = world.spawn(command);
    process.until_logged("worker ready").await;
    world.until_closed(20).await;
    let garbage: Vec<String> = (0..500).map(|n| format!("{{ {n}")).collect();
    world.wire().await.publish_all("orders.in", "100ms.unpaid", &garbage).await;
    webhook.until("a first message", |_| true).await;
    world.until_empty("orders.unpaid").await;
    // Whichever came first; everything else is within the hour.
    process.until_logged("alert sent").await;
    assert_eq!(webhook.posted().len(), 1);
    let said = process.logged("alert sent");
    assert_eq!(said, 1, "{}", process.log());

    process.kill();
    settings(&world, &webhook, "on = [\"drift\"]\nat_most_every = \"1h\"");
    let mut command = world.command(&["run", "--no-declare"]);
    command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
    let _process = world.spawn(command);
    let drift = until_said(&webhook, "drift", "wrong").await;
    let text = drift["text"].as_str().unwrap();
    assert!(text.starts_with("the broker differs from the topology file: "), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sweep_says_how_many_orders_it_found() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    settings(&world, &webhook, "on = [\"sweep\"]\nover_after = \"1s\"\nat_most_every = \"0s\"");
    world.orders("lost", 20, -10_000).await;
    let sweeping = |command: &mut Command| {
        command
            .env("OVERDUE_WORKER__SWEEP_EVERY", "200ms")
            .env("OVERDUE_WORKER__SWEEP_GRACE", "5s");
    };
    let _process = world.started(sweeping).await;
    let over = until_said(&webhook, "sweep", "over").await;
    assert_eq!(over["text"], "the sweep closed 20 orders that no message came for (unpaid: 20)");
}

/// 500 a few times, then 200: one line in the log, orders are closed meanwhile, and what is said then is what is so then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_answers_500_is_reported_once_and_tried_again() {
    let world = World::new().await;
    let webhook = Webhook::new(Answer::Status(500, "out of order")).await;
    settings(&world, &webhook, QUICK);
    let mut process = worker(&world).await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("was not taken").await;
    let orders = world.orders("o", 50, 300).await;
    world.publish("300ms", &orders).await;
    world.until_closed(50).await;
    let tried = async || webhook.posted().len();
    until("a second attempt", tried, |attempts| *attempts >= 2).await;
    webhook.answers(OK);
    process.until_logged("alert sent").await;
    assert_eq!(process.logged("was not taken"), 1, "{}", process.log());
    assert!(process.log().contains("500 out of order"), "{}", process.log());
    assert!(!process.log().contains("s3cret"), "{}", process.log());
}

/// One that never answers, and one where nobody listens: orders are closed, and a worker that is asked to stop does not wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_never_answers_holds_up_nothing() {
    let (world, webhook) = (World::new().await, Webhook::new(Answer::Never).await);
    // It may have been taken: the next one would be for the hour after.
    let once = QUICK.replace("at_most_every = \"0s\"", "at_most_every = \"1h\"");
    settings(&world, &webhook, &once);
    let mut process = worker(&world).await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    webhook.until("a message that is not answered", |_| true).await;
    let orders = world.orders("o", 200, 300).await;
    world.publish("300ms", &orders).await;
    world.until_closed(200).await;
    assert_eq!(webhook.posted().len(), 1);
    process.until_logged("not answered within 10 s").await;
    process.signal("TERM");
    let status = process.ended(Duration::from_mins(1)).await;
    assert_eq!(status.code(), Some(0), "{}", process.log());
}

pub(super) fn alert_test(world: &World) -> Run {
    world.overdue(&["alert", "test"])
}

/// What the other side answers, for each of them; none of it shows the URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alert_test_says_what_the_other_side_answers() {
    let world = World::new().await;
    let ok = Webhook::new(OK).await;
    let no =
        Webhook::new(Answer::Status(200, "{\"errcode\":310000,\"errmsg\":\"sign not match\"}"))
            .await;
    let moved = Webhook::new(Answer::Status(302, "")).await;
    let alert = |name: &str, format: &str, url: &str| {
        format!("[[alert]]\nname = \"{name}\"\nformat = \"{format}\"\nurl = \"{url}\"\n")
    };
    let nobody = "http://127.0.0.1:1/s3cret-path";
    let text = [
        alert("slack", "slack", &ok.url()),
        alert("dingtalk", "dingtalk", &no.url()) + "secret = \"SEC\"\n",
        alert("moved", "json", &moved.url()),
        alert("nobody", "feishu", nobody),
    ];
    fs::write(world.dir.path().join("overdue.toml"), text.concat()).unwrap();
    let run = alert_test(&world);
    assert_eq!(run.code, Some(1), "{run}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], format!("taken   slack (slack, http://{}): 200 fine", ok.address));
    assert!(lines[1].starts_with("FAILED  dingtalk"), "{run}");
    assert!(lines[1].contains("sign not match"), "{run}");
    assert!(lines[2].starts_with("FAILED  moved") && lines[2].ends_with(": 302"), "{run}");
    assert!(lines[3].starts_with("FAILED  nobody (feishu, http://127.0.0.1:1): "), "{run}");
    assert!(run.stderr.starts_with("error: 3 alerts did not take the message"), "{run}");
    assert!(!run.to_string().contains("s3cret"), "{run}");
    let query = &no.posted()[0].path_and_query;
    assert!(query.contains("?timestamp=") && query.contains("&sign="), "{query}");
    let one = world.overdue(&["alert", "test", "slack", "-o", "json"]);
    assert_eq!(one.code, Some(0), "{one}");
    assert_eq!(one.json()["alerts"][0]["answer"], "200 fine");
}

/// The certificate of a webhook is checked, with the CA that `ca_file` names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_over_https_is_checked() {
    let (world, ca, webhook) = (World::new().await, Ca::new(), Webhook::new(OK).await);
    let tested = async |shown, ca_file: &str| {
        let service = webhook.address.to_string();
        let server = TlsServer::before(service, Begins::AtOnce, &ca, shown, None).await;
        let text = format!(
            "[[alert]]\nname = \"a\"\nformat = \"slack\"\nurl = \"https://localhost:{}/s3cret-path\"\n{ca_file}\n",
            server.port
        );
        fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
        let run = alert_test(&world);
        assert!(!run.to_string().contains("s3cret"), "{run}");
        run
    };
    let ca_file = format!("ca_file = \"{}\"", ca.file());
    let right = tested(Shown::Right, &ca_file).await;
    assert_eq!(right.code, Some(0), "{right}");
    assert!(right.stdout.trim().ends_with("200 fine"), "{right}");
    let cases = [
        (Shown::Expired, ca_file.as_str(), "its certificate has expired"),
        (Shown::OtherHost, &ca_file, "its certificate is for another host name"),
        (Shown::OtherCa, &ca_file, "its certificate is signed by no CA that is trusted here"),
        (Shown::Right, "", "its certificate is signed by no CA that is trusted here"),
    ];
    for (shown, ca_file, reason) in cases {
        let run = tested(shown, ca_file).await;
        assert_eq!(run.code, Some(1), "{shown:?}: {run}");
        assert!(run.stdout.contains(reason), "{shown:?}: {run}");
    }
    assert_eq!(webhook.posted().len(), 1);
}

/// A level or a timeout that there is not: no worker sees such a message, the alternate exchange parks it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_parks_by_itself_is_said_as_well() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    settings(&world, &webhook, &format!("{QUICK}\non = [\"parked\"]"));
    let management = world.management();
    let counted = async || {
        let stats = management.queue_stats().await.unwrap();
        stats.get("orders.parked").and_then(|counts| counts.messages)
    };
    until("a count of the parking lot", counted, Option::is_some).await;
    let _process = worker(&world).await;
    let order = world.orders("o", 1, 1_000_000).await;
    let wire = world.wire().await;
    // Parked by the worker, which shows that it watches, and counted once.
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    until_said(&webhook, "parked", "wrong").await;
    let over = until_said(&webhook, "parked", "over").await;
    assert_eq!(over["count"], 1, "{over}");
    let said = webhook.posted().len();
    wire.publish_all("orders.in", "100ms.unpayd", &order).await;
    let later =
        async || webhook.posted().into_iter().skip(said).find(|it| says(it, "parked", "wrong"));
    let posted = until("what the broker has parked", later, Option::is_some).await.unwrap();
    let parked = item(&posted.json(), "parked").unwrap().clone();
    assert_eq!(
        parked["text"],
        "1 message put into the parking lot (by the broker or another worker: 1)"
    );
}

/// One that takes the message and does not end its answer gets it once, or not soon again where the answer decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_answers_slowly_does_not_get_the_same_again_and_again() {
    let (world, webhook) = (World::new().await, Webhook::new(Answer::Beginning).await);
    settings(&world, &webhook, "on = [\"parked\"]\nat_most_every = \"1h\"");
    let mut process = worker(&world).await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("alert sent").await;
    assert_eq!((webhook.posted().len(), process.logged("was not taken")), (1, 0));
    process.kill();

    let dingtalk = fs::read_to_string(world.dir.path().join("overdue.toml")).unwrap();
    let dingtalk = dingtalk.replace("\"json\"", "\"dingtalk\"");
    fs::write(world.dir.path().join("overdue.toml"), dingtalk).unwrap();
    let mut process = worker(&world).await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("was not taken").await;
    assert_eq!(process.logged("retry_in_ms=3600000"), 1, "{}", process.log());
    process.kill();

    webhook.answers(Answer::Later("120"));
    let mut process = worker(&world).await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("was not taken").await;
    assert_eq!(process.logged("retry_in_ms=120000"), 1, "{}", process.log());
}

/// A file system that does not answer: each alert waits for its own file, and nobody else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_cannot_be_read_holds_up_nothing() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    let file = world.dir.path().join("webhook.url");
    fs::write(&file, webhook.url()).unwrap();
    let alert = |n: usize| {
        format!(
            "[[alert]]\nname = \"a{n}\"\nformat = \"json\"\nurl_file = \"webhook.url\"\n{QUICK}\n"
        )
    };
    // More than the worker has threads for its work.
    let alerts: Vec<String> = (0..8).map(alert).collect();
    fs::write(world.dir.path().join("overdue.toml"), alerts.concat()).unwrap();
    let mut process = worker(&world).await;
    fs::remove_file(&file).unwrap();
    // It is opened when somebody writes, and nobody does.
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("cannot be read within 3 s").await;
    let orders = world.orders("o", 200, 300).await;
    world.publish("300ms", &orders).await;
    world.until_closed(200).await;
    process.signal("TERM");
    // Nobody ever writes.
    let status = process.ended(Duration::from_mins(1)).await;
    assert_eq!(status.code(), Some(0), "{}", process.log());
}
