//! Names of our objects in other tools: derived from the broker's names alone, so that they stay the same when
//! the topology grows, and each object has its own.

use super::Item;
use crate::objects::Binding;

/// The longest name of a Kubernetes object, in bytes
/// (<https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>).
const DNS_NAME_BYTES: usize = 253;

/// What a binding is called: its source, `to`, its destination, and, where there are several of them,
/// a mark made of the routing key.
pub(super) fn of_binding(binding: &Binding, items: &[Item], join: &str) -> String {
    let name = format!("{}{join}{}", binding.source, binding.destination);
    let siblings = items.iter().filter(|item| {
        matches!(item, Item::Binding(other)
            if other.source == binding.source && other.destination == binding.destination)
    });
    if siblings.count() == 1 {
        return name;
    }
    let key = format!("{}{}{:?}", binding.to_queue, binding.routing_key, binding.arguments);
    format!("{name}-{}", mark(&key))
}

/// `name` as a DNS subdomain (RFC 1123), which the name of a Kubernetes object has to be. One that has to be
/// changed for it gets a mark, so that two of them never meet.
pub(super) fn dns(name: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let letter = |c: char| if fits(c) { c } else { '-' };
    let label = |label: &str| {
        let lower = label.to_ascii_lowercase();
        lower.chars().map(letter).collect::<String>().trim_matches('-').to_owned()
    };
    let labels = name.split('.').map(label).filter(|label| !label.is_empty());
    let fitting = labels.collect::<Vec<_>>().join(".");
    if fitting == name && fitting.len() <= DNS_NAME_BYTES {
        return fitting;
    }
    let mark = mark(name);
    let room = DNS_NAME_BYTES - mark.len() - 1;
    let kept = fitting.get(..room).unwrap_or(&fitting).trim_end_matches(['-', '.']);
    if kept.is_empty() { mark } else { format!("{kept}-{mark}") }
}

/// `name` as a Terraform identifier: `.` becomes `_`, and `_` becomes `__`. One with anything else that cannot be in it
/// gets a mark, so that two of them never meet.
pub(super) fn identifier(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name = if name.chars().all(fits) {
        name.replace('_', "__").replace('.', "_")
    } else {
        format!("{}___{}", name.replace(|c| !fits(c) || c == '.', "_"), mark(name))
    };
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name
    } else {
        format!("_{name}")
    }
}

/// Eight hexadecimal digits that depend on nothing but the text (FNV-1a, folded).
fn mark(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}
