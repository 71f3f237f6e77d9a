//! What time it is by the broker: whoever applies next may have another clock.

use super::{Management, ManagementError};

impl Management {
    /// The clock of the broker, in seconds since 1970.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(super) async fn now_s(&self) -> Result<u64, ManagementError> {
        let response = self.respond(&["whoami"], &[]).await?;
        let failed = |error: reqwest::Error| self.explain("read the broker's clock", error.into());
        let response = response.error_for_status().map_err(failed)?;
        let date = response.headers().get(reqwest::header::DATE);
        let date = date.and_then(|date| jiff::fmt::rfc2822::parse(date.to_str().ok()?).ok());
        let seconds = date.and_then(|date| u64::try_from(date.timestamp().as_second()).ok());
        seconds.ok_or_else(|| ManagementError::Refused {
            address: self.displayed().to_owned(),
            step: "say what time it is".to_owned(),
            reason: "its answer has no date".to_owned(),
        })
    }
}
