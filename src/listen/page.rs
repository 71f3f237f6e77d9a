//! What a path answers.

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The status code of HTTP.
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Page {
    /// The text format of Prometheus.
    pub(crate) fn metrics(body: String) -> Self {
        Self { status: 200, content_type: "text/plain; version=0.0.4; charset=utf-8", body }
    }

    /// A text for people, whose first line says it all.
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}
