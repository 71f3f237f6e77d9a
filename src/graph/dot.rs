//! The picture as DOT, for Graphviz and what reads its language (<https://graphviz.org/doc/info/lang.html>).

use super::{Edge, Flow, Graph, Kind, Node};

/// The picture of `graph` as a directed graph.
#[must_use]
pub fn render(graph: &Graph) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&graph.name));
    let heading = format!("{}\n{}", graph.name, graph.summary);
    line(
        &mut out,
        1,
        &format!("graph [label={}, labelloc=t, rankdir=LR, compound=true]", quoted(&heading)),
    );
    line(&mut out, 1, "graph [fontname=\"sans-serif\", style=rounded, color=\"#cbd5e1\"]");
    line(&mut out, 1, "node [fontname=\"sans-serif\", style=filled, shape=box]");
    line(&mut out, 1, "edge [fontname=\"sans-serif\", fontsize=11, color=\"#334155\"]");
    for node in graph.nodes.iter().filter(|node| graph.group_of(&node.id).is_none()) {
        line(&mut out, 1, &shape(node));
    }
    for group in &graph.groups {
        let title = format!("{}\n{}", group.title, group.details);
        line(&mut out, 1, &format!("subgraph cluster_{} {{", group.id));
        line(&mut out, 2, &format!("label={}", quoted(&title)));
        for node in group.nodes.iter().filter_map(|id| graph.node(id)) {
            line(&mut out, 2, &shape(node));
        }
        line(&mut out, 1, "}");
    }
    for edge in &graph.edges {
        line(&mut out, 1, &arrow(graph, edge));
    }
    out.push_str("}\n");
    out
}

fn shape(node: &Node) -> String {
    let lines = node.lines();
    let (fill, stroke) = match node.kind {
        Kind::Publisher => ("#f1f5f9", "#64748b"),
        Kind::Exchange => ("#eef2ff", "#4f46e5"),
        Kind::Delay => ("#fffbeb", "#d97706"),
        Kind::Business => ("#ecfeff", "#0891b2"),
        Kind::Parked => ("#fef2f2", "#dc2626"),
        Kind::Worker => ("#f0fdf4", "#16a34a"),
        Kind::Database => ("#f1f5f9", "#334155"),
    };
    let form = match (node.kind, node.retired) {
        (_, true) => ", style=\"filled,dashed\"",
        (Kind::Exchange, _) => ", style=\"filled,rounded\"",
        (Kind::Database, _) => ", shape=cylinder",
        _ => "",
    };
    let label = quoted(&lines.join("\n"));
    format!("{} [label={label}, fillcolor=\"{fill}\", color=\"{stroke}\"{form}]", quoted(&node.id))
}

/// Graphviz draws arrows between nodes only: one of the group's stands for it, and the arrow ends at the frame.
fn arrow(graph: &Graph, edge: &Edge) -> String {
    let end = |id: &str| {
        let group = graph.group(id)?;
        Some((group.nodes.get(group.nodes.len() / 2)?.clone(), group.id.clone()))
    };
    let mut attributes = Vec::new();
    let mut node = |id: &str, attribute: &str| match end(id) {
        None => id.to_owned(),
        Some((node, group)) => {
            attributes.push(format!("{attribute}=cluster_{group}"));
            node
        }
    };
    let (from, to) = (node(&edge.from, "ltail"), node(&edge.to, "lhead"));
    if !edge.label.is_empty() {
        attributes.push(format!("label={}", quoted(&edge.label)));
    }
    attributes.extend(match edge.flow {
        Flow::Onward => None,
        Flow::Unroutable => Some("style=dashed, color=\"#b45309\"".to_owned()),
        Flow::Parked => Some("color=\"#b91c1c\"".to_owned()),
        // The way back says nothing about what comes before what.
        Flow::Again => Some("color=\"#1d4ed8\", constraint=false".to_owned()),
        Flow::Event => Some("color=\"#15803d\"".to_owned()),
    });
    format!("{} -> {} [{}]", quoted(&from), quoted(&to), attributes.join(", "))
}

/// A text as DOT has it; a line break is written as one.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let clean: String = escaped.chars().filter(|c| !c.is_control()).collect();
    format!("\"{clean}\"")
}

fn line(out: &mut String, depth: usize, content: &str) {
    out.push_str(&"  ".repeat(depth));
    out.push_str(content);
    out.push('\n');
}
