//! A retired queue is deleted only when it is empty and unbound, whatever the statistics report.

use std::time::{Duration, Instant};

use lapin::{
    BasicProperties,
    message::BasicGetMessage,
    options::{BasicGetOptions, BasicNackOptions},
    types::FieldTable,
};
use overdue::internals::{
    broker::{ChangeError, ChangeEvent, Management, TopologyChange, apply::StepResult},
    plan::{Change, Plan, StatisticsInterval},
    timing::Timing,
    topology::Topology,
};
use tokio::{runtime::Handle, task::block_in_place};

use crate::support::{Wire, World};

const BEFORE: &str = r#"
name = "orders"
delay.levels = ["100ms", "30m", "40m"]
queues.type = "quorum"
timeout = [{ name = "unpaid", after = "100ms" }]
"#;

fn after() -> String {
    BEFORE.replace(r#", "30m", "40m""#, "")
}

fn deletion(queue: &str) -> Change {
    Change::DeleteQueue { queue: queue.to_owned(), lost: 0 }
}

impl World {
    /// Returns a plan that deletes both long levels.
    async fn about_to_delete(before: &str) -> (Self, Plan) {
        let mut world = Self::of(before).await;
        world.until_all_counted().await;
        world.mean(&before.replace(r#", "30m", "40m""#, ""));
        let management = world.management();
        let (plan, _) = TopologyChange::new(&management, &world.topology).plan().await.unwrap();
        let last: Vec<&Change> = plan.steps[4..].iter().map(|step| &step.change).collect();
        assert_eq!(last, [&deletion("orders.delay.30m"), &deletion("orders.delay.40m")], "{plan}");
        (world, plan)
    }

    /// Replaces the topology file.
    fn mean(&mut self, text: &str) {
        std::fs::write(self.topology_file(), text).unwrap();
        self.topology = Topology::parse(text).unwrap();
    }

    /// Carries a plan out; `meanwhile` runs between the two deletions, after the late counts.
    async fn carry_out(
        &self,
        plan: &Plan,
        meanwhile: impl Future<Output = ()>,
    ) -> Vec<(Change, StepResult)> {
        self.carry_out_with(&self.management(), plan, meanwhile).await
    }

    async fn carry_out_with(
        &self,
        management: &Management,
        plan: &Plan,
        meanwhile: impl Future<Output = ()>,
    ) -> Vec<(Change, StepResult)> {
        let mut meanwhile = Some(Box::pin(meanwhile));
        let mut ends = Vec::new();
        let on_event = |event: ChangeEvent<'_>| {
            let ChangeEvent::Step(step, result) = event else { return };
            if step.change == deletion("orders.delay.30m") {
                let meanwhile = meanwhile.take().unwrap();
                block_in_place(|| Handle::current().block_on(meanwhile));
            }
            ends.push((step.change.clone(), result));
        };
        let change = TopologyChange::new(management, &self.topology);
        change.make::<ChangeError>(|_| Ok(plan.clone()), on_event).await.unwrap();
        ends.split_off(4)
    }
}

impl Wire {
    /// Publishes a message, and gets it without an ack.
    async fn hold(&self, queue: &str) -> BasicGetMessage {
        self.publish_all("", queue, &["held".to_owned()]).await;
        let got = self.channel.basic_get(queue.into(), BasicGetOptions::default()).await;
        let held = got.unwrap().unwrap();
        assert_eq!(self.ready(queue).await, 0);
        held
    }

    async fn give_back(&self, queue: &str, held: BasicGetMessage) {
        let requeue = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        held.delivery.acker.nack(requeue).await.unwrap();
        self.until_ready(queue, 1).await;
    }
}

fn persistent() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}

/// The statistics report an empty queue, and will for seconds. The setting names the shortest interval.
async fn got_a_message_a_moment_ago(text: &str) {
    let (world, plan) = World::about_to_delete(text).await;
    let wire = world.wire().await;
    let late = async {
        let sent = wire.publish("", "orders.delay.40m", persistent(), b"late").await;
        assert!(sent.is_ack());
    };
    let all_the_time = StatisticsInterval::new(Duration::from_millis(1));
    let management = world.management().with_statistics_interval(all_the_time);
    let ends = world.carry_out_with(&management, &plan, late).await;
    let expected = [
        (deletion("orders.delay.30m"), StepResult::Done),
        (deletion("orders.delay.40m"), StepResult::NotEmpty),
    ];
    assert_eq!(ends, expected);
    assert_eq!(wire.take("orders.delay.40m").await.unwrap().text(), "late");
}

#[apply(world_test)]
async fn a_queue_that_got_a_message_a_moment_ago_is_kept() {
    got_a_message_a_moment_ago(BEFORE).await;
}

/// A classic queue has no reports, so the minimum intervals must pass, whatever the setting is.
#[apply(world_test)]
async fn a_classic_queue_is_deleted_when_the_least_intervals_have_passed() {
    let began = Instant::now();
    got_a_message_a_moment_ago(&BEFORE.replace("quorum", "classic")).await;
    let least = StatisticsInterval::new(Timing::often().least_statistics_interval);
    assert!(began.elapsed() >= least.counts_settle());
}

/// The queue's own reports show the time of a count: no setting makes a deletion early.
#[apply(world_test)]
async fn no_setting_makes_counts_believed_that_are_older_than_the_unbinding() {
    let hour = Duration::from_hours(1); // data: a setting
    for interval in [Duration::from_millis(1), hour] {
        let (world, plan) = World::about_to_delete(BEFORE).await;
        let wire = world.wire().await;
        let held = wire.hold("orders.delay.40m").await;
        let statistics = StatisticsInterval::new(interval);
        let management = world.management().with_statistics_interval(statistics);
        let ends = world.carry_out_with(&management, &plan, async {}).await;
        let expected = [
            (deletion("orders.delay.30m"), StepResult::Done),
            (deletion("orders.delay.40m"), StepResult::NotEmpty),
        ];
        assert_eq!(ends, expected, "{interval:?}");
        wire.give_back("orders.delay.40m", held).await;
    }
}

/// A client with the old topology may have bound it, for example.
#[apply(world_test)]
async fn a_queue_that_was_bound_again_is_kept() {
    let (world, plan) = World::about_to_delete(BEFORE).await;
    let wire = world.wire().await;
    let ends = world.carry_out(&plan, wire.bind("orders.delay.40m", "orders.in", "40m.*")).await;
    assert_eq!(ends[1], (deletion("orders.delay.40m"), StepResult::Bound));
    assert_eq!(wire.ready("orders.delay.40m").await, 0);
}

/// AMQP does not show the message.
#[apply(world_test)]
async fn a_queue_that_holds_a_message_back_is_kept() {
    let (world, plan) = World::about_to_delete(BEFORE).await;
    if !world.can_hold_back().await {
        return;
    }
    let day_ms = 86_400_000;
    let wire = world.hold_back("orders.delay.40m", day_ms).await;
    assert_eq!(wire.ready("orders.delay.40m").await, 0);
    let ends = world.carry_out(&plan, async {}).await;
    assert_eq!(ends[1], (deletion("orders.delay.40m"), StepResult::NotEmpty));
}

/// The message is due, and no queue takes it: it stays in the level, neither ready nor unacked.
#[apply(world_test)]
async fn a_queue_with_a_dead_letter_that_stands_still_is_kept() {
    let (world, plan) = World::about_to_delete(BEFORE).await;
    let wire = world.wire().await;
    let (queue, exchange) = ("orders.parked".into(), "orders.park".into());
    wire.channel.queue_unbind(queue, exchange, "".into(), FieldTable::default()).await.unwrap();
    let soon = persistent().with_expiration("1".into());
    assert!(wire.publish("", "orders.delay.40m", soon, b"stuck").await.is_ack());
    wire.until_ready("orders.delay.40m", 0).await;
    let ends = world.carry_out(&plan, async {}).await;
    assert_eq!(ends[1], (deletion("orders.delay.40m"), StepResult::NotEmpty));
    wire.bind("orders.parked", "orders.park", "").await;
}
