//! Bars over time, which a template draws in the units of its view box.

use std::time::Duration;

use askama::Template;

use super::overview::number;
use crate::{
    status::{DueSoon, LastHour},
    text::{about, noun},
};

/// Units of a bar and the gap next to it.
const STEP: usize = 10;
/// Units of the highest bar.
const HEIGHT: u64 = 100;

#[derive(Template)]
#[template(path = "chart.html")]
pub(super) struct Chart {
    /// The chart as text, for people who do not see it.
    pub(super) says: String,
    /// Labels at the left and right end.
    from: &'static str,
    to: String,
    width: usize,
    bars: Vec<Bar>,
}

struct Bar {
    x: usize,
    y: u64,
    height: u64,
    /// Tooltip.
    title: String,
    is_hot: bool,
}

impl Chart {
    /// Orders closed in each minute of the last hour.
    pub(super) fn closed(hour: &LastHour) -> Self {
        let ago = (0..hour.minutes.len()).rev().map(|ago| format!("{ago}m ago"));
        let most = number(hour.minutes.iter().copied().max().unwrap_or(0));
        let all = orders(hour.all.orders);
        let says = format!("{all} closed in the last hour; at most {most} in a minute");
        Self::new(says, ("60m ago", "now".to_owned()), &hour.minutes, ago, false)
    }

    /// Orders by the time until they are due. The highest bar is marked.
    pub(super) fn due(soon: &DueSoon) -> Self {
        let DueSoon { hours, bucket_s, buckets, .. } = soon;
        let time = |seconds| about(Duration::from_secs(seconds));
        let begins = (0_u64..).map(|at| format!("in {}", time(at * bucket_s)));
        let most = number(buckets.iter().copied().max().unwrap_or(0));
        let more = if soon.more { "more than " } else { "" };
        let (all, width) = (orders(buckets.iter().sum()), time(*bucket_s));
        let says = format!("{more}{all} in the next {hours} h; at most {most} in {width}");
        Self::new(says, ("now", format!("in {hours} h")), buckets, begins, true)
    }

    /// A bar for each number above zero.
    fn new(
        says: String,
        (from, to): (&'static str, String),
        numbers: &[u64],
        times: impl Iterator<Item = String>,
        marks_most: bool,
    ) -> Self {
        let most = numbers.iter().copied().max().unwrap_or(0).max(1);
        let bars = numbers.iter().zip(times).enumerate().filter(|(_, (number, _))| **number > 0);
        let bars = bars.map(|(at, (number, time))| {
            // A small number still gets a visible bar.
            let height = (number * HEIGHT).div_ceil(most).max(2);
            let title = format!("{time}: {}", orders(*number));
            let is_hot = marks_most && *number == most;
            Bar { x: at * STEP + 1, y: HEIGHT - height, height, title, is_hot }
        });
        Self { says, from, to, width: numbers.len() * STEP, bars: bars.collect() }
    }
}

fn orders(count: u64) -> String {
    format!("{} {}", number(count), noun(count, "order"))
}
