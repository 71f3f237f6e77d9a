//! Rules about `[compat.x-delay]`.

use super::surroundings::Surroundings;
use crate::{
    diagnostic::Draft,
    topology::{
        file::{StrategyName, TopologyFile, XDelaySection},
        x_delay::WORD,
    },
};

/// The longest name of an exchange, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The name is one that publishers can have used with the plugin, and not one of the topology.
pub(super) fn exchange(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(XDelaySection { exchange, .. }) = file.x_delay() else { return Vec::new() };
    let (name, topology) = (exchange.get_ref(), file.name.get_ref());
    let message = if name.is_empty() {
        "the default exchange cannot be taken over: it has no name".to_owned()
    } else if name == "amq" || name.starts_with("amq.") {
        format!("`{name}`: names that start with `amq.` belong to the broker, it refuses them")
    } else if name.len() > MAX_NAME_BYTES {
        format!("the name has {} bytes; RabbitMQ takes {MAX_NAME_BYTES}", name.len())
    } else if name.starts_with(&format!("{topology}.")) {
        format!("`{name}` begins with the name of the topology, whose exchanges are its own")
    } else {
        return Vec::new();
    };
    let help = "write the name of the exchange that publishers use with the header x-delay";
    vec![Draft::in_file(exchange.span(), message, help)]
}

/// The plugin's own exchange needs nobody in its place.
pub(super) fn strategy(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(section) = file.x_delay() else { return Vec::new() };
    if file.delay().strategy != StrategyName::DelayedExchange {
        return Vec::new();
    }
    let message = "[compat.x-delay] takes the place of the plugin, and the strategy `delayed-exchange` needs it";
    let help = "choose the strategy `ladder` or `levels`, or drop [compat.x-delay]";
    vec![Draft::in_file(section.exchange.span(), message.to_owned(), help)]
}

/// A timeout of the same name would get its messages.
pub(super) fn word(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    if file.x_delay().is_none() {
        return Vec::new();
    }
    let names = file.timeout.iter().map(|timeout| &timeout.get_ref().name);
    let taken = names.filter(|name| name.get_ref() == WORD);
    taken
        .map(|name| {
            let message = format!(
                "two queues would be called `{}.{WORD}`: [compat.x-delay] has one",
                file.name.get_ref()
            );
            Draft::in_file(name.span(), message, "give this timeout another name")
        })
        .collect()
}

/// Without a ladder a worker keeps what is shorter than the shortest level.
pub(super) fn without_ladder(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(section) = file.x_delay() else { return Vec::new() };
    if file.delay().strategy != StrategyName::Levels {
        return Vec::new();
    }
    let message =
        "an `x-delay` other than a level waits in several levels, and the rest of it in a worker"
            .to_owned();
    let help = "choose the strategy `ladder` where publishers send any `x-delay`; where all of them are levels it is fine";
    vec![Draft::in_file(section.exchange.span(), message, help)]
}
