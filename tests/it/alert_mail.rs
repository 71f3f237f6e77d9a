//! `[[alert]]` by mail: to a real mail server, in plain text and encrypted.

use std::{fs, path::Path, process::Command};

use serde_json::Value;

use crate::support::{WorkerProcess, World, python, tls::Ca, until};

use super::alerts::{QUICK, alerts, send_alert, worker};

/// A mail server in Python, and its port.
async fn mail_server(world: &World, files: &[String]) -> (WorkerProcess, u16) {
    let mut command = Command::new(python::interpreter());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/smtp_server.py");
    command.arg(script).args(files);
    let mut server = world.spawn(command);
    server.until_logged("listening on ").await;
    let log = server.log();
    let (_, port) = log.lines().next().unwrap().split_once("listening on ").unwrap();
    (server, port.parse().unwrap())
}

fn mail_settings(world: &World, url: &str, more: &str) {
    let text = format!(
        "[[alert]]\nname = \"by-mail\"\nurl = \"{url}\"\nfrom = \"Overdue <overdue@example.com>\"\n\
         to = [\"on-call@example.com\", \"shop@example.com\"]\n{more}\n"
    );
    fs::write(world.dir.path().join("overdue.toml"), text).unwrap();
}

async fn mail(server: &WorkerProcess) -> Value {
    let look = async || server.log().lines().find(|it| it.starts_with('{')).map(str::to_owned);
    let line = until("a mail", look, Option::is_some).await.unwrap();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", server.log()))
}

#[apply(world_test)]
async fn a_mail_arrives() {
    let world = World::new().await;
    let (server, port) = mail_server(&world, &[]).await;
    let parked = format!("{QUICK}\non = [\"parked\"]");
    mail_settings(&world, &format!("smtp://127.0.0.1:{port}"), &parked);
    let _process = worker(&world).await;
    let wire = world.wire().await;
    wire.publish_all("orders.in", "100ms.unpaid", &["{".to_owned()]).await;
    let mail = mail(&server).await;
    let subject = mail["subject"].as_str().unwrap();
    assert!(subject.starts_with("[overdue orders] parked on "), "{subject}");
    assert_eq!(mail["from"], "overdue@example.com");
    assert_eq!(mail["to"], serde_json::json!(["on-call@example.com", "shop@example.com"]));
    let text = mail["text"].as_str().unwrap();
    assert!(text.contains(": 1 message is parked; this worker parked the last one "), "{text}");
    assert!(text.contains("docs/runbooks.md#overdueparked"), "{text}");
}

/// STARTTLS with a CA of one's own, and a login whose password has characters that URLs escape.
#[apply(world_test)]
async fn mail_is_encrypted_and_the_server_is_checked() {
    let (world, ca) = (World::new().await, Ca::new());
    let (server, port) = mail_server(&world, &ca.files("localhost")).await;
    let url = |password: &str| format!("smtp://overdue:{password}@localhost:{port}?tls=required");
    let ca_file = format!("ca_file = \"{}\"", ca.file());
    mail_settings(&world, &url("s3cr%25t+%2F"), &ca_file);
    let line = format!("ok sent by-mail (smtp://localhost:{port}) is taken: 250 kept for ever");
    assert_eq!(alerts(&send_alert(&world)), [line]);
    let mail = mail(&server).await;
    assert_eq!((&mail["tls"], &mail["user"]), (&Value::Bool(true), &Value::from("overdue")));

    let refused = |url: &str, ca_file: &str, why: &str| {
        mail_settings(&world, url, ca_file);
        let run = send_alert(&world);
        let line = alerts(&run).remove(0);
        assert!(line.starts_with("error ") && line.contains(why), "{line}");
        assert!(!run.to_string().contains("s3cr"), "{run}");
    };
    refused(&url("s3cret"), &ca_file, "535");
    let stranger = Ca::new();
    let ca_file = format!("ca_file = \"{}\"", stranger.file());
    refused(&url("s3cr%25t+%2F"), &ca_file, "certificate");
    // It does not go on in plain text where the server has no TLS.
    let (_plain, port) = mail_server(&world, &[]).await;
    refused(&format!("smtp://localhost:{port}?tls=required"), "", "STARTTLS");
}
