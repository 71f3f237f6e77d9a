//! The picture as SVG, for a design document: no program is needed to make it, none but a browser to see it.

use std::fmt::Write as _;

use super::{
    Flow, Graph, Kind,
    layout::{Anchor, Face, Layout, PlacedEdge, PlacedNode, QUEUE_END, Rect, Text},
};

/// Fonts that are there on each system, the system's own first.
const SANS: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";
const MONO: &str = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
/// How round the bends of arrows are, in pixels.
const BEND: i32 = 10;

/// The picture of `graph`. It has a background of its own, so it can be read on a dark page too.
#[must_use]
pub fn render(graph: &Graph) -> String {
    let layout = Layout::of(graph);
    let mut out = String::new();
    head(&mut out, graph, &layout);
    for group in &layout.groups {
        let Rect { x, y, width, height } = group.rect;
        line(
            &mut out,
            format_args!(
                r#"<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>"#
            ),
        );
        group.texts.iter().for_each(|found| text(&mut out, found));
    }
    layout.edges.iter().chain(&layout.legend).for_each(|edge| arrow(&mut out, edge));
    layout.nodes.iter().for_each(|node| shape(&mut out, node));
    let labels = layout.edges.iter().filter_map(|edge| edge.label.as_ref());
    labels.chain(&layout.texts).for_each(|found| text(&mut out, found));
    out.push_str("</svg>\n");
    out
}

fn head(out: &mut String, graph: &Graph, layout: &Layout) {
    let Layout { width, height, .. } = layout;
    line(
        out,
        format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc">"#
        ),
    );
    line(out, format_args!(r#"<title id="title">Delay topology {}</title>"#, escaped(&graph.name)));
    line(out, format_args!(r#"<desc id="desc">{}</desc>"#, escaped(&description(graph))));
    line(
        out,
        format_args!(
            "<style>\ntext {{ font-family: {SANS}; fill: #1e293b; }}\n.mono {{ font-family: {MONO}; }}"
        ),
    );
    out.push_str(STYLE);
    out.push_str("</style>\n<defs>\n");
    for flow in FLOWS {
        let (class, colour) = look(flow);
        line(
            out,
            format_args!(
                r#"<marker id="head-{class}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>"#
            ),
        );
    }
    out.push_str("</defs>\n");
    line(
        out,
        format_args!(
            r#"<rect class="page" x="0" y="0" width="{width}" height="{height}" rx="12"/>"#
        ),
    );
}

const STYLE: &str = "\
.page { fill: #ffffff; stroke: #cbd5e1; }
.group { fill: #f8fafc; stroke: #cbd5e1; }
.muted { fill: #475569; }
.bold { font-weight: 600; }
.box { stroke-width: 1.4; }
.publisher { fill: #f1f5f9; stroke: #64748b; }
.exchange { fill: #eef2ff; stroke: #4f46e5; }
.delay { fill: #fffbeb; stroke: #d97706; }
.business { fill: #ecfeff; stroke: #0891b2; }
.parked { fill: #fef2f2; stroke: #dc2626; }
.worker { fill: #f0fdf4; stroke: #16a34a; }
.database { fill: #f1f5f9; stroke: #334155; }
.retired { fill: #f1f5f9; stroke-dasharray: 4 3; }
.end { stroke-width: 1; fill: none; opacity: 0.55; }
.way { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.onward { stroke: #334155; }
.unroutable { stroke: #b45309; stroke-dasharray: 5 4; }
.given-up { stroke: #b91c1c; }
.again { stroke: #1d4ed8; }
.event { stroke: #15803d; }
";

const FLOWS: [Flow; 5] = [Flow::Onward, Flow::Unroutable, Flow::Parked, Flow::Again, Flow::Event];

/// Class of an arrow, and the colour of its head.
const fn look(flow: Flow) -> (&'static str, &'static str) {
    match flow {
        Flow::Onward => ("onward", "#334155"),
        Flow::Unroutable => ("unroutable", "#b45309"),
        Flow::Parked => ("given-up", "#b91c1c"),
        Flow::Again => ("again", "#1d4ed8"),
        Flow::Event => ("event", "#15803d"),
    }
}

/// The picture in a sentence per way.
fn description(graph: &Graph) -> String {
    let name = |id: &str| {
        let group = graph.group(id).map(|group| group.title.clone());
        group.or_else(|| graph.node(id).map(|node| node.name.clone())).unwrap_or_default()
    };
    let ways = graph.edges.iter().map(|edge| format!("{} to {}", name(&edge.from), name(&edge.to)));
    format!("{}. Messages go from {}.", graph.summary, ways.collect::<Vec<_>>().join(", from "))
}

fn arrow(out: &mut String, edge: &PlacedEdge) {
    let (class, colour) = look(edge.flow);
    let path = path(&edge.points);
    let title = escaped(&edge.title);
    let end =
        if edge.joins { String::new() } else { format!(r#" marker-end="url(#head-{class})""#) };
    line(
        out,
        format_args!(r#"<path class="way {class}" d="{path}"{end}><title>{title}</title></path>"#),
    );
    if let (true, Some((x, y))) = (edge.joins, edge.points.last()) {
        line(out, format_args!(r#"<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>"#));
    }
}

/// Lines between the points, with round bends.
fn path(points: &[(i32, i32)]) -> String {
    let mut path = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| points.get(at));
        match (before, points.get(at + 1)) {
            (None, _) => append(&mut path, format_args!("M{x} {y}")),
            (Some(_), None) => append(&mut path, format_args!("L{x} {y}")),
            (Some(before), Some(after)) => {
                let (from_x, from_y) = towards((*x, *y), *before);
                let (to_x, to_y) = towards((*x, *y), *after);
                append(&mut path, format_args!("L{from_x} {from_y}Q{x} {y} {to_x} {to_y}"));
            }
        }
    }
    path
}

/// The point a bend's length from `corner` on the way to `other`.
fn towards((x, y): (i32, i32), (other_x, other_y): (i32, i32)) -> (i32, i32) {
    let step = |from: i32, to: i32| from + (to - from).clamp(-BEND, BEND);
    (step(x, other_x), step(y, other_y))
}

fn shape(out: &mut String, node: &PlacedNode) {
    let Rect { x, y, width, height } = node.rect;
    let class = node.kind.class();
    let retired = if node.retired { " retired" } else { "" };
    line(out, format_args!("<g><title>{}</title>", escaped(&node.title)));
    match node.kind {
        Kind::Database => {
            // A cylinder: round at the bottom, and a lid.
            let (right, low) = (x + width, y + height - 7);
            let half = width / 2;
            line(
                out,
                format_args!(
                    r#"<path class="box {class}" d="M{x} {top}A{half} 7 0 0 1 {right} {top}V{low}A{half} 7 0 0 1 {x} {low}Z"/><path class="box {class}" d="M{x} {top}A{half} 7 0 0 0 {right} {top}" style="fill:none"/>"#,
                    top = y + 7
                ),
            );
        }
        Kind::Exchange => line(
            out,
            format_args!(
                r#"<rect class="box {class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{}"/>"#,
                height / 2
            ),
        ),
        kind => {
            line(
                out,
                format_args!(
                    r#"<rect class="box {class}{retired}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>"#
                ),
            );
            if matches!(kind, Kind::Delay | Kind::Business | Kind::Parked) {
                let end = x + width - QUEUE_END;
                let bars: Vec<String> = (0..3)
                    .map(|bar| format!("M{} {}V{}", end + bar * 6, y + 1, y + height - 1))
                    .collect();
                line(
                    out,
                    format_args!(
                        r#"<path class="end {class}" style="fill:none" d="{}"/>"#,
                        bars.concat()
                    ),
                );
            }
        }
    }
    node.texts.iter().for_each(|found| text(out, found));
    out.push_str("</g>\n");
}

fn text(out: &mut String, text: &Text) {
    let class = match text.face {
        Face::Heading | Face::Title | Face::Count => r#" class="bold""#,
        Face::Name => r#" class="mono bold""#,
        Face::SmallName => r#" class="mono muted""#,
        Face::Subheading | Face::Detail | Face::Label => r#" class="muted""#,
    };
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => r#" text-anchor="middle""#,
        Anchor::End => r#" text-anchor="end""#,
    };
    let (x, y, size, content) = (text.x, text.y, text.face.size(), escaped(&text.text));
    line(
        out,
        format_args!(r#"<text x="{x}" y="{y}" font-size="{size}"{class}{anchor}>{content}</text>"#),
    );
}

/// XML has no place for control characters and the last two of the first plane; the rest means itself.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let has_place = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    for c in text.chars().filter(has_place) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

fn line(out: &mut String, content: std::fmt::Arguments<'_>) {
    append(out, content);
    out.push('\n');
}

/// Writing to a `String` never fails.
fn append(out: &mut String, content: std::fmt::Arguments<'_>) {
    let _written = out.write_fmt(content);
}
