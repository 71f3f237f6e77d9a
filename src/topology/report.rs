//! Findings as a person reads them: file, line, the offending text, and the way out.

use annotate_snippets::{AnnotationKind, Group, Level as Severity, Renderer, Snippet};

use super::check::Finding;

/// Renders `findings` about `text`, the content of the file called `path`, without colour.
#[must_use]
pub fn render(path: &str, text: &str, findings: &[Finding]) -> String {
    let renderer = Renderer::plain();
    let reports = findings.iter().map(|finding| {
        let end = finding.span.end.min(text.len());
        let start = finding.span.start.min(end);
        let snippet =
            Snippet::source(text).path(path).annotation(AnnotationKind::Primary.span(start..end));
        let title = Severity::ERROR
            .primary_title(finding.message.as_str())
            .id(finding.rule)
            .element(snippet);
        let help = Group::with_title(Severity::HELP.secondary_title(finding.help.as_str()));
        renderer.render(&[title, help])
    });
    reports.collect::<Vec<_>>().join("\n\n")
}
