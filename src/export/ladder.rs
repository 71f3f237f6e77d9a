//! The ladder of a topology for publishers in any language: `ladder.json` in `examples`.

use std::time::Duration;

use serde_json::Value;

use crate::{
    text::{json_object, millis},
    topology::Topology,
};

/// The places, smallest unit first, in milliseconds. `None` without a ladder.
pub fn render(topology: &Topology) -> Option<String> {
    let ladder = topology.strategy.ladder()?;
    let places = ladder.places().iter().map(|place| {
        json_object([
            ("exchange", ladder.exchange(*place).into()),
            ("unit_ms", ms(place.unit())),
            ("highest", place.highest().into()),
        ])
    });
    let places: Vec<String> = places.map(|place| format!("    {place}")).collect();
    Some(format!(
        "{{\n  \"max_ms\": {},\n  \"resolution_ms\": {},\n  \"places\": [\n{}\n  ]\n}}\n",
        ms(ladder.max()),
        ms(ladder.resolution()),
        places.join(",\n")
    ))
}

fn ms(time: Duration) -> Value {
    millis(time).into()
}
