//! Signatures with a shared secret, as each side wants them.

use std::fmt::Write;

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Ours: HMAC-SHA256 of the timestamp, a dot and the body; in hexadecimal digits, as GitHub and Stripe have it.
pub(super) fn generic(secret: &str, timestamp_s: i64, body: &[u8]) -> String {
    let timestamp = timestamp_s.to_string();
    let mac = hmac(secret.as_bytes(), &[timestamp.as_bytes(), b".", body]);
    mac.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _written = write!(digits, "{byte:02x}");
        digits
    })
}

/// `DingTalk`'s `sign`: HMAC-SHA256 of timestamp, line break and secret, with the secret as the key; in Base64.
///
/// <https://open.dingtalk.com/document/orgapp/customize-robot-security-settings>
pub(super) fn dingtalk(secret: &str, timestamp_ms: i64) -> String {
    let text = format!("{timestamp_ms}\n{secret}");
    BASE64_STANDARD.encode(hmac(secret.as_bytes(), &[text.as_bytes()]))
}

/// Feishu's `sign`: HMAC-SHA256 of nothing, with timestamp, line break and secret as the key; in Base64.
///
/// <https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot>
pub(super) fn feishu(secret: &str, timestamp_s: i64) -> String {
    let key = format!("{timestamp_s}\n{secret}");
    BASE64_STANDARD.encode(hmac(key.as_bytes(), &[]))
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    // A key of any length is one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().to_vec()
}
