//! Delays messages for an exchange of the delayed message plugin, if their `x-delay` has no queue of its own. The topology's
//! levels delay a message as far as possible, and the worker delays it for the remaining time.
//!
//! The worker acks a delivery after its copy is confirmed, so no message is lost; a worker that dies in between leaves a
//! duplicate. At first bodies are limited to the size of due notices, and the prefetch count is high. After the first larger
//! body, both change: larger bodies, lower prefetch count. The broker parks messages above that limit. The deadline is in the
//! message, by the database's clock, which all workers share.

pub(super) mod rebind;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::MissedTickBehavior;

use super::{
    backoff::{pause_after, reached},
    consume::delivery_channels::{Bodies, Delivered, DeliveryChannels, Receipt},
    context::ConsumerContext,
    health::{ALIVE_WITHIN, Task, Work},
    limits,
    log_lines::{LINE_EVERY, ParkedLines, Why},
    session::SessionEnd,
    unconfirmed::{PublishEvent, UnconfirmedPublishes},
};
use crate::{
    decisions::{disposition::ParkReason, timer_queue::TimerQueue},
    messaging::{PublishError, large_bodies::MAX_PASSED_BYTES},
    shutdown::Stop,
    store::clock::DatabaseTime,
    telemetry::{self, Label},
    text::{error_chain, millis},
    topology::route::{LONGEST_IN_HAND, Route},
    wire::{Message, x_delay::Delayed},
};

/// A message that waits longer in a worker is first marked with its deadline: its delay does not start again when the worker
/// dies.
const UNMARKED: Duration = Duration::from_secs(5);
/// The most unconfirmed copies; copies that have waited longer than `copies_stuck` do not count.
const MAX_COPIES: usize = 1_000;

/// A delivery that is acked when its copy is confirmed.
struct PassedOn {
    receipt: Receipt,
    delayed: Delayed,
    /// Deadline by the database's clock, in milliseconds since 1970; `None` if the publisher wants no delay.
    due_ms: Option<u64>,
    step: Hop,
    failures: u32,
}

/// The message to publish next, and its route; without a route, the message is published to its consumers.
#[derive(Clone)]
struct Hop {
    message: Message,
    route: Option<Route>,
}

struct Delaying {
    context: ConsumerContext,
    channels: DeliveryChannels,
    /// Deliveries without their bodies; they are redelivered with their bodies.
    without_body: Vec<Receipt>,
    /// Copies that must be sent at an instant.
    waiting: TimerQueue<PassedOn>,
    copies: UnconfirmedPublishes<PassedOn>,
    parked: ParkedLines,
    parked_reported: Option<Instant>,
    alive: Task,
}

/// Consumes until a stop is requested or the subscription ends; then requeues unsettled messages.
pub(super) async fn delay(
    context: ConsumerContext,
    channels: DeliveryChannels,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let copies = UnconfirmedPublishes::new(Arc::clone(&context.publishers), &context.worker.timing);
    let mut delaying = Delaying {
        alive: context.worker.health.task("consume", &context.queue, ALIVE_WITHIN),
        context,
        channels,
        without_body: Vec::new(),
        waiting: TimerQueue::default(),
        copies,
        parked: ParkedLines::default(),
        parked_reported: None,
    };
    let worked = match delaying.work(&stop).await {
        Ok(()) => delaying.drain().await,
        Err(error) => Err(error),
    };
    let closed = delaying.channels.close().await;
    worked.and(closed.map_err(SessionEnd::from))
}

impl Delaying {
    async fn work(&mut self, stop: &Stop) -> Result<(), SessionEnd> {
        let mut look = tokio::time::interval(limits::LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.parked_reported.is_none_or(|at| at.elapsed() >= LINE_EVERY)
                && self.parked.report(&self.context.timeout.name)
            {
                self.parked_reported = Some(Instant::now());
            }
            let receives =
                !self.channels.is_full() && self.copies.len() < MAX_COPIES + self.copies.silent();
            if receives || !self.without_body.is_empty() {
                self.channels.renew();
            }
            if !self.channels.is_outdated() {
                // Until the new channel receives, a requeued delivery would arrive without its body again.
                for receipt in std::mem::take(&mut self.without_body) {
                    self.channels.give_back(receipt);
                }
            }
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                Some(heard) = self.copies.next() => self.heard(heard),
                () = reached(self.waiting.next()) => {
                    for copy in self.waiting.take_due(Instant::now(), MAX_COPIES) {
                        self.send(copy);
                    }
                }
                delivered = self.channels.next(if receives { MAX_COPIES } else { 0 }) => self.take(delivered?),
                _ = look.tick() => self.look()?,
            }
        }
    }

    /// An error if a channel ended while the loop was not receiving from it.
    fn look(&mut self) -> Result<(), SessionEnd> {
        self.alive.moved();
        let (health, timeout) = (&self.context.worker.health, &self.context.timeout.name);
        if self.copies.work_again(Instant::now()) && health.works(Work::Copies, timeout) {
            telemetry::copies_work(timeout);
        }
        Ok(self.channels.check()?)
    }

    fn take(&mut self, delivered: Vec<Delivered>) {
        for (mut receipt, received) in delivered {
            match received.body_left_out() {
                Some(size) if size > MAX_PASSED_BYTES => {
                    let label = received.message_id.as_deref().unwrap_or("a message").to_owned();
                    let text =
                        format!("body or headers have {size} bytes, more than {MAX_PASSED_BYTES}");
                    let why = Why { class: ParkReason::Unreadable, text };
                    self.park(receipt, label, why);
                }
                Some(_) if self.channels.bodies_of(&receipt) == Bodies::Small => {
                    self.channels.set_bodies(Bodies::Large);
                    self.without_body.push(receipt);
                }
                // The delivery has its body. If a header says otherwise, the publisher forged it, and the body was always empty.
                _ => {
                    self.channels.waits(&mut receipt, true);
                    let old = self.context.worker.topology.compat.as_ref();
                    let old = old.map_or("", |compat| compat.exchange.as_str());
                    let now = Instant::now();
                    // The session reads the clock before it consumes.
                    let now_ms = self.context.worker.clock.at_most_ms(now).unwrap_or(u64::MAX);
                    let longest = self.context.worker.topology.longest_x_delay();
                    let delayed = Delayed::read(received, old, now_ms, longest);
                    telemetry::x_delay_too_long(old, delayed.too_long);
                    let wanted = delayed.wanted.map(|wanted| self.after(wanted, now));
                    let due_ms = delayed.due_ms.or(wanted);
                    let (step, at) = self.next_step(&delayed, due_ms, now);
                    self.waiting.add(at, PassedOn { receipt, delayed, due_ms, step, failures: 0 });
                }
            }
        }
    }

    /// Rejects the message, so that the broker parks it: no copy can be made.
    fn park(&mut self, receipt: Receipt, message_id: String, why: Why) {
        let label = Label { order: message_id, trace_id: None };
        let ConsumerContext { worker, timeout, .. } = &self.context;
        worker.counters.parked(&timeout.name, &label, &why);
        self.parked.add(label, why);
        self.channels.dead_letter(receipt);
    }

    /// The message to publish next, and when. Neither the broker nor the worker delays it beyond its deadline.
    fn next_step(&self, delayed: &Delayed, due_ms: Option<u64>, now: Instant) -> (Hop, Instant) {
        let ConsumerContext { worker, timeout, levels, .. } = &self.context;
        let topology = &worker.topology;
        let restored =
            || Hop { message: delayed.restored(topology.compat_due_exchange()), route: None };
        let Some(due_ms) = due_ms else { return (restored(), now) };
        let due = worker.clock.surely(DatabaseTime::from_unix_ms(due_ms));
        let rest = due.map_or(Duration::MAX, |due| due.saturating_duration_since(now));
        let route = levels.wait(topology, timeout, rest, now).ok();
        let again = topology.compat_again();
        match way(route, again, delayed.due_ms.is_some(), rest) {
            Some((route, stays)) => {
                let message = delayed.on_its_way(route.clone(), due_ms);
                (Hop { message, route: Some(route) }, now + stays)
            }
            None => (restored(), now + rest),
        }
    }

    /// When `delay` is certainly over, in milliseconds since 1970.
    fn after(&self, delay: Duration, now: Instant) -> u64 {
        let delay_ms = millis(delay);
        // The session reads the clock before it consumes.
        let now_ms = self.context.worker.clock.at_most_ms(now).unwrap_or_default();
        now_ms.saturating_add(delay_ms).saturating_add(1)
    }

    fn send(&mut self, copy: PassedOn) {
        let Hop { message, route } = copy.step.clone();
        let place = match &route {
            Some(route) => route.place().to_owned(),
            None => format!("{} in {}", message.routing_key, message.exchange),
        };
        self.copies.send(&place, message, copy);
    }

    fn heard(&mut self, heard: PublishEvent<PassedOn>) {
        let now = Instant::now();
        let (mut copy, error) = match heard {
            PublishEvent::Confirmed(copy) => {
                self.channels.ack(copy.receipt);
                let ConsumerContext { worker, timeout, .. } = &self.context;
                return worker.counters.put_back(&timeout.name);
            }
            PublishEvent::ConfirmOverdue(error) => return self.report(&error, now),
            PublishEvent::Abandoned(copy) => return self.channels.give_back(copy.receipt),
            PublishEvent::Failed(copy, error) => (copy, error),
        };
        if let (Some(route), PublishError::Returned { .. }) = (&copy.step.route, &error) {
            self.context.levels.returned(route, now);
            return self.try_again(copy, now);
        }
        self.report(&error, now);
        if matches!(error, PublishError::Unencodable { .. }) {
            let why = Why { class: ParkReason::Unreadable, text: error_chain(&error) };
            return self.park(copy.receipt, copy.step.message.message_id, why);
        }
        let pause = pause_after(copy.failures, self.context.worker.timing.backoff_longest);
        copy.failures += 1;
        self.try_again(copy, now + pause);
    }

    /// Tries a copy again, by the route that is right at `from`.
    fn try_again(&mut self, mut copy: PassedOn, from: Instant) {
        let at;
        (copy.step, at) = self.next_step(&copy.delayed, copy.due_ms, from);
        self.waiting.add(at, copy);
    }

    fn report(&mut self, error: &PublishError, now: Instant) {
        let (reason, timeout) = (error_chain(error), &self.context.timeout.name);
        if self.copies.failed(now) {
            let waiting = self.waiting.len() + self.copies.len() + 1;
            telemetry::copies_wait(timeout, waiting, &reason);
        }
        self.context.worker.health.failed(Work::Copies, timeout, &reason);
    }

    /// Waits until sent copies are confirmed and acked; waiting messages are requeued.
    async fn drain(&mut self) -> Result<(), SessionEnd> {
        self.parked.report(&self.context.timeout.name);
        let last = limits::last_confirms(&self.context.worker.settings);
        while self.copies.len() > 0 {
            tokio::select! {
                Some(heard) = self.copies.next() => self.heard(heard),
                () = reached(Some(last)) => break,
            }
        }
        Ok(())
    }
}

/// Route of a message that is due in `rest`, and how long the worker keeps it before; `None` if the worker keeps it until then.
fn way(
    route: Option<Route>,
    again: Route,
    is_marked: bool,
    rest: Duration,
) -> Option<(Route, Duration)> {
    match route.filter(|route| route.holds <= rest) {
        Some(route) => Some((route, Duration::ZERO)),
        None if !is_marked && rest > UNMARKED => Some((again, Duration::ZERO)),
        // The broker would close the channel after a longer wait.
        None if rest > LONGEST_IN_HAND => Some((again, LONGEST_IN_HAND)),
        None => None,
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

    /// 50 minutes, while the only level delays messages for an hour, or does not exist.
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
