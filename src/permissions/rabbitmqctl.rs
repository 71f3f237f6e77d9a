//! The rights as `rabbitmqctl` commands, each with its reason.

use std::fmt::Write as _;

use super::{Object, Request, Right, Role, pattern::NOTHING};
use crate::text::quote;

/// Most names that are listed for one reason; for more names only their number is printed.
const LISTED: usize = 4;

/// A shell script. Commands that change users or are optional are commented out, unless `request` asks for them.
pub fn render(roles: &[Role], request: &Request) -> String {
    let topologies: Vec<&str> = roles.iter().take(1).map(|role| role.topology.as_str()).collect();
    let mut text = format!(
        "# The least rights for topology {} in virtual host {:?}; docs/permissions.md explains them.\n{}\n",
        topologies.join(", "),
        request.vhost,
        if request.create_users {
            "# Run it on the broker, with sh: it asks for the password of each user."
        } else {
            "# The users have to exist; where they do not: --create-users, or take away the # before add_user."
        }
    );
    for role in roles {
        // Writing to a string cannot fail.
        let _written = write!(text, "\n{}", of(role, request));
    }
    text
}

fn of(role: &Role, request: &Request) -> String {
    let user = quote(&request.user(role));
    let vhost = quote(&request.vhost);
    let mut lines = vec![format!("# {}: {}", role.name, role.purpose)];
    lines.extend(reasons(role));
    lines.push(optional(request.create_users, &format!("rabbitmqctl add_user {user}")));
    if let Some(tag) = role.tag {
        let only = if tag.optional { "optional: " } else { "" };
        lines.push(format!("# {only}{}", tag.why));
        lines.push(format!("rabbitmqctl set_user_tags {user} {}", tag.name));
    }
    let rights = Right::ALL.map(|right| quote(&role.expression(right))).join(" ");
    lines.push(format!("rabbitmqctl set_permissions -p {vhost} {user} {rights}"));
    for keys in &role.routing_keys {
        lines.push(
            "# optional, once the exchange is there: no routing keys but those of the topology"
                .to_owned(),
        );
        let (exchange, write) = (quote(&keys.exchange), quote(&keys.expression()));
        let read = quote(NOTHING);
        let line = format!(
            "rabbitmqctl set_topic_permissions -p {vhost} {user} {exchange} {write} {read}"
        );
        lines.push(optional(request.routing_keys, &line));
    }
    lines.join("\n") + "\n"
}

fn optional(wanted: bool, line: &str) -> String {
    if wanted { line.to_owned() } else { format!("# {line}") }
}

/// A line per right and reason, with the names of the objects.
fn reasons(role: &Role) -> Vec<String> {
    let mut reasons: Vec<(Right, &str, Vec<String>)> = Vec::new();
    for need in &role.needs {
        // The first generation stands for the others.
        if matches!(need.object, Object::Generations(_)) {
            continue;
        }
        let name = match &need.object {
            Object::Below(name) => format!("{name}.*"),
            Object::Shards(name) => format!("{name}.shard-*"),
            object => object.name().to_owned(),
        };
        match reasons.iter_mut().find(|(right, why, _)| (*right, *why) == (need.right, need.why)) {
            Some((_, _, names)) => names.push(name),
            None => reasons.push((need.right, need.why, vec![name])),
        }
    }
    let line = |(right, why, names): (Right, &str, Vec<String>)| match names.len() {
        0..=LISTED => format!("#   {right} {}: {why}", names.join(", ")),
        more => format!("#   {right} {more} objects: {why}"),
    };
    reasons.into_iter().map(line).collect()
}
