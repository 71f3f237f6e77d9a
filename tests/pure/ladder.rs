//! Ladders that operators would configure: their places, paths, names, objects, numbers and errors.

use std::time::Duration;

use overdue::internals::{
    ladder::{Ends, Ladder, LadderSpec, MAX_MS, MAX_QUEUES, Path, Rounding},
    objects::Objects,
    topology::level,
};

pub(crate) const DAY: Duration = Duration::from_hours(24);

/// The ladder of `orders` with at most `max_queues` queues, and a resolution of one second.
pub(crate) fn ladder(max: Duration, max_queues: Option<u32>) -> Ladder {
    let spec = LadderSpec { max_queues, ..LadderSpec::up_to(max) };
    Ladder::compile("orders", &spec).expect("a good spec")
}

/// The ladder's objects in the topology `orders`.
pub(crate) fn objects(ladder: &Ladder) -> Objects {
    let (due_exchange, park_exchange) = ("orders.dlx", "orders.park");
    ladder.objects(&Ends { due_exchange, park_exchange, quorum: true })
}

/// `29 x 1d`, largest first.
fn places(ladder: &Ladder) -> Vec<String> {
    let places = ladder.places().iter().rev();
    places.map(|place| format!("{} x {:?}", place.highest(), place.unit())).collect()
}

/// `orders.ladder.10m 0.0.7.3.unpaid: 30m + 7m = 2220s`
fn shown(path: &Path) -> String {
    let hold = |queue: &str| queue.rsplit('.').next().expect("a hold").to_owned();
    let holds: Vec<String> = path.hops.iter().map(|hop| hold(&hop.queue)).collect();
    let total = path.total();
    format!("{} {}: {} = {total:?}", path.exchange, path.routing_key, holds.join(" + "))
}

fn line(object: impl serde::Serialize) -> String {
    serde_json::to_string(&object).expect("JSON")
}

#[test]
fn round_delays_take_one_hop() {
    let ladder = ladder(30 * DAY, None);
    for text in ["1s", "30s", "5m", "30m", "1h", "2h", "12h", "1d", "14d", "30d"] {
        let delay: level::Ttl = text.parse().expect("a duration");
        let path = ladder.enter(delay.as_duration(), Rounding::Up, "unpaid").expect("a path");
        let hops: Vec<&str> = path.hops.iter().map(|hop| hop.queue.as_str()).collect();
        assert_eq!(hops, [format!("orders.ladder.delay.{text}")]);
        assert_eq!(path.hops[0].hold, delay.as_duration());
    }
}

#[test]
fn paths_read_like_this() {
    let round = ladder(30 * DAY, None);
    let few = ladder(DAY, Some(100));
    let paths = [
        (&round, 37 * 60_000, Rounding::Up),
        (&round, 1, Rounding::Up),
        (&round, 1, Rounding::Down),
        (&round, 0, Rounding::Up),
        (&round, 90_061_001, Rounding::Up),
        (&round, 90_061_001, Rounding::Down),
        (&few, 37 * 60_000, Rounding::Up),
        (&few, 86_400_000, Rounding::Up),
    ];
    let paths = paths.map(|(ladder, ms, rounding)| {
        let path = ladder.enter(Duration::from_millis(ms), rounding, "unpaid").expect("a path");
        format!("{ms} ms {rounding:?}: {}", shown(&path))
    });
    insta::assert_snapshot!(paths.join("\n"));
}

#[test]
fn summaries_read_like_this() {
    let hour = Duration::from_hours(1);
    let tenths = LadderSpec { resolution: Duration::from_millis(100), ..LadderSpec::up_to(hour) };
    let ladders = [
        ladder(Duration::from_secs(1), None),
        // Of ladders with equally many places, the one that more delays pass in fewer hops.
        ladder(Duration::from_secs(71), Some(60)),
        // The highest place ends at the maximum.
        ladder(Duration::from_mins(45), None),
        ladder(hour, None),
        Ladder::compile("orders", &tenths).expect("a good spec"),
        ladder(30 * DAY, None),
        // A larger budget gives fewer hops.
        ladder(30 * DAY, Some(81)),
        ladder(30 * DAY, Some(130)),
        ladder(30 * DAY, Some(MAX_QUEUES)),
        ladder(Duration::from_millis(MAX_MS), None),
    ];
    let lines: Vec<String> = ladders
        .iter()
        .map(|ladder| format!("{}\n  {}", ladder.summary(), places(ladder).join(", ")))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    assert_eq!(MAX_MS, level::MAX_TTL_MS, "the broker has one limit");
}

/// A summary's numbers equal a count of all paths.
#[test]
fn a_summary_counts_right() {
    for (max_s, queues) in [(1, None), (59, None), (60, None), (71, None), (4_000, None)]
        .into_iter()
        .chain([(59, Some(59)), (71, Some(16)), (4_000, Some(80)), (4_000, Some(130))])
    {
        let ladder = ladder(Duration::from_secs(max_s), queues);
        let path = |s| ladder.enter(Duration::from_secs(s), Rounding::Up, "w").expect("a path");
        let hops: Vec<usize> = (1..=max_s).map(|s| path(s).hops.len()).collect();
        let summary = ladder.summary();
        assert_eq!(Some(&summary.worst_hops), hops.iter().max(), "{max_s} s, {queues:?}");
        let sum = u32::try_from(hops.iter().sum::<usize>()).expect("few");
        let average = f64::from(sum) / f64::from(u32::try_from(max_s).expect("few"));
        assert!((summary.average_hops - average).abs() < 1e-9, "{max_s} s, {queues:?}: {average}");
    }
}

#[test]
fn the_objects_of_a_ladder_read_like_this() {
    let objects = objects(&ladder(Duration::from_secs(25), None));
    let exchanges = objects.exchanges.values().map(line);
    let queues = objects.queues.values().map(line);
    let bindings = objects.bindings.iter().map(line);
    insta::assert_snapshot!(exchanges.chain(queues).chain(bindings).collect::<Vec<_>>().join("\n"));
}

/// Classic queues have only at-most-once dead-lettering; they refuse the other two arguments.
#[test]
fn classic_queues_have_only_ttl_and_dead_letter_exchange() {
    let ends = Ends { due_exchange: "orders.dlx", park_exchange: "orders.park", quorum: false };
    for queue in ladder(DAY, None).objects(&ends).queues.values() {
        let keys: Vec<&str> = queue.arguments.keys().map(String::as_str).collect();
        assert_eq!(keys, ["x-dead-letter-exchange", "x-message-ttl"]);
        assert_eq!(queue.kind, "classic");
    }
}

#[test]
fn what_is_refused_reads_like_this() {
    let hour = Duration::from_hours(1);
    let spec = LadderSpec::up_to(hour);
    let specs = [
        LadderSpec { max_queues: Some(28), ..spec },
        LadderSpec { max_queues: Some(0), ..spec },
        LadderSpec { resolution: Duration::from_millis(250), ..spec },
        LadderSpec { resolution: Duration::ZERO, ..spec },
        LadderSpec { max: Duration::ZERO, ..spec },
        LadderSpec { max: Duration::from_millis(1_500), ..spec },
        LadderSpec { max: Duration::from_millis(MAX_MS + 1_000), ..spec },
        LadderSpec { max: Duration::MAX, ..spec },
    ];
    let mut texts: Vec<String> = specs
        .iter()
        .map(|spec| Ladder::compile("orders", spec).expect_err("a bad spec").to_string())
        .collect();
    let ladder = ladder(hour, None);
    let long = "w".repeat(248);
    let late = [(3_600_001, "unpaid"), (5, ""), (5, "a.b"), (3_599_000, &long)];
    texts.extend(late.map(|(ms, word)| {
        let late = Duration::from_millis(ms);
        ladder.enter(late, Rounding::Down, word).expect_err("no path").to_string()
    }));
    assert!(ladder.enter(Duration::MAX, Rounding::Up, "unpaid").is_err());
    insta::assert_snapshot!(texts.join("\n"));
}

/// A word of 247 bytes after four digits and four dots is a key of 255 bytes.
#[test]
fn a_routing_key_may_have_255_bytes() {
    let ladder = ladder(Duration::from_secs(3_599), None);
    let longest = "w".repeat(247);
    let path = ladder.enter(ladder.max(), Rounding::Up, &longest).expect("a path");
    assert_eq!(path.routing_key.len(), 255);
}
