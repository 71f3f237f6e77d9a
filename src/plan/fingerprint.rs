//! The fingerprint of a plan: `overdue apply --plan` carries out only the plan that has this fingerprint.

use std::{
    collections::BTreeSet,
    fmt::{self, Write},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Change, Plan, Reason};

/// Bytes of the hash that are shown, each as two digits.
const BYTES: usize = 6;

/// The first 48 bits of a SHA-256 over the steps, as 12 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fingerprint(String);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is no fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint has 12 hexadecimal digits; `overdue plan` prints it")]
pub struct FingerprintError;

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let is_one = text.len() == 2 * BYTES && text.bytes().all(|it| it.is_ascii_hexdigit());
        is_one.then(|| Self(text.to_ascii_lowercase())).ok_or(FingerprintError)
    }
}

/// The plan made now is not the plan that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing was changed: the plan is now {now} and not {asked}: {summary}{}",
    first.as_ref().map_or_else(String::new, |first| format!("; it begins with `{first}`"))
)]
pub struct OtherPlan {
    asked: Fingerprint,
    now: Fingerprint,
    summary: String,
    first: Option<String>,
}

impl Plan {
    /// Two plans have the same fingerprint if they create, bind, adopt and retire the same objects, with every name and
    /// argument. Counts and times are not included, and neither is the phase of a retirement: leaving, draining and deleting a
    /// queue are equal.
    pub fn fingerprint(&self) -> Fingerprint {
        let draining = self.draining.iter().map(|it| it.queue.as_str());
        let deleted = self.changes().filter_map(|change| match change {
            Change::DeleteQueue { queue, .. } => Some(queue.as_str()),
            _ => None,
        });
        let queues: BTreeSet<&str> = deleted.chain(draining).collect();
        let is_retirement = |change: &Change| match change {
            Change::Leave(it) | Change::Unbind(it) => {
                it.to_queue && queues.contains(it.destination.as_str())
            }
            Change::DeleteQueue { .. } | Change::DeleteExchange { .. } => true,
            _ => false,
        };
        let exchanges = self.changes().filter_map(|change| match change {
            Change::DeleteExchange { exchange } => Some(exchange),
            _ => None,
        });
        let exchanges = exchanges.chain(self.retired_exchanges.iter().map(|it| &it.exchange));
        let discarded = self.steps.iter().filter(|step| step.reason == Reason::Discarded);
        let discarded = discarded.map(|step| json!({ "discard": step.change.queue() }));
        let others = self.changes().filter(|it| !is_retirement(it)).map(|it| json!(it));
        let all = others
            .chain(discarded)
            .chain(queues.iter().map(|queue| json!({ "retire_queue": queue })))
            .chain(exchanges.map(|exchange| json!({ "retire_exchange": exchange })));
        let lines: BTreeSet<String> = all.map(|it| it.to_string()).collect();
        let mut hash = Sha256::new();
        for line in lines {
            hash.update(line + "\n");
        }
        let mut digits = String::new();
        for byte in hash.finalize().iter().take(BYTES) {
            // Writing to a string cannot fail.
            let _written = write!(digits, "{byte:02x}");
        }
        Fingerprint(digits)
    }

    /// Returns the plan if it has the fingerprint `asked`, or if none was asked for.
    ///
    /// # Errors
    /// The plan has another fingerprint.
    pub fn checked(self, asked: Option<&Fingerprint>) -> Result<Self, OtherPlan> {
        let now = self.fingerprint();
        match asked {
            Some(asked) if *asked != now => {
                let first = self.changes().next();
                let words =
                    |it: &Change| it.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                let (asked, summary, first) = (asked.clone(), self.summary(), first.map(words));
                Err(OtherPlan { asked, now, summary, first })
            }
            _ => Ok(self),
        }
    }
}
