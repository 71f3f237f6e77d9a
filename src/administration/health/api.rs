//! Facts about the broker from the management API. Each request needs its own right; a refused one does not stop the others.

use jiff::Timestamp;
use serde::Deserialize;

use super::super::{Management, ManagementError, management::Named};
use crate::{
    doctor::facts::{Alarm, ApiFacts, Overview, Permission, ProbeError, Probed, Replicas, Skew},
    text::{length, quote},
};

/// The `Date` of a response has whole seconds and is renewed once a second, so it is up to two seconds behind.
const DATE_GRAIN_MS: i64 = 2_000;

pub(super) async fn facts(
    management: &Result<Management, ManagementError>,
    now: fn() -> Timestamp,
) -> ApiFacts {
    let management = match management {
        Ok(management) => management,
        Err(error) => return ApiFacts::unknown(String::new(), gap(error, "management")),
    };
    let user = management.user().to_owned();
    // The overview is read first: if the API does not answer or refuses the login, the other requests are pointless.
    let overview = match overview(management).await {
        Ok(overview) => overview,
        Err(error) => return ApiFacts::unknown(user, gap(&error, "management")),
    };
    let (feature_flags_off, deprecated, plugins, alarms, permissions) = tokio::join!(
        feature_flags_off(management),
        deprecated(management),
        plugins(management),
        alarms(management),
        permissions(management),
    );
    let (nodes, replicas, observed, stats, clock) = tokio::join!(
        nodes(management),
        replicas(management),
        management.observe(),
        management.stats_and_policies(),
        clock(management, now),
    );
    let vhost = management.virtual_host();
    let explained = observed.as_ref().err().map(|error| gap_in_virtual_host(error, vhost, None));
    let gap_there = |error| gap_in_virtual_host(&error, vhost, explained.as_ref());
    ApiFacts {
        user,
        overview: Ok(overview),
        feature_flags_off: asked(feature_flags_off),
        deprecated: asked(deprecated),
        plugins: plugins.map_err(|error| gap(&error, "monitoring")),
        alarms: asked(alarms),
        permissions: permissions.map_err(|error| gap(&error, "administrator")),
        nodes,
        replicas: replicas.map_err(gap_there),
        observed: observed.map_err(gap_there),
        stats: stats.map_err(gap_there),
        clock: asked(clock),
    }
}

fn asked<T>(answer: Result<T, ManagementError>) -> Probed<T> {
    answer.map_err(|error| gap(&error, "management"))
}

/// The fix for a user who lacks a right.
const LOOK: &str =
    "run overdue doctor once with the management URL of an administrator (--management-url)";

/// Explains a failed request; `tag` is the user tag that the request needs.
fn gap(error: &ManagementError, tag: &str) -> ProbeError {
    match error {
        ManagementError::Unreachable { address, reason, .. } => ProbeError::new(
            format!("the management API at {address} gives no answer ({reason})"),
            "correct broker.management_url, or: rabbitmq-plugins enable rabbitmq_management",
        ),
        ManagementError::OtherProduct { .. } => ProbeError::new(
            error.to_string(),
            "write the URLs of a RabbitMQ into broker.url and broker.management_url",
        ),
        ManagementError::Silent { address, within, .. } => ProbeError::new(
            format!("the management API at {address} gives no answer within {}", length(*within)),
            "look at the load of the broker and in its log, and try again",
        ),
        ManagementError::NotPermitted { user, step, .. } => ProbeError::denied(
            format!("user {user} may not {step}: it takes the {tag} tag"),
            // The fix does not add the tag to this user: a worker should have the least rights.
            match tag {
                "management" => format!("check the password in broker.management_url, or {LOOK}"),
                _ => LOOK.to_owned(),
            },
        ),
        ManagementError::NoVirtualHost { vhost, .. } => ProbeError::new(
            format!("there is no virtual host {vhost}, or this user may not see it"),
            format!("rabbitmqctl add_vhost {}", quote(vhost)),
        ),
        ManagementError::OnlyByAmqp { .. } => ProbeError::new(
            error.to_string(),
            "overdue permissions prints the rabbitmqctl set_permissions that it takes",
        ),
        ManagementError::OtherVirtualHost { .. } => ProbeError::new(
            error.to_string(),
            "let the proxy pass the path as it came, or correct broker.management_url",
        ),
        ManagementError::NotFound { .. } => {
            ProbeError::new(error.to_string(), "correct broker.management_url")
        }
        ManagementError::NoExchangeType { fix, .. } => ProbeError::new(error.to_string(), *fix),
        ManagementError::Refused { .. } | ManagementError::Unnameable { .. } => {
            ProbeError::new(error.to_string(), "look in the log of the broker")
        }
    }
}

/// Explains a failed request about the virtual host. The overview was answered, so the user has the tag. `explained` is the gap
/// of the list of its objects: that request also asks by AMQP whether the virtual host exists.
fn gap_in_virtual_host(
    error: &ManagementError,
    vhost: &str,
    explained: Option<&ProbeError>,
) -> ProbeError {
    match (error, explained) {
        (
            ManagementError::NoVirtualHost { .. } | ManagementError::NotFound { .. },
            Some(explained),
        ) => explained.clone(),
        (ManagementError::NotPermitted { user, step, .. }, _) => ProbeError::denied(
            format!("user {user} may not {step}: it may not use virtual host {vhost}"),
            "overdue permissions prints the rabbitmqctl set_permissions that it takes",
        ),
        (other, _) => gap(other, "management"),
    }
}

async fn overview(management: &Management) -> Result<Overview, ManagementError> {
    let overview = management.overview().await?;
    let exchange_types = management.exchange_types(&overview).await;
    Ok(Overview { version: overview.rabbitmq_version, exchange_types })
}

async fn feature_flags_off(management: &Management) -> Result<Vec<String>, ManagementError> {
    #[derive(Deserialize)]
    struct Flag {
        name: String,
        state: String,
        stability: String,
    }
    let flags: Vec<Flag> = management.get(&["feature-flags"], &[]).await?;
    let off = flags.into_iter().filter(|flag| {
        flag.state != "enabled" && matches!(flag.stability.as_str(), "stable" | "required")
    });
    Ok(off.map(|flag| flag.name).collect())
}

async fn deprecated(management: &Management) -> Result<Vec<String>, ManagementError> {
    let used: Vec<Named> = management.get(&["deprecated-features", "used"], &[]).await?;
    Ok(used.into_iter().map(|feature| feature.name).collect())
}

/// Permission needed: the `monitoring` tag.
async fn plugins(management: &Management) -> Result<Vec<String>, ManagementError> {
    #[derive(Deserialize)]
    struct Node {
        #[serde(default)]
        enabled_plugins: Vec<String>,
    }
    let nodes: Vec<Node> =
        management.get(&["nodes"], &[("columns", "name,enabled_plugins")]).await?;
    let mut plugins: Vec<String> =
        nodes.into_iter().flat_map(|node| node.enabled_plugins).collect();
    plugins.sort();
    plugins.dedup();
    Ok(plugins)
}

/// The health check answers 503 while there are alarms; the list is in its body.
async fn alarms(management: &Management) -> Result<Vec<Alarm>, ManagementError> {
    #[derive(Deserialize)]
    struct Wire {
        #[serde(default)]
        alarms: Vec<Alarm>,
    }
    let answer = management.ask(&["health", "checks", "alarms"], &[]).await;
    let wire: Result<Wire, _> = answer.or_else(|failure| failure.read(503));
    let wire = wire.map_err(|failure| management.explain("read the alarms", failure))?;
    Ok(wire.alarms)
}

/// Permission needed: the `administrator` tag, even for the user's own permissions.
async fn permissions(management: &Management) -> Result<Vec<Permission>, ManagementError> {
    management.get(&["permissions"], &[]).await
}

/// Permission needed: the `monitoring` tag.
async fn nodes(management: &Management) -> Option<usize> {
    let nodes: Vec<Named> = management.get(&["nodes"], &[("columns", "name")]).await.ok()?;
    Some(nodes.len())
}

/// Reads from the broker's tables, not from its statistics.
async fn replicas(management: &Management) -> Result<Vec<Replicas>, ManagementError> {
    #[derive(Deserialize)]
    struct Wire {
        name: String,
        #[serde(rename = "type")]
        kind: String,
        leader: Option<String>,
        /// `null` if the broker is busy and does not know the members.
        members: Option<Vec<String>>,
        online: Option<Vec<String>>,
    }
    let query = [
        ("disable_stats", "true"),
        ("enable_queue_totals", "true"),
        ("columns", "name,type,leader,members,online"),
    ];
    let queues: Vec<Wire> = management.get(&["queues", management.virtual_host()], &query).await?;
    let quorum = queues.into_iter().filter(|queue| queue.kind == "quorum");
    let replicas = quorum.map(|Wire { name, leader, members, online, .. }| Replicas {
        queue: name,
        leader: leader.filter(|leader| !leader.is_empty()),
        members: members.unwrap_or_default(),
        online: online.unwrap_or_default(),
    });
    Ok(replicas.collect())
}

/// Compares the `Date` header of a small response with the middle of its round trip.
async fn clock(management: &Management, now: fn() -> Timestamp) -> Result<Skew, ManagementError> {
    let sent = now();
    let broker = management.now().await?;
    let received = now();
    let round_trip_ms = received.as_millisecond().saturating_sub(sent.as_millisecond());
    let middle_ms = sent.as_millisecond().saturating_add(round_trip_ms / 2);
    Ok(Skew {
        ahead_ms: broker.as_millisecond().saturating_add(DATE_GRAIN_MS / 2) - middle_ms,
        margin_ms: DATE_GRAIN_MS / 2 + round_trip_ms / 2,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each request about the virtual host gets a 404, and only the list of its objects asks by AMQP as well.
    #[test]
    fn a_virtual_host_that_amqp_opens_is_not_to_be_made() {
        let (address, vhost, user) = ("mq.example".to_owned(), "shop".to_owned(), "app".to_owned());
        let only_by_amqp = ManagementError::OnlyByAmqp {
            address: address.clone(),
            vhost: vhost.clone(),
            user: user.clone(),
        };
        let explained = gap_in_virtual_host(&only_by_amqp, "shop", None);
        let not_found = ManagementError::NoVirtualHost { address, vhost, user };
        assert_eq!(gap_in_virtual_host(&not_found, "shop", Some(&explained)), explained);
        assert!(!explained.fix.contains("add_vhost"), "{explained:?}");
        let missing = gap_in_virtual_host(&not_found, "shop", None);
        assert_eq!(missing.fix, "rabbitmqctl add_vhost shop");
    }
}
