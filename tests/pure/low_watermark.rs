//! The low watermark of a table, above which a worker reads.

use std::time::{Duration, Instant};

use overdue::internals::low_watermark::LowWatermark;

/// Interval of full scans.
const EVERY: Duration = Duration::from_mins(1); // data: given to the watermark

fn looked(watermark: &mut LowWatermark, first: Option<i64>, writers: &[&str]) -> i64 {
    watermark.looked(first, writers.iter().map(ToString::to_string).collect());
    watermark.row()
}

#[test]
fn a_look_at_everything_is_due_at_once_and_then_once_a_minute() {
    let (mut watermark, now) = (LowWatermark::default(), Instant::now());
    assert!(watermark.is_due(now, EVERY));
    assert!(!watermark.is_due(now + EVERY / 2, EVERY));
    assert!(watermark.is_due(now + EVERY, EVERY));
    assert!(!watermark.is_due(now + EVERY, EVERY));
    watermark.look_soon();
    assert!(watermark.is_due(now + EVERY, EVERY));
}

#[test]
fn the_watermark_is_the_last_row_of_the_look_before() {
    let mut watermark = LowWatermark::default();
    watermark.saw(500);
    assert_eq!(looked(&mut watermark, None, &[]), 0);
    watermark.saw(700);
    assert_eq!(looked(&mut watermark, None, &[]), 500);
    assert_eq!(looked(&mut watermark, Some(800), &[]), 700, "rows up to 800 are seen");
    assert_eq!(looked(&mut watermark, Some(800), &[]), 800);
    assert_eq!(looked(&mut watermark, Some(1_000), &[]), 800);
}

/// A row of a transaction that was open must be read before later events of its order.
#[test]
fn it_rises_after_the_transactions_that_were_open_have_ended_and_everything_was_looked_at_again() {
    let mut watermark = LowWatermark::default();
    watermark.saw(500);
    looked(&mut watermark, None, &["1/7", "2/9"]);
    assert_eq!(looked(&mut watermark, None, &["1/7", "3/1"]), 0, "one is still open");
    watermark.saw(900);
    assert_eq!(looked(&mut watermark, None, &["4/2"]), 0, "it ended after the look, perhaps");
    assert_eq!(looked(&mut watermark, None, &["5/1"]), 500, "that look has found what they wrote");
}

/// A failover can give ids out again.
#[test]
fn a_row_below_the_watermark_makes_everything_begin_again() {
    let (mut watermark, now) = (LowWatermark::default(), Instant::now());
    assert!(watermark.is_due(now, EVERY));
    watermark.saw(500);
    looked(&mut watermark, Some(500), &[]);
    assert_eq!(looked(&mut watermark, None, &[]), 500);
    assert!(!watermark.is_due(now, EVERY));
    assert_eq!(looked(&mut watermark, Some(400), &[]), 0);
    assert!(watermark.is_due(now, EVERY), "and soon");
    assert_eq!(looked(&mut watermark, Some(401), &[]), 400);
}

/// Refused rows stay in the table, and the ids of new rows are greater.
#[test]
fn rows_below_the_watermark_that_are_left_do_not_lower_it() {
    let mut watermark = LowWatermark::default();
    watermark.saw(2_000);
    looked(&mut watermark, Some(2_000), &[]);
    for _ in 0..3 {
        assert_eq!(looked(&mut watermark, Some(2_000), &[]), 2_000);
    }
}

/// Under load the low watermark rises before the next full scan.
#[test]
fn it_rises_pass_by_pass_where_it_is_far_below() {
    let mut watermark = LowWatermark::default();
    watermark.saw(1_000);
    assert!(!watermark.is_far_below());
    watermark.saw(1_001);
    assert!(watermark.is_far_below());
    assert_eq!(looked(&mut watermark, Some(1_001), &["1/7"]), 0);
    watermark.saw(1_800);
    assert_eq!(
        looked(&mut watermark, Some(1_800), &["2/1"]),
        0,
        "it ended after the pass, perhaps"
    );
    assert_eq!(
        looked(&mut watermark, Some(1_900), &[]),
        1_001,
        "that pass has found what it wrote"
    );
    assert!(!watermark.is_far_below());
}
