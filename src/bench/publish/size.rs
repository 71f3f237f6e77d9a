//! What is the same on every way.

/// Unconfirmed messages at once: what the publisher of this program has.
pub(crate) const WINDOW: usize = 1_024;
/// A way that reaches this share of the client by itself costs little.
pub(super) const EXPECTED_RATIO: f64 = 0.9;

/// The order of a message.
pub(crate) fn order_id(number: usize) -> String {
    format!("order-{number}")
}
