//! What a worker that starts leaves out of a plan: its file may be older than what was applied, or newer.

use overdue::internals::{
    plan::{Change, Plan, Reason, Snapshot},
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

/// What is left out: the queues that stay in use, and whether the worker starts, with nothing to add.
fn started(file: &Topology, broker: &Snapshot) -> (String, bool) {
    let mut plan = plan(file, broker);
    let in_use: Vec<String> = plan.leave_successors(file).into_iter().collect();
    let refuses = plan.steps.iter().any(|step| matches!(step.reason, Reason::Replaces(_)));
    assert!(refuses || adds(&plan).is_empty(), "{plan}");
    (in_use.join(" "), !refuses)
}

/// Both generations are there, and a worker with the file from before would bind its own beside the one in use: each message
/// would come twice.
#[test]
fn a_retired_generation_is_not_bound_again() {
    let levels = "delay.levels = [\"1s\"]";
    let limit = |limit: u8| format!("{levels}\nqueues.delivery_limit = {limit}");
    let [few, many] = [20, 30].map(|it| topology(&limit(it)));
    let twice = plan(&few, &broker(&[&few, &many]));
    let binds = |change: &Change| change.to_string().contains("shop.dlx -> shop.unpaid  ");
    assert!(twice.changes().any(binds), "{twice}");
    assert_eq!(started(&few, &broker(&[&few, &many])), ("shop.unpaid.2".to_owned(), true));
    let [without, with] =
        ["delay.lead = \"0s\"", ""].map(|it| topology(&format!("{levels}\n{it}")));
    assert_eq!(
        started(&without, &broker(&[&without, &with])),
        ("shop.delay.1s.2".to_owned(), true)
    );
    let [classic, quorum] =
        ["classic", "quorum"].map(|it| topology(&format!("{levels}\nqueues.type = \"{it}\"")));
    let all = "shop.delay.1s.2 shop.parked.2 shop.unpaid.2".to_owned();
    assert_eq!(started(&classic, &broker(&[&classic, &quorum])), (all, true));
}

/// Nobody has applied the file yet: with another lead a worker goes on, with anything else it does not start.
#[test]
fn what_is_not_applied_yet_is_not_added() {
    let levels = "delay.levels = [\"1s\"]";
    let [first, lead, limit] = ["", "\ndelay.lead = \"0s\"", "\nqueues.delivery_limit = 30"]
        .map(|it| topology(&format!("{levels}{it}")));
    let broker = broker(&[&first]);
    assert_eq!(started(&lead, &broker), ("shop.delay.1s".to_owned(), true));
    assert_eq!(started(&limit, &broker), (String::new(), false));
    assert_eq!(started(&first, &broker), (String::new(), true));
}

/// Whichever file is the older one; of a generation, too.
#[test]
fn another_number_of_shards_is_not_added() {
    let file = |shards: u8, limit: u8| {
        let shards = if shards > 1 { format!("shards = {shards}") } else { String::new() };
        let text = format!("delay.levels = [\"1s\"]\nqueues.delivery_limit = {limit}");
        let text =
            format!("name = \"shop\"\n{text}\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n");
        Topology::parse(&format!("{text}{shards}\n")).expect("a good file")
    };
    for there in 1..=3 {
        for wanted in 1..=3 {
            for (limits, generation) in [([20, 20], ""), ([20, 30], ".2")] {
                let [older, newer] = [file(wanted, limits[0]), file(there, limits[1])];
                // Applied before, or never.
                let brokers = [broker(&[&older, &newer]), broker(&[&newer])];
                let same = wanted == there && generation.is_empty();
                for (broker, applied) in brokers.iter().zip([true, false]) {
                    if !applied && wanted == there {
                        continue;
                    }
                    let (in_use, starts) = started(&older, broker);
                    assert!(starts && in_use.is_empty() == same, "{there} {wanted}: {in_use}");
                }
            }
        }
    }
}
