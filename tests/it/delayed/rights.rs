//! What tests/it/permissions and tests/it/export.rs say of levels, of the plugin's exchange.

use crate::{
    export::assert_exports_are_complete,
    permissions::{
        commands::{assert_a_worker_runs, assert_on_call_needs_all},
        necessary::{Tried, assert_administrator_needs_all, assert_publisher_and_worker_need_all},
        sufficient::{assert_everyone_can_work, assert_strategies_can_change},
        tight::{Closed, assert_tight},
    },
    support::{
        Services,
        samples::{DOTTED, dotted_delayed, dotted_ladder},
    },
};

#[apply(world_test)]
async fn everyone_can_work_with_the_rights_that_are_printed() {
    let Some(services) = Services::delayed() else { return };
    assert_everyone_can_work(services, &dotted_delayed()).await;
}

#[apply(world_test)]
async fn the_commands_work_with_the_rights_that_are_printed() {
    let Some(services) = Services::delayed() else { return };
    assert_a_worker_runs(services.clone(), &dotted_delayed()).await;
    assert_on_call_needs_all(services, &dotted_delayed(), Tried::Each).await;
}

#[apply(world_test)]
async fn the_administrators_rights_outlive_another_strategy() {
    let Some(services) = Services::delayed() else { return };
    let all = [dotted_delayed(), DOTTED.to_owned(), dotted_ladder()];
    assert_strategies_can_change(services, &all).await;
}

#[apply(world_test)]
async fn everyone_breaks_without_any_one_of_their_rights() {
    let Some(services) = Services::delayed() else { return };
    assert_publisher_and_worker_need_all(services.clone(), &dotted_delayed(), Tried::Each).await;
    assert_administrator_needs_all(services, &dotted_delayed(), Tried::Each).await;
}

#[apply(world_test)]
async fn nobody_reaches_more_of_it_or_beside_it() {
    let Some(services) = Services::delayed() else { return };
    let closed = Closed {
        publisher: [
            &["a.b.in", "a.b.dlx", "a.b.park", "a.b.events", "a.b.delayed2"],
            &["a.b.unpaid", "a.b.parked"],
        ],
        worker: [&["a.b.in", "a.b.dlx", "a.b.delayed.2"], &["a.b.parked"]],
        administrator: [&["a.b.events"], &["a.b.parked"]],
    };
    assert_tight(services, &dotted_delayed(), &closed).await;
}

#[apply(world_test)]
async fn what_is_exported_is_complete() {
    let Some(services) = Services::delayed() else { return };
    assert_exports_are_complete(services, &dotted_delayed()).await;
}
