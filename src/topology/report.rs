//! Findings for people (file, line, the offending text, and the fix) and for programs (JSON).

use std::ops::Range;

use annotate_snippets::Level;
use serde::Serialize;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    document::{picture, position},
};

/// The format version of [`Report`].
pub(crate) const VERSION: u32 = 2;

/// Renders `findings` about `text`, the content of the file called `path`, without colour.
pub fn render(path: &str, text: &str, findings: &[Diagnostic]) -> String {
    let reports = findings.iter().map(|finding| {
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Note | Severity::Ok => Level::NOTE,
        };
        let title = level.primary_title(finding.message.as_str()).id(finding.rule);
        picture((path, text), within(text, finding), title, help(finding))
    });
    reports.collect::<Vec<_>>().join("\n\n")
}

/// All findings, as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Report<'a> {
    /// The value of [`VERSION`].
    pub version: u32,
    /// Sorted by their position in the file.
    pub findings: Vec<Reported<'a>>,
}

/// A finding, with line and column as editors count.
#[derive(Clone, Debug, Serialize)]
pub struct Reported<'a> {
    /// Name of the rule.
    pub rule: &'static str,
    /// Severity of the finding.
    pub severity: Severity,
    /// Line of the first character, from 1.
    pub line: usize,
    /// Column of the first character, from 1.
    pub column: usize,
    /// The text that the finding is about.
    pub text: &'a str,
    /// The mistake and its reason.
    pub message: &'a str,
    /// The next step of the administrator.
    pub fix: &'a str,
}

impl<'a> Report<'a> {
    /// Lists `findings` about `text`.
    pub fn new(text: &'a str, findings: &'a [Diagnostic]) -> Self {
        let reported = findings.iter().map(|finding| {
            let span = within(text, finding);
            let (line, column) = position(text, span.start);
            Reported {
                rule: finding.rule,
                severity: finding.severity,
                line,
                column,
                text: text.get(span).unwrap_or_default(),
                message: &finding.message,
                fix: help(finding),
            }
        });
        Self { version: VERSION, findings: reported.collect() }
    }
}

/// The fix as text, which every rule about the file has.
fn help(finding: &Diagnostic) -> &str {
    match &finding.fix {
        Some(Fix::Text(text)) => text,
        _ => "",
    }
}

/// The span of the finding, limited to the text.
fn within(text: &str, finding: &Diagnostic) -> Range<usize> {
    let Subject::File(span) = &finding.subject else { return 0..0 };
    let end = span.end.min(text.len());
    span.start.min(end)..end
}
