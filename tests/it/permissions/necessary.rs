//! None of the rights can go: each one is taken away, by itself, and its user fails for want of it.
//!
//! What is taken is the list the expressions are made of, so a right that is printed is a right that is tested.

use futures_util::{StreamExt, future::join_all, stream};
use overdue::internals::{
    permissions::{Reach, Role, RoutingKeys, Tag},
    topology::{Topology, strategy::BeforeTimeout},
};
use reqwest::Method;
use serde_json::json;

use super::{
    drive::{self, Done, is_refusal},
    login, request, role,
};
use crate::support::{
    Services, World,
    samples::{DOTTED, dotted, dotted_compat, dotted_ladder},
};

/// Virtual hosts at once; a broker on two cores is busy with so many.
const AT_ONCE: usize = 4;

/// The label of the attempt that has everything: without it, any defect would pass for a missing right.
const COMPLETE: &str = "complete";

/// What was taken away, and what the broker's refusal has to name.
#[derive(Clone)]
pub(super) struct Taken {
    what: String,
    named: String,
}

impl Taken {
    fn of(what: &str, named: &str) -> Self {
        Self { what: what.to_owned(), named: named.to_owned() }
    }
}

/// The role as it is, then with each of its needs missing, and with each tag that is less.
pub(super) fn lessened(role: &Role) -> Vec<(Taken, Role)> {
    let mut all = vec![(Taken::of(COMPLETE, ""), role.clone())];
    for (index, need) in role.needs.iter().enumerate() {
        let mut lesser = role.clone();
        lesser.needs.remove(index);
        if let Reach::Topology { later, .. } = &mut lesser.reach {
            later.remove(&(need.right, need.object.clone()));
        }
        // Over HTTP the broker does not say what it was, and our step names what was declared, not what it leads to.
        let indirect = need.why.starts_with("be the ");
        let named = if indirect { "" } else { need.object.name() };
        all.push((Taken::of(&format!("{}: {need:?}", role.name), named), lesser));
    }
    let Some(tag) = role.tag else { return all };
    let less = match tag.name {
        "policymaker" => vec![None, Some(Tag { name: "management", ..tag })],
        _ => vec![None],
    };
    for tag in less {
        let what = format!("{}: tag, now {:?}", role.name, tag.map(|tag| tag.name));
        all.push((Taken::of(&what, ""), Role { tag, ..role.clone() }));
    }
    all
}

/// Every attempt that did not end as it should: the complete one well, all others in the refusal of just that.
pub(super) fn needless(attempts: Vec<(Taken, Done)>) -> Vec<String> {
    assert!(attempts.len() > 1);
    let wrong = attempts.into_iter().filter_map(|(Taken { what, named }, done)| match done {
        Ok(()) if what == COMPLETE => None,
        Ok(()) => Some(format!("{what}: works without it")),
        Err(error) if what != COMPLETE && is_refusal(&error) && error.contains(&named) => None,
        Err(error) => Some(format!("{what}: {error}")),
    });
    wrong.collect()
}

pub(crate) async fn assert_publisher_and_worker_need_all(services: Services, text: &str) {
    let world = World::bare(services, text).await;
    let topology = world.topology.clone();
    world.apply(&topology).await;
    drive::prepare_for_worker(&world, &topology).await;
    let mut attempts = Vec::new();
    for name in ["publisher", "worker"] {
        for (taken, lesser) in lessened(&role(&topology, name)) {
            let user = login(&world, &lesser, &request(&world)).await;
            let done = match name {
                "publisher" => drive::publisher(&world, &user, &topology).await,
                _ => drive::worker(&world, &user, &topology).await,
            };
            attempts.push((taken, done));
        }
    }
    assert_eq!(needless(attempts), Vec::<String>::new());
}

pub(crate) async fn assert_administrator_needs_all(services: Services, text: &str) {
    let topology = Topology::parse(text).unwrap();
    let administrator = role(&topology, "topology");
    // What is the same with levels is tried there.
    let known = if text == DOTTED { Vec::new() } else { role(&dotted(), "topology").needs };
    let tried: Vec<(Taken, Role)> = lessened(&administrator)
        .into_iter()
        .filter(|(_, lesser)| {
            let taken = administrator.needs.iter().find(|need| !lesser.needs.contains(need));
            taken.is_none_or(|need| {
                !known.iter().any(|it| (it.right, &it.object) == (need.right, &need.object))
            })
        })
        .collect();
    let attempts = stream::iter(tried).map(|(taken, lesser)| {
        let (topology, services, text) = (topology.clone(), services.clone(), text.to_owned());
        // Tasks of their own: while one deletes its world the others go on.
        tokio::spawn(async move {
            let world = World::bare(services, &text).await;
            let user = login(&world, &lesser, &request(&world)).await;
            (taken, drive::administrator(&world, &user, &topology).await)
        })
    });
    let attempts: Vec<_> = attempts.buffer_unordered(AT_ONCE).collect().await;
    let attempts = attempts.into_iter().map(Result::unwrap).collect();
    assert_eq!(needless(attempts), Vec::<String>::new());
}

#[apply(world_test)]
async fn publisher_and_worker_break_without_any_one_of_their_rights() {
    let texts = [DOTTED, &dotted_ladder(), &dotted_compat()];
    join_all(texts.map(|text| assert_publisher_and_worker_need_all(Services::main(), text))).await;
}

#[apply(world_test)]
async fn the_administrator_breaks_without_any_one_of_its_rights() {
    assert_administrator_needs_all(Services::main(), DOTTED).await;
}

#[apply(world_test)]
async fn the_administrator_of_a_ladder_breaks_without_any_one_of_its_rights() {
    assert_administrator_needs_all(Services::main(), &dotted_ladder()).await;
}

#[apply(world_test)]
async fn the_administrator_of_a_taken_over_exchange_breaks_without_any_one_of_its_rights() {
    assert_administrator_needs_all(Services::main(), &dotted_compat()).await;
}

#[apply(world_test)]
async fn every_word_of_the_routing_key_limit_is_needed() {
    let topology = dotted();
    let world = World::applied(DOTTED).await;
    let publisher = role(&topology, "publisher");
    let user = login(&world, &publisher, &request(&world)).await;
    let keys = publisher.routing_keys[0].clone();
    let BeforeTimeout::Levels(levels) = &keys.before else { panic!("it has levels") };
    let mut lesser = vec![(Taken::of(COMPLETE, ""), keys.clone())];
    for level in levels {
        let others = levels.iter().filter(|other| *other != level).cloned().collect();
        let keys = RoutingKeys { before: BeforeTimeout::Levels(others), ..keys.clone() };
        lesser.push((Taken::of(level, &format!("{level}.")), keys));
    }
    for index in 0..keys.timeouts.len() {
        let mut keys = keys.clone();
        let timeout = keys.timeouts.remove(index);
        lesser.push((Taken::of(&timeout, &format!(".{timeout}")), keys));
    }
    let mut attempts = Vec::new();
    for (taken, keys) in lesser {
        let limit = json!({ "exchange": keys.exchange, "write": keys.expression(), "read": "^$" });
        let path = ["topic-permissions", &world.vhost, &user];
        world.services.call(None, Method::PUT, &path, limit).await.unwrap();
        attempts.push((taken, drive::publisher(&world, &user, &topology).await));
    }
    assert_eq!(needless(attempts), Vec::<String>::new());
}
