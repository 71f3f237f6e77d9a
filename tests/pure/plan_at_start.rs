//! What a worker that starts leaves out of a plan: its file may be older than what was applied, or newer.

use overdue::internals::{
    plan::{Change, Plan, Snapshot},
    topology::Topology,
};

use crate::broker_model::{applied, plan};

fn topology(text: &str) -> Topology {
    let text = format!("name = \"shop\"\n{text}\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n");
    Topology::parse(&text).expect("a good file")
}

/// The broker after `apply` with each of these files; something waits in every delay queue and business queue then.
fn broker(files: &[&Topology]) -> Snapshot {
    let mut broker = Snapshot::default();
    for file in files {
        broker = applied(&broker, &plan(file, &broker));
        broker.messages.values_mut().for_each(|messages| *messages = 1);
    }
    broker
}

fn adds(plan: &Plan) -> Vec<String> {
    let steps = plan.steps.iter().filter(|step| step.adds());
    steps.map(|step| step.change.to_string()).collect()
}

/// Its lead was changed once, so the level that was removed is a second generation.
#[test]
fn a_removed_level_is_not_opened_again_in_whatever_generation_it_is() {
    let first = topology("delay.levels = [\"1s\", \"30m\"]\ndelay.lead = \"0s\"");
    let older = topology("delay.levels = [\"1s\", \"30m\"]");
    let newer = topology("delay.levels = [\"1s\", \"45m\"]");
    let broker = broker(&[&first, &older, &newer]);
    let mut plan = plan(&older, &broker);
    let opens = |change: &Change| change.to_string().contains("shop.in -> shop.delay.30m.2");
    assert!(plan.changes().any(opens), "{plan}");
    let left = plan.leave_other_levels(&older).expect("other levels are in use");
    assert_eq!(left, [["shop.delay.30m.2"], ["shop.delay.45m"]]);
    assert_eq!(adds(&plan), [""; 0], "{plan}");
}
