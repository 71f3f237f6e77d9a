//! Arrows: straight lines between the columns, the way back above them, the ways to the parking lot below.

use super::{
    Anchor, Face, PlacedEdge, PlacedNode, Rect, Text,
    columns::{Columns, RETURN_Y},
};
use crate::graph::{Edge, Flow, Graph, measure};

/// Where an arrow meets a frame that it comes to from above.
const BELOW_THE_TOP: i32 = 20;
/// Characters of a label that are shown.
const MOST_LABEL: usize = 24;
/// The same for the way back, which is as long as the picture.
const MOST_ON_THE_RETURN: usize = 100;

/// What a label needs beside its arrow; zero where there is none.
pub(super) fn label_width(graph: &Graph, from: &str, to: &str) -> i32 {
    let edge = graph.edges.iter().find(|edge| edge.from == from && edge.to == to);
    edge.map_or(0, |edge| Face::Label.width(&shown(edge)))
}

/// Every arrow of the picture.
pub(super) fn edges(graph: &Graph, columns: &Columns) -> Vec<PlacedEdge> {
    graph.edges.iter().filter_map(|edge| placed(graph, edge, columns)).collect()
}

/// Arrows between boxes that stand below each other in a frame.
pub(super) fn inside(graph: &Graph, nodes: &[PlacedNode]) -> Vec<PlacedEdge> {
    let rect = |id: &str| nodes.iter().find(|node| node.id == id).map(|node| node.rect);
    let arrow = |edge: &Edge| {
        graph.group_of(&edge.from).filter(|group| group.nodes.contains(&edge.to))?;
        let (from, to) = (rect(&edge.from)?, rect(&edge.to)?);
        let x = from.middle().0;
        let title = format!("{} to {}", named(graph, &edge.from), named(graph, &edge.to));
        let points = vec![(x, from.bottom()), (x, to.y)];
        let below = from.x == to.x && from.bottom() < to.y;
        below.then_some(PlacedEdge { flow: edge.flow, points, joins: false, label: None, title })
    };
    graph.edges.iter().filter_map(arrow).collect()
}

fn placed(graph: &Graph, edge: &Edge, columns: &Columns) -> Option<PlacedEdge> {
    let from = rect(columns, &edge.from)?;
    let to = rect(columns, &edge.to)?;
    let park = columns.park;
    // The leftmost has the line that the others end on.
    let mut unroutable = graph.edges.iter().filter(|it| it.flow == Flow::Unroutable);
    let first = unroutable.next().is_some_and(|first| first.from == edge.from);
    let joins = edge.flow == Flow::Unroutable && !first;
    let (points, label) = match (edge.flow, edge.from.as_str()) {
        (Flow::Again, _) => {
            let points = vec![
                (from.middle().0, from.y),
                (from.middle().0, RETURN_Y),
                (to.middle().0, RETURN_Y),
                (to.middle().0, to.y),
            ];
            (points, above(to.middle().0, from.middle().0, RETURN_Y, edge))
        }
        (Flow::Unroutable, _) => {
            let (x, bus) = (from.middle().0, park.middle().1);
            let mut points = vec![(x, from.bottom()), (x, bus)];
            if !joins {
                points.push((park.x, bus));
            }
            (points, beside(x, from.bottom() + 26, edge))
        }
        // Down between the business queues and the worker, then back to the parking lot's side.
        (Flow::Parked, "worker") => {
            let x = i32::midpoint(columns.business.right(), from.x);
            let (leave, arrive) = (from.middle().1 + 16, park.middle().1);
            let points = vec![(from.x, leave), (x, leave), (x, arrive), (park.right(), arrive)];
            (points, above(park.right(), x, arrive, edge))
        }
        // Straight down; what is below is aligned to the left, and at least half as wide.
        (Flow::Parked | Flow::Event, _) | (Flow::Onward, "worker") => {
            let x = if edge.flow == Flow::Parked { park.middle().0 } else { from.middle().0 };
            let label = beside(x, i32::midpoint(from.bottom(), to.y) + 4, edge);
            (vec![(x, from.bottom()), (x, to.y)], label)
        }
        // Past the entry, which is for the levels beside a ladder.
        (Flow::Onward, "services") if edge.to == "levels" && graph.node("in").is_some() => {
            let (x, y) = (from.middle().0, to.y + BELOW_THE_TOP);
            (vec![(x, from.y), (x, y), (to.x, y)], above(from.right(), to.x, y, edge))
        }
        (Flow::Onward, _) => {
            let y = from.middle().1;
            (vec![(from.right(), y), (to.x, y)], above(from.right(), to.x, y, edge))
        }
    };
    let label = (!edge.label.is_empty()).then_some(label);
    let title =
        format!("{} to {}: {}", named(graph, &edge.from), named(graph, &edge.to), edge.label);
    Some(PlacedEdge { flow: edge.flow, points, joins, label, title })
}

/// The label, shortened.
pub(super) fn shown(edge: &Edge) -> String {
    let most = if edge.flow == Flow::Again { MOST_ON_THE_RETURN } else { MOST_LABEL };
    measure::shortened(&edge.label, most)
}

/// In the middle above a horizontal line.
fn above(from: i32, to: i32, y: i32, edge: &Edge) -> Text {
    let x = i32::midpoint(from, to);
    Text { x, y: y - 7, text: shown(edge), face: Face::Label, anchor: Anchor::Middle }
}

/// To the right of a vertical line.
fn beside(x: i32, y: i32, edge: &Edge) -> Text {
    Text { x: x + 8, y, text: shown(edge), face: Face::Label, anchor: Anchor::Start }
}

fn rect(columns: &Columns, id: &str) -> Option<Rect> {
    Some(match id {
        "services" => columns.services,
        "in" => columns.entry,
        "levels" => columns.levels,
        "dlx" => columns.due,
        "business" => columns.business,
        "worker" => columns.worker,
        "database" => columns.database,
        "events" => columns.events,
        "park" => columns.park,
        "parked" => columns.parked,
        _ => return None,
    })
}

pub(super) fn named<'a>(graph: &'a Graph, id: &'a str) -> &'a str {
    let group = graph.group(id).map(|group| group.title.as_str());
    group.or_else(|| graph.node(id).map(|node| node.name.as_str())).unwrap_or(id)
}
