//! What a worker that starts leaves out of a plan: its file may be older than what was applied, or newer.

use overdue::internals::{
    objects::{Argument, Binding},
    plan::{Change, Plan, Reason, Snapshot},
    topology::Topology,
};

use crate::broker_model::{applied, apply, plan};

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

/// What workers with the newer file do not look for is not added, be it for the first time or again.
#[test]
fn a_level_is_added_unless_one_that_the_file_does_not_know_is_in_use() {
    let levels = |levels: &str| topology(&format!("delay.levels = [{levels}]"));
    let file = levels("\"1s\", \"30m\"");
    let mut another = plan(&file, &broker(&[&levels("\"1s\", \"45m\"")]));
    let left = another.leave_other_levels(&file);
    assert_eq!(
        left,
        Some([["shop.delay.30m"], ["shop.delay.45m"]].map(|it| it.map(str::to_owned).into()))
    );
    assert_eq!(adds(&another), [""; 0], "{another}");
    let mut fewer = plan(&file, &broker(&[&levels("\"1s\"")]));
    let before = fewer.clone();
    assert_eq!(fewer.leave_other_levels(&file), None);
    assert_eq!((fewer.steps.len(), fewer), (3, before));
    // It is there, and has no mark.
    let mut unmarked = broker(&[&levels("\"1s\", \"30m\", \"45m\"")]);
    let is_its_mark = |it: &Binding| it.destination == "shop.delay.30m" && it.mark_of().is_some();
    unmarked.objects.bindings.retain(|it| !is_its_mark(it));
    let mut adopts = plan(&file, &unmarked);
    assert_eq!((adopts.leave_other_levels(&file), adds(&adopts).len()), (None, 1), "{adopts}");
}

/// What is left out: the queues that stay in use, and whether the worker starts, with nothing to add.
fn started(file: &Topology, broker: &Snapshot) -> (String, bool) {
    let mut plan = plan(file, broker);
    let in_use: Vec<String> = plan.leave_successors(file).into_iter().collect();
    assert!(in_use.iter().all(|queue| broker.objects.queues.contains_key(queue)), "{in_use:?}");
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

/// An exchange is another thing, whatever its name is.
#[test]
fn an_exchange_that_has_the_name_of_a_queue_in_use_is_bound() {
    let file = |limit: u8| {
        let ladder = "delay.strategy = \"ladder\"\ndelay.ladder.max = \"9s\"";
        let text = format!(
            "name = \"shop\"\n{ladder}\nqueues.delivery_limit = {limit}\n\
             timeout = [{{ name = \"dlx\", after = \"1s\" }}]\n"
        );
        Topology::parse(&text).expect("a good file")
    };
    let [older, newer] = [20, 30].map(file);
    let mut broker = broker(&[&older, &newer]);
    broker.objects.bindings.retain(|it| it.to_queue || it.destination != "shop.dlx");
    let mut plan = plan(&older, &broker);
    assert_eq!(plan.leave_successors(&older), ["shop.dlx.2".to_owned()].into());
    assert_eq!(adds(&plan), ["+ binding   shop.ladder.1s -> shop.dlx  (0.#)"]);
}

/// As before, where the replaced queue is of a level that a newer file has removed.
#[test]
fn with_another_lead_a_worker_starts_although_the_queue_is_out_of_use() {
    let file = |levels: &str, lead: &str| {
        topology(&format!("delay.levels = [\"1s\"{levels}]\ndelay.lead = \"{lead}\""))
    };
    let [first, newer] = [", \"30m\"", ""].map(|levels| file(levels, "0s"));
    let older = file(", \"30m\"", "100ms");
    let both = "shop.delay.1s shop.delay.30m".to_owned();
    assert_eq!(started(&older, &broker(&[&first, &newer])), (both, true));
}

/// A lead is less than half of each level.
#[test]
fn what_differs_in_more_than_the_lead_keeps_a_worker_from_starting() {
    let file = topology("delay.levels = [\"1s\"]");
    let starts = |queue: &str, key: &str, value: i64| {
        let mut broker = broker(&[&file]);
        let queue = broker.objects.queues.get_mut(queue).expect("there");
        queue.arguments.insert(key.to_owned(), Argument::Integer(value));
        started(&file, &broker).1
    };
    for ms in [500, 749, 751, 1_000] {
        assert!(starts("shop.delay.1s", "x-message-ttl", ms), "{ms}");
    }
    for (queue, key, value) in [
        ("shop.delay.1s", "x-message-ttl", 499),
        ("shop.delay.1s", "x-message-ttl", 1_001),
        ("shop.delay.1s", "x-max-length", 800),
        ("shop.unpaid", "x-message-ttl", 800),
    ] {
        assert!(!starts(queue, key, value), "{queue} {key} {value}");
    }
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

/// Their exchange is bound last: until then nothing comes to those that are there.
#[test]
fn shards_that_are_half_made_are_made() {
    let unpaid = "[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\nshards = 3\n";
    let file = Topology::parse(&format!("name = \"shop\"\ndelay.levels = [\"1s\"]\n{unpaid}"));
    let file = file.expect("a good file");
    let whole = plan(&file, &Snapshot::default());
    for done in 0..whole.steps.len() {
        let mut broker = Snapshot::default();
        whole.changes().take(done).for_each(|change| apply(&mut broker, change));
        let mut rest = plan(&file, &broker);
        let before = rest.clone();
        assert_eq!(rest.leave_successors(&file), [].into(), "{before}");
        assert_eq!(rest, before);
    }
}

/// By this a worker knows that it needs no rights that it did not need before marks.
#[test]
fn a_step_that_only_says_whose_a_queue_is_is_told_from_the_others() {
    let file = topology("delay.levels = [\"1s\"]");
    let marks = |plan: &Plan| plan.steps.iter().filter(|it| it.marks(&file)).count();
    let first = plan(&file, &Snapshot::default());
    assert!(first.steps.len() > 1 && marks(&first) == 1, "{first}");
    let mut unmarked = Snapshot::of(&file);
    unmarked.objects.bindings.retain(|it| it.mark_of().is_none());
    let adopts = plan(&file, &unmarked);
    assert!(adopts.steps.len() > 1 && marks(&adopts) == adopts.steps.len(), "{adopts}");
    let more = topology("delay.levels = [\"1s\", \"2s\"]");
    let removes = plan(&file, &Snapshot::of(&more));
    assert!(!removes.steps.is_empty() && marks(&removes) == 0, "{removes}");
}
