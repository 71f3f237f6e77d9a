//! Findings as a person reads them: file, line, the offending text, and the way out. And as a program does.

use std::ops::Range;

use annotate_snippets::Level;
use serde::Serialize;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    document::{picture, position},
};

/// Version of [`Report`].
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
    pub fix: &'a str,
}

impl<'a> Report<'a> {
    /// `findings` about `text`.
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

/// What to do, which every rule about the file says in words.
fn help(finding: &Diagnostic) -> &str {
    match &finding.fix {
        Some(Fix::Text(text)) => text,
        _ => "",
    }
}

/// Where the finding is, never outside the text.
fn within(text: &str, finding: &Diagnostic) -> Range<usize> {
    let Subject::File(span) = &finding.subject else { return 0..0 };
    let end = span.end.min(text.len());
    span.start.min(end)..end
}
