//! The number of messages for a destination that has refused some, or does not answer.

use std::time::{Duration, Instant};

use overdue::internals::destination_window::DestinationWindow;

const SECOND: Duration = Duration::from_secs(1);
const PAUSES: (Duration, Duration) = (SECOND, Duration::from_mins(1)); // data: given to the place

#[test]
fn a_place_that_confirms_takes_any_number() {
    let (mut place, now) = (DestinationWindow::default(), Instant::now());
    assert_eq!(place.available(1_000, now), usize::MAX - 1_000);
    place.confirmed();
    assert!(place.is_open() && place.takes_untried());
}

#[test]
fn a_place_without_an_answer_gets_nothing_and_then_twice_as_many_each_time_that_it_confirms_one() {
    let (mut place, now) = (DestinationWindow::default(), Instant::now());
    place.confirm_timed_out();
    assert!(!place.takes_untried());
    assert_eq!([0, 1, 128].map(|unconfirmed| place.available(unconfirmed, now)), [1, 0, 0]);
    let mut rooms = Vec::new();
    while !place.is_open() {
        place.confirmed();
        rooms.push(place.available(0, now));
    }
    assert_eq!(rooms, [2, 4, 8, 16, 32, 64, 128, 256, usize::MAX]);
    assert!(place.takes_untried());
}

/// Each attempt makes another copy for the queues that take the message.
#[test]
fn a_place_that_refuses_is_tried_after_pauses_of_a_second_to_a_minute() {
    let (mut place, begin) = (DestinationWindow::default(), Instant::now());
    // All unconfirmed messages are refused.
    (0..100).for_each(|_| place.refused(false, begin, PAUSES));
    let mut tries = Vec::new();
    for second in 0..600 {
        let now = begin + SECOND * second;
        if place.available(0, now) > 0 {
            assert_eq!(place.available(0, now), 1);
            tries.push(second);
            place.refused(false, now, PAUSES);
        }
    }
    assert_eq!(tries[..8], [1, 3, 7, 15, 31, 63, 123, 183]);
    place.confirmed();
    place.refused(false, begin, PAUSES);
    assert_eq!(place.available(0, begin + SECOND), 1, "it begins again");
}

#[test]
fn what_ends_its_channel_is_published_for_the_first_time_only_where_one_was_confirmed() {
    let (mut place, now) = (DestinationWindow::default(), Instant::now());
    place.refused(false, now, PAUSES);
    assert!(place.takes_untried());
    place.refused(true, now, PAUSES);
    place.refused(false, now, PAUSES);
    assert!(!place.takes_untried());
    place.confirmed();
    assert!(place.takes_untried());
}

#[test]
fn one_message_is_tried_where_others_have_waited_before() {
    let (place, now) = (DestinationWindow::probing(), Instant::now());
    assert!(place.takes_untried() && !place.is_open());
    assert_eq!((place.available(0, now), place.available(1, now)), (1, 0));
}
