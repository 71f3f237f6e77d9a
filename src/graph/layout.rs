//! Where everything goes, in pixels: columns in the order in which messages pass, the parking lot below, the way
//! back above. A renderer only prints it.

mod boxes;
mod columns;
mod legend;
mod placed;
mod routes;
mod taken_over;

pub(super) use boxes::QUEUE_END;
use boxes::Sized;
use columns::{Columns, MARGIN};
pub(crate) use placed::{Anchor, Face, PlacedEdge, PlacedGroup, PlacedNode};
pub use placed::{Rect, Text};

use super::{Count, Graph, Kind, Node, measure};

/// Where boxes begin.
const TOP: i32 = 118;
/// Between boxes that are stacked, with room for a label beside the arrow.
const STACK_GAP: i32 = 40;
/// Between parking lots.
const LOT_GAP: i32 = 10;
/// What a label leaves free of the arrow it stands above.
const LABEL_SPACE: i32 = 26;

/// A placed picture.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Pixels.
    pub width: i32,
    /// Pixels.
    pub height: i32,
    /// Heading and legend.
    pub texts: Vec<Text>,
    /// Frames, behind everything.
    pub groups: Vec<PlacedGroup>,
    /// Boxes.
    pub nodes: Vec<PlacedNode>,
    /// Arrows.
    pub edges: Vec<PlacedEdge>,
    /// Samples of arrows, without labels.
    pub legend: Vec<PlacedEdge>,
}

impl Layout {
    /// Places `graph`.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let levels = boxes::levels(graph);
        let business = boxes::business(graph, width_at_park(graph));
        let columns = columns(graph, &levels, &business);
        let mut layout = Self {
            width: 0,
            height: 0,
            texts: heading(graph),
            groups: Vec::new(),
            nodes: Vec::new(),
            edges: routes::edges(graph, &columns),
            legend: Vec::new(),
        };
        layout.single_boxes(graph, &columns);
        layout.group(graph, "levels", columns.levels, levels);
        layout.group(graph, "business", columns.business, business);
        layout.edges.extend(routes::inside(graph, &layout.nodes));
        layout.retired_lots(graph, columns.parked);
        layout.taken_over(graph, layout.bottom());
        let (samples, texts) = legend::of(graph, &columns);
        layout.legend = samples;
        layout.texts.extend(texts);
        let labels = layout.edges.iter().filter_map(|edge| edge.label.as_ref());
        let texts = layout.texts.iter().chain(labels).map(Text::rect);
        let rects: Vec<Rect> = layout.nodes.iter().map(|node| node.rect).chain(texts).collect();
        let groups = layout.groups.iter().map(|group| group.rect);
        let (right, bottom) =
            rects.into_iter().chain(groups).fold((0, 0), |(right, bottom), rect| {
                (right.max(rect.right()), bottom.max(rect.bottom()))
            });
        (layout.width, layout.height) = (right + MARGIN, bottom + MARGIN);
        layout
    }

    /// Of all boxes and frames so far.
    fn bottom(&self) -> i32 {
        let rects = self.nodes.iter().map(|node| node.rect);
        let rects = rects.chain(self.groups.iter().map(|group| group.rect));
        rects.map(|rect| rect.bottom()).max().unwrap_or_default()
    }

    fn single_boxes(&mut self, graph: &Graph, columns: &Columns) {
        let single = [
            ("services", columns.services),
            ("in", columns.entry),
            ("dlx", columns.due),
            ("worker", columns.worker),
            ("database", columns.database),
            ("events", columns.events),
            ("park", columns.park),
            ("parked", columns.parked),
        ];
        for (id, rect) in single {
            if let Some(node) = graph.node(id) {
                self.place(node, rect, boxes::content(node, rect));
            }
        }
    }

    fn group(&mut self, graph: &Graph, id: &str, frame: Rect, inside: boxes::Framed) {
        let shifted = |text: Text| Text { x: text.x + frame.x, y: text.y + frame.y, ..text };
        let heading = inside.heading.into_iter().map(shifted).collect();
        self.groups.push(PlacedGroup { id: id.to_owned(), rect: frame, texts: heading });
        for Sized { id, rect, texts } in inside.boxes {
            let Some(node) = graph.node(&id) else { continue };
            let rect = Rect { x: rect.x + frame.x, y: rect.y + frame.y, ..rect };
            self.place(node, rect, texts.into_iter().map(shifted).collect());
        }
    }

    /// Parking lots out of use stand below the one in use.
    fn retired_lots(&mut self, graph: &Graph, parked: Rect) {
        let mut y = parked.bottom() + LOT_GAP;
        for node in graph.nodes.iter().filter(|node| node.kind == Kind::Parked && node.retired) {
            let (width, height) = boxes::size(node);
            let rect = Rect { x: parked.x, y, width, height };
            self.place(node, rect, boxes::content(node, rect));
            y = rect.bottom() + LOT_GAP;
        }
    }

    fn place(&mut self, node: &Node, rect: Rect, texts: Vec<Text>) {
        let title = title(node);
        let Node { id, kind, retired, .. } = node.clone();
        self.nodes.push(PlacedNode { id, kind, retired, rect, texts, title });
    }
}

fn heading(graph: &Graph) -> Vec<Text> {
    let text = |y, text: String, face| Text { x: MARGIN, y, text, face, anchor: Anchor::Start };
    vec![
        text(
            42,
            format!("{}: delay topology", measure::shortened(&graph.name, boxes::MOST_NAME)),
            Face::Heading,
        ),
        text(64, graph.summary.clone(), Face::Subheading),
    ]
}

fn title(node: &Node) -> String {
    let details = node.details.iter().map(|line| line.join(", ")).collect::<Vec<_>>().join(", ");
    let count = match node.messages {
        None => String::new(),
        Some(Count::Absent) => "; not on the broker".to_owned(),
        Some(Count::Unknown) => "; messages unknown".to_owned(),
        Some(count) => format!("; {count} messages"),
    };
    format!("{}: {details}{count}", node.name)
}

/// What the business queues' column needs below it: the parking lot, and the labels of the ways there.
fn width_at_park(graph: &Graph) -> i32 {
    let (park, _) = graph.node("park").map_or((0, 0), boxes::size);
    let label = |from: &str| routes::label_width(graph, from, "park") + LABEL_SPACE;
    let lots = graph.nodes.iter().filter(|node| node.kind == Kind::Parked);
    let widest = lots.map(|lot| boxes::size(lot).0).max().unwrap_or_default();
    widest.max(park + label("worker")).max(park / 2 + label("business"))
}

fn columns(graph: &Graph, levels: &boxes::Framed, business: &boxes::Framed) -> Columns {
    let size = |id: &str| graph.node(id).map_or((0, 0), boxes::size);
    let gap = |from: &str, to: &str| routes::label_width(graph, from, to) + LABEL_SPACE;
    let tallest = levels.height.max(business.height);
    let middle = TOP + tallest / 2;
    let centred =
        |x: i32, (width, height): (i32, i32)| Rect { x, y: middle - height / 2, width, height };
    let services = centred(MARGIN, size("services"));
    // Without a node there is no column, and no space for the way to it.
    let next = |after: Rect, from: &str, id: &str, size: (i32, i32)| match graph.node(id) {
        Some(_) => (centred(after.right() + gap(from, id), size), id.to_owned()),
        None => (Rect { width: 0, ..centred(after.right(), (0, 0)) }, from.to_owned()),
    };
    let (entry, from) = next(services, "services", "in", size("in"));
    let levels = centred(entry.right() + gap(&from, "levels"), (levels.width, levels.height));
    let (due, from) = next(levels, "levels", "dlx", size("dlx"));
    let business_x = due.right() + gap(&from, "business");
    let business = centred(business_x, (business.width, business.height));
    // The worker, and below it what it writes to.
    let column = business.right() + gap("business", "worker");
    let least = size("worker").0.max(size("database").0);
    let stacked = |id: &str, y: i32| {
        let (width, height) = size(id);
        Rect { x: column, y, width: width.max(least), height }
    };
    let worker = stacked("worker", middle - size("worker").1 / 2);
    let database = stacked("database", worker.bottom() + STACK_GAP);
    let events = stacked("events", database.bottom() + STACK_GAP);
    let below = |y: i32, (width, height): (i32, i32)| Rect { x: business.x, y, width, height };
    let park = below(TOP + tallest + STACK_GAP, size("park"));
    let parked = below(park.bottom() + STACK_GAP, size("parked"));
    Columns { services, entry, levels, due, business, worker, database, events, park, parked }
}
