//! The part of `rbase64` 2.0 that `rabbitmq_http_client` calls, without its global allocator.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Base64 with padding, in the standard alphabet (RFC 4648, section 4).
#[must_use]
pub fn encode(input: &[u8]) -> String {
    STANDARD.encode(input)
}
