//! What is taken over from the plugin: a frame of its own below everything, columns from left to right.

use super::{
    Anchor, Face, Layout, PlacedEdge, PlacedGroup, Rect, Text, boxes,
    columns::MARGIN,
    routes::{label_width, named, shown},
};
use crate::graph::{
    Graph, Node,
    taken_over::{COLUMNS, GROUP},
};

/// Between what is above and the frame.
const ABOVE: i32 = 40;
/// What the heading of the frame takes.
const HEADING: i32 = 46;
const PADDING: i32 = 14;
/// Between boxes of a column.
const GAP: i32 = 24;
/// An arrow without a label.
const ARROW: i32 = 36;
/// What a label leaves free of its arrow.
const LABEL_SPACE: i32 = 34;

impl Layout {
    /// Places the frame, where there is one, below `bottom`.
    pub(super) fn taken_over(&mut self, graph: &Graph, bottom: i32) {
        let Some(group) = graph.group(GROUP) else { return };
        let columns = COLUMNS.map(|ids| ids.iter().filter_map(|id| graph.node(id)).collect());
        let columns: Vec<Vec<&Node>> = columns.into_iter().collect();
        let height = |nodes: &[&Node]| {
            let heights: i32 = nodes.iter().map(|node| boxes::size(node).1).sum();
            heights + GAP * i32::try_from(nodes.len().saturating_sub(1)).unwrap_or_default()
        };
        let tallest = columns.iter().map(|nodes| height(nodes)).max().unwrap_or_default();
        let (left, top) = (MARGIN, bottom + ABOVE);
        let mut x = left + PADDING;
        for (at, nodes) in columns.iter().enumerate() {
            let width = nodes.iter().map(|node| boxes::size(node).0).max().unwrap_or_default();
            let mut y = top + HEADING + (tallest - height(nodes)) / 2;
            for node in nodes {
                let rect = Rect { x, y, width, height: boxes::size(node).1 };
                self.place(node, rect, boxes::content(node, rect));
                y = rect.bottom() + GAP;
            }
            x += width + columns.get(at + 1).map_or(PADDING, |next| arrow(graph, nodes, next));
        }
        let text = |y, text: &str, face| Text {
            x: left + PADDING,
            y: top + y,
            text: text.to_owned(),
            face,
            anchor: Anchor::Start,
        };
        let texts =
            vec![text(20, &group.title, Face::Title), text(36, &group.details, Face::Detail)];
        let height = HEADING + tallest + PADDING;
        let rect = Rect { x: left, y: top, width: x - left, height };
        self.groups.push(PlacedGroup { id: GROUP.to_owned(), rect, texts });
        self.edges_inside(graph);
    }

    fn edges_inside(&mut self, graph: &Graph) {
        let ids: Vec<&str> = COLUMNS.concat();
        let rect = |id: &str| self.nodes.iter().find(|node| node.id == id).map(|node| node.rect);
        let of_frame = |edge: &&crate::graph::Edge| ids.contains(&edge.from.as_str());
        let placed = graph.edges.iter().filter(of_frame).filter_map(|edge| {
            let (from, to) = (rect(&edge.from)?, rect(&edge.to)?);
            let ((_, leaves), (_, arrives)) = (from.middle(), to.middle());
            // Halves of odd heights differ by a pixel.
            let arrives = if (leaves - arrives).abs() <= 1 { leaves } else { arrives };
            let corner = from.right() + ARROW / 3;
            let bent =
                vec![(from.right(), leaves), (corner, leaves), (corner, arrives), (to.x, arrives)];
            // The label stands above the last part, which is there for this arrow alone where several begin in one box.
            let straight = vec![(from.right(), leaves), (to.x, arrives)];
            let points = if leaves == arrives { straight } else { bent };
            let alone = graph.edges.iter().filter(|it| it.from == edge.from).count() > 1;
            let y = if alone { arrives } else { leaves };
            let label = (!edge.label.is_empty()).then(|| Text {
                x: if alone { to.x - 6 } else { from.right() + ARROW / 3 + 4 },
                y: y - 7,
                text: shown(edge),
                face: Face::Label,
                anchor: if alone { Anchor::End } else { Anchor::Start },
            });
            let title = format!(
                "{} to {}: {}",
                named(graph, &edge.from),
                named(graph, &edge.to),
                edge.label
            );
            Some(PlacedEdge { flow: edge.flow, points, joins: false, label, title })
        });
        let placed: Vec<PlacedEdge> = placed.collect();
        self.edges.extend(placed);
    }
}

/// The room for the arrows from a column to the next.
fn arrow(graph: &Graph, from: &[&Node], to: &[&Node]) -> i32 {
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
    let widest = pairs.map(|(from, to)| label_width(graph, &from.id, &to.id)).max();
    match widest.unwrap_or_default() {
        0 => ARROW,
        label => label + LABEL_SPACE,
    }
}
