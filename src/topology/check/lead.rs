//! The rule about the lead.

use std::time::Duration;

use super::{levels::readable, surroundings::Surroundings};
use crate::{
    diagnostic::Draft,
    text::duration,
    topology::{
        file::TopologyFile,
        lead::{Lead, LeadError},
        level::Level,
    },
};

/// It can be read, and each level is still a delay on the broker, for the most part.
pub(super) fn lead(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let Some(text) = &file.delay().lead else { return Vec::new() };
    let (message, help) = match text.get_ref().parse::<Lead>() {
        Err(error @ LeadError::Text(_)) => {
            (error.to_string(), "write e.g. lead = \"500ms\", or \"0s\" for none".to_owned())
        }
        Err(error @ LeadError::TooLong(_)) => {
            (error.to_string(), "shorten it: 100ms to 2s are usual".to_owned())
        }
        Ok(Lead::Given(lead)) => match too_short(file, lead) {
            Some(level) => {
                let most = level.ttl().as_millis().saturating_sub(1) / 2;
                let message = format!(
                    "a lead of `{}` is not less than half of the level `{level}`",
                    text.get_ref()
                );
                (message, shorten(most, &level))
            }
            None => return Vec::new(),
        },
        Ok(Lead::Usual) => return Vec::new(),
    };
    vec![Draft::in_file(text.span(), message, help)]
}

/// The shortest level, where the lead does not fit it.
fn too_short(file: &TopologyFile, lead: Duration) -> Option<Level> {
    let levels = readable(file).into_iter().map(|(level, _)| level);
    let shortest = levels.min_by_key(Level::ttl)?;
    (!lead.is_zero() && lead >= shortest.ttl().as_duration() / 2).then_some(shortest)
}

fn shorten(most_ms: u64, level: &Level) -> String {
    let shorten = match most_ms {
        0 => String::new(),
        most => format!("shorten it to {} or less, ", duration(most)),
    };
    format!(
        "{shorten}drop the level `{level}`, or leave the lead out: then each level has one that fits it"
    )
}
