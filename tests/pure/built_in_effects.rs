//! The effects that need no settings.

use overdue::internals::{store::orders::Effect, topology::BUILT_IN_EFFECTS};

/// What the topology file may name without settings is what the program has SQL for.
#[test]
fn each_built_in_effect_has_its_sql() {
    for name in BUILT_IN_EFFECTS {
        assert_eq!(Effect::built_in(name).unwrap().name, name);
    }
    assert!(Effect::built_in("clos").is_none());
}
