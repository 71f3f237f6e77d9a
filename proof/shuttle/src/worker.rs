//! Copies of the worker.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Checked,
    messaging::{BrokerAddress, publish::outlet::Outlet},
    timing::Timing,
};

mod log_lines {
    pub(super) const LINE_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
}
#[path = "../../../src/worker/on_their_way.rs"]
mod on_their_way;

use on_their_way::{Heard, OnTheirWay};

/// Sends copies to two places, and hears of each once.
pub(crate) async fn copies(address: &BrokerAddress, checked: &mut Checked) {
    let outlet = Arc::new(Outlet::new(address.clone(), "copies"));
    let mut copies = OnTheirWay::new(Arc::clone(&outlet), &Timing::default());
    for (id, place) in [("1", "a"), ("2", "b"), ("3", "a")] {
        copies.send(place, crate::message(id), id);
    }
    let mut heard = BTreeMap::new();
    while let Some(copy) = copies.next().await {
        let (id, result) = match copy {
            Heard::Confirmed(id) => (id, Ok(())),
            Heard::Failed(id, error) => (id, Err(error)),
            Heard::Silence(_) | Heard::GivenUp(_) => panic!("no time passes"),
        };
        *heard.entry(id).or_insert(0) += 1;
        checked.answers.push((id.to_owned(), crate::said(&result)));
    }
    assert!(heard.len() == 3 && heard.values().all(|times| *times == 1), "{heard:?}");
}
