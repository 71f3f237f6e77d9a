//! In place of `src/text.rs`.

pub(crate) fn length(time: std::time::Duration) -> String {
    format!("{time:?}")
}

pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    error.to_string()
}
