//! Rules about names: what RabbitMQ accepts, and that no two queues have the same.

use std::collections::BTreeSet;

use toml::Spanned;

use super::surroundings::Surroundings;
use crate::{diagnostic::Draft, topology::file::TopologyFile};

/// The longest name RabbitMQ accepts for a queue, an exchange or a routing key, in bytes (AMQP short string).
const MAX_NAME_BYTES: usize = 255;
/// Kept free after the topology's name: for `.` and a timeout, or the name of a delay queue. Names are for years, and a
/// later version may append something longer, so both rules about their length leave room for it now.
const NAME_RESERVE_BYTES: usize = 64;
/// What the next generation of a queue appends: `.2`.
const GENERATION_BYTES: usize = 2;

pub(super) fn topology(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let name = file.name.get_ref();
    let span = file.name.span();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) || name.starts_with('.') || name.ends_with('.') {
        let message = format!("`{name}` cannot prefix the names of queues and exchanges");
        return vec![Draft::in_file(span, message, "use letters, digits, `-`, `_` and inner `.`")];
    }
    if name == "amq" || name.starts_with("amq.") {
        let message =
            format!("`{name}`: names that start with `amq.` belong to the broker, it refuses them");
        return vec![Draft::in_file(span, message, "choose another name, e.g. `orders`")];
    }
    if name.len() > MAX_NAME_BYTES - NAME_RESERVE_BYTES {
        let message = format!(
            "the name has {} bytes; RabbitMQ takes {MAX_NAME_BYTES} for the name of a queue, and {NAME_RESERVE_BYTES} of them are \
             kept for what is appended to it, such as `.unpaid` or `.delay.30m`",
            name.len()
        );
        let most = MAX_NAME_BYTES - NAME_RESERVE_BYTES;
        return vec![Draft::in_file(span, message, format!("keep it at {most} bytes or less"))];
    }
    Vec::new()
}

pub(super) fn timeout(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    file.timeout.iter().filter_map(|timeout| word(&timeout.get_ref().name)).collect()
}

/// A timeout's name is one word of a topic routing key.
fn word(name: &Spanned<String>) -> Option<Draft> {
    let text = name.get_ref();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.is_empty() || !text.chars().all(fits) {
        let message = format!("`{text}` cannot be one word of a routing key");
        let help = "use letters, digits, `-` and `_`, no dot";
        return Some(Draft::in_file(name.span(), message, help));
    }
    if text.len() > NAME_RESERVE_BYTES - 1 {
        let message = format!(
            "the name has {} bytes; RabbitMQ takes {MAX_NAME_BYTES} for the name of a queue, which has the topology's name before \
             it, and for a routing key, which has the level before it",
            text.len()
        );
        let most = NAME_RESERVE_BYTES - 1;
        let help = format!("keep it at {most} bytes or less");
        return Some(Draft::in_file(name.span(), message, help));
    }
    None
}

pub(super) fn unique(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let mut taken = BTreeSet::from(["parked"]);
    let mut drafts = Vec::new();
    for timeout in &file.timeout {
        let name = &timeout.get_ref().name;
        if !taken.insert(name.get_ref()) {
            let message =
                format!("two queues would be called `{}.{}`", file.name.get_ref(), name.get_ref());
            drafts.push(Draft::in_file(name.span(), message, "give this timeout another name"));
        }
    }
    drafts
}

/// A queue is changed by putting `orders.unpaid.2` in its place. Delay queues have room: a level is short.
pub(super) fn room(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let names = file.timeout.iter().map(|timeout| &timeout.get_ref().name);
    let bytes = |name: &Spanned<String>| file.name.get_ref().len() + 1 + name.get_ref().len();
    let tight = names.map(|name| (name, bytes(name))).filter(|(name, bytes)| {
        // Over the limit of its own it is an error already.
        name.get_ref().len() < NAME_RESERVE_BYTES
            && (MAX_NAME_BYTES - GENERATION_BYTES + 1..=MAX_NAME_BYTES).contains(bytes)
    });
    tight
        .map(|(name, bytes)| {
            let message = format!(
                "the name of its queue has {bytes} of 255 bytes: no room for the `.2` of a next generation, so the \
                 queue's type or delivery limit can never be changed"
            );
            Draft::in_file(name.span(), message, "shorten this name or the topology's")
        })
        .collect()
}
