//! The tests of tests/it/permissions for the plugin's exchange instead of levels.

use crate::{
    permissions::{
        sufficient::assert_everyone_can_work,
        tight::{Closed, assert_tight},
    },
    support::{Services, samples::dotted_delayed},
};

#[apply(world_test)]
async fn everyone_can_work_with_the_rights_that_are_printed() {
    let Some(services) = Services::delayed() else { return };
    assert_everyone_can_work(services, &dotted_delayed()).await;
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
