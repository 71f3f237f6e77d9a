//! Whether the other side has taken a message: some answer 200 and mean no.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use serde_json::Value;

use super::format::Format;
use crate::text::one_line;

/// So much of an answer is shown, in characters.
const SHOWN: usize = 200;

/// What it answered, in one line.
///
/// # Errors
/// The same, where it has not taken the message.
pub fn answer(format: Format, status: u16, body: &str) -> Result<String, String> {
    let shown: String = one_line(body.trim()).chars().take(SHOWN).collect();
    let line = format!("{status} {shown}").trim_end().to_owned();
    let taken = (200..300).contains(&status) && !refuses(format, body);
    if taken { Ok(line) } else { Err(line) }
}

/// `DingTalk` has `errcode`, Feishu `code` (or `StatusCode`), 0 where all is well.
fn refuses(format: Format, body: &str) -> bool {
    let keys: &[&str] = match format {
        Format::DingTalk => &["errcode"],
        Format::Feishu => &["code", "StatusCode"],
        Format::Json | Format::Slack | Format::Mail => return false,
    };
    let Ok(answer) = serde_json::from_str::<Value>(body) else { return true };
    let codes: Vec<&Value> = keys.iter().filter_map(|key| answer.get(key)).collect();
    codes.is_empty() || codes.iter().any(|code| **code != 0)
}

/// What a `Retry-After` asks for: seconds, or a date (`now` is by this machine's clock); `None` where it is neither.
/// <https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3>
#[must_use]
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}
