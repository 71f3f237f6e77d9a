//! The confirmation before a change, at a terminal. All commands share one function.

use crate::support::{World, samples::HALF_HOUR};

/// Ctrl-D at the beginning of a line ends the input.
const CTRL_D: &str = "\u{4}";

#[apply(world_test)]
async fn nothing_but_yes_changes_anything() {
    let world = World::empty().await;
    let tables =
        "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace";
    for keys in ["n\n", "\n", "no\n", "yn\n", CTRL_D] {
        for command in [&["apply"][..], &["database", "init"]] {
            let run = world.overdue_at_terminal(command, keys).exits(1);
            assert!(run.stderr.ends_with("? [y/N] error: nothing was changed\n"), "{keys:?} {run}");
        }
        assert!(world.own_objects().await.queues.is_empty(), "{keys:?}");
        assert_eq!(world.number(tables).await, 0, "{keys:?}");
    }
    insta::assert_snapshot!(world.shown(&world.overdue_at_terminal(&["database", "init"], "n\n")));
}

#[apply(world_test)]
async fn yes_goes_ahead() {
    for keys in ["y\n", "Y\n", "yes\n"] {
        let world = World::empty().await;
        let run = world.overdue_at_terminal(&["apply"], keys).exits(0);
        assert!(run.stderr.contains("apply this at amqp://"), "{keys:?} {run}");
        assert!(run.stdout.contains("applied 31 of 31 steps"), "{keys:?} {run}");
        assert!(!world.own_objects().await.queues.is_empty(), "{keys:?}");
        // Without a change there is no question.
        let again = world.overdue_at_terminal(&["apply"], "").exits(0);
        assert!(!again.to_string().contains("[y/N]"), "{again}");
    }
}

/// The end of a timeout is a change as well.
#[apply(world_test)]
async fn a_timeout_that_the_file_no_longer_has_is_known_until_the_answer_is_yes() {
    let world = World::new().await;
    world
        .store
        .register_timeouts("orders", &[("unpaid", HALF_HOUR), ("unclaimed", HALF_HOUR)])
        .await
        .unwrap();
    world.store.register_timeouts("returns", &[("unsent", HALF_HOUR)]).await.unwrap();
    let known = async || {
        let rows = world
            .rows("SELECT name FROM schedule_timeouts WHERE removed_at IS NULL ORDER BY 1")
            .await;
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    let init = ["database", "init"];
    let no = world.overdue_at_terminal(&init, "n\n");
    assert_eq!(
        (no.code, known().await),
        (Some(1), vec!["unclaimed".to_owned(), "unpaid".to_owned(), "unsent".to_owned()]),
        "{no}"
    );
    insta::assert_snapshot!(world.shown(&no));
    let yes = world.overdue_at_terminal(&init, "y\n");
    assert_eq!(
        (yes.code, known().await),
        (Some(0), vec!["unpaid".to_owned(), "unsent".to_owned()]),
        "{yes}"
    );
}
