//! The page in Chromium: each action, both themes, four widths, the keyboard alone, without JavaScript, and stale.

use crate::{
    parked::furnished,
    support::{World, browser::visit},
};

async fn assert_well(world: World, scenario: &str) {
    let ui = world.ui().await;
    if let Some(run) = visit(&ui, scenario) {
        assert_eq!(run.code, Some(0), "{run}");
    }
}

#[apply(world_test)]
async fn pages_fit_and_are_accessible_in_the_light_theme() {
    assert_well(furnished().await, "light").await;
}

#[apply(world_test)]
async fn pages_fit_and_are_accessible_in_the_dark_theme() {
    assert_well(furnished().await, "dark").await;
}

#[apply(world_test)]
async fn a_person_acts_with_the_keyboard_and_leaves_nothing_behind() {
    let world = furnished().await;
    assert_well(world, "act").await;
}

#[apply(world_test)]
async fn it_works_without_javascript() {
    assert_well(furnished().await, "plain").await;
}

#[apply(world_test)]
async fn a_page_whose_server_is_silent_says_that_it_is_stale() {
    assert_well(World::new().await, "stale").await;
}
