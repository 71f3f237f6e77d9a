//! Questions to the broker that end with their connection.
//!
//! Between the end of its socket and the moment at which it knows, lapin takes questions and forgets them: what it is asked
//! then is never answered (seen with 4.12; `connection.rs` and `internal_rpc.rs` there). So whoever asks looks, too.

use std::{io, pin::pin, time::Duration};

use lapin::ConnectionStatus;
use tokio::time::timeout;

use super::Link;

/// How soon the end of a connection is seen where the client does not say it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Link {
    /// The answer to a question, for which the broker may take its time while the connection stands.
    ///
    /// # Errors
    /// The answer is one, or the connection ended before it came.
    pub async fn answered<T>(
        &self,
        question: impl Future<Output = Result<T, lapin::Error>>,
    ) -> Result<T, lapin::Error> {
        answered(&self.status(), question).await
    }
}

/// [`Link::answered`] for who has not got the link.
pub(super) async fn answered<T>(
    connection: &ConnectionStatus,
    question: impl Future<Output = Result<T, lapin::Error>>,
) -> Result<T, lapin::Error> {
    let mut question = pin!(question);
    loop {
        // The client reports why it ended, as a rule a moment later.
        let stood = connection.connected();
        match timeout(LOOK_EVERY, &mut question).await {
            Ok(answer) => return answer,
            Err(_elapsed) if stood => {}
            Err(_elapsed) => {
                let reason = "the connection ended before there was an answer";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason).into());
            }
        }
    }
}
