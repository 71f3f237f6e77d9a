//! The request that a webhook wants.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    format::Format,
    notice::{Item, Notice, Sender},
    signature,
};

/// A request with `POST` and `content-type: application/json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// To be added to the query of the URL.
    pub query: Vec<(&'static str, String)>,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// JSON
    pub body: Vec<u8>,
}

/// The version of the generic JSON.
const VERSION: u32 = 1;

/// What to send at `now` (by this machine's clock; the other sides allow some minutes' difference).
#[must_use]
pub fn request(
    format: Format,
    notice: &Notice,
    sender: &Sender<'_>,
    secret: Option<&str>,
    now: Timestamp,
) -> Request {
    let plain = |body: &Value| Request {
        query: Vec::new(),
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
    };
    match format {
        Format::Slack => plain(&json!({ "text": slack_text(&text(notice, sender)) })),
        Format::DingTalk => {
            let text = text(notice, sender);
            let request = plain(&json!({ "msgtype": "text", "text": { "content": text } }));
            let now = now.as_millisecond();
            let signed = |secret: &str| {
                vec![("timestamp", now.to_string()), ("sign", signature::dingtalk(secret, now))]
            };
            Request { query: secret.map(signed).unwrap_or_default(), ..request }
        }
        Format::Feishu => {
            let text = feishu_text(&text(notice, sender));
            let mut body = json!({ "msg_type": "text", "content": { "text": text } });
            if let Some(secret) = secret {
                let now = now.as_second();
                body["timestamp"] = json!(now.to_string());
                body["sign"] = json!(signature::feishu(secret, now));
            }
            plain(&body)
        }
        Format::Json | Format::Mail => {
            let request = plain(&json_body(notice, sender, now));
            let now = now.as_second();
            let mut headers = vec![("x-overdue-timestamp", now.to_string())];
            if let Some(secret) = secret {
                let signature = signature::generic(secret, now, &request.body);
                headers.push(("x-overdue-signature", format!("sha256={signature}")));
            }
            Request { headers, ..request }
        }
    }
}

/// All of it as plain text.
#[must_use]
pub fn text(notice: &Notice, sender: &Sender<'_>) -> String {
    let lines = notice.lines(sender).into_iter().map(|line| format!("\n- {line}"));
    format!("{}{}", notice.headline(sender), lines.collect::<String>())
}

fn json_body(notice: &Notice, sender: &Sender<'_>, now: Timestamp) -> Value {
    let item = |item: &Item| {
        json!({
            "kind": item.kind.name(),
            "condition": if item.over { "over" } else { "wrong" },
            "text": item.short(),
            "count": item.count,
            "began_s_ago": item.began_ago.as_secs(),
            "runbook": item.runbook(sender.runbooks),
        })
    };
    json!({
        "version": VERSION,
        "alert": sender.alert,
        "topology": sender.topology,
        "host": sender.host,
        "condition": notice.condition().name(),
        "sent_at": now.strftime("%FT%TZ").to_string(),
        "text": text(notice, sender),
        "items": notice.items.iter().map(item).collect::<Vec<_>>(),
    })
}

/// Slack gives these three a meaning: `<!channel>` notifies everybody.
///
/// <https://docs.slack.dev/messaging/formatting-message-text#escaping>
fn slack_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `<at user_id="all">` notifies everybody, and there is no escape for it.
fn feishu_text(text: &str) -> String {
    text.replace('<', "\u{ff1c}").replace('>', "\u{ff1e}")
}
