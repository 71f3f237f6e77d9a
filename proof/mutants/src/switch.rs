// A module of the crate under test: which mutant is switched on, and which ones a test reaches.
use std::{collections::HashSet, env, fs::File, io::Write, sync::{LazyLock, Mutex}};

static ON: LazyLock<u32> = LazyLock::new(|| env::var("MUTANT").map_or(0, |id| id.parse().expect("a number")));
static REACHED: LazyLock<Option<Mutex<(HashSet<u32>, File)>>> = LazyLock::new(|| {
    let path = env::var("REACHED").ok()?;
    Some(Mutex::new((HashSet::new(), File::create(path).expect("a file"))))
});

#[inline(never)]
pub fn on(id: u32) -> bool {
    if let Some(reached) = &*REACHED {
        let mut reached = reached.lock().unwrap();
        if reached.0.insert(id) {
            writeln!(reached.1, "{id}").unwrap();
        }
    }
    *ON == id
}
