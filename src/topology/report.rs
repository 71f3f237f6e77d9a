//! Findings as a person reads them: file, line, the offending text, and the way out. And as a program does.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;

use super::check::{Finding, Severity};

/// Version of [`Report`].
pub const VERSION: u32 = 1;

/// Renders `findings` about `text`, the content of the file called `path`, without colour.
#[must_use]
pub fn render(path: &str, text: &str, findings: &[Finding]) -> String {
    let renderer = Renderer::plain();
    let reports = findings.iter().map(|finding| {
        let (start, end) = within(text, finding);
        let snippet =
            Snippet::source(text).path(path).annotation(AnnotationKind::Primary.span(start..end));
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note => Level::NOTE,
        };
        let title = level.primary_title(finding.message.as_str()).id(finding.rule).element(snippet);
        let help = Group::with_title(Level::HELP.secondary_title(finding.help.as_str()));
        renderer.render(&[title, help])
    });
    reports.collect::<Vec<_>>().join("\n\n")
}

/// `1 error, 2 warnings`: how many of each there are, worst first; empty where there is none.
#[must_use]
pub fn tally(findings: &[Finding]) -> String {
    let severities =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")];
    let counted = severities.into_iter().filter_map(|(severity, noun)| {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        match count {
            0 => None,
            1 => Some(format!("1 {noun}")),
            many => Some(format!("{many} {noun}s")),
        }
    });
    counted.collect::<Vec<_>>().join(", ")
}

/// Findings as JSON has them.
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    /// [`VERSION`].
    pub version: u32,
    /// In the order of the file.
    pub findings: Vec<Reported<'a>>,
}

/// One finding, with its place as editors count.
#[derive(Clone, Debug, Serialize)]
pub struct Reported<'a> {
    /// Name of the rule.
    pub rule: &'static str,
    /// What it means.
    pub severity: Severity,
    /// Line it begins in, from 1.
    pub line: usize,
    /// Character of the line it begins with, from 1.
    pub column: usize,
    /// What is written there.
    pub text: &'a str,
    /// What is wrong, and why.
    pub message: &'a str,
    /// What to do.
    pub help: &'a str,
}

impl<'a> Report<'a> {
    /// `findings` about `text`.
    #[must_use]
    pub fn new(text: &'a str, findings: &'a [Finding]) -> Self {
        let reported = findings.iter().map(|finding| {
            let (start, end) = within(text, finding);
            let before = text.get(..start).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            // A byte order mark is no character of the first line.
            let line = before.get(line_start..).unwrap_or_default().trim_start_matches('\u{feff}');
            Reported {
                rule: finding.rule,
                severity: finding.severity,
                line: before.matches('\n').count() + 1,
                column: line.chars().count() + 1,
                text: text.get(start..end).unwrap_or_default(),
                message: &finding.message,
                help: &finding.help,
            }
        });
        Self { version: VERSION, findings: reported.collect() }
    }
}

/// Where the finding begins and ends, never outside the text.
fn within(text: &str, finding: &Finding) -> (usize, usize) {
    let end = finding.span.end.min(text.len());
    (finding.span.start.min(end), end)
}
