//! The golden vectors, against which publishers in other languages are tested.

use std::{fs, path::Path, time::Duration};

use overdue::internals::ladder::{DelayError, Ladder, LadderSpec, Rounding};
use serde_json::{Value, json};

use crate::ladder::DAY;

const FILE: &str = "examples/ladder-vectors.json";
const HOUR: Duration = Duration::from_hours(1);

/// Ladders, with significant delays in milliseconds.
fn ladders() -> Vec<(&'static str, LadderSpec, Vec<i64>)> {
    let round = LadderSpec::up_to(30 * DAY);
    let tenths = LadderSpec { resolution: Duration::from_millis(100), ..LadderSpec::up_to(HOUR) };
    let few = LadderSpec { max_queues: Some(22), ..LadderSpec::up_to(Duration::from_secs(130)) };
    let minutes = LadderSpec { max_queues: Some(74), ..LadderSpec::up_to(HOUR) };
    let often = [300_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 86_400_000, 1_209_600_000];
    let edges = [0, 1, 999, 1_000, 1_001, 9_000, 10_000, 59_999, 60_000, 61_000, 2_220_000];
    let long = [3_599_000, 86_399_000, 90_061_001, 2_591_999_000, 2_591_999_001, 2_592_000_000];
    vec![
        ("round, up to 30 days", round, [&edges[..], &often, &long, &[-1, 2_592_000_001]].concat()),
        (
            "round, to a tenth of a second",
            tenths,
            vec![0, 50, 100, 1_050, 3_599_950, 3_600_000, 3_600_001],
        ),
        (
            "22 queues, up to 130 seconds",
            few,
            vec![0, 1_001, 9_999, 59_001, 129_001, 130_000, -5, 130_001],
        ),
        (
            "74 queues, up to an hour",
            minutes,
            vec![0, 1_001, 59_999, 2_220_000, 3_599_001, 3_600_000, -5, 3_600_001],
        ),
    ]
}

fn places(ladder: &Ladder) -> Vec<Value> {
    let place = |place| {
        let exchange = ladder.exchange(place);
        json!({"exchange": exchange, "unit_ms": ms(place.unit()), "highest": place.highest()})
    };
    ladder.places().iter().copied().map(place).collect()
}

fn case(ladder: &Ladder, delay_ms: i64, rounding: Rounding) -> Value {
    let mut case =
        json!({"delay_ms": delay_ms, "rounding": format!("{rounding:?}").to_lowercase()});
    let delay = u64::try_from(delay_ms).map(Duration::from_millis);
    let result = match delay.map(|delay| ladder.enter(delay, rounding, "unpaid")) {
        Err(_) => json!({"error": "below zero"}),
        Ok(Ok(path)) => json!({
            "exchange": path.exchange,
            "routing_key": path.routing_key,
            "hops": path.hops.len(),
            "queues": path.hops.iter().map(|hop| hop.queue.as_str()).collect::<Vec<_>>(),
            "holds_ms": path.hops.iter().map(|hop| ms(hop.hold)).collect::<Vec<_>>(),
            "total_ms": ms(path.total()),
        }),
        Ok(Err(DelayError::TooLong { .. })) => json!({"error": "too long"}),
        Ok(Err(error)) => panic!("{error}"),
    };
    let fields = case.as_object_mut().expect("an object");
    fields.extend(result.as_object().expect("an object").clone());
    case
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("small")
}

/// The vectors, with a line per place and per case.
fn vectors() -> String {
    let lines = |values: Vec<Value>| {
        let lines: Vec<String> = values.iter().map(|value| format!("      {value}")).collect();
        lines.join(",\n")
    };
    let ladders = ladders().into_iter().map(|(about, spec, delays)| {
        let ladder = Ladder::compile("orders", &spec).expect("a good spec");
        let both = [Rounding::Down, Rounding::Up];
        let cases = delays.iter().flat_map(|ms| both.map(|rounding| case(&ladder, *ms, rounding)));
        let (places, cases) = (lines(places(&ladder)), lines(cases.collect()));
        let (max, resolution) = (ms(ladder.max()), ms(ladder.resolution()));
        format!(
            "  {{\n    \"about\": \"{about}\",\n    \"max_ms\": {max},\n    \"resolution_ms\": {resolution},\n    \
             \"word\": \"unpaid\",\n    \"places\": [\n{places}\n    ],\n    \"cases\": [\n{cases}\n    ]\n  }}"
        )
    });
    format!("[\n{}\n]\n", ladders.collect::<Vec<_>>().join(",\n"))
}

/// `INSTA_UPDATE=always` writes the file, like snapshots. A change of the file breaks existing publishers.
#[test]
fn the_vectors_in_the_repository_are_those_of_the_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let vectors = vectors();
    serde_json::from_str::<Value>(&vectors).expect("JSON");
    #[expect(clippy::disallowed_methods, reason = "the tests have no settings")]
    let update = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    if update {
        fs::write(&file, &vectors).expect("writable");
    }
    let kept = fs::read_to_string(&file).expect("the file");
    let same = kept == vectors;
    let differs = kept.lines().zip(vectors.lines()).find(|(kept, made)| kept != made);
    assert!(same, "{FILE} has, and the code makes:\n{differs:#?}");
}
