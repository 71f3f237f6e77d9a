//! The log of one queue's consumer: a line for many messages of a kind.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::delivery::Delivery;
use crate::{
    order::Outcome,
    telemetry::{self, IgnoredHint, Label},
    wire::Properties,
    worker::{
        context::ConsumerContext,
        log_lines::{LINE_EVERY, ParkedLines, RateLimitedLog, Why},
    },
};

/// Shortest time between two lines about ignored hints: their publisher sends one with each order.
const HINTS_EVERY: Duration = Duration::from_mins(1);
/// The most orders that a line names.
const NAMED: usize = 20;

pub(super) struct Log {
    context: Arc<ConsumerContext>,
    parked: ParkedLines,
    guarded: RateLimitedLog<Label>,
    failing: RateLimitedLog<(Label, String)>,
    ignored_hints: RateLimitedLog<IgnoredHint>,
    /// When locked orders were last logged, and the task that does it.
    locked_reported: Option<Instant>,
    naming: JoinSet<()>,
}

impl Log {
    pub(super) fn new(context: Arc<ConsumerContext>) -> Self {
        Self {
            context,
            parked: ParkedLines::default(),
            guarded: RateLimitedLog::default(),
            failing: RateLimitedLog::default(),
            ignored_hints: RateLimitedLog::default(),
            locked_reported: None,
            naming: JoinSet::new(),
        }
    }

    pub(super) fn parked(&mut self, label: Label, why: Why) {
        self.parked.add(label, why);
    }

    /// Counts a `due_at` that is not a time with a zone, and is ignored.
    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        if let Some(due_at) = &delivery.ignored_due_at {
            let properties = delivery.received.properties.as_deref();
            let of =
                |it: fn(&Properties) -> &Option<String>| properties.and_then(|all| it(all).clone());
            let hint = IgnoredHint {
                of: delivery.label(),
                due_at: due_at.clone(),
                app_id: of(|it| &it.app_id),
                user_id: of(|it| &it.user_id),
            };
            telemetry::hint_ignored(&self.context.timeout.name);
            self.ignored_hints.add(1, hint);
        }
    }

    /// Counts an overdue order that the effect does not close, because of its own rule or because it fails.
    pub(super) fn answered(&mut self, delivery: &Delivery, outcome: &Outcome) {
        match outcome {
            Outcome::NotDue { remaining } if remaining.is_zero() => {
                self.guarded.add(1, delivery.label());
            }
            Outcome::Failed { reason, .. } => {
                self.failing.add(1, (delivery.label(), reason.clone()));
            }
            _ => {}
        }
    }

    /// Logs the orders that other sessions keep locked, the longest lock first, and the session that has the first lock.
    pub(super) fn locked<'a>(&mut self, waiting: impl Iterator<Item = &'a Delivery>, now: Instant) {
        while self.naming.try_join_next().is_some() {}
        let is_new = |at: Instant| now.saturating_duration_since(at) < LINE_EVERY;
        if self.locked_reported.is_some_and(is_new) || !self.naming.is_empty() {
            return;
        }
        let locked = waiting.filter_map(|delivery| {
            let (first, last) = delivery.locked?;
            Some((last.saturating_duration_since(first), delivery.order_id()?))
        });
        let mut locked: Vec<_> = locked.filter(|(since, _)| *since >= LINE_EVERY).collect();
        locked.sort_unstable_by(|(a, x), (b, y)| b.cmp(a).then(x.cmp(y)));
        let Some((longest, first)) = locked.first().map(|(since, id)| (*since, (*id).clone()))
        else {
            return;
        };
        self.locked_reported = Some(now);
        let (context, orders) = (Arc::clone(&self.context), locked.len());
        let named: Vec<String> = locked.iter().take(NAMED).map(|(_, id)| id.to_string()).collect();
        self.naming.spawn(async move {
            let effect = &context.worker.effects[&context.timeout.effect];
            let lock = context.worker.store.lock_of(effect, &[first]).await;
            telemetry::held(&effect.name, orders, &named.join(","), longest, &lock.to_string());
        });
    }

    /// Writes the lines that are due.
    pub(super) fn write(&mut self, now: Instant) {
        let timeout = &self.context.timeout.name;
        if let Some((orders, first)) = self.guarded.due(now) {
            telemetry::guarded(timeout, orders, &first);
        }
        if let Some((orders, (first, reason))) = self.failing.due(now) {
            telemetry::failing(timeout, orders, &first, &reason);
        }
        if let Some((notices, first)) = self.ignored_hints.due_after(HINTS_EVERY, now) {
            telemetry::hints_ignored(timeout, notices, &first);
        }
        self.parked.report(timeout);
    }
}
