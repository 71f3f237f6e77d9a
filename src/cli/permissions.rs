//! `overdue permissions`: the least rights of each user of the topology; asks no broker.

use std::collections::BTreeSet;

use clap::Args;

use super::{
    exit::Failure,
    export,
    output::{Output, print, print_json, report},
    setup,
};
use crate::{
    config::Settings,
    permissions::{
        Request, Role,
        database_grants::{self as grants, DatabaseRequest, DatabaseRole, EffectSql, Grants},
        definitions, rabbitmqctl,
    },
    topology::Topology,
};

/// Print the least rights of each user, on broker or database
///
/// The users are publisher, worker, topology administrator and the person on call. As text the rights are rabbitmqctl commands with
/// reasons, as JSON they are definitions for `rabbitmqctl import_definitions`.
#[derive(Debug, Args)]
pub(super) struct Permissions {
    /// Print the rights in PostgreSQL, as SQL, instead of the rights on the broker
    #[arg(long, conflicts_with_all = ["vhost", "routing_keys"])]
    database: bool,
    /// Prefix of the users' names [default: overdue-, with --database overdue_]
    #[arg(long, value_name = "PREFIX")]
    user_prefix: Option<String>,
    #[command(flatten)]
    output: Output,
    /// The virtual host [default: from broker.url]
    #[arg(long, value_name = "VHOST")]
    vhost: Option<String>,
    /// Create the users as well, without passwords; definitions remove the password of an existing user
    #[arg(long)]
    create_users: bool,
    /// Limit the publisher to the routing keys of the topology; renew the rights with every new level
    #[arg(long)]
    routing_keys: bool,
}

impl Permissions {
    pub(super) fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let default = if self.database { "overdue_" } else { "overdue-" };
        let user_prefix = self.user_prefix.as_deref().unwrap_or(default);
        if user_prefix.starts_with('-') {
            return Err(Failure::usage(
                "a user name that begins with `-` would be taken for an option",
            ));
        }
        export::printable("--user-prefix", user_prefix)?;
        if self.database {
            return self.in_database(settings, &topology, user_prefix);
        }
        let request = Request {
            user_prefix: user_prefix.to_owned(),
            vhost: export::virtual_host(self.vhost, settings)?,
            create_users: self.create_users,
            routing_keys: self.routing_keys,
        };
        let roles = Role::all(&topology);
        if !self.output.is_json() {
            return print(rabbitmqctl::render(&roles, &request));
        }
        print(definitions::render(&roles, &request))?;
        warn(&request);
        Ok(())
    }

    fn in_database(
        &self,
        settings: &Settings,
        topology: &Topology,
        user_prefix: &str,
    ) -> Result<(), Failure> {
        let own = |name: &str| {
            settings.effects.get(name).and_then(|effect| effect.sql.as_ref()?.to_str())
        };
        let names: BTreeSet<&str> =
            topology.timeouts.iter().map(|timeout| timeout.effect.as_str()).collect();
        let roles = DatabaseRole::all(&DatabaseRequest {
            schemas: settings.database.search_path.split(',').map(str::trim).collect(),
            user_prefix,
            create_users: self.create_users,
            effects: names.iter().map(|name| EffectSql { name, file: own(name) }).collect(),
        });
        if self.output.is_json() {
            return print_json(&Grants::of(roles));
        }
        print(grants::render(&roles))
    }
}

/// Warnings go to standard error, because JSON has no comments.
fn warn(request: &Request) {
    if request.create_users {
        report(
            "note: the users have no password, and importing takes the password of a user that exists; set \
             them with `rabbitmqctl change_password`",
        );
    } else {
        report(
            "note: users and their tags are not in it, the users have to exist; --create-users puts them in",
        );
    }
}
