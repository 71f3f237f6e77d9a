//! Returns matched to the messages they are about.

use std::collections::HashMap;

use lapin::message::Delivery;

use super::{
    error::PublishError,
    sent::{Confirm, Confirmed, Key, Sent},
};
use crate::text::length;

/// Returned messages whose confirm has not been passed on yet.
#[derive(Default)]
pub(super) struct Returns(HashMap<Key, Vec<String>>);

impl Returns {
    /// Passes on the results of one round, after every return that came with it was taken in.
    pub(super) fn answer(&mut self, confirmed: Vec<Confirmed>, blocked: bool) {
        let results: Vec<_> = confirmed
            .into_iter()
            .map(|(sent, confirm)| (self.result(&sent, confirm, blocked), sent))
            .collect();
        for (result, sent) in results {
            let reason = self.reason(&sent);
            let result = match reason {
                Some(reason) => Err(sent.returned(reason)),
                None => result,
            };
            sent.answer(result);
        }
        self.0.retain(|_, reasons| !reasons.is_empty());
    }

    fn reason(&mut self, sent: &Sent) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut(&sent.key())?.pop()
    }

    fn result(&mut self, sent: &Sent, confirm: Confirm, blocked: bool) -> Result<(), PublishError> {
        match confirm {
            Ok(Ok(confirmation)) => {
                let refused = confirmation.is_nack();
                if let Some(message) = confirmation.take_message() {
                    self.0
                        .entry(key_of(&message.delivery))
                        .or_default()
                        .push(message.reply_text.to_string());
                }
                if refused { Err(sent.refused()) } else { Ok(()) }
            }
            Ok(Err(error)) => Err(sent.lost(&error)),
            Err(_elapsed) if blocked => Err(sent.unknown(
                "the broker has blocked the connection (memory or disk alarm)".to_owned(),
            )),
            Err(waited) => Err(sent.unknown(format!("no confirm within {}", length(waited)))),
        }
    }
}

fn key_of(returned: &Delivery) -> Key {
    let id = returned.properties.message_id().clone().unwrap_or_default();
    (id.to_string(), returned.exchange.to_string(), returned.routing_key.to_string())
}
