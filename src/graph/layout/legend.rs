//! What the kinds of lines mean: below the picture on the left, where nothing else is.

use super::{
    Anchor, Face, PlacedEdge, Text,
    columns::{Columns, MARGIN},
};
use crate::graph::{Flow, Graph};

/// Length of a sample.
const SAMPLE: i32 = 34;
/// From one line to the next.
const LINE: i32 = 20;
/// Lines below each other, then another column begins.
const ROWS: usize = 3;

/// Samples of the lines that this picture has, and what each means.
pub(super) fn of(graph: &Graph, columns: &Columns) -> (Vec<PlacedEdge>, Vec<Text>) {
    let (mut samples, mut texts) = (Vec::new(), Vec::new());
    let mut items = vec![
        (Flow::Onward, "message on its way"),
        (Flow::Again, "tried again, or came early"),
        (Flow::Event, "event"),
        (Flow::Unroutable, "alternate exchange: no queue for the routing key"),
        (Flow::Parked, "given up, kept for a person"),
    ];
    items.retain(|(flow, _)| graph.edges.iter().any(|edge| edge.flow == *flow));
    let top = columns.park.bottom() + 28;
    let mut x = MARGIN;
    for column in items.chunks(ROWS) {
        let mut y = top;
        let mut widest = 0;
        for (flow, text) in column {
            let points = vec![(x, y - 4), (x + SAMPLE, y - 4)];
            let title = (*text).to_owned();
            samples.push(PlacedEdge { flow: *flow, points, joins: false, label: None, title });
            let text = Text {
                x: x + SAMPLE + 10,
                y,
                text: (*text).to_owned(),
                face: Face::Detail,
                anchor: Anchor::Start,
            };
            widest = widest.max(text.rect().width);
            texts.push(text);
            y += LINE;
        }
        x += SAMPLE + widest + 40;
    }
    (samples, texts)
}
