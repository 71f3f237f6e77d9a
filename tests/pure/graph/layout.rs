//! In a picture each node is shown once, and nothing covers anything else, whatever the topology is.

use overdue::internals::{
    graph::{
        Graph, Live,
        layout::{Layout, Rect},
    },
    plan::Snapshot,
    topology::Topology,
};
use proptest::prelude::*;

use crate::{
    generate,
    samples::{DELAYED, LADDER, dotted_compat},
};

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

fn check(graph: &Graph) {
    let layout = Layout::of(graph);
    let page = Rect { x: 0, y: 0, width: layout.width, height: layout.height };
    let mut shown: Vec<&str> = layout.boxes.iter().map(|(node, _)| node.id.as_str()).collect();
    let mut wanted: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
    shown.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(shown, wanted);
    for (at, (node, rect)) in layout.boxes.iter().enumerate() {
        assert!(inside(page, *rect), "{} is outside of the page", node.id);
        for (other, covered) in layout.boxes.iter().skip(at + 1) {
            assert!(!overlap(*rect, *covered), "{} and {} overlap", node.id, other.id);
        }
        for (group, frame) in &layout.frames {
            let is_member = group.nodes.contains(&node.id);
            assert_eq!(inside(*frame, *rect), is_member, "{} in {}", node.id, group.id);
            assert_eq!(overlap(*frame, *rect), is_member, "{} over {}", node.id, group.id);
        }
    }
}

proptest! {
    #[test]
    fn any_topology_is_readable(topology in generate::topology_anyhow(), before in generate::topology_anyhow()) {
        check(&Graph::of(&topology, None));
        let live = Live::of(&topology, &Snapshot::of(&before));
        check(&Graph::of(&topology, Some(&live)));
    }
}

#[test]
fn every_strategy_is_readable() {
    let both = LADDER.replace("[delay]", "[delay]\nlevels = ['30m']");
    for text in [LADDER, DELAYED, &both, &dotted_compat(), include_str!("../../../topology.toml")] {
        check(&Graph::of(&Topology::parse(text).expect("a good file"), None));
    }
}
