//! The printed rights suffice.

use std::collections::BTreeSet;

use overdue::internals::{
    permissions::{Role, definitions},
    topology::Topology,
};
use reqwest::Method;

use super::{drive, login, request, role};
use crate::support::{
    World,
    samples::{DOTTED, dotted},
};

/// The definitions are imported as they are printed; only passwords are set, since they have none.
async fn import(world: &World, topology: &Topology, routing_keys: bool) -> Vec<String> {
    let mut request = request(world);
    request.routing_keys = routing_keys;
    let roles = Role::all(topology);
    let printed = definitions::render(&roles, &request);
    let body = serde_json::from_str(&printed).unwrap();
    world.services.call(None, Method::POST, &["definitions"], body).await.unwrap();
    let mut users = Vec::new();
    for role in &roles {
        let user = request.user(role);
        let path = ["users", user.as_str()];
        let imported =
            world.services.call(None, Method::GET, &path, serde_json::Value::Null).await.unwrap();
        let tags: Vec<&str> = role.tag.iter().map(|tag| tag.name).collect();
        assert_eq!(imported["tags"], serde_json::json!(tags));
        world.user_named(&user, &tags.join(",")).await;
        users.push(user);
    }
    users
}

#[tokio::test(flavor = "multi_thread")]
async fn everyone_can_work_with_the_rights_that_are_printed() {
    let topology = dotted();
    let world = World::empty().await;
    let [publisher, worker, administrator] =
        import(&world, &topology, false).await.try_into().unwrap();
    drive::bring(&world.management_of(&administrator), &topology, &BTreeSet::new()).await.unwrap();
    drive::prepare_for_worker(&world, &topology).await;
    assert_eq!(drive::publisher(&world, &publisher, &topology).await, Ok(()));
    assert_eq!(drive::worker(&world, &worker, &topology).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_creates_replaces_deletes_and_unblocks() {
    let (topology, world) = (dotted(), World::empty().await);
    let user = login(&world, &role(&topology, "topology"), &request(&world)).await;
    assert_eq!(drive::administrator(&world, &user, &topology).await, Ok(()));
}

/// Levels and timeouts come and go without the broker's administrator.
#[tokio::test(flavor = "multi_thread")]
async fn the_administrators_rights_outlive_an_edited_topology() {
    let topology = dotted();
    let world = World::applied(DOTTED).await;
    let user = login(&world, &role(&topology, "topology"), &request(&world)).await;
    let text = DOTTED.replace("\"30m\"]", "\"5m\", \"30m\", \"1h\"]");
    let grown = Topology::parse(&format!("{text}\n[[timeout]]\nname = \"new\"\nafter = \"5m\""));
    let management = world.management_of(&user);
    let grown = grown.unwrap();
    assert_eq!(drive::bring(&management, &grown, &BTreeSet::new()).await, Ok(()));
    assert_eq!(drive::bring(&management, &topology, &BTreeSet::new()).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_can_be_limited_to_the_routing_keys() {
    let topology = dotted();
    let world = World::applied(DOTTED).await;
    let publisher = &import(&world, &topology, true).await[0];
    assert_eq!(drive::publisher(&world, publisher, &topology).await, Ok(()));
    for key in ["30m.other", "2h.unpaid", "30m.unpaid.x", "x.30m.unpaid", "130m.unpaid", ""] {
        let done = drive::publish(&world, Some(publisher), &topology.entry_exchange(), key).await;
        assert!(done.is_err_and(|error| drive::is_refusal(&error)), "{key}");
    }
}
