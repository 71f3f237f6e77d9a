//! The picture as SVG, for a document: no program is needed to make it, none but a browser to see it.

use std::fmt::Write as _;

use super::{
    Graph, Kind, Node,
    layout::{Arrow, FLOWS, Face, Layout, QUEUE_END, Rect, Text, is_queue, look},
};

const STYLE: &str = "text { font-family: system-ui, 'Segoe UI', Roboto, Arial, 'DejaVu Sans', sans-serif; fill: #1e293b; }
.mono { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; }
.bold { font-weight: 600; } .muted { fill: #475569; }
.page { fill: #ffffff; stroke: #cbd5e1; } .group { fill: #f8fafc; stroke: #cbd5e1; }
.publisher, .database { fill: #f1f5f9; stroke: #64748b; } .exchange { fill: #eef2ff; stroke: #4f46e5; }
.delay { fill: #fffbeb; stroke: #d97706; } .business { fill: #ecfeff; stroke: #0891b2; }
.parked { fill: #fef2f2; stroke: #dc2626; } .worker { fill: #f0fdf4; stroke: #16a34a; }
.retired { fill: #f1f5f9; stroke-dasharray: 4 3; } .end { fill: none; opacity: 0.55; }
.way { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
";

/// The picture of `graph`. It has a background of its own, so it can be read on a dark page too.
pub fn render(graph: &Graph) -> String {
    let layout = Layout::of(graph);
    let Layout { width, height, .. } = layout;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\">\n<title>Delay topology {}</title>\n<desc>{}</desc>\n<style>\n{STYLE}",
        escaped(&graph.name),
        escaped(&graph.summary),
    );
    for (class, colour, _) in FLOWS.map(look) {
        let dashes = if class == "unroutable" { " stroke-dasharray: 5 4;" } else { "" };
        line(
            &mut out,
            &format!(
                ".way.{class} {{ stroke: {colour};{dashes} }} text.{class} {{ fill: {colour}; }}"
            ),
        );
    }
    out.push_str("</style>\n<defs>\n");
    for (class, colour, _) in FLOWS.map(look) {
        line(
            &mut out,
            &format!(
                r#"<marker id="head-{class}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{colour}"/></marker>"#
            ),
        );
    }
    out.push_str("</defs>\n");
    let page = Rect { x: 0, y: 0, width, height };
    let frames = layout.frames.iter().map(|(_, rect)| ("group", *rect));
    for (class, rect) in std::iter::once(("page", page)).chain(frames) {
        line(&mut out, &rectangle(class, rect, 10));
    }
    for Arrow { edge, points, .. } in &layout.arrows {
        let class = look(edge.flow).0;
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x} {y}")).collect();
        let path = points.join("L");
        line(
            &mut out,
            &format!(r#"<path class="way {class}" d="M{path}" marker-end="url(#head-{class})"/>"#),
        );
    }
    layout.boxes.iter().for_each(|(node, rect)| shape(&mut out, node, *rect));
    let labels = layout.arrows.iter().filter_map(|arrow| arrow.label.as_ref());
    for Text { x, y, text, face: Face(class, size, _), anchor } in layout.texts.iter().chain(labels)
    {
        let text = escaped(text);
        line(
            &mut out,
            &format!(
                r#"<text x="{x}" y="{y}" font-size="{size}" class="{class}" text-anchor="{anchor}">{text}</text>"#
            ),
        );
    }
    out + "</svg>\n"
}

fn rectangle(class: &str, Rect { x, y, width, height }: Rect, round: i32) -> String {
    format!(
        r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{round}"/>"#
    )
}

fn shape(out: &mut String, node: &Node, rect: Rect) {
    let class = node.kind.class();
    let retired = if node.retired { " retired" } else { "" };
    let round = if node.kind == Kind::Exchange { rect.height / 2 } else { 5 };
    line(out, &rectangle(&format!("{class}{retired}"), rect, round));
    if is_queue(node.kind) {
        let (x, top, bottom) = (rect.right() - QUEUE_END, rect.y + 1, rect.bottom() - 1);
        let bars = [0, 6, 12].map(|bar| format!("M{} {top}V{bottom}", x + bar)).concat();
        line(out, &format!(r#"<path class="{class} end" d="{bars}"/>"#));
    }
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

/// Writing to a `String` never fails.
fn line(out: &mut String, content: &str) {
    let _written = writeln!(out, "{content}");
}
