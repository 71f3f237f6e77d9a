//! Defects of RabbitMQ that affect delays, by version, each with its source: the release notes of the fixed version
//! (<https://github.com/rabbitmq/rabbitmq-server/tree/main/release-notes>), or our own tests.

use super::facts::{Facts, known};
use crate::{diagnostic::Draft, topology::broker_version::BrokerVersion};

const fn version(major: u16, minor: u16, patch: u16) -> BrokerVersion {
    BrokerVersion::release(major, minor, patch)
}

/// The oldest and the newest version whose release notes were read for the table.
const READ_FROM: BrokerVersion = version(4, 0, 0);
const READ_UP_TO: BrokerVersion = version(4, 3, 6);

/// The end of a defect.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Fixed in this version.
    Fixed(BrokerVersion),
    /// Seen in a test; no fix is known.
    Seen,
}

/// A defect and the versions with it.
struct Defect {
    /// The failure and the objects that it affects.
    what: &'static str,
    source: &'static str,
    /// The first version with the defect, and its end; several ranges if series were fixed separately.
    ranges: &'static [(BrokerVersion, End)],
}

use End::{Fixed, Seen};

const DEFECTS: &[Defect] = &[
    Defect {
        what: "a leader of a cluster could commit log entries optimistically: a confirm may not stand for a majority",
        source: "rabbitmq/ra#637",
        ranges: &[(version(4, 3, 0), Fixed(version(4, 3, 3)))],
    },
    Defect {
        what: "after repeated changes of its members a queue that dead-letters at least once can stay without a leader",
        source: "rabbitmq-server#16652",
        ranges: &[(version(4, 0, 0), Fixed(version(4, 3, 3)))],
    },
    Defect {
        what: "at-least-once dead lettering could send its commands to the wrong member: what is due stays in its level",
        source: "rabbitmq-server#16203",
        ranges: &[
            (version(4, 0, 0), Fixed(version(4, 2, 7))),
            (version(4, 3, 0), Fixed(version(4, 3, 1))),
        ],
    },
    Defect {
        what: "a quorum queue could crash when it recovers from an unclean shutdown",
        source: "rabbitmq/ra#629",
        ranges: &[(version(4, 3, 0), Fixed(version(4, 3, 1)))],
    },
    Defect {
        what: "in a cluster that came from 3.13 through 4.2, quorum queues could have no counts after a restart: \
               nothing that is retired is deleted",
        source: "rabbitmq-server#16974",
        ranges: &[(version(4, 3, 0), Fixed(version(4, 3, 4)))],
    },
    Defect {
        what: "recovery from a checkpoint could leave the state of a quorum queue incomplete",
        source: "rabbitmq-server#17012",
        ranges: &[(version(4, 3, 0), Fixed(version(4, 3, 5)))],
    },
    Defect {
        what: "a message that is held back for more than 292 years ends its queue on all nodes, with all that is in it",
        source: "docs/verify.md#a-queue-that-has-ended",
        ranges: &[(version(4, 3, 0), Seen)],
    },
    Defect {
        what: "what was routed to a quorum queue when the network parted was not always sent again",
        source: "rabbitmq-server#14589",
        ranges: &[(version(4, 0, 0), Fixed(version(4, 1, 5)))],
    },
    Defect {
        what: "quorum queues had rare faults of replication",
        source: "rabbitmq-server#13530",
        ranges: &[(version(4, 0, 0), Fixed(version(4, 0, 8)))],
    },
    Defect {
        what: "a quorum queue could end up without a leader, because its candidate was not alive",
        source: "rabbitmq-server#12727",
        ranges: &[(version(4, 0, 0), Fixed(version(4, 0, 4)))],
    },
    Defect {
        what: "a quorum queue with a delivery limit, as business queues have, could run into an exception",
        source: "rabbitmq-server#12405",
        ranges: &[(version(4, 0, 0), Fixed(version(4, 0, 3)))],
    },
];

impl Defect {
    /// The end of the defect, if `version` has it.
    fn end(&self, version: BrokerVersion) -> Option<End> {
        let has = |(first, end): &&(BrokerVersion, End)| {
            *first <= version
                && match *end {
                    Fixed(fixed) => version < fixed,
                    Seen => true,
                }
        };
        self.ranges.iter().find(has).map(|(_, end)| *end)
    }

    fn fixed(&self, version: BrokerVersion) -> Option<BrokerVersion> {
        match self.end(version)? {
            Fixed(fixed) => Some(fixed),
            Seen => None,
        }
    }
}

/// Which defects that touch delays does this version have?
pub(crate) fn known_defects(facts: &Facts) -> Draft {
    known(&facts.broker.api.known_overview(), |overview| judge_known_defects(&overview.version))
}

/// Accepts a version if none of its defects has a known fix.
fn judge_known_defects(text: &str) -> Draft {
    // Treats `4.3.0-rc.1` as the release.
    let release = text.split(['-', '+']).next().and_then(|release| release.parse().ok());
    let Some(version) = release else {
        return Draft::warning(format!("not known of RabbitMQ {text}"), "see version");
    };
    if version < READ_FROM {
        return Draft::warning(format!("not known of RabbitMQ {text}"), "see version");
    }
    let found = DEFECTS.iter().filter(|defect| defect.end(version).is_some());
    let found: Vec<String> =
        found.map(|defect| format!("{} ({})", defect.what, defect.source)).collect();
    if found.is_empty() {
        return Draft::ok(format!("none that touches delays is known up to {READ_UP_TO}"));
    }
    let text = format!("{} in {version}: {}", found.len(), found.join("; "));
    match without_fixed(version) {
        better if better > version => Draft::warning(text, format!("upgrade to RabbitMQ {better}")),
        _ => Draft::note(
            text,
            "nothing: no version without it is known, and overdue verify looks for it",
        ),
    }
}

/// The first version, starting with this one, without a defect that has a known fix.
fn without_fixed(version: BrokerVersion) -> BrokerVersion {
    let next = DEFECTS.iter().filter_map(|defect| defect.fixed(version)).max();
    next.map_or(version, without_fixed)
}
