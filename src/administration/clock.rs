//! What time it is by the broker: whoever applies next may have another clock.

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::{Method, header::DATE};

use super::{Management, ManagementError};

impl Management {
    /// The clock of the broker, in seconds since 1970.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(super) async fn now_s(&self) -> Result<u64, ManagementError> {
        let now = self.now().await?;
        Ok(u64::try_from(now.as_second()).unwrap_or_default())
    }

    /// The clock of the broker, by the `Date` of a small answer: whole seconds.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(super) async fn now(&self) -> Result<Timestamp, ManagementError> {
        let step = "read the broker's clock";
        let response = self.nodes.send(Method::GET, &["whoami"], &[], None).await;
        let response = response.map_err(|error| self.explain(step, error))?;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| rfc2822::parse(date).ok());
        date.map(|date| date.timestamp()).ok_or_else(|| ManagementError::Refused {
            address: self.displayed().to_owned(),
            step: step.to_owned(),
            reason: "its answer has no date".to_owned(),
        })
    }
}
