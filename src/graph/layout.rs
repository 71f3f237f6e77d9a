//! Where everything in the picture goes. Places are arithmetic: columns from left to right (order services and the entry, what delays, the due
//! exchange above the parking lot, business queues above the worker), and one height for the ways between them.

use super::{Count, Edge, Flow, Graph, Group, Kind, Node};

/// Around everything.
const MARGIN: i32 = 24;
/// To the left and the right of the columns, for the way back.
const RETURN: i32 = 22;
/// Where columns begin.
const TOP: i32 = 126;
/// How far below that messages go from column to column.
const TO_MIDDLE: i32 = 132;
/// Between boxes of a column, with room for a label beside the arrow.
const GAP: i32 = 40;
/// What a label leaves free of its arrow.
const BESIDE_LABEL: i32 = 22;
/// Between the edge of a box or frame and what is in it.
const PADDING: i32 = 12;
/// From one line of text to the next.
const LINE: i32 = 17;
/// What the heading of a frame takes.
const HEADING: i32 = 44;
/// The lines that make a box look like a queue.
pub(super) const QUEUE_END: i32 = 18;
/// Delay queues below each other, then another column begins.
const MOST_ROWS: usize = 16;
/// Characters that are shown of a text.
const MOST: usize = 36;

/// Characters of phrases that stand in one line.
const MOST_TOGETHER: usize = 26;

/// A rectangle, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    /// Left.
    pub x: i32,
    /// Top.
    pub y: i32,
    /// To the right.
    pub width: i32,
    /// Down.
    pub height: i32,
}

impl Rect {
    /// The first pixel to the right of it.
    pub const fn right(&self) -> i32 {
        self.x + self.width
    }

    /// The first pixel below it.
    pub const fn bottom(&self) -> i32 {
        self.y + self.height
    }

    const fn middle(&self) -> (i32, i32) {
        (self.x + self.width / 2, self.y + self.height / 2)
    }
}

/// How a text looks: CSS classes, font size, and the width of a character in hundredths of that, in the widest of usual fonts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Face(pub(super) &'static str, pub(super) i32, pub(super) i32);

const PAGE_TITLE: Face = Face("bold", 20, 64);
const TITLE: Face = Face("bold", 13, 64);
const NAME: Face = Face("mono bold", 13, 62);
const SMALL_NAME: Face = Face("mono muted", 12, 62);
const PLAIN: Face = Face("muted", 12, 56);

impl Face {
    fn width(self, text: &str) -> i32 {
        let each = |c: char| if c.is_ascii() { self.2 } else { 110 };
        text.chars().map(each).sum::<i32>() * self.1 / 100
    }
}

/// One line of text; `x` is its left end, middle or right end.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) text: String,
    pub(super) face: Face,
    pub(super) anchor: &'static str,
}

pub(super) struct Arrow<'a> {
    pub(super) edge: &'a Edge,
    pub(super) points: Vec<(i32, i32)>,
    pub(super) label: Option<Text>,
}

/// A placed picture.
#[derive(Default)]
pub struct Layout<'a> {
    /// Pixels.
    pub width: i32,
    /// Pixels.
    pub height: i32,
    /// Each node of the graph.
    pub boxes: Vec<(&'a Node, Rect)>,
    /// Each group.
    pub frames: Vec<(&'a Group, Rect)>,
    pub(super) arrows: Vec<Arrow<'a>>,
    pub(super) texts: Vec<Text>,
}

impl<'a> Layout<'a> {
    /// Places `graph`.
    pub fn of(graph: &'a Graph) -> Self {
        let mut it = Self::default();
        let first = MARGIN + RETURN;
        let middle = TOP + TO_MIDDLE;
        let ids = ["services", "in"].into_iter().filter_map(|id| graph.node(id));
        let width = ids.map(|node| size(node).0).max().unwrap_or(0);
        let services = if graph.node("in").is_some() {
            it.centred(graph, "in", first, middle, width);
            it.node(graph, "services", first, TOP, width)
        } else {
            it.centred(graph, "services", first, middle, width)
        };
        let gap = label(graph, "in", "levels").max(label(graph, "services", "levels"));
        let levels = it.rows(graph, services.right() + gap + BESIDE_LABEL);

        let gap = label(graph, "levels", "dlx");
        let third = levels.right() + gap + BESIDE_LABEL;
        let lots: Vec<&Node> = graph.nodes.iter().filter(|it| it.kind == Kind::Parked).collect();
        let ids = ["dlx", "park"].into_iter().filter_map(|id| graph.node(id));
        let width = ids.chain(lots.iter().copied()).map(|node| size(node).0).max().unwrap_or(0);
        let due = it.centred(graph, "dlx", third, middle, width);
        let to_park = label(graph, "business", "park").max(label(graph, "worker", "park"));
        let gap = (label(graph, "dlx", "business") + BESIDE_LABEL).max(to_park + 46);
        let business = it.stack(graph, third + width + gap);
        let mut y = levels.bottom().max(business.bottom()).max(due.bottom()) + GAP;
        y = it.node(graph, "park", third, y, width).bottom() + GAP * 2 / 3;
        for lot in lots {
            y = it.node(graph, &lot.id, third, y, width).bottom() + PADDING;
        }
        let mut y = business.bottom() + GAP;
        for id in ["worker", "database", "events"] {
            y = it.node(graph, id, business.x, y, business.width).bottom() + GAP;
        }
        let park = it.rect("park");
        it.legend(graph, park.middle().1 + GAP);
        let bottom = it.boxes.iter().map(|(_, rect)| rect.bottom()).chain([y - GAP]).max();
        it.taken_over(graph, bottom.unwrap_or(0).max(park.middle().1 + 6 * LINE + GAP) + GAP / 2);
        it.arrows = graph.edges.iter().map(|edge| it.arrow(graph, edge)).collect();
        it.heading(graph, business.right() + RETURN);
        it
    }

    /// A box with its top left corner there, at least so wide; nothing if there is no such node.
    fn node(&mut self, graph: &'a Graph, id: &str, x: i32, y: i32, least: i32) -> Rect {
        let Some(node) = graph.node(id) else { return Rect { x, y, ..Rect::default() } };
        let (width, height) = size(node);
        let rect = Rect { x, y, width: width.max(least), height };
        self.boxes.push((node, rect));
        self.texts.extend(content(node, rect));
        rect
    }

    /// A box whose middle has the height `y`.
    fn centred(&mut self, graph: &'a Graph, id: &str, x: i32, y: i32, least: i32) -> Rect {
        let height = graph.node(id).map_or(0, |node| size(node).1);
        self.node(graph, id, x, y - height / 2, least)
    }

    fn frame(&mut self, group: &'a Group, rect: Rect) -> Rect {
        let texts = [(20, &group.title, TITLE), (36, &group.details, PLAIN)];
        for (y, text, face) in texts {
            self.text(rect.x + PADDING, rect.y + y, text.clone(), face);
        }
        self.frames.push((group, rect));
        rect
    }

    /// The frame of what delays: a line each, as in a table.
    fn rows(&mut self, graph: &'a Graph, x: i32) -> Rect {
        let Some(group) = graph.group("levels") else { return Rect::default() };
        let nodes: Vec<&Node> = group.nodes.iter().filter_map(|id| graph.node(id)).collect();
        let widest = |width: &dyn Fn(&Node) -> i32| nodes.iter().map(|it| width(it)).max();
        let first = widest(&|node| TITLE.width(&detail(node))).unwrap_or(0) + 8;
        let name = widest(&|node| SMALL_NAME.width(&shortened(&node.name))).unwrap_or(0);
        let count = widest(&|node| count(node).map_or(0, |text| TITLE.width(&text) + PADDING));
        let columns = i32::try_from(nodes.len().div_ceil(MOST_ROWS)).unwrap_or(1).max(1);
        let heading = TITLE.width(&group.title).max(PLAIN.width(&group.details));
        let own = first + name + count.unwrap_or(0) + 3 * PADDING + QUEUE_END;
        let width = own.max(heading / columns);
        let leads_on = graph.edges.iter().any(|edge| nodes.iter().any(|node| node.id == edge.from));
        let step = if leads_on { 46 } else { 29 };
        let rows = nodes.len().div_ceil(usize::try_from(columns).unwrap_or(1)).max(1);
        let mut bottom = TOP + TO_MIDDLE + 2 * PADDING;
        for (at, node) in nodes.into_iter().enumerate() {
            let (column, row) = (i32::try_from(at / rows), i32::try_from(at % rows));
            let (column, row) = (column.unwrap_or(0), row.unwrap_or(0));
            let x = x + PADDING + column * (width + PADDING);
            let rect = Rect { x, y: TOP + HEADING + row * step, width, height: 25 };
            self.boxes.push((node, rect));
            self.text(x + PADDING, rect.y + 17, detail(node), TITLE);
            self.text(x + first + 2 * PADDING, rect.y + 17, shortened(&node.name), SMALL_NAME);
            self.texts.extend(counted(node, rect));
            bottom = bottom.max(rect.bottom() + PADDING);
        }
        let width = columns * (width + PADDING) + PADDING;
        self.frame(group, Rect { x, y: TOP, width, height: bottom - TOP })
    }

    /// The frame of the business queues, below each other.
    fn stack(&mut self, graph: &'a Graph, x: i32) -> Rect {
        let Some(group) = graph.group("business") else { return Rect::default() };
        let nodes = group.nodes.iter().filter_map(|id| graph.node(id));
        let columns = ["worker", "database", "events"].into_iter().filter_map(|id| graph.node(id));
        let widest = nodes.chain(columns).map(|node| size(node).0).max().unwrap_or(0);
        let mut y = TOP + HEADING;
        for id in &group.nodes {
            y = self.node(graph, id, x + PADDING, y, widest).bottom() + PADDING / 2;
        }
        let height = (y + PADDING / 2 - TOP).max(TO_MIDDLE + PADDING);
        self.frame(group, Rect { x, y: TOP, width: widest + 2 * PADDING, height })
    }

    /// What is taken over from the plugin, in a frame of its own: columns from left to right.
    fn taken_over(&mut self, graph: &'a Graph, top: i32) {
        let Some(group) = graph.group(super::model::TAKEN_OVER) else { return };
        let node = |id: &&str| graph.node(id);
        let columns = super::model::TAKEN_OVER_COLUMNS.map(|ids| ids.iter().filter_map(node));
        let columns = columns.map(Iterator::collect::<Vec<&Node>>);
        let height = |nodes: &[&Node]| nodes.iter().map(|it| size(it).1 + PADDING).sum::<i32>();
        let tallest = columns.iter().map(|nodes| height(nodes)).max().unwrap_or(0);
        let mut x = MARGIN + PADDING;
        for (at, nodes) in columns.iter().enumerate() {
            let width = nodes.iter().map(|node| size(node).0).max().unwrap_or(0);
            let mut y = top + HEADING + (tallest - height(nodes)) / 2;
            for node in nodes {
                y = self.node(graph, &node.id, x, y, width).bottom() + PADDING;
            }
            let next = columns.get(at + 1).map_or(&[][..], Vec::as_slice);
            let pairs = nodes.iter().flat_map(|it| next.iter().map(|next| (&it.id, &next.id)));
            let widest = pairs.map(|(from, to)| label(graph, from, to)).max();
            x += width + widest.map_or(PADDING, |label| label + BESIDE_LABEL);
        }
        let height = HEADING + tallest;
        self.frame(group, Rect { x: MARGIN, y: top, width: x - MARGIN, height });
    }

    fn rect(&self, id: &str) -> Rect {
        let frame = self.frames.iter().find(|(group, _)| group.id == id).map(|it| it.1);
        let node = self.boxes.iter().find(|(node, _)| node.id == id).map(|it| it.1);
        frame.or(node).unwrap_or_default()
    }

    /// Right angles between the columns, the way back above them, the ways to the parking lot between them.
    fn arrow(&self, graph: &Graph, edge: &'a Edge) -> Arrow<'a> {
        let (from, to) = (self.rect(&edge.from), self.rect(&edge.to));
        let ((from_x, from_y), (to_x, to_y)) = (from.middle(), to.middle());
        let label = |x, y, anchor| (x, y, anchor);
        let (points, (x, y, anchor)) = match (edge.flow, edge.from.as_str()) {
            (Flow::Again, _) => {
                let (right, top) = (self.rect("business").right() + RETURN / 2, TOP - 18);
                let points = [(from.right(), from_y), (right, from_y), (right, top)];
                let points = [&points[..], &[(to_x, top), (to_x, to.y)]].concat();
                (points, label(right - PADDING, top - 6, "end"))
            }
            // The way of the entry, where there is one, has the line that others end on.
            (Flow::Unroutable, id) if id != "dlx" => {
                let joins = id == "levels" && graph.node("in").is_some();
                let mut points = vec![(from_x, from.bottom()), (from_x, to_y)];
                points.extend((!joins).then_some((to.x, to_y)));
                (points, label(from_x + 8, from.bottom() + 22, "start"))
            }
            (Flow::Parked, "business") => {
                let (x, y, end) = (from.x - 34, from.bottom() - 18, to.y + 12);
                let points = vec![(from.x, y), (x, y), (x, end), (to.right(), end)];
                (points, label(x - 4, end - 6, "end"))
            }
            (Flow::Parked, "worker") => {
                let (x, end) = (from.x - 16, to.bottom() - 12);
                let points = vec![(from.x, from_y), (x, from_y), (x, end), (to.right(), end)];
                (points, label(x - 18, end + 16, "end"))
            }
            // Down.
            _ if to.y >= from.bottom() && (from.x..from.right()).contains(&to_x) => {
                let x = to_x.min(from_x);
                let label = label(x + 8, i32::midpoint(from.bottom(), to.y) + 4, "start");
                (vec![(x, from.bottom()), (x, to.y)], label)
            }
            // To the next column: a frame is met anywhere, a box in its middle.
            _ => {
                let is_frame = |id: &str| graph.group(id).is_some();
                let (leaves, arrives) = match (is_frame(&edge.from), is_frame(&edge.to)) {
                    (true, true) => (TOP + TO_MIDDLE, TOP + TO_MIDDLE),
                    (true, false) => (to_y, to_y),
                    (false, true) => (from_y, from_y),
                    (false, false) if (from_y - to_y).abs() < 2 => (from_y, from_y),
                    (false, false) => (from_y, to_y),
                };
                let bend = from.right() + BESIDE_LABEL / 2;
                let mut points = vec![(from.right(), leaves)];
                if leaves != arrives {
                    points.extend([(bend, leaves), (bend, arrives)]);
                }
                points.push((to.x, arrives));
                let middle = i32::midpoint(from.right(), to.x);
                (points, label(middle, arrives.min(leaves.max(arrives)) - 6, "middle"))
            }
        };
        let text = shortened_to(&edge.label, if edge.flow == Flow::Again { 100 } else { MOST });
        let label = (!text.is_empty()).then_some(Text { x, y, text, face: PLAIN, anchor });
        Arrow { edge, points, label }
    }

    fn legend(&mut self, graph: &Graph, mut y: i32) {
        for (flow, text) in FLOWS.map(|flow| (flow, look(flow).2)) {
            if graph.edges.iter().any(|edge| edge.flow == flow) {
                y += LINE;
                self.text(MARGIN, y, "━━".to_owned(), Face(look(flow).0, 12, 60));
                self.text(MARGIN + 40, y, text.to_owned(), PLAIN);
            }
        }
    }

    /// Name and summary, in as many lines as they need; and with it the size of the page.
    fn heading(&mut self, graph: &Graph, columns: i32) {
        let title = format!("{}: delay topology", shortened(&graph.name));
        self.text(MARGIN, 42, title, PAGE_TITLE);
        let mut lines = vec![String::new()];
        for word in graph.summary.split(' ') {
            match lines.last_mut() {
                Some(line) if PLAIN.width(line) + PLAIN.width(word) < columns - 2 * MARGIN => {
                    *line =
                        if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
                }
                _ => lines.push(word.to_owned()),
            }
        }
        for (line, y) in lines.into_iter().zip((62..).step_by(16)) {
            self.text(MARGIN, y, line, PLAIN);
        }
        let rects = self.boxes.iter().map(|it| it.1).chain(self.frames.iter().map(|it| it.1));
        let labels = self.arrows.iter().filter_map(|arrow| arrow.label.as_ref());
        let ends = self.texts.iter().chain(labels).filter(|text| text.anchor == "start");
        let ends = ends.map(|text| (text.x + text.face.width(&text.text), text.y));
        let ends = ends.chain(rects.map(|rect| (rect.right(), rect.bottom())));
        let (right, bottom) = ends.fold((columns, 0), |(x, y), end| (x.max(end.0), y.max(end.1)));
        (self.width, self.height) = (right + MARGIN, bottom + MARGIN);
    }

    fn text(&mut self, x: i32, y: i32, text: String, face: Face) {
        self.texts.push(Text { x, y, text, face, anchor: "start" });
    }
}

pub(super) const fn is_queue(kind: Kind) -> bool {
    matches!(kind, Kind::Delay | Kind::Business | Kind::Parked)
}

fn shortened(text: &str) -> String {
    shortened_to(text, MOST)
}

/// At most so many characters; of a longer text the middle is left out.
fn shortened_to(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let end = most / 2;
    let start: String = text.chars().take(most - end - 1).collect();
    let tail: String = text.chars().skip(length - end).collect();
    format!("{start}…{tail}")
}

fn detail(node: &Node) -> String {
    shortened(&node.details.concat().join(" · "))
}

fn count(node: &Node) -> Option<String> {
    node.messages.map(|count| count.to_string())
}

/// What an arrow's label needs.
fn label(graph: &Graph, from: &str, to: &str) -> i32 {
    let edge = graph.edges.iter().find(|edge| edge.from == from && edge.to == to);
    edge.map_or(0, |edge| PLAIN.width(&shortened(&edge.label)))
}

/// Name and details.
fn lines(node: &Node) -> Vec<(Face, String)> {
    let is_named = !matches!(node.kind, Kind::Publisher | Kind::Worker | Kind::Database);
    let name = (if is_named { NAME } else { TITLE }, shortened(&node.name));
    let details = node.details.iter().flat_map(|line| match line.join(" · ") {
        short if short.chars().count() <= MOST_TOGETHER => vec![short],
        _ => line.clone(),
    });
    let details = details.map(|text| (PLAIN, shortened(&text)));
    std::iter::once(name).chain(details).collect()
}

fn size(node: &Node) -> (i32, i32) {
    let lines = lines(node);
    let widths = lines.iter().map(|(face, text)| face.width(text));
    let count = count(node).map_or(0, |text| TITLE.width(&text) + PADDING);
    let name = widths.clone().next().unwrap_or(0) + count;
    let end = if is_queue(node.kind) { QUEUE_END } else { 0 };
    let height = LINE * i32::try_from(lines.len()).unwrap_or(1) + 16;
    (widths.max().unwrap_or(0).max(name) + 2 * PADDING + end, height)
}

/// In a queue from the left, with the count at the right end of the first line; else in the middle.
fn content(node: &Node, rect: Rect) -> Vec<Text> {
    let queue = is_queue(node.kind);
    let (x, anchor) = if queue { (rect.x + PADDING, "start") } else { (rect.middle().0, "middle") };
    let ys = (rect.y + 20..).step_by(17);
    let lines = lines(node).into_iter().zip(ys);
    let texts = lines.map(|((face, text), y)| Text { x, y, text, face, anchor });
    texts.chain(counted(node, rect)).collect()
}

/// Where nothing waits the count does not stand out.
fn counted(node: &Node, rect: Rect) -> Option<Text> {
    let face = if node.messages == Some(Count::Messages(0)) { PLAIN } else { TITLE };
    let x = rect.right() - QUEUE_END - 4;
    let y = if rect.height < 30 { rect.y + 17 } else { rect.y + 20 };
    Some(Text { x, y, text: count(node)?, face, anchor: "end" })
}

pub(super) const FLOWS: [Flow; 5] =
    [Flow::Onward, Flow::Again, Flow::Unroutable, Flow::Parked, Flow::Event];

/// Class and colour of an arrow, and what it is.
pub(super) const fn look(flow: Flow) -> (&'static str, &'static str, &'static str) {
    match flow {
        Flow::Onward => ("onward", "#334155", "message on its way"),
        Flow::Again => ("again", "#1d4ed8", "tried again, or came early"),
        Flow::Unroutable => ("unroutable", "#b45309", "alternate exchange: no route"),
        Flow::Parked => ("given-up", "#b91c1c", "given up, kept for a person"),
        Flow::Event => ("event", "#15803d", "event"),
    }
}
