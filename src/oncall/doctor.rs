//! Collects what `overdue doctor` judges: facts about broker, database and machine.

use std::{collections::BTreeMap, fs};

use super::{
    drift,
    services::{self, now},
};
use crate::{
    administration::health,
    alerting::{Alert, message::Message},
    config::{AlertSettings, Settings},
    diagnostic::Diagnostic,
    doctor::facts::{
        AlertFacts, AmqpConnection, ApiFacts, BrokerFacts, DatabaseFacts, Encryption, Facts,
        MachineFacts, ProbeError, Probed, Session,
    },
    store::effects::Effect,
    text::error_chain,
    topology::Topology,
};

/// Checks each alert as a worker does; `send` sends a test message.
pub(crate) async fn alerts(
    alerts: &[AlertSettings],
    topology: &str,
    send: bool,
) -> Vec<AlertFacts> {
    let mut facts = Vec::new();
    for settings in alerts {
        let alert = Alert::new(settings, topology);
        let answer = match &alert {
            Ok(alert) if send => Some(alert.send(&Message::test()).await),
            _ => None,
        };
        facts.push(AlertFacts {
            alert: settings.name.clone(),
            to: alert.map(|alert| alert.destination()),
            answer: answer.map(|answer| answer.map_err(|refused| refused.reason)),
        });
    }
    facts
}

/// Asks all services; a service without an answer is a gap.
pub(crate) async fn facts(settings: &Settings) -> Facts {
    let path = settings.topology.display();
    let topology = services::topology(settings).map_err(|failure| {
        let first = failure.text.lines().next().unwrap_or_default().to_owned();
        ProbeError::new(first, format!("overdue check says what is wrong in {path}"))
    });
    let (mut broker, database) =
        tokio::join!(broker(settings), database(settings, topology.as_ref().ok()));
    let verified = verified(settings, topology.as_ref().ok(), &mut broker.api).await;
    Facts {
        topology,
        connections: settings.database.connections,
        dead_letter_slots: settings.broker.dead_letter_slots,
        broker,
        verified,
        database,
        machine: machine(settings),
        alerts: Vec::new(),
    }
}

/// The findings of `overdue verify`. Waits for the counts of new queues, and stores them in `api` for the other checks.
async fn verified(
    settings: &Settings,
    topology: Option<&Topology>,
    api: &mut ApiFacts,
) -> Probed<Vec<Diagnostic>> {
    let mut observed = api.observed.clone()?;
    let Some(topology) = topology else { return Ok(Vec::new()) };
    let fix = "overdue verify says more";
    let management = services::management(settings);
    let management = management.map_err(|failure| ProbeError::new(failure.text, fix))?;
    let slots = settings.broker.dead_letter_slots;
    let found = drift::found(&management, topology, &mut observed, slots).await;
    let (found, stats) = found.map_err(|error| ProbeError::new(error_chain(&error), fix))?;
    (api.observed, api.stats) = (Ok(observed), Ok(stats));
    Ok(found)
}

async fn broker(settings: &Settings) -> BrokerFacts {
    match services::address(settings) {
        Ok(address) => health::facts(&address, now).await,
        Err(failure) => {
            let gap = ProbeError::new(failure.text.clone(), "correct broker.url");
            BrokerFacts {
                address: "broker.url".to_owned(),
                user: String::new(),
                virtual_host: String::new(),
                tls: Encryption::None,
                loopback: true,
                connection: AmqpConnection::NoAddress(failure.text),
                api: ApiFacts::unknown(String::new(), gap),
            }
        }
    }
}

async fn database(settings: &Settings, topology: Option<&Topology>) -> DatabaseFacts {
    let effects = effects(settings, topology);
    match services::store(settings) {
        Ok(store) => store.facts(&effects, now).await,
        Err(failure) => {
            let session = Session::Unreachable(failure.text);
            DatabaseFacts::unknown("database.url".to_owned(), true, session)
        }
    }
}

/// The SQL of each effect. Each is read alone, so that one that cannot be read does not hide the others.
fn effects(settings: &Settings, topology: Option<&Topology>) -> Vec<(String, Probed<Effect>)> {
    let mut effects = BTreeMap::new();
    for timeout in topology.iter().flat_map(|topology| &topology.timeouts) {
        let effect = services::one_effect(settings, &timeout.effect, &timeout.name);
        let fix = "correct effects in overdue.toml (docs/effects.md)";
        effects.insert(
            timeout.effect.clone(),
            effect.map_err(|failure| ProbeError::new(failure.text, fix)),
        );
    }
    effects.into_iter().collect()
}

fn machine(settings: &Settings) -> MachineFacts {
    MachineFacts {
        open_files: open_files(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        secret_files: settings.files.secret.len(),
        exposed_files: settings.files.exposed(),
    }
}

/// The limit from `/proc`, which only Linux has.
fn open_files() -> Probed<u64> {
    let gap = || ProbeError::new("/proc/self/limits cannot be read", "ulimit -n shows it");
    let limits = fs::read_to_string("/proc/self/limits").map_err(|_| gap())?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => Ok(u64::MAX),
        Some(number) => number.parse().map_err(|_| gap()),
        None => Err(gap()),
    }
}
