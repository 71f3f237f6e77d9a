//! Rules about the levels by order category.

use std::collections::BTreeSet;

use toml::Spanned;

use super::surroundings::Surroundings;
use crate::{diagnostic::Draft, topology::file::TopologyFile};

/// The parser keeps no place of a key, so the finding is at its level.
pub(super) fn empty(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let categories = file.timeout.iter().flat_map(|timeout| &timeout.get_ref().after_by_category);
    let empty = categories.filter(|(category, _)| category.trim().is_empty());
    empty
        .map(|(_, level)| {
            let message = format!("the category of level `{}` has no name", level.get_ref());
            let help = "name it as order services do, e.g. virtual, or take it out";
            Draft::in_file(level.span(), message, help)
        })
        .collect()
}

/// A timeout without any category treats all orders alike, which is not a mistake; one that has some and lacks
/// another that its sibling has probably is.
pub(super) fn missing(file: &TopologyFile, _: &Surroundings) -> Vec<Draft> {
    let timeouts = || file.timeout.iter().map(Spanned::get_ref);
    let known: BTreeSet<&str> = timeouts()
        .flat_map(|timeout| timeout.after_by_category.keys().map(String::as_str))
        // Without a name it is an error already.
        .filter(|category| !category.trim().is_empty())
        .collect();
    let mut drafts = Vec::new();
    for timeout in timeouts().filter(|timeout| !timeout.after_by_category.is_empty()) {
        let name = timeout.name.get_ref();
        for category in
            known.iter().filter(|known| !timeout.after_by_category.contains_key(**known))
        {
            let message = format!(
                "timeout `{name}` has levels by category, but none for `{category}`, which another timeout has; \
                 `overdue publish --timeout {name} --category {category}` is refused"
            );
            let help = format!(
                "add {category} = \"{}\" to its after_by_category",
                timeout.after.get_ref()
            );
            drafts.push(Draft::in_file(timeout.name.span(), message, help));
        }
    }
    drafts
}
