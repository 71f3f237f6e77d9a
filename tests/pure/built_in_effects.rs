//! The effects that need no settings.

use overdue::internals::{store::orders::Effect, topology::BUILT_IN_EFFECTS};

/// The program has SQL for each effect that a topology file may name without settings.
#[test]
fn each_built_in_effect_has_its_sql() {
    for name in BUILT_IN_EFFECTS {
        assert_eq!(Effect::built_in(name).unwrap().name, name);
    }
    assert!(Effect::built_in("clos").is_none());
}
