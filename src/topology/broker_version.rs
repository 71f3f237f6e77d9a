//! RabbitMQ versions, and rules about what a version cannot do. Each claim was read in the source or the release notes of that
//! version.

use std::{fmt, str::FromStr};

use super::{
    check::Surroundings,
    file::{QueueType, StrategyName, TopologyFile},
};
use crate::diagnostic::Draft;

/// A RabbitMQ version: `4.0` (the newest patch of that series) or `4.3.2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerVersion {
    major: u16,
    minor: u16,
    patch: Option<u16>,
}

impl BrokerVersion {
    /// A series without a patch; it sorts before its patches.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor, patch: None }
    }

    /// A release.
    pub(crate) const fn release(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch: Some(patch) }
    }

    /// Major and minor number.
    pub const fn series(self) -> (u16, u16) {
        (self.major, self.minor)
    }

    /// The patch number, if it was given.
    pub const fn patch(self) -> Option<u16> {
        self.patch
    }
}

impl fmt::Display for BrokerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// The text that is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a RabbitMQ version: write it like `4.3` or `4.3.2`")]
pub struct BrokerVersionError(String);

impl FromStr for BrokerVersion {
    type Err = BrokerVersionError;

    fn from_str(text: &str) -> Result<Self, BrokerVersionError> {
        let numbers: Option<Vec<u16>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[major, minor]) => Ok(Self::new(major, minor)),
            Some(&[major, minor, patch]) => Ok(Self { major, minor, patch: Some(patch) }),
            _ => Err(BrokerVersionError(text.to_owned())),
        }
    }
}

/// The oldest and the newest series that `overdue` is tested with.
///
/// Before 4.0 `x-delivery-limit = -1` does not mean "no limit". The parking lot loses a message when it is requeued for the
/// first time (release notes of 4.0.1, and seen on 3.10.8).
pub(crate) const TESTED: (BrokerVersion, BrokerVersion) =
    (BrokerVersion::new(4, 0), BrokerVersion::new(4, 3));

pub(super) fn broker_version(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let (oldest, _) = TESTED;
    let Some(broker) = surroundings.broker.filter(|broker| *broker < oldest) else {
        return Vec::new();
    };
    let message = format!("RabbitMQ {broker} is older than {oldest}, which `overdue` needs");
    vec![Draft::in_file(file.name.span(), message, format!("use RabbitMQ {oldest} or newer"))]
}

/// A defect of a series that a later patch fixes.
struct Bug {
    series: (u16, u16),
    /// The first patch without the defect.
    fixed: u16,
    what: &'static str,
}

/// Defects of at-least-once dead-lettering, from the release notes of 4.2.7 and 4.3.3.
const BUGS: [Bug; 2] = [
    Bug {
        series: (4, 2),
        fixed: 7,
        what: "can direct commands of at-least-once dead-lettering to the wrong replica of a queue \
               (rabbitmq-server pull request 16203)",
    },
    Bug {
        series: (4, 3),
        fixed: 3,
        what: "can stop dead-lettering from a level for good when replicas of its queue come and go repeatedly, as \
               in a rolling replacement of nodes (rabbitmq-server issue 16652)",
    },
];

/// The plugin's last release is for 4.2 (<https://github.com/rabbitmq/rabbitmq-delayed-message-exchange>); it needs
/// Mnesia, which 4.3 no longer has.
const NO_DELAYED_EXCHANGE: BrokerVersion = BrokerVersion::new(4, 3);

pub(super) fn broker_plugin(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let used = file.delay().strategy == StrategyName::DelayedExchange;
    let broker = surroundings
        .broker
        .filter(|broker| used && broker.series() >= NO_DELAYED_EXCHANGE.series());
    let Some(broker) = broker else { return Vec::new() };
    let message = format!(
        "RabbitMQ {broker} cannot run the plugin rabbitmq_delayed_message_exchange, which the strategy \
         `delayed-exchange` needs: it was archived in January 2026, and 4.2 is the last series that it runs on"
    );
    let help = "write strategy = \"levels\" with the delays that are needed; it needs no plugin";
    vec![Draft::in_file(file.delay.span(), message, help)]
}

pub(super) fn broker_bug(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let Some(broker) = surroundings.broker else { return Vec::new() };
    if file.queues.queue_type() == QueueType::Classic {
        return Vec::new();
    }
    let hit = BUGS.iter().filter(|bug| {
        bug.series == broker.series() && broker.patch().is_some_and(|patch| patch < bug.fixed)
    });
    hit.map(|Bug { series: (major, minor), fixed, what }| {
        let message = format!("RabbitMQ {broker} {what}");
        let help = format!("use {major}.{minor}.{fixed} or newer");
        Draft::in_file(file.name.span(), message, help)
    })
    .collect()
}

pub(super) fn broker_untested(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Draft> {
    let (_, newest) = TESTED;
    let is_newer = |broker: &BrokerVersion| broker.series() > newest.series();
    let Some(broker) = surroundings.broker.filter(is_newer) else { return Vec::new() };
    let message = format!(
        "RabbitMQ {broker} is newer than {newest}, the newest that `overdue` is tested with"
    );
    vec![Draft::in_file(
        file.name.span(),
        message,
        "try it with `overdue demo` on a broker of its own",
    )]
}
