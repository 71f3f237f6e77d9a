//! Bars over time, drawn by a template in the units of its view box.

use askama::Template;

/// Units of a bar with the gap beside it.
const STEP: usize = 10;
/// Units of the highest bar.
const HEIGHT: u64 = 100;

/// One value over time.
pub(super) struct Bar {
    pub(super) value: u64,
    /// For whoever points at it.
    pub(super) title: String,
    pub(super) is_hot: bool,
}

/// Bars side by side.
#[derive(Template)]
#[template(path = "chart.html")]
pub(super) struct Chart {
    /// What it says, for whoever does not see it.
    pub(super) says: String,
    /// At its left and right end.
    from: &'static str,
    to: &'static str,
    width: usize,
    bars: Vec<Drawn>,
}

/// A bar in its place.
struct Drawn {
    x: usize,
    y: u64,
    height: u64,
    title: String,
    is_hot: bool,
}

impl Chart {
    pub(super) fn new(says: String, from: &'static str, to: &'static str, bars: Vec<Bar>) -> Self {
        let most = bars.iter().map(|bar| bar.value).max().unwrap_or(0).max(1);
        let width = bars.len() * STEP;
        let bars = bars.into_iter().enumerate().filter(|(_, bar)| bar.value > 0);
        let bars = bars.map(|(at, Bar { value, title, is_hot })| {
            // Anything above zero is seen.
            let height = (value * HEIGHT).div_ceil(most).max(2);
            Drawn { x: at * STEP + 1, y: HEIGHT - height, height, title, is_hot }
        });
        Self { says, from, to, width, bars: bars.collect() }
    }
}
