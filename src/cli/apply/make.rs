//! Making a change, for the one who waits for it.

use super::super::{
    exit::Failure,
    output::{print, report},
};
use crate::{
    broker::{ChangeEvent, TopologyChange, apply::StepResult},
    plan::{Plan, Step, snapshot::Snapshot},
};

/// Makes the change, and prints how many steps were carried out and which queues are kept.
pub(super) async fn make(
    change: &TopologyChange<'_>,
    decide: impl FnOnce(Plan, &Snapshot) -> Result<Plan, Failure>,
) -> Result<(), Failure> {
    let mut done = 0;
    let mut kept = Vec::new();
    let mut keep = |step: &Step, why| {
        kept.push(format!("left for a later apply, {why}: {}\n", step.change));
    };
    let on_event = |event: ChangeEvent<'_>| match event {
        ChangeEvent::WaitsForLock => {
            report("another overdue is changing this topology: waiting until it is done");
        }
        ChangeEvent::Step(_, StepResult::Done) => done += 1,
        ChangeEvent::Step(step, StepResult::NotEmpty) => keep(step, "messages have come in"),
        ChangeEvent::Step(step, StepResult::NotCounted) => {
            keep(step, "the broker does not count what is in it");
        }
        ChangeEvent::Step(step, StepResult::Consumed) => {
            keep(step, "somebody else consumes from it");
        }
        ChangeEvent::Step(step, StepResult::Needed) => {
            keep(step, "messages may still come this way");
        }
        ChangeEvent::Step(step, StepResult::Bound) => keep(step, "somebody has bound it again"),
    };
    change.make(decide, on_event).await?;
    // Afterwards: what cannot be written must not stop it half-way.
    print(format!("{}applied {done} of {} steps", kept.concat(), done + kept.len()))
}
