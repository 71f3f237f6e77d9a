//! The printed rights are sufficient.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use overdue::internals::{
    permissions::{Role, definitions},
    topology::Topology,
};
use reqwest::Method;

use super::{drive, login, request, role};
use crate::support::{
    Services, World,
    samples::{DOTTED, dotted, dotted_compat, dotted_ladder},
};

/// Imports the printed definitions; the test adds passwords, which they lack.
pub(super) async fn import(world: &World, topology: &Topology, routing_keys: bool) -> Vec<String> {
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

pub(crate) async fn assert_everyone_can_work(services: Services, text: &str) {
    let world = World::bare(services, text).await;
    let topology = world.topology.clone();
    let [publisher, worker, administrator, _on_call] =
        import(&world, &topology, false).await.try_into().unwrap();
    drive::bring(&world.management_of(&administrator), &topology, &BTreeSet::new()).await.unwrap();
    drive::prepare_for_worker(&world, &topology).await;
    assert_eq!(drive::publisher(&world, &publisher, &topology).await, Ok(()));
    assert_eq!(drive::worker(&world, &worker, &topology).await, Ok(()));
}

/// Changes the first strategy into all others and back, with the rights that are printed for the first.
pub(crate) async fn assert_strategies_can_change(services: Services, texts: &[String]) {
    let changes = texts.iter().map(async |first| {
        let world = World::bare(services.clone(), first).await;
        let user = login(&world, &role(&world.topology, "topology"), &request(&world)).await;
        let management = world.management_of(&user);
        let others = texts.iter().filter(|text| *text != first);
        for text in [first].into_iter().chain(others).chain([first]) {
            let topology = Topology::parse(text).unwrap();
            let brought = drive::bring(&management, &topology, &BTreeSet::new()).await;
            assert_eq!(brought, Ok(()), "rights for\n{first}\nto\n{text}");
            drive::probe(&world, &user, &topology).await.unwrap();
        }
    });
    join_all(changes).await;
}

#[apply(world_test)]
async fn everyone_can_work_with_the_rights_that_are_printed() {
    let texts = [DOTTED, &dotted_ladder(), &dotted_compat()];
    join_all(texts.map(|text| assert_everyone_can_work(Services::main(), text))).await;
}

#[apply(world_test)]
async fn the_administrators_rights_outlive_another_strategy() {
    assert_strategies_can_change(Services::main(), &[DOTTED.to_owned(), dotted_ladder()]).await;
}

/// Levels and timeouts change without the broker's administrator.
#[apply(world_test)]
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

async fn assert_limited(text: &str, refused: &[(&str, &str)]) {
    let world = World::applied(text).await;
    let topology = world.topology.clone();
    let publisher = &import(&world, &topology, true).await[0];
    assert_eq!(drive::publisher(&world, publisher, &topology).await, Ok(()));
    for (exchange, key) in refused {
        let done = drive::publish(&world, Some(publisher), exchange, key).await;
        assert!(done.is_err_and(|error| drive::is_refusal(&error)), "{exchange}: {key}");
    }
}

#[apply(world_test)]
async fn a_publisher_can_be_limited_to_the_routing_keys() {
    let keys = ["30m.other", "2h.unpaid", "30m.unpaid.x", "x.30m.unpaid", "130m.unpaid", ""];
    assert_limited(DOTTED, &keys.map(|key| ("a.b.in", key))).await;
    // As many digits as there are places from here on, smallest first; then a timeout.
    let (one, two) = ("a.b.ladder.1s", "a.b.ladder.10s");
    let refused = [
        (one, "unpaid"),
        (one, "1.other"),
        (one, "1.1.unpaid"),
        (one, "x.unpaid"),
        (two, "1.unpaid"),
        (two, "1.1.unpaid.x"),
        (two, "1.1.other"),
        (two, ""),
    ];
    assert_limited(&dotted_ladder(), &refused).await;
}
