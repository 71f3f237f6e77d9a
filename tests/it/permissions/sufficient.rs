//! The printed rights suffice.

use std::collections::BTreeSet;

use overdue::{
    permissions::{Role, definitions},
    topology::Topology,
};
use reqwest::Method;

use super::{drive, place::Place, request, role};
use crate::support::samples::{DOTTED, dotted};

/// The definitions are imported as they are printed; only passwords are set, since they have none.
async fn import(place: &Place, topology: &Topology, routing_keys: bool) -> Vec<String> {
    let mut request = request(place);
    request.routing_keys = routing_keys;
    let roles = Role::all(topology);
    let printed = definitions::render(&roles, &request);
    let body = serde_json::from_str(&printed).unwrap();
    place.admin(Method::POST, &["definitions"], body).await.unwrap();
    let mut users = Vec::new();
    for role in &roles {
        let user = request.user(role);
        let path = ["users", user.as_str()];
        let imported = place.admin(Method::GET, &path, serde_json::Value::Null).await.unwrap();
        let tags: Vec<&str> = role.tag.iter().map(|tag| tag.name).collect();
        assert_eq!(imported["tags"], serde_json::json!(tags));
        place.user(&user, &tags).await;
        users.push(user);
    }
    users
}

#[tokio::test(flavor = "multi_thread")]
async fn everyone_can_work_with_the_rights_that_are_printed() {
    let topology = dotted();
    let place = Place::new().await;
    let [publisher, worker, administrator] =
        import(&place, &topology, false).await.try_into().unwrap();
    drive::bring(&place.management(Some(&administrator)), &topology, &BTreeSet::new())
        .await
        .unwrap();
    drive::prepare_for_worker(&place, &topology).await;
    assert_eq!(drive::publisher(&place, &publisher, &topology).await, Ok(()));
    assert_eq!(drive::worker(&place, &worker, &topology).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrator_creates_replaces_deletes_and_unblocks() {
    let (topology, place) = (dotted(), Place::new().await);
    let user = place.login(&role(&topology, "topology"), &request(&place)).await;
    assert_eq!(drive::administrator(&place, &user, &topology).await, Ok(()));
}

/// Levels and timeouts come and go without the broker's administrator.
#[tokio::test(flavor = "multi_thread")]
async fn the_administrators_rights_outlive_an_edited_topology() {
    let topology = dotted();
    let place = Place::of(&topology).await;
    let user = place.login(&role(&topology, "topology"), &request(&place)).await;
    let text = DOTTED.replace("\"30m\"]", "\"5m\", \"30m\", \"1h\"]");
    let grown = Topology::parse(&format!("{text}\n[[timeout]]\nname = \"new\"\nafter = \"5m\""));
    let management = place.management(Some(&user));
    let grown = grown.unwrap();
    assert_eq!(drive::bring(&management, &grown, &BTreeSet::new()).await, Ok(()));
    assert_eq!(drive::bring(&management, &topology, &BTreeSet::new()).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_publisher_can_be_limited_to_the_routing_keys() {
    let topology = dotted();
    let place = Place::of(&topology).await;
    let publisher = &import(&place, &topology, true).await[0];
    assert_eq!(drive::publisher(&place, publisher, &topology).await, Ok(()));
    for key in ["30m.other", "2h.unpaid", "30m.unpaid.x", "x.30m.unpaid", "130m.unpaid", ""] {
        let done = drive::publish(&place, Some(publisher), &topology.entry_exchange(), key).await;
        assert!(done.is_err_and(|error| drive::is_refusal(&error)), "{key}");
    }
}
