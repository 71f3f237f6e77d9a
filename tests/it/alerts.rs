//! `[[alert]]`: messages to a real HTTP server; closing continues whatever the server does.

use std::{fs, process::Command};

use serde_json::Value;

use crate::support::{
    Run, WorkerProcess, World,
    pages::get,
    tls::{Begins, Ca, Shown, TlsServer},
    until,
    webhook::{Answer, Webhook},
};

const OK: Answer = Answer::Status(200, "fine");
const BODY: &str = r#"body = '{"text": "{text}", "condition": "{condition}", "state": "{state}"}'"#;

/// Writes overdue.toml with one alert; the URL is in a file, as recommended.
fn settings(world: &World, webhook: &Webhook, more: &str) {
    fs::write(world.dir.path().join("webhook.url"), format!("{}\n", webhook.url())).unwrap();
    let text =
        format!("[[alert]]\nname = \"on-call\"\nurl_file = \"webhook.url\"\n{BODY}\n{more}\n");
    fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
}

/// Short enough for a test.
const QUICK: &str = "over_after = \"1s\"\nnot_ready_for = \"0s\"";

fn quick(command: &mut Command) {
    command.env("OVERDUE_WORKER__WATCH_EVERY", "100ms");
    command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
    command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
}

async fn worker(world: &World) -> WorkerProcess {
    world.started(quick).await
}

async fn until_told(webhook: &Webhook, condition: &str, state: &str) -> Value {
    let is_it = |json: &Value| json["condition"] == condition && json["state"] == state;
    let what = format!("{condition}: {state}");
    webhook.until(&what, |posted| is_it(&posted.json())).await.json()
}

#[apply(world_test)]
async fn what_is_wrong_is_told_and_then_that_it_is_over() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    settings(&world, &webhook, QUICK);
    let (process, address) = world.listening(quick).await;
    world.wire().await.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    let parked = until_told(&webhook, "parked", "firing").await;
    let text = parked["text"].as_str().unwrap();
    assert!(text.starts_with("[overdue orders] parked on "), "{text}");
    let why =
        [": 1 message is parked; this worker parked the last one ", " ago, unreadable message: "];
    assert!(why.iter().all(|part| text.contains(part)), "{text}");
    // No message arrives for the order, and the sweep is off.
    let lost = world.orders("lost", 1, -2_000).await;
    let late = until_told(&webhook, "late", "firing").await;
    assert!(late["text"].as_str().unwrap().contains("1 order is overdue, by up to "), "{late}");
    // A starting worker is unready as well and may have sent the alert already; its page has the present reason.
    until_told(&webhook, "not-ready", "firing").await;
    let says = async || get(address, "/readyz").await.body;
    until("that it closes nothing", says, |page| page.contains("effect close: ")).await;
    assert!(world.pay(&lost[0]).await);
    until_told(&webhook, "late", "resolved").await;
    until_told(&webhook, "not-ready", "resolved").await;
    world.overdue(&["parked", "drop", "--all", "--because", "a test", "--yes"]).exits(0);
    until_told(&webhook, "parked", "resolved").await;
    let content = &webhook.posted()[0].headers["content-type"];
    assert_eq!(content, "application/json; charset=utf-8");
    assert!(!process.log().contains("s3cret"), "{}", process.log());
}

/// A failure is one log line, and the worker tries again. Orders are closed meanwhile, even without an answer; then a stop does not wait.
#[apply(world_test)]
async fn a_webhook_that_fails_holds_up_nothing() {
    let world = World::new().await;
    let webhook = Webhook::new(Answer::Status(500, "out of order")).await;
    settings(&world, &webhook, &format!("on = [\"parked\"]\n{QUICK}"));
    let mut process = worker(&world).await;
    world.wire().await.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("was not taken").await;
    let tried = async || webhook.posted().len();
    until("a second attempt", tried, |attempts| *attempts >= 2).await;
    webhook.answers(OK);
    process.until_logged("alert sent").await;
    assert_eq!(process.logged("was not taken"), 1, "{}", process.log());
    assert!(process.log().contains("500 out of order"), "{}", process.log());
    assert!(!process.log().contains("s3cret"), "{}", process.log());
    process.kill();

    let asked = webhook.posted().len();
    webhook.answers(Answer::Never);
    let mut process = worker(&world).await;
    until("a message that is not answered", tried, |attempts| *attempts > asked).await;
    world.publish_orders("300ms", "o", 200, 300).await;
    world.until_closed(200).await;
    process.until_logged("not answered within 10 s").await;
    assert_eq!(process.logged("retry_in_ms=120000"), 1, "{}", process.log());
    process.stops().await;
}

/// A status ends the request, however slow the body is. The worker obeys `Retry-After`. A message that the server may have received
/// is not sent again after 2 s.
#[apply(world_test)]
async fn a_message_is_not_sent_again_soon() {
    let (world, webhook) = (World::new().await, Webhook::new(OK).await);
    world.wire().await.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    let fine = "answer_contains = \"fine\"";
    let rows = [
        (Answer::Beginning, "", "alert sent"),
        (Answer::Later("120"), "", "retry_in_ms=120000"),
        (Answer::Closed, fine, "retry_in_ms=120000"),
        (Answer::Beginning, fine, "retry_in_ms=120000"),
    ];
    for (number, (answer, more, logged)) in rows.into_iter().enumerate() {
        webhook.answers(answer);
        settings(&world, &webhook, &format!("on = [\"parked\"]\n{more}\n{QUICK}"));
        let mut process = worker(&world).await;
        process.until_logged(logged).await;
        assert_eq!(webhook.posted().len(), number + 1, "{answer:?}: {}", process.log());
        process.kill();
    }
}

fn send_alert(world: &World) -> Run {
    world.overdue(&["doctor", "--send-alert"])
}

/// The lines of a report about alerts.
fn alerts(run: &Run) -> Vec<String> {
    let lines = run.stdout.lines().skip_while(|line| *line != "Alerts").skip(1);
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| line.contains(" sent ")).collect()
}

/// The report has the server's answer for each alert, and never the URL.
#[apply(world_test)]
async fn doctor_sends_a_test_message_for_each_alert() {
    let world = World::new().await;
    let ok = Webhook::new(OK).await;
    let refusal = "{\"errcode\":310000,\"errmsg\":\"keywords not in content\"}";
    let no = Webhook::new(Answer::Status(200, refusal)).await;
    let moved = Webhook::new(Answer::Status(302, "")).await;
    let alert = |name: &str, url: &str| format!("[[alert]]\nname = \"{name}\"\nurl = \"{url}\"\n");
    let text = [
        alert("slack", &ok.url()),
        alert("dingtalk", &no.url()) + "answer_contains = '\"errcode\":0,'\n",
        alert("moved", &moved.url()),
        alert("nobody", "http://127.0.0.1:1/s3cret-path"),
    ];
    fs::write(world.dir.path().join("overdue.toml"), text.concat()).unwrap();
    let run = send_alert(&world).exits(2);
    let lines = alerts(&run);
    assert_eq!(lines[0], format!("ok sent slack (http://{}) is taken: 200 fine", ok.address));
    assert!(lines[1].starts_with("error sent dingtalk") && lines[1].contains("keywords"), "{run}");
    assert!(lines[1].ends_with("does not contain \"errcode\":0, (answer_contains)"), "{run}");
    assert!(lines[2].ends_with("is not taken: 302"), "{run}");
    assert!(lines[3].starts_with("error sent nobody (http://127.0.0.1:1) is not taken"), "{run}");
    assert!(!run.to_string().contains("s3cret"), "{run}");
    let text = ok.posted()[0].json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("[overdue orders] test on "), "{text}");
    assert!(
        text.ends_with(": nothing is wrong, `overdue doctor --send-alert` sent this"),
        "{text}"
    );
}

/// Many servers quote an unknown path, and some the whole request.
#[apply(world_test)]
async fn an_answer_that_quotes_the_request_is_shown_without_its_secrets() {
    let world = World::new().await;
    let webhook = Webhook::new(Answer::Echo(404)).await;
    let url = webhook.url().replace("//", "//user:s3cret-password@");
    let body = r#"{"routing_key": "s3cret-key", "summary": "{text}"}"#;
    let write = |query: &str, more: &str| {
        let text = format!(
            "[[alert]]\nname = \"a\"\nurl = \"{url}{query}\"\nbody = '{body}'\non = [\"parked\"]\n{QUICK}\n{more}\n"
        );
        fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
    };
    for (status, begin) in [(404, "error sent a"), (200, "ok sent a")] {
        webhook.answers(Answer::Echo(status));
        write("/T%2Fs3cret?access_token=s3cret%2Btoken", "");
        let run = send_alert(&world);
        let line = alerts(&run).remove(0);
        assert!(line.starts_with(begin), "{run}");
        let quoted = format!("{status} <pre>Cannot POST /***/***/***?***=***</pre>");
        assert!(line.contains(&quoted), "{run}");
        assert!(line.contains(r#""routing_key": "***", "summary""#), "{run}");
        assert!(!run.to_string().contains("s3cret"), "{run}");
    }
    // A worker reports the same, also if the answer lacks the expected word.
    webhook.answers(Answer::Echo(404));
    let mut process = worker(&world).await;
    world.wire().await.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    process.until_logged("was not taken").await;
    webhook.answers(Answer::Echo(200));
    process.until_logged("alert sent").await;
    assert!(process.log().contains("Cannot POST /***"), "{}", process.log());
    assert!(!process.log().contains("s3cret"), "{}", process.log());
    write("", "answer_contains = 'no such word'");
    let run = send_alert(&world).prints("does not contain no such word");
    assert!(!run.to_string().contains("s3cret"), "{run}");
}

/// The worker checks the webhook's certificate with the CA of `ca_file`.
#[apply(world_test)]
async fn a_webhook_over_https_is_checked() {
    let (world, ca, webhook) = (World::new().await, Ca::new(), Webhook::new(OK).await);
    let service = webhook.address.to_string();
    let server = TlsServer::before(service, Begins::AtOnce, &ca, Shown::Right, None).await;
    let tested = |ca_file: &str| {
        let url = format!("https://localhost:{}/s3cret-path", server.port);
        let text = format!("[[alert]]\nname = \"a\"\nurl = \"{url}\"\n{ca_file}\n");
        fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
        let run = send_alert(&world);
        assert!(!run.to_string().contains("s3cret"), "{run}");
        alerts(&run).remove(0)
    };
    let line = tested(&format!("ca_file = \"{}\"", ca.file()));
    assert!(line.starts_with("ok ") && line.ends_with("200 fine"), "{line}");
    let line = tested("");
    assert!(line.starts_with("error "), "{line}");
    assert!(line.contains("its certificate is signed by no CA that is trusted here"), "{line}");
    assert_eq!(webhook.posted().len(), 1);
}
