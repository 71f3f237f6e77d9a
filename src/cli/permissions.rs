//! `overdue permissions`: the least rights of everyone who uses the topology; asks no broker.

use clap::Args;

use super::{
    exit::Failure,
    export,
    output::{Output, print, report},
    setup,
};
use crate::{
    config::Settings,
    permissions::{Request, Role, definitions, rabbitmqctl},
};

/// Print the least rights of publisher, worker and topology administrator
///
/// As text they are rabbitmqctl commands with reasons, as JSON definitions for `rabbitmqctl import_definitions`.
#[derive(Debug, Args)]
pub(super) struct Permissions {
    /// What the names of the users begin with
    #[arg(long, value_name = "PREFIX", default_value = "overdue-")]
    user_prefix: String,
    #[command(flatten)]
    output: Output,
    /// The virtual host [default: the one of broker.url]
    #[arg(long, value_name = "VHOST")]
    vhost: Option<String>,
    /// Create the users too, without passwords; definitions take the password of one that exists
    #[arg(long)]
    create_users: bool,
    /// Limit the publisher to the routing keys of the topology; they have to be renewed with every new level
    #[arg(long)]
    routing_keys: bool,
}

impl Permissions {
    pub(super) fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        if self.user_prefix.starts_with('-') {
            return Err(Failure::usage(
                "a user name that begins with `-` would be taken for an option",
            ));
        }
        export::printable("--user-prefix", &self.user_prefix)?;
        let request = Request {
            vhost: export::virtual_host(self.vhost, settings)?,
            user_prefix: self.user_prefix,
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
}

/// JSON has no comments, so this goes to standard error.
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
