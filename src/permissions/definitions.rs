//! The rights as definitions, for `rabbitmqctl import_definitions` and `POST /api/definitions`.

use serde_json::Value;

use super::{Request, Right, Role, pattern::NOTHING};
use crate::text::{json_object, json_sections};

/// Definitions JSON with the permissions of `roles`; the virtual host must exist.
///
/// Users are included only if `request` asks for them: importing a user without a password removes the password of an
/// existing user. Topic permissions need the exchange to exist.
pub fn render(roles: &[Role], request: &Request) -> String {
    let lines = |line: &dyn Fn(&Role) -> Option<String>| roles.iter().filter_map(line).collect();
    let mut parts: Vec<(&str, Vec<String>)> = Vec::new();
    if request.create_users {
        parts.push(("users", lines(&|role| Some(user(role, request)))));
    }
    parts.push(("permissions", lines(&|role| Some(permission(role, request)))));
    if request.routing_keys {
        parts.push((
            "topic_permissions",
            roles.iter().flat_map(|role| topic_permissions(role, request)).collect(),
        ));
    }
    json_sections(&parts)
}

fn user(role: &Role, request: &Request) -> String {
    let tags: Vec<&str> = role.tag.iter().map(|tag| tag.name).collect();
    json_object([("name", Value::from(request.user(role))), ("tags", Value::from(tags))])
}

fn permission(role: &Role, request: &Request) -> String {
    json_object([
        ("user", Value::from(request.user(role))),
        ("vhost", Value::from(request.vhost.as_str())),
        ("configure", Value::from(role.expression(Right::Configure))),
        ("write", Value::from(role.expression(Right::Write))),
        ("read", Value::from(role.expression(Right::Read))),
    ])
}

fn topic_permissions<'a>(
    role: &'a Role,
    request: &'a Request,
) -> impl Iterator<Item = String> + 'a {
    role.routing_keys.iter().map(|keys| {
        json_object([
            ("user", Value::from(request.user(role))),
            ("vhost", Value::from(request.vhost.as_str())),
            ("exchange", Value::from(keys.exchange.as_str())),
            ("write", Value::from(keys.expression())),
            ("read", Value::from(NOTHING)),
        ])
    })
}
