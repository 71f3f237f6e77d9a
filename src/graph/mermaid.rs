//! The picture as Mermaid, which code hosts render in Markdown (<https://mermaid.js.org/syntax/flowchart.html>).

use std::fmt::Write as _;

use super::{Edge, Flow, Graph, Kind, Node};

/// The picture of `graph` as a flow chart.
pub fn render(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    for node in graph.nodes.iter().filter(|node| graph.group_of(&node.id).is_none()) {
        line(&mut out, 1, &shape(node));
    }
    for group in &graph.groups {
        let title = escaped(&format!("{}: {}", group.title, group.details));
        line(&mut out, 1, &format!("subgraph {}[\"{title}\"]", group.id));
        for node in group.nodes.iter().filter_map(|id| graph.node(id)) {
            line(&mut out, 2, &shape(node));
        }
        line(&mut out, 1, "end");
    }
    for edge in &graph.edges {
        line(&mut out, 1, &arrow(edge));
    }
    styles(&mut out, graph);
    out
}

fn shape(node: &Node) -> String {
    let lines = node.lines();
    let text = lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("<br>");
    let (open, close) = match node.kind {
        Kind::Exchange => ("([", "])"),
        Kind::Database => ("[(", ")]"),
        Kind::Publisher | Kind::Worker => ("(", ")"),
        Kind::Delay | Kind::Business | Kind::Parked => ("[", "]"),
    };
    let class = if node.retired { "retired" } else { node.kind.class() };
    format!("{}{open}\"{text}\"{close}:::{class}", node.id)
}

fn arrow(edge: &Edge) -> String {
    let line = if edge.flow == Flow::Unroutable { "-.->" } else { "-->" };
    let label = if edge.label.is_empty() {
        String::new()
    } else {
        format!("|\"{}\"|", escaped(&edge.label))
    };
    format!("{} {line}{label} {}", edge.from, edge.to)
}

/// Dark text on light boxes, readable in every theme of a page.
fn styles(out: &mut String, graph: &Graph) {
    let classes = [
        ("publisher", "#f1f5f9", "#64748b"),
        ("exchange", "#eef2ff", "#4f46e5"),
        ("delay", "#fffbeb", "#d97706"),
        ("business", "#ecfeff", "#0891b2"),
        ("parked", "#fef2f2", "#dc2626"),
        ("worker", "#f0fdf4", "#16a34a"),
        ("database", "#f1f5f9", "#334155"),
    ];
    for (class, fill, stroke) in classes {
        line(out, 1, &format!("classDef {class} fill:{fill},stroke:{stroke},color:#1e293b"));
    }
    if graph.nodes.iter().any(|node| node.retired) {
        let style = "fill:#f1f5f9,stroke:#64748b,color:#1e293b,stroke-dasharray:4 3";
        line(out, 1, &format!("classDef retired {style}"));
    }
    for (flow, colour) in [
        (Flow::Unroutable, "#b45309"),
        (Flow::Parked, "#b91c1c"),
        (Flow::Again, "#1d4ed8"),
        (Flow::Event, "#15803d"),
    ] {
        let edges = graph.edges.iter().enumerate().filter(|(_, edge)| edge.flow == flow);
        let numbers: Vec<String> = edges.map(|(number, _)| number.to_string()).collect();
        if !numbers.is_empty() {
            line(out, 1, &format!("linkStyle {} stroke:{colour}", numbers.join(",")));
        }
    }
}

/// Escapes characters that would end a text or begin a tag or a code.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | '*' | '_' | '\\' => {
                // Writing to a `String` never fails.
                let _written = write!(out, "#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn line(out: &mut String, depth: usize, content: &str) {
    out.push_str(&"  ".repeat(depth));
    out.push_str(content);
    out.push('\n');
}
