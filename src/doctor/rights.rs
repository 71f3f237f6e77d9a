//! Permissions, against what `overdue permissions` would grant.

use fancy_regex::Regex;

use super::facts::{Facts, Permission, known};
use crate::{
    diagnostic::Draft,
    permissions::{Need, Object, Right, Role},
    topology::Topology,
};

/// Can the user of the management API plan and apply? A worker can do without.
pub(crate) fn administrator(facts: &Facts) -> Draft {
    rights(facts, &facts.broker.api.user, "topology", Draft::warning)
}

/// Can the AMQP user work?
pub(crate) fn worker(facts: &Facts) -> Draft {
    rights(facts, &facts.broker.user, "worker", Draft::error)
}

fn rights(facts: &Facts, user: &str, role: &str, lacking: fn(String, String) -> Draft) -> Draft {
    known(&facts.known_topology(), |topology| {
        known(&facts.broker.api.permissions, |permissions| {
            let vhost = &facts.broker.virtual_host;
            let mut of_user = permissions.iter();
            let own = of_user.find(|own| own.user == *user && own.virtual_host == *vhost);
            judge_rights(topology, role, user, own, lacking)
        })
    })
}

/// `role` is one of those of `overdue permissions`; `lacking` says how bad it is when something is missing.
pub fn judge_rights(
    topology: &Topology,
    role: &str,
    user: &str,
    own: Option<&Permission>,
    lacking: fn(String, String) -> Draft,
) -> Draft {
    let roles = Role::all(topology);
    let purpose = if role == "topology" { "topology administrator" } else { role };
    let fix = format!("overdue permissions prints what a {purpose} needs");
    let Some(own) = own else {
        return lacking(format!("user {user} has no permissions in this virtual host"), fix);
    };
    let needs = roles.iter().filter(|known| known.name == role).flat_map(|role| &role.needs);
    let mut missing = Vec::new();
    for need in needs {
        match allows(own, need) {
            Ok(true) => {}
            Ok(false) => missing.push(need),
            Err(expression) => {
                let finding = format!("the expression {expression} cannot be read here");
                return Draft::warning(finding, fix);
            }
        }
    }
    let Some(first) = missing.first() else {
        return Draft::ok(format!("user {user} has all that a {purpose} needs"));
    };
    let others = match missing.len() {
        1 => String::new(),
        many => format!(", and {} more", many - 1),
    };
    let (right, object, why) = (first.right, first.object.name(), first.why);
    lacking(format!("user {user} lacks {right} on {object} ({why}){others}"), fix)
}

/// `Err` is an expression that this program cannot read; the broker takes all of PCRE.
fn allows(own: &Permission, need: &Need) -> Result<bool, String> {
    let expression = match need.right {
        Right::Configure => &own.configure,
        Right::Write => &own.write,
        Right::Read => &own.read,
    };
    let name = match &need.object {
        Object::Named(name) => name.clone(),
        Object::Generations(name) => format!("{name}.2"),
        Object::Below(name) => format!("{name}.x"),
    };
    // The broker takes the empty expression for "nothing".
    if expression.is_empty() {
        return Ok(false);
    }
    let unreadable = |_| expression.clone();
    Regex::new(expression).and_then(|regex| regex.is_match(&name)).map_err(unreadable)
}
