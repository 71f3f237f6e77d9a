//! Alerts without a monitoring system: each `[[alert]]` sends a message to a webhook when a condition begins, and another
//! when it ends.
//!
//! Each alert has its own task and sends one message at a time. If the webhook refuses a message, the alert builds a new one
//! from the current facts. Messages are therefore not queued, and no order waits for an alert.

pub(crate) mod channel;
pub(crate) mod message;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    condition::{Condition, Facts, Judgement, Wrong},
    config::AlertSettings,
    shutdown::Stop,
    telemetry,
};
use channel::{Channel, Refused, pause};
use message::{Message, Sender};

/// Interval between two readings of the facts; `worker.watch_every` applies if it is shorter.
const READ_EVERY: Duration = Duration::from_secs(5);

/// An `[[alert]]` that is ready to send.
pub(crate) struct Alert {
    name: String,
    topology: String,
    host: String,
    channel: Channel,
    episodes: Mutex<Episodes>,
    /// Signals new facts.
    observed: Notify,
}

impl Alert {
    /// Reads the alert's files and checks everything that can be checked without sending. No error quotes a URL or a body.
    pub(crate) fn new(settings: &AlertSettings, topology: &str) -> Result<Self, String> {
        let name = settings.name.clone();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let channel = Channel::new(settings)?;
        let episodes = Mutex::new(Episodes::new(Rule {
            on: settings.on.clone(),
            not_ready_for: settings.not_ready_for.as_duration(),
            over_after: settings.over_after.as_duration(),
            again_after: settings.again_after.as_duration(),
        }));
        let topology = topology.to_owned();
        Ok(Self { name, topology, host, channel, episodes, observed: Notify::new() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Scheme, host and port of the webhook, without secrets.
    pub(crate) fn destination(&self) -> String {
        self.channel.destination()
    }

    /// Sends one message and returns the webhook's answer.
    pub(crate) async fn send(&self, message: &Message) -> Result<String, Refused> {
        let Self { name, topology, host, .. } = self;
        self.channel.send(message, &Sender { alert: name, topology, host }).await
    }

    fn due(&self) -> Option<Message> {
        self.episodes.lock().due(Instant::now())
    }

    /// Sends messages that are due; never returns.
    async fn speak(&self) {
        let mut failures = 0;
        loop {
            self.observed.notified().await;
            while let Some(message) = self.due() {
                match self.send(&message).await {
                    Ok(answer) => {
                        self.episodes.lock().sent(Instant::now(), &message);
                        telemetry::alert_sent(&self.name, &message.about(), &answer);
                        failures = 0;
                    }
                    Err(Refused { reason, retry_after }) => {
                        failures += 1;
                        let pause = pause(failures, retry_after);
                        telemetry::alert_failed(&self.name, failures == 1, &reason, pause);
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        }
    }
}

/// Reads `facts` and sends alerts until a stop is requested. A worker that stops sends no alerts.
pub(crate) async fn watch(
    alerts: Vec<Alert>,
    read_every: Duration,
    facts: impl Fn() -> Facts,
    stop: Stop,
) {
    let alerts: Vec<Arc<Alert>> = alerts.into_iter().map(Arc::new).collect();
    for alert in &alerts {
        let (alert, stop) = (Arc::clone(alert), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.requested() => {}
                () = alert.speak() => {}
            }
        });
    }
    while !stop.is_requested() {
        let facts = facts();
        for alert in &alerts {
            alert.episodes.lock().observe(Instant::now(), &facts);
            alert.observed.notify_one();
        }
        stop.pause(read_every.min(READ_EVERY)).await;
    }
}

/// When one alert sends messages.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Conditions that the alert reports.
    pub on: BTreeSet<Condition>,
    /// Reports a worker that has not been ready for this long.
    pub not_ready_for: Duration,
    /// A condition that has not been seen for this long is over.
    pub over_after: Duration,
    /// A condition that is still wrong is reported again after this long.
    pub again_after: Duration,
}

/// Conditions that one alert has observed and reported.
#[derive(Debug)]
pub struct Episodes {
    rule: Rule,
    open: BTreeMap<Condition, Episode>,
}

/// A condition, from its beginning until its end is reported.
#[derive(Debug)]
struct Episode {
    began: Instant,
    seen: Instant,
    is_over: bool,
    /// Time and content of the last report.
    sent: Option<(Instant, Wrong)>,
    wrong: Wrong,
}

impl Episodes {
    /// Creates an empty state.
    pub const fn new(rule: Rule) -> Self {
        Self { rule, open: BTreeMap::new() }
    }

    /// Records a reading. Every reading must be recorded: some facts cover the time since the previous reading.
    pub fn observe(&mut self, now: Instant, facts: &Facts) {
        for condition in &self.rule.on {
            match facts.judge(*condition) {
                Judgement::Wrong(wrong) => {
                    let (began, seen, is_over) = (now, now, false);
                    let new = Episode { began, seen, is_over, sent: None, wrong: Wrong::default() };
                    let episode = self.open.entry(*condition).or_insert(new);
                    (episode.seen, episode.is_over, episode.wrong) = (now, false, wrong);
                }
                Judgement::Right => {
                    let Some(episode) = self.open.get_mut(condition) else { continue };
                    // A condition that ended before it was reported is reported as over, not as present.
                    episode.is_over = episode.sent.is_none()
                        || now.saturating_duration_since(episode.seen) >= self.rule.over_after;
                    if episode.sent.is_none() && !self.rule.is_long_enough(*condition, episode) {
                        self.open.remove(condition);
                    }
                }
                Judgement::Unknown => {}
            }
        }
    }

    /// The message that is due now; it stays due until [`Episodes::sent`].
    pub fn due(&self, now: Instant) -> Option<Message> {
        let is_due = |(condition, episode): &(&Condition, &Episode)| match &episode.sent {
            None => self.rule.is_long_enough(**condition, episode),
            Some((sent, reported)) => {
                let since = now.saturating_duration_since(*sent);
                let is_news = episode.wrong.is_news_after(reported);
                episode.is_over || since >= self.rule.again_after || is_news
            }
        };
        let (condition, episode) = self.open.iter().find(is_due)?;
        Some(Message {
            condition: Some(*condition),
            is_over: episode.is_over,
            text: episode.wrong.text.clone(),
            lasted: now.saturating_duration_since(episode.began),
        })
    }

    /// Records that the webhook accepted this message.
    pub fn sent(&mut self, now: Instant, message: &Message) {
        let Some(condition) = message.condition else { return };
        let Some(episode) = self.open.get_mut(&condition) else { return };
        match (message.is_over, episode.is_over) {
            (true, true) => _ = self.open.remove(&condition),
            // The condition returned while the message about its end was sent.
            (true, false) => episode.sent = None,
            (false, _) => {
                let wrong = episode.wrong.clone();
                let known = match &episode.sent {
                    Some((sent, reported))
                        if now.saturating_duration_since(*sent) < self.rule.again_after =>
                    {
                        wrong.after(reported)
                    }
                    _ => wrong,
                };
                episode.sent = Some((now, known));
            }
        }
    }
}

impl Rule {
    fn is_long_enough(&self, condition: Condition, episode: &Episode) -> bool {
        let lasted = episode.seen.saturating_duration_since(episode.began);
        condition != Condition::NotReady || lasted >= self.not_ready_for
    }
}
