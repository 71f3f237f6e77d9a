//! What an alert looks like on its way: the request that each other side wants, and what its answer means.

use std::{fs, path::Path, time::Duration};

use jiff::Timestamp;
use overdue::internals::alerting::{
    Format, Item, Kind, Notice, answer, mail, request, retry_after,
};
use serde_json::{Value, json};

use super::alerting::SENDER;

fn notice() -> Notice {
    let item = |kind, over, text: &str, count| Item {
        kind,
        over,
        text: text.to_owned(),
        count,
        began_ago: Duration::from_mins(125),
    };
    Notice {
        items: vec![
            item(Kind::NotReady, true, "closing: effect close & <!channel>", 0),
            item(Kind::Parked, false, "3 messages <at user_id=\"all\">", 3),
        ],
    }
}

fn sent_at() -> Timestamp {
    Timestamp::from_second(1_795_000_000).expect("a time")
}

fn body(format: Format, secret: Option<&str>) -> Value {
    let request = request(format, &notice(), &SENDER, secret, sent_at());
    serde_json::from_slice(&request.body).expect("JSON")
}

#[test]
fn the_forms_of_a_message() {
    let formats = [Format::Json, Format::Slack, Format::DingTalk, Format::Feishu];
    let bodies = formats.map(|format| {
        let body = serde_json::to_string_pretty(&body(format, None)).expect("JSON");
        format!("{}\n{body}\n", format.name())
    });
    let (subject, text) = mail(&notice(), &SENDER);
    insta::assert_snapshot!(format!("{}mail\n{subject}\n\n{text}", bodies.concat()));
    let request = request(Format::Slack, &Notice::test(), &SENDER, None, sent_at());
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    assert_eq!(
        body,
        json!({ "text": "[overdue orders] test of the alert on-call (shop-1)\n- Nothing is wrong: somebody ran `overdue alert test`." })
    );
}

/// Computed with Python's hmac, as the two manuals describe it.
#[test]
fn dingtalk_and_feishu_are_signed_as_they_want_it() {
    let secret = Some("SECdingtalk");
    let signed = request(Format::DingTalk, &notice(), &SENDER, secret, sent_at());
    let expected = [
        ("timestamp", "1795000000000".to_owned()),
        ("sign", "atazjTtdKeSKKttByp//WD4eaYXVw3UznvfCcEI1PuM=".to_owned()),
    ];
    assert_eq!(signed.query, expected);
    let feishu = body(Format::Feishu, secret);
    assert_eq!(feishu["timestamp"], "1795000000");
    assert_eq!(feishu["sign"], "QAPdmdUBLalZvcVS1VnpNOx2whQWytLXoy+9b0h63UE=");
    let unsigned = body(Format::Feishu, None);
    assert_eq!((unsigned.get("sign"), unsigned.get("timestamp")), (None, None));
}

/// `DingTalk` and Feishu answer 200 and mean no.
#[test]
fn an_answer_that_means_no_is_a_failure() {
    let dingtalk = r#"{"errcode":310000,"errmsg":"sign not match"}"#;
    assert_eq!(answer(Format::DingTalk, 200, dingtalk), Err(format!("200 {dingtalk}")));
    assert!(answer(Format::DingTalk, 200, r#"{"errcode":0,"errmsg":"ok"}"#).is_ok());
    assert!(answer(Format::DingTalk, 200, "<html>a captive portal</html>").is_err());
    assert!(answer(Format::Feishu, 200, r#"{"code":19021,"msg":"sign match fail"}"#).is_err());
    assert!(answer(Format::Feishu, 200, r#"{"StatusCode":0,"StatusMessage":"success"}"#).is_ok());
    assert!(answer(Format::Feishu, 200, r#"{"code":0,"msg":"success"}"#).is_ok());
    assert!(answer(Format::Feishu, 200, "{}").is_err());
    assert_eq!(answer(Format::Slack, 200, "ok\n"), Ok("200 ok".to_owned()));
    assert_eq!(answer(Format::Json, 204, ""), Ok("204".to_owned()));
    assert!(answer(Format::Json, 302, "").is_err());
    let long = answer(Format::Slack, 500, &"\u{1b}[2J\n".repeat(1_000)).expect_err("a failure");
    assert!(long.len() < 250 && !long.contains(['\n', '\u{1b}']), "{long}");
}

#[test]
fn a_text_without_an_end_is_cut() {
    let mut notice = notice();
    notice.items[1].text = "ü".repeat(100_000);
    let sent = request(Format::Json, &notice, &SENDER, None, sent_at());
    assert!(sent.body.len() < 5_000, "{}", sent.body.len());
}

#[test]
fn each_message_names_a_runbook_that_exists() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks.md");
    let page = fs::read_to_string(page).expect("the page");
    let headings: Vec<String> =
        page.lines().filter_map(|line| line.strip_prefix("## ").map(str::to_lowercase)).collect();
    for kind in Kind::ALL {
        assert!(headings.iter().any(|heading| heading == kind.runbook()), "{}", kind.runbook());
    }
}

#[test]
fn a_time_to_try_again_is_read_in_both_forms() {
    let now: Timestamp = "2026-11-22T10:00:00Z".parse().expect("a time");
    let seconds = |s| Some(Duration::from_secs(s));
    assert_eq!(retry_after(" 120 ", now), seconds(120));
    assert_eq!(retry_after("Sun, 22 Nov 2026 10:01:30 GMT", now), seconds(90));
    assert_eq!(retry_after("Sun, 22 Nov 2026 09:59:00 GMT", now), seconds(0));
    for neither in ["", "-1", "soon", "1.5", "Sun, 99 Nov 2026 10:01:30 GMT"] {
        assert_eq!(retry_after(neither, now), None, "{neither}");
    }
}
