//! Nothing in a picture covers anything else, whatever the topology is.

use overdue::internals::{
    graph::{
        Graph, Live,
        layout::{Layout, Rect, Text},
        svg,
    },
    plan::Snapshot,
    topology::Topology,
};
use proptest::prelude::*;

use crate::generate;

fn overlap(one: Rect, other: Rect) -> bool {
    one.x < other.right()
        && other.x < one.right()
        && one.y < other.bottom()
        && other.y < one.bottom()
}

fn inside(outer: Rect, inner: Rect) -> bool {
    outer.x <= inner.x
        && inner.right() <= outer.right()
        && outer.y <= inner.y
        && inner.bottom() <= outer.bottom()
}

/// A line between two points, as thin as it gets, without its ends, which touch boxes.
fn strip((from_x, from_y): (i32, i32), (to_x, to_y): (i32, i32)) -> Rect {
    let (x, y) = (from_x.min(to_x), from_y.min(to_y));
    let (width, height) = ((from_x - to_x).abs(), (from_y - to_y).abs());
    if width >= height {
        Rect { x: x + 1, y, width: width - 2, height: 1 }
    } else {
        Rect { x, y: y + 1, width: 1, height: height - 2 }
    }
}

/// Everything that makes a picture readable.
fn check(graph: &Graph) {
    let layout = Layout::of(graph);
    let page = Rect { x: 0, y: 0, width: layout.width, height: layout.height };
    let ids: Vec<&str> = layout.nodes.iter().map(|node| node.id.as_str()).collect();
    let mut wanted: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
    let mut found = ids.clone();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "each node once");
    for (at, node) in layout.nodes.iter().enumerate() {
        assert!(inside(page, node.rect), "{} is outside of the page", node.id);
        for text in &node.texts {
            assert!(
                inside(node.rect, text.rect()),
                "`{}` does not fit into {}",
                text.text,
                node.id
            );
        }
        for (one, text) in node.texts.iter().enumerate() {
            for other in node.texts.iter().skip(one + 1) {
                assert!(
                    !overlap(text.rect(), other.rect()),
                    "{}: `{}` and `{}`",
                    node.id,
                    text.text,
                    other.text
                );
            }
        }
        for other in layout.nodes.iter().skip(at + 1) {
            assert!(!overlap(node.rect, other.rect), "{} and {} overlap", node.id, other.id);
        }
    }
    for placed in &layout.groups {
        let group = graph.group(&placed.id).expect("a group of the graph");
        assert!(placed.texts.iter().all(|text| inside(placed.rect, text.rect())));
        for node in &layout.nodes {
            let member = group.nodes.contains(&node.id);
            assert_eq!(inside(placed.rect, node.rect), member, "{} in {}", node.id, placed.id);
            assert_eq!(overlap(placed.rect, node.rect), member, "{} over {}", node.id, placed.id);
            assert!(placed.texts.iter().all(|text| !overlap(text.rect(), node.rect)));
        }
    }
    texts_are_free(&layout, page);
    arrows_are_free(&layout);
}

fn texts_are_free(layout: &Layout, page: Rect) {
    let labels = layout.edges.iter().filter_map(|edge| edge.label.as_ref());
    let texts: Vec<_> = layout.texts.iter().chain(labels).collect();
    let samples = layout.legend.iter();
    let lines: Vec<Rect> = layout
        .edges
        .iter()
        .chain(samples)
        .flat_map(|edge| edge.points.windows(2).map(|ends| strip(ends[0], ends[1])))
        .collect();
    for (at, text) in texts.iter().enumerate() {
        let rect = text.rect();
        assert!(inside(page, rect), "`{}` is outside of the page", text.text);
        assert!(
            !layout.nodes.iter().any(|node| overlap(node.rect, rect)),
            "`{}` on a box",
            text.text
        );
        for group in &layout.groups {
            let beside = !overlap(group.rect, rect);
            assert!(beside || inside(group.rect, rect), "`{}` on a frame", text.text);
            let headings = group.texts.iter().map(Text::rect);
            assert!(headings.into_iter().all(|it| !overlap(it, rect)), "`{}`", text.text);
        }
        assert!(!lines.iter().any(|line| overlap(*line, rect)), "`{}` on an arrow", text.text);
        for other in texts.iter().skip(at + 1) {
            assert!(!overlap(other.rect(), rect), "`{}` and `{}`", text.text, other.text);
        }
    }
}

/// An arrow touches boxes and frames only where it begins and ends, and is straight.
fn arrows_are_free(layout: &Layout) {
    for edge in &layout.edges {
        for ends in edge.points.windows(2) {
            let ((from_x, from_y), (to_x, to_y)) = (ends[0], ends[1]);
            assert!(from_x == to_x || from_y == to_y, "{} is not straight", edge.title);
            let line = strip(ends[0], ends[1]);
            // From box to box in one frame.
            let frames = layout.groups.iter().map(|g| g.rect).filter(|frame| !inside(*frame, line));
            for rect in layout.nodes.iter().map(|node| node.rect).chain(frames) {
                assert!(!overlap(rect, line), "{} runs over {rect:?}: {line:?}", edge.title);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_topology_is_readable(topology in generate::topology()) {
        check(&Graph::of(&topology, None));
    }

    /// With what waits, and with what a former topology left behind, in another queue type.
    #[test]
    fn any_broker_is_readable(now in generate::topology(), mut then in generate::topology(), messages: u64) {
        then.name.clone_from(&now.name);
        let mut snapshot = Snapshot::of(&then);
        snapshot.messages.values_mut().for_each(|count| *count = messages);
        check(&Graph::of(&now, Some(&Live::of(&now, &snapshot))));
    }
}

fn wide(levels: usize, timeouts: usize, name: &str) -> Topology {
    let levels: Vec<String> = (1..=levels).map(|level| format!("\"{level}s\"")).collect();
    let timeouts: Vec<String> = (0..timeouts)
        .map(|at| format!("[[timeout]]\nname = \"t{at}\"\nafter = \"1s\"\n"))
        .collect();
    let text = format!(
        "name = \"{name}\"\n[delay]\nlevels = [{}]\n{}",
        levels.join(", "),
        timeouts.concat()
    );
    Topology::parse(&text).expect("a good file")
}

#[test]
fn many_levels_and_timeouts_are_readable() {
    for levels in [1, 2, 14, 16, 17, 30, 64, 200] {
        for timeouts in [1, 2, 6, 20] {
            check(&Graph::of(&wide(levels, timeouts, "orders"), None));
        }
    }
}

#[test]
fn long_names_are_readable() {
    check(&Graph::of(&wide(14, 6, &"n".repeat(191)), None));
    check(&Graph::of(&wide(1, 1, "o"), None));
}

/// Each ladder, alone and beside levels, and the plugin's exchange; also with what an earlier one left behind.
#[test]
fn other_strategies_are_readable() {
    let timeouts =
        "[[timeout]]\nname = 'unpaid'\nafter = '30m'\n[[timeout]]\nname = 'b'\nafter = '1s'\n";
    let written = |delay: &str| format!("name = 'orders'\n[delay]\n{delay}\n{timeouts}");
    let mut all = vec![written("strategy = 'delayed-exchange'"), written("levels = ['1s', '30m']")];
    for max in ["1h", "30d", "3650d"] {
        for budget in ["", "queues = 130"] {
            for levels in ["", "levels = ['30m']", "levels = ['1s', '2s', '3s', '30m', '1h']"] {
                let ladder = format!(
                    "strategy = 'ladder'\n{levels}\n[delay.ladder]\nmax = '{max}'\n{budget}"
                );
                all.push(written(&ladder));
            }
        }
    }
    let all: Vec<Topology> = all
        .iter()
        .map(|text| Topology::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}")))
        .collect();
    for now in &all {
        check(&Graph::of(now, None));
        for then in all.iter().take(6) {
            let mut snapshot = Snapshot::of(then);
            snapshot.messages.values_mut().for_each(|count| *count = 1_234_567);
            check(&Graph::of(now, Some(&Live::of(now, &snapshot))));
        }
    }
}

/// What is taken over from the plugin has a frame of its own, whatever is above it.
#[test]
fn a_taken_over_exchange_is_readable() {
    let timeouts = "[[timeout]]\nname = 'unpaid'\nafter = '30m'\n";
    for routing in ["direct", "topic", "fanout", "headers"] {
        for delay in [
            "levels = ['30m']",
            "levels = ['1s', '2s', '30m', '1h']",
            "levels = ['30m', '60d']",
            "strategy = 'ladder'\nladder = { max = '30d' }",
            "strategy = 'ladder'\nladder = { max = '30d' }\nlevels = ['30m']",
        ] {
            for old in ["a", "reminders", &"n".repeat(255)] {
                let compat = format!("[compat.x-delay]\nexchange = '{old}'\ntype = '{routing}'\n");
                let text = format!("name = 'orders'\n[delay]\n{delay}\n{timeouts}{compat}");
                let now = Topology::parse(&text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
                check(&Graph::of(&now, None));
                let mut snapshot = Snapshot::of(&now);
                snapshot.messages.values_mut().for_each(|count| *count = 1_234_567);
                check(&Graph::of(&now, Some(&Live::of(&now, &snapshot))));
                snapshot.objects.queues.remove("orders.compat");
                check(&Graph::of(&now, Some(&Live::of(&now, &snapshot))));
            }
        }
    }
}

/// Thirty levels are as high as fifteen and no more than two columns wide.
#[test]
fn levels_go_into_columns() {
    let frame = |levels| {
        let layout = Layout::of(&Graph::of(&wide(levels, 1, "orders"), None));
        layout.groups.iter().find(|group| group.id == "levels").expect("the levels").rect
    };
    assert_eq!(frame(30).height, frame(15).height);
    assert!(frame(30).width < 2 * frame(15).width);
    assert!(frame(16).height < 620, "{:?}", frame(16));
}

#[test]
fn every_object_is_in_the_picture_once() {
    let text = include_str!("../../../topology.toml");
    let topology = Topology::parse(text).expect("the repository's file");
    let picture = svg::render(&Graph::of(&topology, None));
    let objects = topology.objects();
    // What only says whose the queues are is not drawn: no message goes through it.
    let marks = topology.mark_exchange();
    let exchanges = objects.exchanges.keys().filter(|name| **name != marks);
    for name in objects.queues.keys().chain(exchanges) {
        let shown = picture.matches(&format!(">{name}</text>")).count();
        assert_eq!(shown, 1, "{name} is shown {shown} times");
        assert!(picture.contains(&format!("<title>{name}: ")), "{name} has a title");
    }
    for part in ["role=\"img\"", "<title id=\"title\">", "<desc id=\"desc\">", "class=\"page\""] {
        assert!(picture.contains(part), "{part}");
    }
}
