//! Collects all facts about one order.

use std::{collections::BTreeMap, slice::from_ref, sync::Arc};

use super::{
    failure::Failure,
    parked::{Listed, Lots},
    services::Services,
    status::StatusQuestion,
};
use crate::{
    condition,
    config::Settings,
    order::{OrderId, Outcome},
    parking::Filter,
    shutdown::Stop,
    status::{Known, State},
    store::{clock::DatabaseTime, effects::Effect, orders::Standing},
    text::{one_line, option},
    why::{OrderReading, Parked, Seen},
};

/// Messages up to which a parking lot is searched: more take longer than a second.
const LOOKED_THROUGH: u64 = 20_000;
/// Messages and actions that are shown, at most.
const SHOWN: u32 = 20;

/// Asks about an order: the effect of `timeout`, or all effects. An answer that is missing has the reason instead.
pub(crate) async fn order(
    settings: &Settings,
    services: &Arc<Services>,
    id: &OrderId,
    timeout: Option<&str>,
) -> OrderReading {
    let store = &services.store;
    let (now, effects, pauses, closures, notices, events, actions, parked) = tokio::join!(
        store.now(),
        effects(services, id, timeout),
        store.pauses(&services.topology.name),
        store.closures_of(id),
        store.notices_of(id),
        store.events_of(id),
        store.actions_of_order(id, SHOWN.into()),
        parked(services, id),
    );
    let mut reading = OrderReading {
        order: id.to_string(),
        now: now.ok().and_then(DatabaseTime::timestamp),
        late_after_s: condition::late_after(settings.worker.sweep_grace.as_duration()).as_secs(),
        effects,
        pauses: known(pauses),
        closures: known(closures),
        notices: known(notices),
        parked: known(parked),
        events: known(events),
        actions: known(actions),
        general: None,
    };
    if reading.asks_for_general() {
        let question = StatusQuestion::new(settings, Arc::clone(services));
        reading.general = Some(State::of(&question.read().await));
    }
    reading
}

/// The answer, or the error with the advice that a command gives, e.g. the missing right.
fn known<T>(answer: Result<T, impl Into<Failure>>) -> Known<T> {
    answer.map_or_else(|error| Known::Unknown(one_line(error.into().text)), Known::Known)
}

/// Asks one effect after the other: they lock the same row.
async fn effects(services: &Services, id: &OrderId, timeout: Option<&str>) -> Vec<Seen> {
    let mut timeouts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for rule in &services.topology.timeouts {
        if timeout.is_none_or(|name| rule.name == name) {
            timeouts.entry(&rule.effect).or_default().push(rule.name.clone());
        }
    }
    let mut seen = Vec::new();
    for (name, timeouts) in timeouts {
        let Some(effect) = services.effects.get(name) else { continue };
        seen.push(tried(services, effect, timeouts, id).await);
    }
    seen
}

async fn tried(services: &Services, effect: &Effect, timeouts: Vec<String>, id: &OrderId) -> Seen {
    let store = &services.store;
    match store.rehearse(effect, from_ref(id)).await {
        Ok(mut standings) => {
            let Standing { outcome, due_at } = standings.remove(0);
            let lock = match outcome {
                Outcome::Busy => Some(store.lock_of(effect, from_ref(id)).await),
                _ => None,
            };
            let due_at = due_at.and_then(DatabaseTime::timestamp);
            Seen::new(&effect.name, timeouts, Known::Known(outcome), due_at, lock.as_ref())
        }
        Err(error) => Seen::new(&effect.name, timeouts, known(Err(error)), None, None),
    }
}

async fn parked(services: &Arc<Services>, id: &OrderId) -> Result<Vec<Parked>, Failure> {
    let lots = Lots::open(Arc::clone(services)).await?;
    lots.undisturbed()?;
    if lots.waiting > LOOKED_THROUGH {
        return Err(Failure::failed(format!(
            "{} has {} messages: overdue parked list{} looks through them",
            lots.names(),
            lots.waiting,
            option(" --order", id.as_str())
        )));
    }
    let orders = id.spellings().into_iter().collect();
    let filter = Filter { orders, ..Filter::default() };
    let listed = Listed { filter, limit: SHOWN.into(), full: true };
    let mut parked = Vec::new();
    lots.list(&listed, &Stop::new(), |entry| {
        parked.push(Parked {
            timeout: entry.timeout,
            reason: entry.reason,
            since: entry.parked_at,
            on_replay: entry.full.map(|full| full.on_replay).unwrap_or_default(),
        });
        Ok(())
    })
    .await?;
    Ok(parked)
}
