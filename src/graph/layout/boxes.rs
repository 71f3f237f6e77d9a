//! How large boxes are, and what stands where in them.

use super::{Anchor, Face, Rect, Text};
use crate::graph::{Count, Graph, Kind, Node, measure};

/// Characters of a name that are shown; of a longer one the middle is left out.
pub(super) const MOST_NAME: usize = 36;
/// Characters of another line.
const MOST_DETAIL: usize = 30;
/// Delay queues below each other, then another column begins.
const MOST_ROWS: usize = 16;
/// Between the edge of a box and what is in it.
const PADDING: i32 = 14;
/// From one line of a box to the next.
const LINE: i32 = 17;
/// Height of a delay queue.
const ROW: i32 = 28;
/// Between boxes in a frame.
const ROW_GAP: i32 = 6;
/// The same where an arrow leads from one to the next.
const ARROW_GAP: i32 = 22;
/// What the heading of a frame takes.
const HEADING: i32 = 46;
/// The lid of a cylinder.
const LID: i32 = 12;
/// Where the lines that make a box look like a queue are.
pub(in crate::graph) const QUEUE_END: i32 = 18;

/// A box in a frame; places are relative to the frame.
pub(super) struct Sized {
    pub(super) id: String,
    pub(super) rect: Rect,
    pub(super) texts: Vec<Text>,
}

/// A frame with its boxes.
pub(super) struct Framed {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) heading: Vec<Text>,
    pub(super) boxes: Vec<Sized>,
}

/// Width and height of a box with a name and details.
pub(super) fn size(node: &Node) -> (i32, i32) {
    let texts = lines(node);
    let widest = texts.iter().map(|(face, text)| face.width(text)).max().unwrap_or_default();
    let count = count_width(node);
    let name = texts.first().map_or(0, |(face, text)| face.width(text)) + count;
    let end = if is_queue(node.kind) { QUEUE_END } else { 0 };
    let lines = i32::try_from(texts.len()).unwrap_or(i32::MAX);
    (widest.max(name) + 2 * PADDING + end, lines * LINE + 2 * (PADDING - 4) + lid(node))
}

/// What is in such a box: left in queues, with the count at the right, else centred.
pub(super) fn content(node: &Node, rect: Rect) -> Vec<Text> {
    let queue = is_queue(node.kind);
    let (x, anchor) =
        if queue { (rect.x + PADDING, Anchor::Start) } else { (rect.middle().0, Anchor::Middle) };
    let mut y = rect.y + PADDING - 4 + lid(node);
    let mut texts = Vec::new();
    for (face, text) in lines(node) {
        y += LINE;
        texts.push(Text { x, y: y - 4, text, face, anchor });
    }
    texts.extend(count(node, rect, rect.y + PADDING - 4 + LINE - 4));
    texts
}

const fn lid(node: &Node) -> i32 {
    if matches!(node.kind, Kind::Database) { LID } else { 0 }
}

const fn is_queue(kind: Kind) -> bool {
    matches!(kind, Kind::Delay | Kind::Business | Kind::Parked)
}

/// What a count needs beside a name, for the widest of its faces.
fn count_width(node: &Node) -> i32 {
    node.messages.map_or(0, |count| Face::Count.width(&count.to_string()) + PADDING)
}

/// The count, at the right end; where nothing waits it does not stand out.
fn count(node: &Node, rect: Rect, y: i32) -> Option<Text> {
    let messages = node.messages?;
    let face = if messages == Count::Messages(0) { Face::Detail } else { Face::Count };
    let x = rect.right() - QUEUE_END - PADDING / 2;
    Some(Text { x, y, text: messages.to_string(), face, anchor: Anchor::End })
}

/// Name and details, shortened, with as many phrases in a line as fit.
fn lines(node: &Node) -> Vec<(Face, String)> {
    let face = match node.kind {
        Kind::Publisher | Kind::Worker | Kind::Database => Face::Title,
        _ => Face::Name,
    };
    let name = (face, measure::shortened(&node.name, MOST_NAME));
    let details = node.details.iter().flat_map(|phrases| wrapped(phrases));
    std::iter::once(name).chain(details.map(|text| (Face::Detail, text))).collect()
}

fn wrapped(phrases: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for phrase in phrases {
        let phrase = measure::shortened(phrase, MOST_DETAIL);
        match lines.last_mut() {
            Some(line) if line.chars().count() + phrase.chars().count() + 3 <= MOST_DETAIL => {
                line.push_str(" · ");
                line.push_str(&phrase);
            }
            _ => lines.push(phrase),
        }
    }
    lines
}

/// The frame of the delay queues: level, name and count in columns of their own, like a table.
pub(super) fn levels(graph: &Graph) -> Framed {
    let nodes = members(graph, "levels");
    let level = |node: &Node| node.details.concat().join(" · ");
    let widest =
        |width: &dyn Fn(&Node) -> i32| nodes.iter().map(|node| width(node)).max().unwrap_or(0);
    let level_width = widest(&|node| Face::Title.width(&level(node)));
    let name_width =
        widest(&|node| Face::SmallName.width(&measure::shortened(&node.name, MOST_NAME)));
    let count_width = widest(&count_width);
    let width = level_width + name_width + count_width + 3 * PADDING + QUEUE_END;
    let columns = nodes.len().div_ceil(MOST_ROWS).max(1);
    let rows = nodes.len().div_ceil(columns).max(1);
    let leads_on = graph.edges.iter().any(|edge| nodes.iter().any(|node| node.id == edge.from));
    let row_gap = if leads_on { ARROW_GAP } else { ROW_GAP };
    let mut framed = framed(graph, "levels", width, columns);
    for (at, node) in nodes.iter().enumerate() {
        let row = i32::try_from(at % rows).unwrap_or_default();
        let column = i32::try_from(at / rows).unwrap_or_default();
        let x = PADDING + column * (framed.column + PADDING);
        let y = HEADING + row * (ROW + row_gap);
        let rect = Rect { x, y, width: framed.column, height: ROW };
        let text = |x, text, face, anchor| Text { x, y: y + 19, text, face, anchor };
        let name_x = x + level_width + 2 * PADDING;
        let name = measure::shortened(&node.name, MOST_NAME);
        let mut texts = vec![
            text(x + PADDING, level(node), Face::Title, Anchor::Start),
            text(name_x, name, Face::SmallName, Anchor::Start),
        ];
        texts.extend(count(node, rect, y + 19));
        framed.inside.height = framed.inside.height.max(rect.bottom() + PADDING);
        framed.inside.boxes.push(Sized { id: node.id.clone(), rect, texts });
    }
    framed.inside
}

/// The frame of the business queues, below each other, at least as wide as `least`.
pub(super) fn business(graph: &Graph, least: i32) -> Framed {
    let nodes = members(graph, "business");
    let width = nodes.iter().map(|node| size(node).0).max().unwrap_or_default();
    let width = width.max(least - 2 * PADDING);
    let mut framed = framed(graph, "business", width, 1);
    let mut y = HEADING;
    for node in nodes {
        let rect = Rect { x: PADDING, y, width: framed.column, height: size(node).1 };
        framed.inside.boxes.push(Sized { id: node.id.clone(), rect, texts: content(node, rect) });
        y = rect.bottom() + ROW_GAP;
        framed.inside.height = framed.inside.height.max(rect.bottom() + PADDING);
    }
    framed.inside
}

struct Frame {
    /// Width of a box in it.
    column: i32,
    inside: Framed,
}

/// An empty frame for boxes of at least `width`, wide enough for its heading.
fn framed(graph: &Graph, id: &str, width: i32, columns: usize) -> Frame {
    let (title, details) =
        graph.group(id).map_or(("", ""), |group| (group.title.as_str(), group.details.as_str()));
    let text = |y, text: &str, face| Text {
        x: PADDING,
        y,
        text: text.to_owned(),
        face,
        anchor: Anchor::Start,
    };
    let heading = vec![text(20, title, Face::Title), text(36, details, Face::Detail)];
    let columns = i32::try_from(columns).unwrap_or(1).max(1);
    let headed = heading.iter().map(|text| text.face.width(&text.text)).max().unwrap_or_default();
    let least = (headed - (columns - 1) * PADDING) / columns + 1;
    let column = width.max(least);
    let width = columns * column + (columns + 1) * PADDING;
    Frame { column, inside: Framed { width, height: HEADING, heading, boxes: Vec::new() } }
}

fn members<'a>(graph: &'a Graph, id: &str) -> Vec<&'a Node> {
    let ids = graph.group(id).map_or(&[][..], |group| &group.nodes);
    ids.iter().filter_map(|id| graph.node(id)).collect()
}
