//! Time-outs and polling intervals in one value, so that a test can shorten them.
//!
//! They are not settings. Each is right for any broker and database of one continent, and some depend on others.

use std::time::Duration;

/// Statistics interval of the brokers of tests.
const TEST_STATISTICS_INTERVAL: Duration = Duration::from_secs(1);
/// A shared test machine may stall for this time.
const TEST_STALL: Duration = Duration::from_secs(15);
/// A broker with too much work is slow, not gone.
const TEST_PATIENCE: Duration = Duration::from_mins(1);

/// Time-outs and intervals of broker, database and worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Limit of a TCP connect, also with TLS to the management API; a peer on the same continent answers in a tenth of it.
    pub connect: Duration,
    /// Limit for TCP, TLS, login and opening the virtual host together.
    pub handshake: Duration,
    /// Limit of one call of the management API; declaring a quorum queue on a busy cluster takes a second or two.
    pub api_call: Duration,
    /// Limit for a worker's list of queues by the management API; then the worker asks for each queue over AMQP.
    pub listing: Duration,
    /// Limit for writing one message to a connection; after it, the broker has blocked the connection.
    pub hand_over: Duration,
    /// Limit from publish to confirm. During an alarm the broker stops sending confirms.
    pub confirm: Duration,
    /// Limit of the wait for the lock of a topology. The longest change waits for the broker's counts once, for up to 11 s, or for
    /// a minute where a queue has none.
    pub topology_lock: Duration,
    /// Shortest statistics interval that a deletion assumes: a shorter interval may be a mistake in the settings, and a
    /// deletion cannot be undone.
    pub least_statistics_interval: Duration,
    /// The queue of a removed timeout stays bound for the longest way to it and this time: for services that are told late, for
    /// messages that workers republish, and for a broker that was away.
    pub removed_timeout: Duration,
    /// Polling interval of `apply --wait`; the broker's counts are older than that.
    pub draining_every: Duration,

    /// Limit for the request to a worker's pages; Prometheus and a kubelet send it at once.
    pub page_request: Duration,
    /// Limit for the page of a sweep that runs when a stop is requested: its orders are counted and its events published.
    pub last_page: Duration,

    /// Time without an answer to a statement, after which the worker probes the database.
    pub database_silence: Duration,
    /// Limit for the probe's own connection and answer; together with `database_silence` less than ten seconds.
    pub database_probe: Duration,
    /// Limit for a part of a batch that has met the statement time-out. A part usually takes milliseconds.
    pub slow_part: Duration,
    /// Wait for workers that close orders of a timeout that is being paused: longer than their statements may take.
    pub closings: Duration,
    /// The limit of `closings` on a page of `overdue ui`: the pause applies meanwhile, so the page can show who still closes
    /// orders.
    pub closings_on_page: Duration,
    /// Limit for an effect on some orders that is rolled back. A person waits for it, and it has locks.
    pub trial: Duration,
    /// Time for which the database may refuse every login before the worker exits. Its supervisor then restarts it with the
    /// current settings.
    pub login_refused: Duration,
    /// Interval at which the log reports a worker's work.
    pub log_work_every: Duration,
    /// Interval of readings of the database's clock. Two clocks drift apart by at most a quarter of a millisecond in it.
    /// After the database's clock was set, orders are late by at most this interval.
    pub clock_every: Duration,

    /// Limit for an answer on a queue's channel, and for a worker's first session. After it, the worker expects no messages.
    pub broker_silence: Duration,
    /// When the oldest orders have come by message again for this time, the worker no longer reads the table in place of messages.
    pub messages_again: Duration,
    /// A session that lasted this long was good: the next back-off starts small again.
    pub good_session: Duration,
    /// Upper bound of the first back-off.
    pub backoff_first: Duration,
    /// The longest back-off: after an outage, work continues at most this time plus one attempt later. Also the interval of
    /// polls for work that should have been announced.
    pub backoff_longest: Duration,
    /// Longest time until a worker consumes from a queue that `overdue apply` has put in the place of another.
    pub queues_every: Duration,
    /// A confirm takes milliseconds; without a confirm for this long, republishing is stuck.
    pub copies_stuck: Duration,

    /// A confirm takes milliseconds. After this time without one, a message waits for its destination, and others do not
    /// wait for it.
    pub destination_silence: Duration,
    /// Pause of a destination after the first message that it refuses.
    pub destination_pause_first: Duration,
    /// Each further refusal doubles the pause, up to this: each attempt can publish one more copy.
    pub destination_pause_longest: Duration,
    /// Pause before rows of published messages that could not be deleted are tried again.
    pub undeleted_again: Duration,
    /// Interval of full scans for unpublished rows: they find unexpected rows, below rows that were published long ago.
    pub look_at_everything: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self::divided(1, 1)
    }
}

impl Timing {
    /// Timing of tests without silent peers: polling is ten times as frequent, and a slow machine has the time that it
    /// needs.
    pub fn often() -> Self {
        Self {
            handshake: TEST_PATIENCE,
            api_call: TEST_PATIENCE,
            confirm: TEST_PATIENCE,
            least_statistics_interval: TEST_STATISTICS_INTERVAL,
            removed_timeout: TEST_STATISTICS_INTERVAL,
            broker_silence: TEST_PATIENCE,
            page_request: TEST_STALL,
            last_page: TEST_STALL,
            database_silence: TEST_STALL,
            destination_silence: TEST_STALL,
            login_refused: Duration::from_secs(2),
            ..Self::divided(1, 10)
        }
    }

    /// Timing of tests with silent peers: time-outs are a tenth as well.
    pub fn tenth() -> Self {
        Self {
            least_statistics_interval: TEST_STATISTICS_INTERVAL,
            removed_timeout: TEST_STATISTICS_INTERVAL,
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
            removed_timeout: interval(600_000),
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

            destination_silence: timeout(2),
            destination_pause_first: interval(1_000),
            destination_pause_longest: interval(60_000),
            undeleted_again: interval(30_000),
            look_at_everything: interval(60_000),
        }
    }
}
