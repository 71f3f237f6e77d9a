//! `alternate-exchange`: what has no route must have a place to go.

use super::{super::dead_letters::SLOTS, examined::Examined};
use crate::{
    diagnostic::{Draft, Fix, Subject},
    objects::{Binding, DELAYED_MESSAGE, Exchange, Objects, routing::route},
};

/// What publishers send and what comes due has to reach a queue, whatever its routing key is. The exchange of the
/// delayed message plugin can have no alternate exchange: it would get everything at once.
pub(super) fn incomplete(examined: &Examined<'_>) -> Vec<Draft> {
    let Examined { topology, objects } = examined;
    let unrouted_due = format!(
        "a message that is due and has no route keeps one of the {SLOTS} slots of its queue; when all are taken \
         nothing leaves that queue"
    );
    let unrouted_notice = "a notice without a route is returned, or lost where its publisher does not ask for returns";
    let entries = topology.entries().into_iter().map(|entry| entry.exchange);
    let mut names = vec![topology.entry_exchange()];
    names.extend(entries.filter(|name| *name != topology.entry_exchange()));
    names.push(topology.due_exchange());
    let drafts = names.into_iter().filter_map(|name| {
        let exchange = objects.exchanges.get(&name).filter(|it| it.kind != DELAYED_MESSAGE)?;
        let mut queues = examined.queues();
        let leads_there = queues.any(|(queue, _)| queue.dead_letter_exchange() == Some(&name));
        let reason = if leads_there { unrouted_due.as_str() } else { unrouted_notice };
        Some(draft(objects, exchange)?.because(reason))
    });
    drafts.collect()
}

fn draft(objects: &Objects, exchange: &Exchange) -> Option<Draft> {
    let name = &exchange.name;
    let key = lost_key(objects, name)?;
    let about = |message: String| Draft::about(Subject::Exchange(name.clone()), message);
    let Some(alternate) = exchange.alternate() else {
        let fix = format!(
            "the arguments of an exchange cannot be changed: stop the publishers, delete {name}, and run overdue apply"
        );
        return Some(about("it has no alternate exchange".to_owned()).fix(Fix::Text(fix)));
    };
    if let Some(binding) = hiding(objects, name, &key) {
        let message = format!(
            "exchange {} takes messages with the routing key {key} from it and has no queue for them, so they do not \
             go to the alternate exchange {alternate}",
            binding.destination
        );
        return Some(about(message).fix(Fix::Unbind(binding.clone())));
    }
    let what = match objects.exchanges.get(alternate) {
        None => "does not exist",
        Some(_) => "has no queue for them",
    };
    let message = format!(
        "messages with the routing key {key} go to its alternate exchange {alternate}, which {what}"
    );
    Some(about(message).fix(Fix::Apply))
}

/// A routing key of messages that reach no queue from `exchange`.
fn lost_key(objects: &Objects, exchange: &str) -> Option<String> {
    let bindings = objects.bindings.iter().filter(|binding| binding.source == exchange);
    let keys = bindings.map(|binding| example(&binding.routing_key));
    let mut keys = std::iter::once("any.key".to_owned()).chain(keys);
    keys.find(|key| route(objects, exchange, key).queues.is_empty())
}

/// The binding to another exchange that takes such messages.
fn hiding<'a>(objects: &'a Objects, exchange: &str, key: &str) -> Option<&'a Binding> {
    let mut bindings = objects.bindings.iter().filter(|b| b.source == exchange && !b.to_queue);
    bindings.find(|b| crate::objects::topic::overlap(&b.routing_key, key))
}

/// A routing key that a pattern matches.
fn example(pattern: &str) -> String {
    pattern.replace(['*', '#'], "any")
}
