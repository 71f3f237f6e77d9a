//! Plans as a person reads them: what was applied before, what has happened to the broker since, and the file now.
//!
//! A file is [`SMALL`] with changes, see [`changed`]; what has happened is a list of words, see [`happens`].

use std::{collections::BTreeSet, fmt::Write as _};

use overdue::internals::{
    objects::{Argument, Binding, Exchange, exchange_mark, mark},
    plan::{Clock, DrainStatus, Draining, Plan, Snapshot, Step, diff, removal},
    topology::Topology,
};

use crate::broker_model::{applied, apply, plan};

const SMALL: &str = r#"name = "shop"
delay.levels = ["1s", "30m"]
queues.type = "classic"
timeout = [{ name = "unpaid", after = "30m" }, { name = "unshipped", after = "30m" }]
"#;

const REMOVED: &str = "shop.unshipped";

/// Changes of the file by name.
const FILES: [(&str, &str); 11] = [
    ("small", ""),
    ("quorum", "\"classic\" → \"quorum\"\nqueues.delivery_limit = 20"),
    ("without", r#", { name = "unshipped", after = "30m" } → "#),
    ("without 30m", r#"without; , "30m" → ; 30m → 1s"#),
    ("shards", r#""unshipped" → "unshipped", shards = 2"#),
    (
        "ladder",
        "levels = [\"1s\", \"30m\"] → strategy = \"ladder\"\ndelay.ladder.max = \"90s\"; 30m → 1m",
    ),
    ("plugin", r#"levels = ["1s", "30m"] → strategy = "delayed-exchange""#),
    (
        "compat",
        "queues.type → compat.x-delay = { exchange = \"old\", type = \"direct\" }\nqueues.type",
    ),
    ("limit", "quorum; = 20 → = 30"),
    ("more levels", r#""30m"] → "30m", "45m"]"#),
    ("no lead", "queues.type → delay.lead = \"0s\"\nqueues.type"),
];

pub(crate) fn file(changes: &str) -> Topology {
    let text = changed(SMALL.to_owned(), changes);
    Topology::parse(&text).unwrap_or_else(|findings| panic!("{text}: {findings:?}"))
}

/// Each change is the name of others, or replaces a text: `old → new`.
fn changed(text: String, changes: &str) -> String {
    let changes = changes.split(';').filter(|it| !it.trim().is_empty());
    changes.fold(text, |text, change| {
        if let Some((_, changes)) = FILES.iter().find(|(name, _)| *name == change.trim()) {
            return changed(text, changes);
        }
        let (old, new) = change.trim_start().split_once(" → ").expect("old → new");
        assert!(text.contains(old), "no {old} in {text}");
        text.replace(old, new)
    })
}

/// What is done to a broker, in this order; `?` is a number that is not known.
///
/// - `in QUEUE COUNT`, `held EXCHANGE COUNT`, `consumed QUEUE`, `others QUEUE`
/// - `now SECONDS`; `marked SECONDS`: the queue of `unshipped`
/// - `set NAME PROPERTY VALUE`, `unset QUEUE ARGUMENT`, `copy QUEUE NEW`, `exchange NAME TYPE`
/// - `mark NAME`, `unmark NAME`, `bind SOURCE QUEUE KEY`, `lead SOURCE EXCHANGE`, `unbind QUEUE`
/// - `discard QUEUE`, `applied`: the file now is applied, and what follows happens after that
fn happens(broker: &mut Snapshot, discard: &mut BTreeSet<String>, now: &Topology, event: &str) {
    let words: Vec<&str> = event.split_whitespace().collect();
    let count = |text: &str| text.parse().expect("a number");
    let Snapshot { objects, messages, delayed, .. } = broker;
    match words.as_slice() {
        ["in", queue, "?"] => _ = messages.remove(*queue),
        ["in", queue, waiting] => _ = messages.insert((*queue).to_owned(), count(waiting)),
        ["held", exchange, "?"] => _ = delayed.remove(*exchange),
        ["held", exchange, held] => _ = delayed.insert((*exchange).to_owned(), count(held)),
        ["consumed", queue] => _ = broker.consumed.insert((*queue).to_owned()),
        ["others", queue] => _ = broker.foreign_consumers.insert((*queue).to_owned(), 1),
        ["now", now_s] => broker.clock = Some(Clock { now_s: count(now_s), stays_s: 611 }),
        ["marked", since_s] => {
            let mark = mark("shop", REMOVED).expect("a mark");
            objects.bindings.insert(mark.leaving(count(since_s)));
        }
        ["set", name, property, value] => {
            let argument = value.parse().map_or_else(|_| (*value).into(), Argument::Integer);
            let (kind, durable, arguments) = if let Some(it) = objects.queues.get_mut(*name) {
                (&mut it.kind, &mut it.durable, &mut it.arguments)
            } else {
                let it = objects.exchanges.get_mut(*name).expect(name);
                (&mut it.kind, &mut it.durable, &mut it.arguments)
            };
            match *property {
                "type" => (*value).clone_into(kind),
                "durable" => *durable = *value == "true",
                argument_of => drop(arguments.insert(argument_of.to_owned(), argument)),
            }
        }
        ["unset", queue, argument] => {
            let queue = objects.queues.get_mut(*queue).expect(queue);
            assert!(queue.arguments.remove(*argument).is_some(), "{event}");
        }
        ["copy", queue, new] => {
            let mut queue = objects.queues[*queue].clone();
            (*new).clone_into(&mut queue.name);
            objects.queues.insert(queue.name.clone(), queue);
            messages.insert((*new).to_owned(), 0);
        }
        ["exchange", name, kind] => {
            let like = objects.exchanges.values().next().expect("exchanges").clone();
            let (name, kind) = ((*name).to_owned(), (*kind).to_owned());
            objects.exchanges.insert(name.clone(), Exchange { name, kind, ..like });
        }
        ["mark", name] => {
            let is_queue = objects.queues.contains_key(*name);
            let mark = if is_queue { mark("shop", name) } else { exchange_mark("shop", name) };
            objects.bindings.insert(mark.expect(event));
        }
        ["unmark", name] => objects
            .bindings
            .retain(|it| it.mark_of().is_none() || !["*", it.destination.as_str()].contains(name)),
        ["bind" | "lead", source, destination, key @ ..] => {
            let (source, destination) = ((*source).to_owned(), (*destination).to_owned());
            let (to_queue, routing_key) = (words[0] == "bind", key.concat());
            let binding =
                Binding { source, destination, to_queue, routing_key, ..Binding::default() };
            assert!(objects.bindings.insert(binding), "{event}");
        }
        ["unbind", queue] => {
            objects.bindings.retain(|it| it.destination != *queue || it.mark_of().is_some());
        }
        ["discard", queue] => _ = discard.insert((*queue).to_owned()),
        ["applied"] => *broker = applied(broker, &diff(now, broker, discard)),
        _ => panic!("what is `{event}`?"),
    }
}

/// A line is a case: its name, the file that was applied before, or `-`; what has happened; and the file now, or `-` where the
/// topology is removed. What `overdue plan` prints, what is asked of the broker before it is believed, and whether `--wait` ends.
fn table(cases: &str) -> String {
    let mut page = String::new();
    for case in cases.trim().lines() {
        let cells: Vec<&str> = case.split('|').map(str::trim).collect();
        let [name, before, events, after] = cells[..] else { panic!("{case}") };
        let topology = file(if after == "-" { before } else { after });
        let mut broker = Snapshot::default();
        if before != "-" {
            broker = Snapshot::of(&file(before));
        }
        let mut discard = BTreeSet::new();
        for event in events.split(';').map(str::trim).filter(|it| !it.is_empty()) {
            happens(&mut broker, &mut discard, &topology, event);
        }
        let plan = match after {
            "-" => removal(&topology, &broker, !discard.is_empty()),
            _ => diff(&topology, &broker, &discard),
        };
        let asked: Vec<String> = plan.leaving().into_iter().collect();
        let what = if plan.depends_on_time() { " and the time" } else { "" };
        let ends = if plan.is_at_rest() { "; --wait ends" } else { "" };
        writeln!(page, "## {name}\n{plan}\n[asks {}{what}{ends}]\n", asked.join(" ")).unwrap();
        applied(&broker, &plan);
    }
    page
}

#[test]
fn levels_and_queues() {
    let page = table(
        r#"
first | - | | small
level changed | small | in shop.delay.30m 200000 | 30m → 20m
level changed, not counted | small | in shop.delay.30m ? | 30m → 20m
level changed, draining | small | in shop.delay.30m 3; applied | 30m → 20m
level changed, drained | small | in shop.delay.30m 3; applied; in shop.delay.30m 0 | 30m → 20m
level changed, read by others | small | in shop.delay.30m 3; others shop.delay.30m | 30m → 20m
queue type | small | in shop.unpaid 1 | quorum
every difference | small | set shop.unpaid type quorum; set shop.unpaid durable false; unset shop.unpaid x-dead-letter-exchange; set shop.unpaid x-max-length 10 | small
a number as text | small | set shop.delay.30m x-message-ttl 1798000ms | small
dead letters elsewhere | small | in shop.delay.30m 3; set shop.delay.30m x-dead-letter-exchange elsewhere | small
dead letters nowhere | small | in shop.delay.30m 3; unset shop.delay.30m x-dead-letter-exchange | small
no TTL | small | in shop.delay.30m 3; unset shop.delay.30m x-message-ttl | small
older parking lot | small | in shop.parked 2; set shop.parked x-max-length 7 | small
exchange differs | small | set shop.in type direct; set shop.in alternate-exchange elsewhere | small
plugin's exchange to be taken over | compat | set old type x-delayed-message; set old x-delayed-type direct | compat
plugin's exchange differs | plugin | set shop.delayed x-delayed-type direct | plugin
a newer generation fits | small | copy shop.delay.30m shop.delay.30m.2; set shop.delay.30m type quorum; mark shop.delay.30m.2 | small
no generation fits | small | copy shop.delay.30m shop.delay.30m.10; set shop.delay.30m type quorum; set shop.delay.30m.10 type quorum; mark shop.delay.30m.10 | small
a timeout called like an exchange | "unpaid" → "dlx" | set shop.dlx x-max-length 10 | "unpaid" → "dlx"
a timeout called like a ladder | "unpaid" → "ladder" | set shop.ladder x-max-length 10 | "unpaid" → "ladder"
discards a level | small | in shop.delay.30m 3; discard shop.delay.30m | 30m → 20m
discards a queue in use | small | discard shop.unpaid | without
discards a replaced queue | small | in shop.unpaid 3; discard shop.unpaid | quorum
discards a queue of others | small | copy shop.unpaid shop.other; discard shop.other | small
"#,
    );
    insta::assert_snapshot!(page);
}

#[test]
fn ladders_and_strategies() {
    let page = table(
        r"
first ladder | - | | ladder
levels to a ladder | small | | ladder
ladder to levels | ladder | in shop.ladder.delay.30s 7 | small
ladder to levels, draining | ladder | in shop.ladder.delay.30s 7; applied | small
ladder to levels, drained | ladder | in shop.ladder.delay.30s 7; applied; in shop.ladder.delay.30s 0 | small
ladder of another type | ladder | | ladder; quorum
ladder without marks | ladder | unmark * | ladder
plugin to levels | plugin | held shop.delayed 0 | small
plugin to levels, holds | plugin | held shop.delayed 5 | small
plugin to levels, held, not counted | plugin | held shop.delayed ? | small
plugin to levels, queue replaced | plugin | held shop.delayed 3 | quorum
plugin to levels, timeout discarded | plugin | held shop.delayed 3; in shop.unshipped 2; discard shop.unshipped | without
shards | small | in shop.unshipped 2 | shards
shards, applied | small | in shop.unshipped 2; applied | shards
no shards | shards | in shop.unshipped.shard-1 3 | small
no shards, applied | shards | in shop.unshipped.shard-1 3; applied | small
no shards, read by others | shards | others shop.unshipped.shard-1 | small
no shards, fed by others | shards | lead legacy shop.unshipped.shards | small
an exchange named like shards | small | exchange shop.unpaid.shards x-consistent-hash; lead shop.dlx shop.unpaid.shards #.unpaid | small
a marked exchange of another type | small | exchange shop.unpaid.shards topic; lead shop.dlx shop.unpaid.shards #.unpaid; mark shop.unpaid.shards | small
[compat.x-delay] gone | compat | in shop.compat 2 | small
",
    );
    insta::assert_snapshot!(page);
}

#[test]
fn removed_timeouts() {
    let page = table(
        r"
no clock | small | | without
it is marked | small | now 1000; in shop.unshipped 12 | without
applied | small | now 1000; applied | without
the time has almost passed | small | now 1000; applied; now 3408 | without
the time has passed | small | now 1000; applied; now 3409 | without
passed, messages in it | small | now 1000; applied; now 3409; in shop.unshipped 7 | without
passed, consumed | small | now 1000; applied; now 3409; in shop.unshipped 7; consumed shop.unshipped | without
passed, not counted | small | now 1000; applied; now 3409; in shop.unshipped ? | without
passed, fed by others | small | now 1000; bind legacy shop.unshipped; applied; now 3409 | without
a mark from later | small | now 1000; marked 1500 | without
back in the file | small | now 1000; marked 1000 | small
discarded | small | in shop.unshipped 12; discard shop.unshipped | without
discarded, empty | small | discard shop.unshipped | without
discarded, not counted | small | now 1000; in shop.unshipped ?; discard shop.unshipped | without
read by others | small | others shop.unshipped | without
an exchange of others has its name | small | now 1000; lead legacy shop.unshipped | without
unbound, and a message came in | small | in shop.unshipped 1; unbind shop.unshipped | without
an older generation | small | now 1000; copy shop.unshipped shop.unshipped.2; mark shop.unshipped.2; in shop.unshipped.2 1; set shop.unshipped.2 x-max-length 7 | without
shards | shards | now 1000; in shop.unshipped.shard-1 4 | without
shards, the time has passed | shards | now 1000; applied; now 3409 | without
a level goes, too | small | now 1000; in shop.delay.30m 40 | without 30m
a level goes, too, and it is marked | small | now 1000; in shop.delay.30m 40; marked 995 | without 30m
a level has gone, too | small | now 1000; applied; applied | without 30m
a level without its mark counts | small | now 1000; unmark shop.delay.30m; set shop.delay.30m x-max-length 7 | without
a ladder | ladder | now 1000; in shop.ladder.delay.30s 2 | without; ladder
the plugin | plugin | now 1000; held shop.delayed 0 | plugin; without
the plugin goes, too | plugin | now 1000; held shop.delayed 1 | without
",
    );
    insta::assert_snapshot!(page);
}

#[test]
fn whose_a_queue_is() {
    let page = table(
        r#"
a level's form, no mark | small | copy shop.delay.30m shop.delay.77s; bind shop.in shop.delay.77s 77s.* | small
a level's form, marked | small | copy shop.delay.30m shop.delay.77s; bind shop.in shop.delay.77s 77s.*; mark shop.delay.77s | small
a timeout's form, no mark | small | copy shop.unpaid shop.refunds; bind shop.dlx shop.refunds #.refunds | small
a generation's form, no mark | small | copy shop.unpaid shop.unpaid.2; set shop.unpaid.2 x-max-length 7; bind shop.dlx shop.unpaid.2 #.unpaid | small
a shard's form, no mark | small | copy shop.unpaid shop.unpaid.shard-7; bind shop.dlx shop.unpaid.shard-7 #.unpaid | small
a parking lot's form, no mark | small | copy shop.parked shop.parked.2; set shop.parked.2 x-max-length 7; bind shop.park shop.parked.2 | small
only the prefix | small | copy shop.parked shop.audit; bind shop.events shop.audit #; copy shop.unpaid shop.eu.unpaid; set shop.eu.unpaid x-dead-letter-exchange shop.eu.park; bind shop.dlx shop.eu.unpaid # | small
marked, and fed by others | small | copy shop.delay.30m shop.delay.77s; mark shop.delay.77s; bind legacy shop.delay.77s # | small
marked, and read by others | small | copy shop.delay.30m shop.delay.77s; mark shop.delay.77s; others shop.delay.77s | small
lost marks | small | unmark shop.delay.30m; unmark shop.in | small
lost a mark, and differs | small | unmark shop.delay.30m; set shop.delay.30m x-max-length 7 | small
another topology | "shop" → "mall" | in mall.unpaid 3 | small
another topology, consumed | "shop" → "mall" | consumed mall.unpaid | small
a name that is a part of ours | "shop" → "shop.delay"; "unpaid" → "1s" | consumed shop.delay.1s | small
"#,
    );
    insta::assert_snapshot!(page);
}

#[test]
fn removed_topologies() {
    let page = table(
        r"
free | small | | -
messages wait | small | in shop.delay.30m 7; in shop.parked ? | -
messages wait, discarded | small | in shop.delay.30m 7; discard all | -
not counted, discarded | small | in shop.parked ?; discard all | -
in use | small | consumed shop.unpaid; bind legacy shop.unpaid #; lead legacy shop.dlx # | -
others lead to it | small | copy shop.parked theirs; set theirs x-dead-letter-exchange shop.in; copy shop.delay.30m shop.delay.2m | -
nothing is marked | small | unmark * | -
shards | shards | | -
a ladder | ladder | | -
",
    );
    insta::assert_snapshot!(page);
}

/// Seconds of lead are of no interest to a person who waits for minutes.
#[test]
fn how_long_a_queue_drains_is_rounded_up() {
    let exact = ["750ms", "9999ms", "10001ms", "58500ms", "599500ms", "600001ms", "1798s"];
    let said = exact.map(|within| {
        let drains = DrainStatus::WhenDue { within: within.parse().expect("a TTL") };
        let line = Draining { queue: String::new(), messages: None, drains }.to_string();
        line.rsplit(' ').next().map(str::to_owned)
    });
    let rounded = ["750ms", "9999ms", "11s", "59s", "10m", "11m", "30m"];
    assert_eq!(said, rounded.map(|it| Some(it.to_owned())));
}

/// The queues in use for which a worker that starts adds nothing, since its file may be older than what was applied, or newer; what
/// the others add.
#[test]
fn a_worker_that_starts() {
    let cases = r"
its file is applied | small | | small
a removed level | small, 30m → 45m | | small
a removed level, in its second generation | no lead, small, 30m → 45m | | small
another level | 30m → 45m | | small
one level less | without 30m | | without
a removed timeout | small | | without
a ladder that is taken down | ladder, small | | small
one level more | more levels | | small
one level more, one unmarked | more levels | unmark shop.delay.30m | small
a retired generation | quorum, limit | | quorum
a retired generation with another lead | no lead, small | | no lead
another queue type | small, quorum | | small
another lead, not applied | small | | no lead
another limit, not applied | quorum | | limit
another argument | small | set shop.delay.1s x-max-length 800 | small
a removed level of [compat.x-delay] | compat, compat; 30m → 20m | | compat
[compat.x-delay] is new to the file, and a level | small | | compat; 30m → 20m
shards, there is one queue | small | | shards
one queue, there are shards | shards | | small
more shards | shards | | shards; = 2 → = 3
fewer shards | shards; = 2 → = 3 | | shards
a shard is gone | shards | unbind shop.unshipped.shard-0 | shards
";
    let mut page = String::new();
    for case in cases.trim().lines() {
        let cells: Vec<&str> = case.split('|').map(str::trim).collect();
        let [name, before, event, now] = cells[..] else { panic!("{case}") };
        let mut broker = Snapshot::default();
        for file in before.split(", ").map(file) {
            broker = applied(&broker, &plan(&file, &broker));
            broker.messages.values_mut().for_each(|messages| *messages = 1);
        }
        let now = file(now);
        if !event.is_empty() {
            happens(&mut broker, &mut BTreeSet::new(), &now, event);
        }
        let plan = plan(&now, &broker);
        let in_use = plan.takes_out_of_use();
        let adds = plan.steps.iter().filter(|it| it.adds() && in_use.is_empty());
        let adds: Vec<String> = adds.map(|it| it.change.to_string()).collect();
        writeln!(page, "{name}: in use {in_use:?}, adds {adds:?}").unwrap();
    }
    insta::assert_snapshot!(page);
}

/// By this a worker knows that it needs no rights that it did not need before marks.
#[test]
fn a_step_that_only_says_whose_a_queue_is_is_told_from_the_others() {
    let marks = |plan: &Plan| plan.steps.iter().filter(|it| it.marks(&file(""))).count();
    let first = plan(&file(""), &Snapshot::default());
    assert!(first.steps.len() > 1 && marks(&first) == 1, "{first}");
    let mut unmarked = Snapshot::of(&file(""));
    unmarked.objects.bindings.retain(|it| it.mark_of().is_none());
    let adopts = plan(&file(""), &unmarked);
    assert!(adopts.steps.len() > 1 && marks(&adopts) == adopts.steps.len(), "{adopts}");
}

/// Their exchange is bound last: until then nothing comes to shards that are there.
#[test]
fn shards_that_are_half_made_are_made() {
    let whole = plan(&file("shards"), &Snapshot::default());
    for done in 0..whole.steps.len() {
        let mut broker = Snapshot::default();
        whole.changes().take(done).for_each(|change| apply(&mut broker, change));
        let rest = plan(&file("shards"), &broker);
        assert!(rest.takes_out_of_use().is_empty() && rest.steps.iter().all(Step::adds), "{rest}");
    }
}
