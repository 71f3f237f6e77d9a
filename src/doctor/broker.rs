//! The connection to the broker: AMQP, management API, version.

use super::facts::{AmqpConnection, Encryption, Facts, known};
use crate::diagnostic::Draft;

/// Why a check has nothing to look at.
const NO_CONNECTION: &str = "see the errors above";

/// Does anybody answer?
pub(crate) fn reachable(facts: &Facts) -> Draft {
    match &facts.broker.connection {
        AmqpConnection::Unreachable(reason) | AmqpConnection::NoAddress(reason) => Draft::error(
            reason.clone(),
            "start RabbitMQ, or correct broker.url (OVERDUE_BROKER__URL)",
        ),
        _ => Draft::ok(format!("{} answers", facts.broker.address)),
    }
}

/// May the user log in?
pub(crate) fn login(facts: &Facts) -> Draft {
    let user = &facts.broker.user;
    match &facts.broker.connection {
        AmqpConnection::Unreachable(_) | AmqpConnection::NoAddress(_) => {
            Draft::warning("not known: no connection", NO_CONNECTION)
        }
        AmqpConnection::LoginRefused(reason) => Draft::error(
            reason.clone(),
            format!("correct broker.url, or: rabbitmqctl change_password {user} ..."),
        ),
        _ => Draft::ok(format!("user {user} logs in")),
    }
}

/// Is the virtual host there, and may the user use it?
pub(crate) fn virtual_host(facts: &Facts) -> Draft {
    let (user, vhost) = (&facts.broker.user, &facts.broker.virtual_host);
    match &facts.broker.connection {
        AmqpConnection::Open { .. } => Draft::ok(format!("{vhost} is open to {user}")),
        AmqpConnection::NoVirtualHost(reason) => Draft::error(
            reason.clone(),
            format!("rabbitmqctl add_vhost {vhost}; overdue permissions prints the rights"),
        ),
        _ => Draft::warning("not known: no login", NO_CONNECTION),
    }
}

/// Does AMQP go over TLS, where it leaves the machine?
pub(crate) fn tls(facts: &Facts) -> Draft {
    let broker = &facts.broker;
    if broker.tls != Encryption::None
        && matches!(
            broker.connection,
            AmqpConnection::Unreachable(_) | AmqpConnection::NoAddress(_)
        )
    {
        return Draft::warning("not known: no connection", NO_CONNECTION);
    }
    judge_tls(
        broker.tls,
        broker.loopback,
        ["write amqps:// in broker.url, port 5671", "cacertfile"],
    )
}

/// TLS is wanted for another machine; `fix` is how to begin with it, and the parameter that names a CA.
pub fn judge_tls(tls: Encryption, loopback: bool, fix: [&str; 2]) -> Draft {
    let [begin, ca] = fix;
    match (tls, loopback) {
        (Encryption::Verified, _) => Draft::ok("in use, and the certificate is verified"),
        (Encryption::ChainVerified, _) => Draft::ok(
            "in use, and a trusted CA has signed the certificate; for which host is not checked",
        ),
        (Encryption::Unverified, true) => Draft::ok(
            "in use; the certificate is not verified, the connection does not leave this machine",
        ),
        (Encryption::Unverified, false) => Draft::warning(
            "in use, and the certificate is not verified: somebody in between can read and change everything",
            format!("name the CA's file with {ca}, and have the certificate verified"),
        ),
        (Encryption::None, true) => {
            Draft::ok("not in use; the connection does not leave this machine")
        }
        (Encryption::None, false) => {
            Draft::warning("not in use: passwords and orders can be read", begin)
        }
    }
}

/// Does the broker answer to what is published, or has it blocked the connection?
pub(crate) fn publishing(facts: &Facts) -> Draft {
    match &facts.broker.connection {
        AmqpConnection::Open { answers: true } => Draft::ok("the broker answers to a publish"),
        AmqpConnection::Open { answers: false } => Draft::error(
            "a publish gets no answer: the broker has blocked the connection",
            "see memory-alarm and disk-alarm; nothing can be put back or parked meanwhile",
        ),
        _ => Draft::warning("not known: no connection", NO_CONNECTION),
    }
}

/// Can the management API be called?
pub(crate) fn management_api(facts: &Facts) -> Draft {
    match &facts.broker.api.overview {
        Ok(_) => Draft::ok(format!("user {} may call it", facts.broker.api.user)),
        // A worker does without; plan, apply and verify do not.
        Err(gap) if gap.denied => Draft::warning(gap.reason.clone(), gap.fix.clone()),
        Err(gap) => Draft::error(gap.reason.clone(), gap.fix.clone()),
    }
}

/// Is this a version that was tested?
pub(crate) fn version(facts: &Facts) -> Draft {
    known(&facts.broker.api.known_overview(), |overview| judge_version(&overview.version))
}

/// 4.0 and later are supported; 3.13 has everything that is needed and is no longer maintained.
pub fn judge_version(version: &str) -> Draft {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        return Draft::warning(
            format!("RabbitMQ {version} is not a version that overdue knows"),
            "use RabbitMQ 4.0 or later",
        );
    };
    match (major, minor) {
        (4.., _) => Draft::ok(format!("RabbitMQ {version}")),
        (3, 13) => Draft::warning(
            format!("RabbitMQ {version} is out of maintenance; overdue is tested on 4.0 and later"),
            "upgrade to RabbitMQ 4",
        ),
        _ => Draft::error(
            format!("RabbitMQ {version} is too old: overdue is tested on 4.0 and later"),
            "upgrade to RabbitMQ 4, through 3.13",
        ),
    }
}
