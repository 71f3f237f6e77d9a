//! Finds out how rows are closed today, from repeated polls.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use overdue::internals::effect::{Ended, Ending, Found, Watch};

/// A time `s` seconds after the first poll.
fn at(s: i64) -> Timestamp {
    "2026-12-01T09:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(s)
}

/// A poll that finds these rows open, with their deadlines, and these others; returns the ended rows.
fn look(watch: &mut Watch, s: i64, open: &[(&str, i64)], others: &[(&str, Found)]) -> Vec<Ended> {
    let open: Vec<_> = open.iter().map(|(key, due)| ((*key).to_owned(), at(*due))).collect();
    let missing = watch.open(at(s), &open);
    let found: BTreeMap<_, _> = others.iter().map(|(key, it)| ((*key).to_owned(), *it)).collect();
    watch.found(at(s), &missing, &found)
}

/// The ending of a row that was open at 0 s and is not at 100 s.
#[test]
fn each_end_of_a_row() {
    let left = |is_closed| Some(Found::Left { is_closed });
    let open = |due: i64| Some(Found::Open { due_at: Some(at(due)), is_kept: false });
    let never = Some(Found::Open { due_at: None, is_kept: false });
    for (due, found, expected) in [
        (-5, left(Some(true)), Some(Ending::Closed)),
        (50, left(Some(true)), Some(Ending::Closed)),
        (100, left(Some(true)), Some(Ending::Closed)),
        (101, left(Some(true)), Some(Ending::ClosedEarly)),
        (-5, left(Some(false)), Some(Ending::LeftAfter)),
        // The row may have been paid before its deadline.
        (50, left(Some(false)), Some(Ending::LeftBefore)),
        (101, left(Some(false)), Some(Ending::LeftBefore)),
        // The state that the effect sets is not a constant.
        (-5, left(None), Some(Ending::Closed)),
        (50, left(None), Some(Ending::Closed)),
        (101, left(None), Some(Ending::LeftBefore)),
        (-5, None, Some(Ending::Deleted)),
        (101, None, Some(Ending::LeftBefore)),
        // The deadline has moved, or was removed.
        (50, open(900), None),
        (50, never, None),
    ] {
        let mut watch = Watch::new(9, at(0));
        assert_eq!(look(&mut watch, 0, &[("4711", due)], &[]), []);
        let others: Vec<_> = found.into_iter().map(|found| ("4711", found)).collect();
        let ended = look(&mut watch, 100, &[], &others);
        let ending = ended.first().map(|it| it.ending);
        assert_eq!(ending, expected, "due at {due} s, {found:?}");
        let stays = usize::from(found == open(900));
        assert_eq!(watch.remembered(), stays, "due at {due} s, {found:?}");
    }
}

#[test]
fn lateness_is_that_of_the_look() {
    let mut watch = Watch::new(1_000, at(0));
    let keys: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    let open: Vec<(&str, i64)> = keys.iter().map(|key| (key.as_str(), 10)).collect();
    look(&mut watch, 0, &open, &[]);
    // Each second a row is closed.
    let closed = Found::Left { is_closed: Some(true) };
    for s in 0..200 {
        let (of, rest) = open[usize::try_from(s).unwrap()..].split_first().unwrap();
        let ended = look(&mut watch, 11 + s, rest, &[(of.0, closed)]);
        assert_eq!(ended.len(), 1);
    }
    let closed = watch.report(at(300)).closed;
    let all = (closed.rows, closed.median_ms, closed.p99_ms, closed.longest_ms);
    assert_eq!(all, (200, 100_000, 198_000, 200_000));
}

/// A cron with a longer time than the effect's, and one with a shorter time.
#[test]
fn deadlines_are_compared() {
    let closed = Found::Left { is_closed: Some(true) };
    let mut watch = Watch::new(9, at(0));
    look(&mut watch, 0, &[("a", 700), ("b", 700), ("c", 700)], &[]);
    look(&mut watch, 100, &[], &[("a", closed), ("b", closed), ("c", closed)]);
    let report = watch.report(at(3_600));
    let early = "the deadline of the effect is 10m later than what closes rows today";
    assert_eq!(report.comparison().as_deref(), Some(early));
    assert_eq!((report.came_due, report.closed_early.rows), (0, 3));

    let mut watch = Watch::new(9, at(0));
    look(&mut watch, 0, &[("a", 10)], &[]);
    look(&mut watch, 100, &[], &[("a", closed)]);
    assert_eq!(watch.report(at(100)).comparison(), None);
}

/// The watch remembers a limited number of rows; it takes others when there is room.
#[test]
fn memory_has_an_end() {
    let mut watch = Watch::new(2, at(0));
    look(&mut watch, 0, &[("a", 10), ("b", 20), ("c", 30)], &[]);
    assert_eq!((watch.remembered(), watch.report(at(0)).forgot_rows), (2, true));
    look(&mut watch, 15, &[("b", 20), ("c", 30)], &[]);
    look(&mut watch, 25, &[("b", 20), ("c", 30)], &[]);
    assert_eq!(watch.remembered(), 2);
    let report = watch.report(at(40));
    let open: Vec<_> =
        report.longest_open.iter().map(|it| (it.key.as_str(), it.overdue_ms)).collect();
    assert_eq!(open, [("b", 20_000), ("c", 10_000)]);
    assert!(report.to_string().contains("more rows were open than are remembered"));
}
