//! The script of a drill: real orders at many times their speed. Pure.

pub(crate) mod file;

use std::time::Duration;

use rand::Rng;

use crate::{
    demo::script::{Expected, Script, ScriptedOrder},
    order::OrderIdError,
    order_service::run_id::RunId,
    topology::level::{Level, Ttl},
};
use file::RealOrder;

/// Payments within this part of the time allowed, on either side of the deadline, may go either way.
const BOUNDARY: u32 = 30;
/// Payments that come later than this past the deadline are sent at this time: they meet a closed order.
const LATEST_PAYMENT: Duration = Duration::from_secs(5);

/// Real orders, `speed` times faster; `level` is `after` at that speed.
///
/// # Errors
/// An order's id cannot be one with the run's id in front.
pub(crate) fn script(
    run: RunId,
    real: &[RealOrder],
    (after, speed, level): (Ttl, u32, Ttl),
    rng: &mut impl Rng,
) -> Result<Script, OrderIdError> {
    let level_time = level.as_duration();
    let orders = real.iter().map(|order| {
        let pay_after = order.lag.map(|lag| (lag / speed).min(level_time + LATEST_PAYMENT));
        let expected = expected(order.lag, after.as_duration());
        ScriptedOrder::new(&run, &order.id, pay_after, expected, rng)
    });
    let orders = orders.collect::<Result<_, _>>()?;
    Script::new(run, level, Some(level_time / BOUNDARY), orders)
}

/// What has to become of an order that was paid `lag` after its purchase when it may take `after`.
#[must_use]
pub(crate) fn expected(lag: Option<Duration>, after: Duration) -> Expected {
    let Some(lag) = lag else { return Expected::Closed };
    if lag.abs_diff(after) <= after / BOUNDARY {
        Expected::Boundary
    } else if lag < after {
        Expected::Paid
    } else {
        Expected::Closed
    }
}

/// The time that `after` becomes at a speed is not a level of the topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{after} at speed {speed} is {ms}ms, which is not a level; speeds that give one: {speeds}")]
pub(crate) struct NoLevel {
    after: String,
    speed: u32,
    ms: u64,
    speeds: String,
}

/// The level that `after` becomes when time runs `speed` times faster.
///
/// # Errors
/// There is no such level; the error lists the speeds that give one.
pub(crate) fn level_at<'a>(
    after: &Level,
    speed: u32,
    levels: &'a [Level],
) -> Result<&'a Level, NoLevel> {
    let after_ms = after.ttl().as_millis();
    let sped_up = |level: &&Level| level.ttl().as_millis().checked_mul(speed.into());
    levels.iter().find(|level| sped_up(level) == Some(after_ms)).ok_or_else(|| {
        let speeds = speeds(after.ttl(), levels);
        let speeds: Vec<String> =
            speeds.iter().map(|(speed, level)| format!("{speed} ({level})")).collect();
        NoLevel {
            after: after.to_string(),
            speed,
            ms: after_ms / u64::from(speed.max(1)),
            speeds: if speeds.is_empty() { "none".to_owned() } else { speeds.join(", ") },
        }
    })
}

/// The speeds at which `after` becomes a level, highest first, with that level.
#[must_use]
pub(crate) fn speeds(after: Ttl, levels: &[Level]) -> Vec<(u64, &Level)> {
    let after_ms = after.as_millis();
    let divides = |level: &&Level| after_ms.is_multiple_of(level.ttl().as_millis());
    let mut speeds: Vec<_> = levels
        .iter()
        .filter(divides)
        .map(|level| (after_ms / level.ttl().as_millis(), level))
        .collect();
    speeds.sort_by_key(|(speed, _)| std::cmp::Reverse(*speed));
    speeds
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn only_a_minute_around_half_an_hour_is_boundary() {
        let half_an_hour = 30 * MINUTE;
        let of = |lag| expected(Some(lag), half_an_hour);
        assert_eq!(of(Duration::from_millis(29 * 60_000 - 1)), Expected::Paid);
        assert_eq!(of(29 * MINUTE), Expected::Boundary);
        assert_eq!(of(31 * MINUTE), Expected::Boundary);
        assert_eq!(of(31 * MINUTE + Duration::from_millis(1)), Expected::Closed);
        assert_eq!(expected(None, half_an_hour), Expected::Closed);
    }

    #[test]
    fn a_speed_gives_a_level_or_the_error_lists_those_that_do() {
        let levels: Vec<Level> =
            ["1s", "3s", "7s", "1h"].iter().map(|text| text.parse().unwrap()).collect();
        let after: Level = "30m".parse().unwrap();
        assert_eq!(level_at(&after, 600, &levels).map(Level::name), Ok("3s"));
        let error = level_at(&after, 700, &levels).unwrap_err().to_string();
        assert_eq!(
            error,
            "30m at speed 700 is 2571ms, which is not a level; speeds that give one: 1800 (1s), 600 (3s)"
        );
    }
}
