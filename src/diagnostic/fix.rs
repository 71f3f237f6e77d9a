//! What to do about a diagnostic.

use crate::{
    objects::Binding,
    text::{one_line, shell::quote},
};

/// What to do, without the virtual host and the topology's name, which only a command knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// `overdue apply`
    Apply,
    /// `overdue unblock`, once what blocked this queue is fixed.
    Unblock(String),
    /// Delete this binding.
    Unbind(Binding),
    /// Narrow or clear what applies: a policy, an operator policy, or both.
    Policies {
        /// The policy's name.
        policy: Option<String>,
        /// The operator policy's name.
        operator: Option<String>,
    },
    /// Something else, as a sentence.
    Text(String),
}

/// What the commands of a fix are for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The topology's name.
    pub topology: &'a str,
    /// The virtual host it is in.
    pub virtual_host: &'a str,
}

impl Fix {
    /// A command, or what to do, as one line.
    #[must_use]
    pub fn text(&self, target: &Target<'_>) -> String {
        match self {
            Self::Apply => "overdue apply".to_owned(),
            Self::Unblock(queue) => format!("fix that, then run: overdue unblock {queue}"),
            Self::Unbind(binding) => unbind(binding, target),
            Self::Policies { policy, operator } => {
                policies(policy.as_deref(), operator.as_deref(), target)
            }
            Self::Text(text) => text.clone(),
        }
    }
}

fn policies(policy: Option<&str>, operator: Option<&str>, target: &Target<'_>) -> String {
    let clear = |name: Option<&str>, command: &str| {
        let (vhost, name) = (quote(target.virtual_host), quote(name?));
        Some(format!("rabbitmqctl {command} -p {vhost} {name}"))
    };
    let commands = [clear(policy, "clear_policy"), clear(operator, "clear_operator_policy")];
    let commands: Vec<String> = commands.into_iter().flatten().collect();
    format!(
        "change its pattern so that no queue of {} matches, or clear it: {}",
        target.topology,
        commands.join("; ")
    )
}

fn unbind(binding: &Binding, target: &Target<'_>) -> String {
    let Binding { source, destination, to_queue, routing_key, arguments } = binding;
    let by_hand =
        |why: &str| format!("delete the binding of {destination} in the management UI ({why})");
    if !arguments.is_empty() {
        return by_hand("it has arguments");
    }
    // Its escapes are no names, so the command would not be one that can be copied.
    if [source, destination, routing_key].into_iter().any(|name| one_line(name) != *name) {
        return by_hand("its names have control characters");
    }
    let kind = if *to_queue { "queue" } else { "exchange" };
    format!(
        "rabbitmqadmin --vhost {} bindings delete --source {} --destination-type {kind} --destination {} \
         --routing-key {}",
        quote(target.virtual_host),
        quote(source),
        quote(destination),
        quote(routing_key)
    )
}
