//! Delays messages that were published for an exchange of the delayed message plugin, with an `x-delay` that no queue
//! stands for: through the topology's own delays as far as they go, and the rest of it here.
//!
//! Each copy is confirmed before its delivery is acked, so nothing is lost, and a worker that dies in between leaves a
//! second copy. Bodies are at most those of due notices, and many at a time, until a larger one is there; from then on they
//! may be larger, and few. What is larger still is left to the broker, which parks it. The time at which a message is due travels with it, by the database's clock, which all workers share.

mod clock;
pub(super) mod rebind;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    channels::{Bodies, Channels, Source},
    context::ConsumerContext,
    counters::count,
    kept_bytes::{KeptBytes, Part},
    limits,
    log_lines::{Parked, Why},
    on_their_way::{Heard, OnTheirWay},
    session::SessionEnd,
};
use crate::{
    broker::{PublishError, large_bodies::MAX_PASSED_BYTES},
    decisions::timer_queue::TimerQueue,
    shutdown::Stop,
    telemetry::{self, labels::ParkReason},
    text::error_chain,
    topology::route::{LONGEST_IN_HAND, Route},
    wire::{Message, Received, x_delay::Delayed},
};
use clock::Clock;

/// What waits longer in a worker is marked with its time first, so that it does not begin anew when the worker dies.
const UNMARKED: Duration = Duration::from_secs(5);
/// After a stop was asked for; what is not confirmed by then is given back.
const LAST_CONFIRMS: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// One line in the log stands for all failures within it.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// Copies on their way at once, without those that get no answer.
const MAX_COPIES: usize = 1_000;

/// A delivery that is acked when its copy is confirmed.
struct Copy {
    source: Source,
    message: Message,
    /// Where it is to wait; none for what is due.
    route: Option<Route>,
    failures: u32,
    _part: Part,
}

struct Delaying {
    context: ConsumerContext,
    channels: Channels,
    clock: Clock,
    kept: KeptBytes,
    /// Which the channel that receives gets.
    bodies: Bodies,
    /// Deliveries without their bodies, which come again with them.
    without_body: Vec<Source>,
    /// Copies that are to be sent at an instant.
    later: TimerQueue<Copy>,
    sending: OnTheirWay<Copy>,
    reported: Option<Instant>,
    parked: Parked,
    parked_reported: Option<Instant>,
}

/// Consumes until a stop is asked for or the subscription ends; then gives back what is unsettled.
pub(super) async fn delay(
    context: ConsumerContext,
    channels: Channels,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let clock = Clock::read(&context.worker.store).await?;
    let sending = OnTheirWay::new(Arc::clone(&context.outlet), &context.worker.timing);
    let mut delaying = Delaying {
        context,
        channels,
        clock,
        kept: KeptBytes::default(),
        bodies: Bodies::Small,
        without_body: Vec::new(),
        later: TimerQueue::default(),
        sending,
        reported: None,
        parked: Parked::default(),
        parked_reported: None,
    };
    let worked = match delaying.work(&stop).await {
        Ok(()) => delaying.drain().await,
        Err(error) => Err(error),
    };
    let given_back = delaying.channels.give_back_all().await;
    worked.and(given_back.map_err(SessionEnd::from))
}

impl Delaying {
    async fn work(&mut self, stop: &Stop) -> Result<(), SessionEnd> {
        // The first look: one message at a time is what the channel was opened with.
        self.widen(Bodies::Small).await?;
        loop {
            self.channels.send_acks().await?;
            let may_widen = self.channels.may_replace() && !self.kept.is_full();
            if self.channels.is_short() && may_widen {
                self.widen(self.bodies).await?;
            }
            if !self.without_body.is_empty() {
                self.widen(Bodies::Large).await?;
                for source in std::mem::take(&mut self.without_body) {
                    self.channels.give_back(source).await?;
                }
            }
            if self.parked_reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY)
                && self.parked.report(&self.context.timeout.name)
            {
                self.parked_reported = Some(Instant::now());
            }
            let receiving =
                !self.kept.is_full() && self.sending.len() < MAX_COPIES + self.sending.silent();
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                Some(heard) = self.sending.next() => self.heard(heard).await?,
                () = sleep_until(self.later.next()) => {
                    for copy in self.later.take_due(Instant::now(), MAX_COPIES) {
                        self.send(copy);
                    }
                }
                delivery = self.channels.next(), if receiving => {
                    let (source, received) = delivery?;
                    self.take(source, received, self.bodies).await?;
                }
            }
        }
    }

    /// Goes on receiving on another channel.
    async fn widen(&mut self, bodies: Bodies) -> Result<(), SessionEnd> {
        let many = self.context.prefetch;
        let prefetch = if bodies == Bodies::Large { limits::large_prefetch(many) } else { many };
        let before = std::mem::replace(&mut self.bodies, bodies);
        for (source, received) in self.channels.replace(prefetch, bodies).await? {
            self.take(source, received, before).await?;
        }
        Ok(())
    }

    /// Takes what a channel with `bodies` has received.
    async fn take(
        &mut self,
        source: Source,
        received: Received,
        bodies: Bodies,
    ) -> Result<(), SessionEnd> {
        match received.body_left_out() {
            Some(size) if size > MAX_PASSED_BYTES => {
                let label = received.message_id.as_deref().unwrap_or("a message").to_owned();
                let text =
                    format!("body or headers have {size} bytes, more than {MAX_PASSED_BYTES}");
                let why = Why { class: ParkReason::Unreadable, text };
                self.parked.add(&self.context.timeout.name, label, why);
                return Ok(self.channels.dead_letter(source).await?);
            }
            Some(_) if bodies == Bodies::Small => {
                self.without_body.push(source);
                return Ok(());
            }
            // A publisher has written that, and the body is as empty as it was.
            _ => {}
        }
        let part = self.kept.keep(2 * received.bytes());
        let old = self.context.worker.topology.compat.as_ref().map(|it| it.exchange.as_str());
        let (message, route, rest) =
            self.next_step(&Delayed::read(received, old.unwrap_or_default()));
        self.channels.waits(source, true);
        let copy = Copy { source, message, route, failures: 0, _part: part };
        self.later.add(Instant::now() + rest, copy);
        Ok(())
    }

    /// What to publish, to where it waits if it is not due then, and in how long: nowhere does a message wait longer than it
    /// should.
    fn next_step(&self, delayed: &Delayed) -> (Message, Option<Route>, Duration) {
        let topology = &self.context.worker.topology;
        let due_ms = match (delayed.due_ms, delayed.wanted) {
            (Some(due_ms), _) => due_ms,
            (None, Some(wanted)) => self.clock.after(wanted),
            (None, None) => {
                return (delayed.restored(topology.compat_due_exchange()), None, Duration::ZERO);
            }
        };
        let rest = self.clock.until(due_ms);
        let route = self.context.levels.routes().wait(topology, &self.context.timeout, rest).ok();
        let again = topology.compat_again();
        match way(route, again, delayed.due_ms.is_some(), rest) {
            Some((route, stays)) => (delayed.on_its_way(route.clone(), due_ms), Some(route), stays),
            None => (delayed.restored(topology.compat_due_exchange()), None, rest),
        }
    }

    fn send(&mut self, copy: Copy) {
        let message = copy.message.clone();
        let place = match &copy.route {
            Some(route) => route.place().to_owned(),
            None => format!("{} in {}", message.routing_key, message.exchange),
        };
        self.sending.send(&place, message, copy);
    }

    async fn heard(&mut self, heard: Heard<Copy>) -> Result<(), SessionEnd> {
        let (mut copy, error) = match heard {
            Heard::Confirmed(copy) => {
                self.channels.waits(copy.source, false);
                self.channels.finish(copy.source);
                let (levels, counters) = (&self.context.levels, &self.context.worker.counters);
                let timeout = &self.context.timeout.name;
                // The level may have gone since it was decided.
                if copy.route.is_none_or(|route| levels.confirmed(&route)) {
                    count(&counters.put_back, 1);
                    telemetry::put_back(timeout);
                } else {
                    count(&counters.parked, 1);
                    telemetry::parked_by_broker(timeout, ParkReason::LevelGone, 1);
                }
                return Ok(());
            }
            Heard::Failed(copy, error) => (copy, error),
            Heard::Silence(error) => {
                self.report(&error);
                return Ok(());
            }
        };
        self.report(&error);
        if matches!(error, PublishError::Unencodable { .. }) {
            self.channels.waits(copy.source, false);
            telemetry::parked_by_broker(&self.context.timeout.name, ParkReason::Unreadable, 1);
            return Ok(self.channels.dead_letter(copy.source).await?);
        }
        let pause = FIRST_PAUSE
            .saturating_mul(1 << copy.failures.min(10))
            .min(self.context.worker.timing.backoff_longest);
        copy.failures += 1;
        self.later.add(Instant::now() + pause, copy);
        Ok(())
    }

    fn report(&mut self, error: &PublishError) {
        if self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            self.reported = Some(Instant::now());
            let waiting = self.later.len() + self.sending.len() + 1;
            telemetry::copies_wait(&self.context.timeout.name, waiting, &error_chain(error));
        }
    }

    /// Copies that are being sent are confirmed and acked; what waits is given back.
    async fn drain(&mut self) -> Result<(), SessionEnd> {
        self.parked.report(&self.context.timeout.name);
        let last = tokio::time::Instant::now() + LAST_CONFIRMS;
        while self.sending.len() > 0 {
            tokio::select! {
                Some(heard) = self.sending.next() => self.heard(heard).await?,
                () = tokio::time::sleep_until(last) => break,
            }
        }
        Ok(self.channels.send_acks().await?)
    }
}

/// Where a message waits that is due in `rest`, and how long it stays here before; none if it stays here until it is due.
fn way(
    route: Option<Route>,
    again: Route,
    is_marked: bool,
    rest: Duration,
) -> Option<(Route, Duration)> {
    match route.filter(|route| route.holds <= rest) {
        Some(route) => Some((route, Duration::ZERO)),
        None if !is_marked && rest > UNMARKED => Some((again, Duration::ZERO)),
        // Longer, the broker would end the channel.
        None if rest > LONGEST_IN_HAND => Some((again, LONGEST_IN_HAND)),
        None => None,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, LONGEST_IN_HAND, way};
    use crate::topology::Topology;

    const FILE: &str = r#"name = "orders"
delay.levels = ["1h"]
timeout = [{ name = "unpaid", after = "1h" }]
[compat.x-delay]
exchange = "reminders"
"#;

    /// 50 minutes, where the only level holds messages for an hour, or is not there.
    #[test]
    fn what_waits_here_for_long_goes_back_before_the_broker_ends_the_channel() {
        let topology = Topology::parse(FILE).unwrap();
        let timeout = topology.compat_timeout().unwrap();
        let rest = LONGEST_IN_HAND * 5;
        let hour = topology.wait(&timeout, rest).ok();
        assert!(hour.as_ref().is_some_and(|route| route.holds > rest));
        let again = || topology.compat_again();
        for route in [hour.clone(), None] {
            let way = |is_marked, rest| way(route.clone(), again(), is_marked, rest);
            assert_eq!(way(false, rest), Some((again(), Duration::ZERO)));
            assert_eq!(way(true, rest), Some((again(), LONGEST_IN_HAND)));
            assert_eq!(way(true, LONGEST_IN_HAND), None);
        }
        let later = hour.as_ref().map(|route| (route.clone(), Duration::ZERO));
        assert_eq!(way(hour, again(), true, rest * 2), later);
    }
}
