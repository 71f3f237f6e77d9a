//! Makes broker, database and topology from the settings.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use jiff::Timestamp;

use super::failure::Failure;
use crate::{
    administration::Management,
    config::{SecretUrl, Settings},
    effect::EffectKeys,
    messaging::BrokerAddress,
    plan::counts::StatisticsInterval,
    store::{
        Store,
        effects::{Effect, Source},
    },
    text::{counted, did_you_mean},
    timing::Timing,
    topology::{Topology, file::BUILT_IN_EFFECTS, report},
};

/// Broker and database, with the topology and its effects.
pub(crate) struct Services {
    pub(crate) topology: Topology,
    pub(crate) effects: BTreeMap<String, Effect>,
    pub(crate) address: BrokerAddress,
    pub(crate) management: Management,
    pub(crate) store: Store,
}

impl Services {
    /// Reads topology, SQL and certificates; opens no connection.
    pub(crate) fn open(settings: &Settings) -> Result<Self, Failure> {
        let topology = topology(settings)?;
        Ok(Self {
            effects: effects(settings, &topology)?,
            address: address(settings)?,
            management: management(settings)?,
            store: store(settings)?,
            topology,
        })
    }
}

/// The topology, and its broker.
pub(crate) fn broker(settings: &Settings) -> Result<(Topology, Management), Failure> {
    Ok((topology(settings)?, management(settings)?))
}

/// The present, to compute waiting times and to compare clocks.
#[expect(
    clippy::disallowed_methods,
    reason = "it says how long to wait; the database says whether it is due"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

pub(crate) fn topology_text(settings: &Settings) -> Result<(String, String), Failure> {
    let path = settings.topology.display().to_string();
    let text = fs::read_to_string(&settings.topology).map_err(|error| {
        Failure::configuration(format!(
            "cannot read the topology file {path}: {error}; name another one with --topology or OVERDUE_TOPOLOGY"
        ))
    })?;
    Ok((path, text))
}

/// Reads and checks the topology file; the error shows every finding with its place.
pub(crate) fn topology(settings: &Settings) -> Result<Topology, Failure> {
    let (path, text) = topology_text(settings)?;
    Topology::parse(&text).map_err(|findings| {
        let report = report::render(&path, &text, &findings);
        let count = counted(findings.len(), "finding");
        Failure::configuration(format!("{count} in {path}\n{report}"))
    })
}

pub(crate) fn address(settings: &Settings) -> Result<BrokerAddress, Failure> {
    let management = settings.broker.management_url.as_ref().map(SecretUrl::expose);
    let address = BrokerAddress::parse(settings.broker.url.expose(), management)?;
    let [broker, management, _] = &settings.files.urls;
    Ok(address.with_url_files(broker.as_deref(), management.as_deref()).with_timing(timing()))
}

/// Tests shorten the timing in debug builds.
#[cfg_attr(debug_assertions, expect(clippy::disallowed_methods, reason = "it is not a setting"))]
fn timing() -> Arc<Timing> {
    #[cfg(debug_assertions)]
    match std::env::var("OVERDUE_TEST_TIMING").as_deref() {
        Ok("often") => return Arc::new(Timing::often()),
        Ok("tenth") => return Arc::new(Timing::tenth()),
        _ => {}
    }
    Arc::default()
}

/// The management API, with a setting that it does not report: the greatest age of its counts.
pub(crate) fn management(settings: &Settings) -> Result<Management, Failure> {
    let interval = StatisticsInterval::new(settings.broker.statistics_interval.as_duration());
    Ok(Management::new(&address(settings)?)?.with_statistics_interval(interval))
}

pub(crate) fn store(settings: &Settings) -> Result<Store, Failure> {
    let database = &settings.database;
    let open = if settings.events.publish { Store::new } else { Store::without_events };
    let store = open(database.url.expose(), &database.search_path, database.connections)?;
    let [.., file] = &settings.files.urls;
    Ok(store.with_url_file(file.as_deref()).with_timing(timing()))
}

/// The SQL of every effect in the topology: from the settings, or built in.
pub(crate) fn effects(
    settings: &Settings,
    topology: &Topology,
) -> Result<BTreeMap<String, Effect>, Failure> {
    let names = topology.timeouts.iter().map(|timeout| (&timeout.effect, &timeout.name));
    names
        .map(|(effect, timeout)| Ok((effect.clone(), one_effect(settings, effect, timeout)?)))
        .collect()
}

pub(crate) fn one_effect(
    settings: &Settings,
    name: &str,
    timeout: &str,
) -> Result<Effect, Failure> {
    match settings.effects.get(name) {
        Some(EffectKeys { sql: Some(sql), overdue_sql, .. }) => {
            let overdue = overdue_sql.as_deref().map(|path| read_sql(name, path)).transpose()?;
            let mut effect = Effect::written(name, &read_sql(name, sql)?, overdue.as_deref());
            if let Source::Written(written) = &mut effect.source {
                written.file = sql.display().to_string();
                let overdue = overdue_sql.as_deref().unwrap_or(Path::new(""));
                written.overdue_file = overdue.display().to_string();
            }
            Ok(effect)
        }
        // Invalid descriptions were refused with the settings.
        Some(keys) => match keys.description(name).ok().flatten() {
            Some(description) => Ok(Effect::described(description)),
            None => Err(unknown_effect(settings, name, timeout)),
        },
        None => Effect::built_in(name).ok_or_else(|| unknown_effect(settings, name, timeout)),
    }
}

/// The effect with a given name, even if no timeout uses it.
pub(crate) fn named_effect(settings: &Settings, name: &str) -> Result<Effect, Failure> {
    if settings.effects.contains_key(name) || BUILT_IN_EFFECTS.contains(&name) {
        return one_effect(settings, name, "");
    }
    let known = settings.effects.keys().map(String::as_str).chain(BUILT_IN_EFFECTS);
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    Err(Failure::configuration(format!(
        "there is no effect `{name}`: the settings and the program have {}",
        known.join(", ")
    )))
}

fn unknown_effect(settings: &Settings, name: &str, timeout: &str) -> Failure {
    let known = settings.effects.keys().map(String::as_str).chain(BUILT_IN_EFFECTS);
    let meant = did_you_mean(name, known).map(|known| format!(" (did you mean `{known}`?)"));
    let built_in = BUILT_IN_EFFECTS.map(|name| format!("`{name}`")).join(", ");
    Failure::configuration(format!(
        "timeout `{timeout}` has the effect `{name}`, and nothing says which SQL that is; built in are {built_in}{}. \
         Write into overdue.toml: [effects.{name}] sql = \"{name}.sql\" (see docs/effects.md)",
        meant.unwrap_or_default()
    ))
}

fn read_sql(effect: &str, path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| {
        Failure::configuration(format!(
            "cannot read the SQL of effect `{effect}`, {}: {error}",
            path.display()
        ))
    })
}
