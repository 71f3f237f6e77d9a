//! Copies what publishes to where `src/main.rs` takes it in, and beside it a copy with a known fault, which has to be found.

use std::{fs, path::Path};

const FILES: [&str; 6] = ["error.rs", "outlet.rs", "returns.rs", "send.rs", "sent.rs", "task.rs"];

fn main() {
    let from = Path::new("../../src/messaging");
    let read = |file: &str| {
        println!("cargo::rerun-if-changed={}", from.join(file).display());
        fs::read_to_string(from.join(file)).unwrap()
    };
    for copy in ["taken", "broken"] {
        let to = Path::new("target").join(copy);
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("mod.rs"), read("publish.rs")).unwrap();
        for file in FILES {
            let mut text = read(&format!("publish/{file}"));
            if copy == "broken" && file == "returns.rs" {
                // A message is decided by its own confirm, although its return may come with the next one.
                let waits = "if with_return { &mut undecided }";
                assert!(text.contains(waits), "the fault has no place any more");
                text = text.replace(waits, "if with_return && false { &mut undecided }");
            }
            fs::write(to.join(file), text).unwrap();
        }
    }
    let watched = "../../src/worker/on_their_way.rs";
    println!("cargo::rerun-if-changed={watched}");
}
