//! Each right is necessary: without it alone, its user fails for that reason. `make test` tries some rights, `make proof PART=services`
//! each.
//!
//! The test removes rights from the list that the expressions are made of, so every printed right is tested.

use futures_util::{StreamExt, stream};
use overdue::internals::{
    permissions::{Reach, Role, RoutingKeys},
    topology::{Topology, strategy::BeforeTimeout},
};
use rand::{SeedableRng, rngs::StdRng, seq::IteratorRandom};
use reqwest::Method;
use serde_json::json;

use super::{
    commands::assert_on_call_needs_all,
    drive::{self, Done, is_refusal},
    login, request, role,
};
use crate::support::{
    Services, World,
    samples::{DOTTED, dotted, dotted_compat, dotted_ladder},
};

/// Concurrent virtual hosts; they keep a broker on two cores busy.
const AT_ONCE: usize = 4;

/// The label of the attempt with all rights: without it, any defect would pass for a missing right.
const COMPLETE: &str = "complete";

/// The removed right, and the object that the broker's refusal must name.
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

/// The rights to remove.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Three rights of a role, chosen by a fixed seed.
    Some,
    Each,
}

impl Tried {
    pub(super) fn of<T>(self, rights: Vec<T>) -> Vec<T> {
        match self {
            Self::Some => rights.into_iter().sample(&mut StdRng::seed_from_u64(44), 3),
            Self::Each => rights,
        }
    }
}

/// The unchanged role.
fn complete(role: &Role) -> (Taken, Role) {
    (Taken::of(COMPLETE, ""), role.clone())
}

/// The unchanged role, then with some of its needs missing, or with each, and without its tag.
pub(super) fn lessened(role: &Role, tried: Tried) -> Vec<(Taken, Role)> {
    [complete(role)].into_iter().chain(tried.of(without_one(role))).collect()
}

fn without_one(role: &Role) -> Vec<(Taken, Role)> {
    let mut all = Vec::new();
    for (index, need) in role.needs.iter().enumerate() {
        let mut lesser = role.clone();
        lesser.needs.remove(index);
        if let Reach::Topology { later, .. } = &mut lesser.reach {
            later.remove(&(need.right, need.object.clone()));
        }
        // Over HTTP the broker does not name the object, and our step names the declared object instead of its target.
        let indirect = need.why.starts_with("be the ");
        let named = if indirect { "" } else { need.object.name() };
        all.push((Taken::of(&format!("{}: {need:?}", role.name), named), lesser));
    }
    if let Some(tag) = role.tag {
        let what = format!("{}: tag {}", role.name, tag.name);
        all.push((Taken::of(&what, ""), Role { tag: None, ..role.clone() }));
    }
    all
}

/// Returns the wrong attempts: the complete one must succeed, all others must fail with a refusal of their right.
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

pub(crate) async fn assert_publisher_and_worker_need_all(
    services: Services,
    text: &str,
    tried: Tried,
) {
    let world = World::bare(services, text).await;
    let topology = world.topology.clone();
    world.apply(&topology).await;
    drive::prepare_for_worker(&world, &topology).await;
    let mut attempts = Vec::new();
    for name in ["publisher", "worker"] {
        for (taken, lesser) in lessened(&role(&topology, name), tried) {
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

pub(crate) async fn assert_administrator_needs_all(services: Services, text: &str, tried: Tried) {
    let topology = Topology::parse(text).unwrap();
    let administrator = role(&topology, "topology");
    // Rights that are the same with levels are tried with levels.
    let known = if text == DOTTED { Vec::new() } else { role(&dotted(), "topology").needs };
    let mut lesser = without_one(&administrator);
    lesser.retain(|(_, lesser)| {
        let taken = administrator.needs.iter().find(|need| !lesser.needs.contains(need));
        taken.is_none_or(|need| {
            !known.iter().any(|it| (it.right, &it.object) == (need.right, &need.object))
        })
    });
    let lesser = [complete(&administrator)].into_iter().chain(tried.of(lesser));
    let attempts = stream::iter(lesser).map(|(taken, lesser)| {
        let (topology, services, text) = (topology.clone(), services.clone(), text.to_owned());
        // On tasks of their own, so that one can delete its world while the others continue.
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

async fn assert_everyone_needs_all(tried: Tried) {
    let texts = [DOTTED, &dotted_ladder(), &dotted_compat()];
    for text in texts {
        let publisher_and_worker =
            assert_publisher_and_worker_need_all(Services::main(), text, tried);
        let administrator = assert_administrator_needs_all(Services::main(), text, tried);
        let on_call = async {
            // The role has no other rights with a taken-over exchange.
            if text != texts[2] {
                assert_on_call_needs_all(Services::main(), text, tried).await;
            }
        };
        tokio::join!(publisher_and_worker, administrator, on_call);
    }
}

#[apply(world_test)]
async fn everyone_breaks_without_some_of_their_rights() {
    assert_everyone_needs_all(Tried::Some).await;
}

#[apply(world_test)]
#[ignore = "takes minutes: `make proof PART=services`"]
async fn everyone_breaks_without_any_one_of_their_rights() {
    assert_everyone_needs_all(Tried::Each).await;
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
