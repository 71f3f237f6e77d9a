//! How long the program waits for others, and how often it looks: one value, so that a test can wait for less.
//!
//! These are no settings. Each is right for any broker and database of one continent, and some depend on others.

use std::time::Duration;

/// Of the brokers that tests use.
const TEST_STATISTICS_INTERVAL: Duration = Duration::from_secs(1);
/// A machine that tests share may do nothing for so long.
const TEST_STALL: Duration = Duration::from_secs(15);
/// A broker that has too much to do is slow, not gone.
const TEST_PATIENCE: Duration = Duration::from_mins(1);

/// Time-outs and intervals of broker, database and worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// TCP connect, also with TLS to the management API; a peer on the same continent answers in a tenth of it.
    pub connect: Duration,
    /// TCP, TLS, login and opening the virtual host together.
    pub handshake: Duration,
    /// One call of the management API; declaring a quorum queue on a busy cluster takes a second or two.
    pub api_call: Duration,
    /// A worker's list of queues by the management API; then it asks for each queue over its own connection.
    pub listing: Duration,
    /// Handing one message to a connection; longer means that the broker has blocked it.
    pub hand_over: Duration,
    /// From publish to confirm. Under an alarm confirms simply stop coming.
    pub confirm: Duration,
    /// For the lock of a topology, until another change has ended. The longest one takes a ladder of 11 places down: the broker's
    /// counts are waited for 14 times, for up to 11 s each.
    pub topology_lock: Duration,
    /// What a deletion takes for the interval of the broker's statistics at the least: a shorter one may be a mistake in
    /// the settings, and deleting cannot be taken back.
    pub least_statistics_interval: Duration,
    /// How often `apply --wait` looks; the broker's counts are older than that.
    pub draining_every: Duration,

    /// For the request to a worker's pages; Prometheus and a kubelet send it at once.
    pub page_request: Duration,
    /// For the page of a sweep that runs when a stop is asked for: what it closes is counted, and its events go out.
    pub last_page: Duration,

    /// How long a statement takes before the database is asked whether it is there at all.
    pub database_silence: Duration,
    /// For a connection of its own and an answer; together with the time before less than ten seconds.
    pub database_probe: Duration,
    /// For a part of a batch that has met the statement time-out. A part takes milliseconds as a rule.
    pub slow_part: Duration,
    /// For whoever closes orders of a timeout that is being paused: longer than a statement of theirs may take.
    pub closings: Duration,
    /// The same where somebody looks at a page: the pause holds meanwhile, and so they hear who closes them.
    pub closings_on_page: Duration,
    /// For an effect on some orders that is rolled back. Somebody looks at the screen, and it holds locks.
    pub trial: Duration,
    /// How long the database may refuse every login before the worker ends: its supervisor sees that, and starts it with what the
    /// settings have then.
    pub login_refused: Duration,
    /// How often the log says what a worker has done.
    pub log_work_every: Duration,
    /// In that time two clocks run apart by a quarter of a millisecond at most. After the database's clock was set, orders
    /// are late by no more than this.
    pub clock_every: Duration,

    /// From a question on a queue's channel to its answer, and to the first session of a worker. Longer means that no messages come.
    pub broker_silence: Duration,
    /// Once the oldest orders have come by message again for so long, the table is read no more in the place of messages.
    pub messages_again: Duration,
    /// A session that lasted this long was a good one: the next back-off starts small again.
    pub good_session: Duration,
    /// The bound of the first back-off.
    pub backoff_first: Duration,
    /// The longest back-off: work goes on this long after an outage at the latest, and the time of one attempt. Also how
    /// often work is looked for that should have been announced.
    pub backoff_longest: Duration,
    /// How soon a worker consumes from a queue that `overdue apply` has put in the place of another, at the latest.
    pub queues_every: Duration,
    /// A confirm takes milliseconds; when none has come for this long, no copy gets through.
    pub copies_stuck: Duration,

    /// A confirm takes milliseconds. What has none for this long waits for its place, and others do not wait for it.
    pub place_silence: Duration,
    /// How long the first message that a place refuses keeps back the others.
    pub place_pause_first: Duration,
    /// Each further one keeps them back twice as long, up to this: each attempt can become one more copy.
    pub place_pause_longest: Duration,
    /// Until rows of what is published are tried again that could not be deleted.
    pub undeleted_again: Duration,
    /// How often everything that is to be published is looked at: rows below those that were published long ago, which nobody
    /// expects.
    pub look_at_everything: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self::divided(1, 1)
    }
}

impl Timing {
    /// For tests in which nothing is silent: the program looks ten times as often, and a slow machine has the time that it needs.
    pub fn often() -> Self {
        Self {
            handshake: TEST_PATIENCE,
            api_call: TEST_PATIENCE,
            confirm: TEST_PATIENCE,
            least_statistics_interval: TEST_STATISTICS_INTERVAL,
            broker_silence: TEST_PATIENCE,
            page_request: TEST_STALL,
            last_page: TEST_STALL,
            database_silence: TEST_STALL,
            place_silence: TEST_STALL,
            login_refused: Duration::from_secs(2),
            ..Self::divided(1, 10)
        }
    }

    /// For tests of silence: what does not answer is given up in a tenth of the time as well.
    pub fn tenth() -> Self {
        Self {
            least_statistics_interval: TEST_STATISTICS_INTERVAL,
            last_page: TEST_STALL,
            ..Self::divided(10, 10)
        }
    }

    fn divided(timeouts: u32, intervals: u32) -> Self {
        let timeout = |seconds| Duration::from_secs(seconds) / timeouts;
        let interval = |ms| Duration::from_millis(ms) / intervals;
        Self {
            connect: timeout(5),
            handshake: timeout(10),
            api_call: timeout(10),
            listing: timeout(2),
            hand_over: timeout(5),
            confirm: timeout(15),
            topology_lock: timeout(180),
            least_statistics_interval: interval(5_000),
            draining_every: interval(2_000),

            page_request: timeout(1),
            last_page: timeout(5),

            database_silence: timeout(4),
            database_probe: timeout(4),
            slow_part: timeout(3),
            closings: timeout(40),
            closings_on_page: timeout(5),
            trial: timeout(5),
            login_refused: timeout(600),
            log_work_every: interval(60_000),
            clock_every: interval(5_000),

            broker_silence: timeout(2),
            messages_again: interval(5_000),
            good_session: interval(10_000),
            backoff_first: interval(200),
            backoff_longest: interval(5_000),
            queues_every: interval(5_000),
            copies_stuck: timeout(2),

            place_silence: timeout(2),
            place_pause_first: interval(1_000),
            place_pause_longest: interval(60_000),
            undeleted_again: interval(30_000),
            look_at_everything: interval(60_000),
        }
    }
}
