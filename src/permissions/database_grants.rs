//! The least rights in PostgreSQL: roles and their grants, as SQL.

use std::fmt::Write as _;

use serde::Serialize;

use crate::text::sql::identifier;

/// Options for printing grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRequest<'a> {
    /// `database.search_path`, schema by schema: the first contains the tables of `overdue`, the last the reference tables.
    pub schemas: Vec<&'a str>,
    /// Prefix of the names of roles.
    pub user_prefix: &'a str,
    /// Whether to create the roles, without passwords.
    pub create_users: bool,
    /// The effects of the topology.
    pub effects: Vec<EffectSql<'a>>,
}

/// The SQL of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectSql<'a> {
    /// Name of the effect.
    pub name: &'a str,
    /// File of the SQL; `None` for a built-in effect.
    pub file: Option<&'a str>,
}

/// A privilege on one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// `SELECT`, `USAGE`, or a role whose rights are inherited.
    pub privilege: &'static str,
    /// `SCHEMA overdue`, `overdue.closures`, `FUNCTION …`; empty for a role.
    pub object: String,
    /// Reason for the privilege.
    pub why: &'static str,
}

/// A role of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRole {
    /// Name with the prefix, quoted if necessary.
    pub name: String,
    /// Description of the role.
    pub purpose: &'static str,
    /// Statements of a superuser, run before the tables exist.
    pub before: Vec<String>,
    /// Grants by the owner of the tables.
    pub grants: Vec<Grant>,
    /// Requirements that cannot be determined here.
    pub unknown: Vec<String>,
}

/// Tables of `overdue`, the privileges on them, and the reason.
type Tables = [(&'static str, &'static [&'static str], &'static str)];

const WORKER: &Tables = &[
    ("actions", &["SELECT", "DELETE"], "delete old ones"),
    ("closures", &["SELECT", "INSERT", "DELETE"], "record closings, count them, delete old ones"),
    ("dropped_messages", &["SELECT", "DELETE"], "delete old ones"),
    (
        "effects",
        &["SELECT", "INSERT", "UPDATE"],
        "know which descriptions of effects may close rows",
    ),
    ("outbox", &["SELECT", "INSERT", "DELETE"], "write and publish events"),
    ("outbox_refused", &["SELECT", "INSERT", "UPDATE", "DELETE"], "try refused events again"),
    ("scheduled_notices", &["SELECT", "DELETE"], "publish what schedule() writes"),
    ("scheduled_notices_refused", &["SELECT", "INSERT"], "set aside what cannot be published"),
    (
        "schedule_timeouts",
        &["SELECT", "INSERT", "UPDATE"],
        "register the timeouts and their delays",
    ),
    ("pauses", &["SELECT", "UPDATE"], "close nothing that is paused"),
];

const ON_CALL: &Tables = &[
    ("actions", &["SELECT", "INSERT"], "record what is done, and show it"),
    ("closures", &["SELECT", "INSERT"], "status; try an effect, which is rolled back"),
    ("dropped_messages", &["INSERT"], "parked drop"),
    ("effects", &["SELECT", "INSERT", "UPDATE"], "effect accept"),
    ("outbox", &["SELECT", "INSERT"], "status; try an effect, which is rolled back"),
    ("outbox_refused", &["SELECT"], "status"),
    ("scheduled_notices", &["SELECT"], "status"),
    ("scheduled_notices_refused", &["SELECT"], "status"),
    ("pauses", &["SELECT", "INSERT", "UPDATE", "DELETE"], "pause and resume"),
];

/// Privileges of a built-in effect on the reference tables.
fn reference_tables(effect: &str) -> &'static Tables {
    const ORDERS: (&str, &[&str], &str) = ("orders", &["SELECT", "UPDATE"], "the built-in effects");
    const WITH_STOCK: &Tables = &[
        ORDERS,
        ("order_items", &["SELECT"], "the built-in effects"),
        ("stock", &["SELECT", "UPDATE"], "the built-in effects"),
    ];
    if effect == "complete" { &[ORDERS] } else { WITH_STOCK }
}

/// The functions for order services.
const FUNCTIONS: [(&str, &str); 10] = [
    ("schedule(text, text)", "schedule an order after the delay of its timeout"),
    ("schedule(bigint, text)", "schedule an order with such a key"),
    ("schedule(uuid, text)", "schedule an order with such a key"),
    ("schedule(text, text, interval)", "schedule an order"),
    ("schedule(bigint, text, interval)", "schedule an order with such a key"),
    ("schedule(uuid, text, interval)", "schedule an order with such a key"),
    ("schedule_at(text, text, timestamptz)", "schedule an order"),
    ("schedule_at(bigint, text, timestamptz)", "schedule an order with such a key"),
    ("schedule_at(uuid, text, timestamptz)", "schedule an order with such a key"),
    ("schedule_row()", "make a trigger on its tables"),
];

impl DatabaseRole {
    /// The roles: administrator, worker, publisher, on-call.
    pub fn all(request: &DatabaseRequest<'_>) -> Vec<Self> {
        let role = |name: &str, purpose| Self {
            name: identifier(&format!("{}{name}", request.user_prefix)),
            purpose,
            before: Vec::new(),
            grants: Vec::new(),
            unknown: Vec::new(),
        };
        let [mut administrator, mut worker, mut publisher, mut on_call] = [
            role("administrator", "`overdue database init`; owns the tables of overdue"),
            role("worker", "`overdue run`"),
            role("publisher", "an order service that calls schedule()"),
            role(
                "on_call",
                "`overdue status`, `doctor`, `parked`, `rebuild`, `pause` and `resume`",
            ),
        ];
        let ours = identifier(request.schemas.first().copied().unwrap_or_default());
        let (name, schema) = (&administrator.name, &ours);
        administrator.before.push(format!("CREATE SCHEMA {schema} AUTHORIZATION {name}"));
        for (role, tables) in [(&mut worker, WORKER), (&mut on_call, ON_CALL)] {
            role.schema(&ours, "find the tables");
            role.tables(&ours, tables);
            role.effects(request);
            role.grants.push(Grant {
                privilege: "pg_read_all_stats",
                object: String::new(),
                why: "optional: name the transaction that holds an order (a superuser grants it)",
            });
        }
        publisher.schema(&ours, "find the functions");
        publisher.grants.extend(FUNCTIONS.map(|(function, why)| Grant {
            privilege: "EXECUTE",
            object: format!("FUNCTION {ours}.{function}"),
            why,
        }));
        let mut roles = vec![administrator, worker, publisher, on_call];
        if request.create_users {
            for role in &mut roles {
                role.before.insert(0, format!("CREATE ROLE {} LOGIN", role.name));
            }
        }
        roles
    }

    fn schema(&mut self, schema: &str, why: &'static str) {
        self.grant(Grant { privilege: "USAGE", object: format!("SCHEMA {schema}"), why });
    }

    fn tables(&mut self, schema: &str, tables: &Tables) {
        for (table, privileges, why) in tables {
            for privilege in *privileges {
                self.grant(Grant { privilege, object: format!("{schema}.{table}"), why });
            }
        }
    }

    /// Adds a grant once, with the first reason.
    fn grant(&mut self, grant: Grant) {
        let known = |it: &Grant| (it.privilege, &it.object) == (grant.privilege, &grant.object);
        if !self.grants.iter().any(known) {
            self.grants.push(grant);
        }
    }

    fn effects(&mut self, request: &DatabaseRequest<'_>) {
        let orders = identifier(request.schemas.last().copied().unwrap_or_default());
        self.schema(&orders, "find the order tables");
        for effect in &request.effects {
            match effect.file {
                None => self.tables(&orders, reference_tables(effect.name)),
                Some(file) => self.unknown.push(format!(
                    "what {} does with your tables, and USAGE on their schema: effect {}",
                    crate::text::one_line(file),
                    effect.name
                )),
            }
        }
    }

    /// The grants as SQL: one statement for all privileges on an object, with its reason.
    pub fn statements(&self) -> Vec<(String, &'static str)> {
        let mut objects: Vec<(Vec<&str>, &Grant)> = Vec::new();
        for grant in &self.grants {
            match objects.last_mut() {
                Some((privileges, first)) if first.object == grant.object => {
                    privileges.push(grant.privilege);
                }
                _ => objects.push((vec![grant.privilege], grant)),
            }
        }
        let statement = |(privileges, grant): (Vec<&str>, &Grant)| {
            let on = if grant.object.is_empty() {
                String::new()
            } else {
                format!(" ON {}", grant.object)
            };
            (format!("GRANT {}{on} TO {}", privileges.join(", "), self.name), grant.why)
        };
        objects.into_iter().map(statement).collect()
    }
}

/// A script for `psql`.
pub fn render(roles: &[DatabaseRole]) -> String {
    let mut text = "-- The least rights in PostgreSQL; docs/permissions.md explains them. Run it before `overdue database init` for the\n\
                    -- roles and the schema, and after it for the grants: psql goes on after what is there already or not yet there.\n"
        .to_owned();
    let mut add = |line: String| {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{line}");
    };
    for role in roles {
        add(format!("\n-- {}: {}", role.name, role.purpose));
        let created = role.before.iter().any(|it| it.starts_with("CREATE ROLE"));
        if !created {
            add(format!("-- CREATE ROLE {} LOGIN;", role.name));
        }
        role.before.iter().for_each(|statement| add(format!("{statement};")));
        for (statement, why) in role.statements() {
            add(format!("{statement};  -- {why}"));
        }
        role.unknown.iter().for_each(|it| add(format!("-- GRANT {it}")));
    }
    text
}

/// The grants for programs.
#[derive(Debug, Serialize)]
pub struct Grants {
    version: u32,
    roles: Vec<RoleGrants>,
}

#[derive(Debug, Serialize)]
struct RoleGrants {
    role: String,
    purpose: &'static str,
    /// Statements of a superuser, run before the tables exist.
    before: Vec<String>,
    /// Statements of the owner of the tables.
    grants: Vec<String>,
    /// Further requirements of the effects' SQL.
    unknown: Vec<String>,
}

impl Grants {
    /// Converts roles.
    pub fn of(roles: Vec<DatabaseRole>) -> Self {
        let grants = |role: DatabaseRole| RoleGrants {
            grants: role.statements().into_iter().map(|(statement, _)| statement).collect(),
            role: role.name,
            purpose: role.purpose,
            before: role.before,
            unknown: role.unknown,
        };
        Self { version: 1, roles: roles.into_iter().map(grants).collect() }
    }
}
