//! Dead letters that no queue takes, on the real broker.

use serde_json::json;

use super::applied;
use crate::support::until;

#[apply(world_test)]
async fn dead_letters_without_a_queue_are_found_with_what_blocks_them() {
    let world = applied().await;
    world.delete("exchanges", "orders.dlx").await;
    world.exchange("orders.dlx", "topic", json!({})).await;
    world.bind("orders.dlx", "orders.unshipped", "#.unshipped").await;
    world.publish_to("orders.in", "1s.unpaid", 3).await;
    let look = async || world.count("orders.delay.1s", "messages_dlx").await;
    until("dead letters held", look, |held| *held == Some(3)).await;
    let run = world.overdue(&["verify"]).exits(2);
    let apart = world.management().statistics_interval().counts_settle();
    let apart = format!("({}s earlier:", apart.as_secs());
    let shown = run.stdout.replace(&world.vhost, "VHOST").replace(&apart, "(<seconds> earlier:");
    insta::assert_snapshot!(shown);
}
