//! The script of a drill: real orders at many times their speed. Pure.

pub(crate) mod file;

use std::time::Duration;

use rand::Rng;

use crate::{
    demo::script::{Expected, Script, ScriptedOrder},
    order::OrderIdError,
    order_service::run_id::RunId,
    topology::level::Ttl,
};
use file::RealOrder;

/// Payments that come so close to the deadline, on either side of it, may go either way.
const BOUNDARY: Duration = Duration::from_millis(5);
/// Payments that come later than this past the deadline are sent at this time: they meet a closed order.
const LATEST_PAYMENT: Duration = Duration::from_secs(5);

/// Real orders, `speed` times faster; `time` is what is left of the time that an order has to be paid.
///
/// # Errors
/// An order's id cannot be one with the run's id in front.
pub(crate) fn script(
    run: RunId,
    real: &[RealOrder],
    (speed, time): (u32, Ttl),
    rng: &mut impl Rng,
) -> Result<Script, OrderIdError> {
    let deadline = time.as_duration();
    let orders = real.iter().map(|order| {
        let pay_after = order.lag.map(|lag| (lag / speed).min(deadline + LATEST_PAYMENT));
        ScriptedOrder::new(&run, &order.id, pay_after, expected(pay_after, deadline), rng)
    });
    let orders = orders.collect::<Result<_, _>>()?;
    Script::new(run, time, Some(BOUNDARY), orders)
}

/// What has to become of an order that is paid `pay_after` its creation when it is due after `deadline`.
#[must_use]
pub(crate) fn expected(pay_after: Option<Duration>, deadline: Duration) -> Expected {
    let Some(pay_after) = pay_after else { return Expected::Closed };
    if pay_after.abs_diff(deadline) <= BOUNDARY {
        Expected::Boundary
    } else if pay_after < deadline {
        Expected::Paid
    } else {
        Expected::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_five_milliseconds_around_the_deadline_are_boundary() {
        let deadline = Duration::from_millis(1_500);
        let of = |us| expected(Some(Duration::from_micros(us)), deadline);
        assert_eq!(of(1_494_999), Expected::Paid);
        assert_eq!(of(1_495_000), Expected::Boundary);
        assert_eq!(of(1_505_000), Expected::Boundary);
        assert_eq!(of(1_505_001), Expected::Closed);
        assert_eq!(expected(None, deadline), Expected::Closed);
    }

    /// The real times have a minute for their grain: at this speed that is ten times the boundary.
    #[test]
    fn a_minute_before_or_after_is_outside_the_boundary_at_1200_times_the_speed() {
        let minutes = |number: u64| Some(Duration::from_mins(number) / 1_200);
        let deadline = Duration::from_mins(30) / 1_200;
        let of = [29, 30, 31].map(|number| expected(minutes(number), deadline));
        assert_eq!(of, [Expected::Paid, Expected::Boundary, Expected::Closed]);
    }
}
