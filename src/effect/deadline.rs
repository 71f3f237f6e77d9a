//! The deadline as an instant, whatever the settings of a session.

use super::{
    description::{Description, Mistake},
    facts::Facts,
    statements::mistake,
};
use crate::text::sql::literal;

/// An SQL expression for the deadline of type `timestamptz`, whatever the settings of a session.
pub(super) fn deadline(
    description: &Description,
    Facts { deadline_type: kind, adds_interval, .. }: &Facts,
) -> Result<String, Mistake> {
    let (kind, adds_interval) = (kind.as_str(), *adds_interval);
    let Description { deadline, zone, .. } = description;
    let advice = match kind {
        "timestamp with time zone" | "timestamptz" => {
            return Ok(match description.sum() {
                // Otherwise the interval is added in the time zone of the session, and no index could contain the expression.
                Some((column, interval)) if adds_interval => {
                    format!("(({column} AT TIME ZONE 'UTC' + {interval}) AT TIME ZONE 'UTC')")
                }
                _ if is_name(deadline) => deadline.clone(),
                _ => format!("({deadline})"),
            });
        }
        "timestamp without time zone" | "timestamp" => match zone {
            Some(zone) => {
                let bare = is_name(deadline);
                let text = if bare { deadline.clone() } else { format!("({deadline})") };
                return Ok(format!("({text} AT TIME ZONE {})", literal(zone)));
            }
            None => {
                return Err(mistake(
                    "zone",
                    format!(
                        "the deadline `{deadline}` is a timestamp without time zone, and the same value is another instant in each zone: \
                         write the zone in which it is stored, such as zone = \"UTC\""
                    ),
                ));
            }
        },
        "date" => format!(
            "a day has a beginning and an end: for its end write deadline = \"({deadline} + 1)::timestamp\", and its zone"
        ),
        "bigint" | "integer" | "int8" | "int4" | "numeric" | "double precision" | "float8" => {
            format!("for seconds since 1970 write deadline = \"to_timestamp({deadline})\"")
        }
        _ => format!(
            "write an expression of that type, such as ({deadline})::timestamptz if the text has a zone"
        ),
    };
    Err(mistake(
        "deadline",
        format!("`{deadline}` is of the type {kind}, not timestamp with time zone: {advice}"),
    ))
}

/// Whether the text is the name of a column, and no other expression.
pub(super) fn is_name(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let plain =
        text.starts_with(|c: char| c.is_alphabetic() || c == '_') && text.chars().all(is_word);
    let quoted = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    plain || quoted.is_some_and(|it| !it.is_empty() && !it.contains('"'))
}
