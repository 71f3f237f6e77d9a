//! The least rights that `overdue permissions` prints, on a real broker: they are sufficient, each is necessary, and they
//! reach no further.

pub(crate) mod commands;
mod database;
mod drive;
pub(crate) mod necessary;
pub(crate) mod sufficient;
pub(crate) mod tight;

use overdue::internals::{
    permissions::{Request, Right, Role},
    topology::Topology,
};

use crate::support::World;

/// The request for rights in these tests, with users.
fn request(world: &World) -> Request {
    Request {
        vhost: world.vhost.clone(),
        user_prefix: format!("{}-", world.vhost),
        create_users: true,
        routing_keys: false,
    }
}

fn role(topology: &Topology, name: &str) -> Role {
    Role::all(topology).into_iter().find(|role| role.name == name).unwrap()
}

/// Creates a user with the rights and the tag of `role`, as printed.
async fn login(world: &World, role: &Role, request: &Request) -> String {
    let user = request.user(role);
    world.user_named(&user, &tags(role)).await;
    let rights = [Right::Configure, Right::Write, Right::Read].map(|right| role.expression(right));
    world.permit(&user, rights.each_ref().map(String::as_str)).await;
    user
}

/// The tags of a role in the broker's format.
fn tags(role: &Role) -> String {
    role.tag.iter().map(|tag| tag.name).collect()
}
