//! Matches returns to their messages.
//!
//! lapin attaches the oldest return to the next confirm that it returns. It returns the confirms of one `basic.ack` one by one, in any
//! order. So a confirm with the return of another message may precede the confirm with its own return: it is decided later.

use std::collections::HashMap;

use lapin::message::Delivery;

use super::{
    error::PublishError,
    sent::{Confirm, Confirmed, Key, Sent},
};
use crate::text::length;

type Decided = (Sent, Result<(), PublishError>);

/// Returned messages whose result was not sent yet.
#[derive(Default)]
pub(super) struct Returns {
    reasons: HashMap<Key, Vec<String>>,
    /// Messages whose confirm had the return of another message.
    undecided: Vec<Decided>,
}

impl Returns {
    /// Sends the results of a round: all confirms that have arrived.
    pub(super) fn answer(&mut self, confirmed: Vec<Confirmed>, blocked: bool) {
        let (mut decided, mut undecided, mut is_last) = (Vec::new(), Vec::new(), false);
        for (sent, confirm) in confirmed {
            let is_confirm = matches!(confirm, Ok(Ok(_)));
            let (result, with_return) = self.result(&sent, confirm, blocked);
            is_last |= is_confirm && !with_return;
            let these = if with_return { &mut undecided } else { &mut decided };
            these.push((sent, result));
        }
        if is_last {
            // A confirm without a return shows that no return is pending: earlier confirms had them all.
            self.decide();
        }
        self.pass_on(decided);
        self.undecided.extend(undecided);
        let reasons = &self.reasons;
        let is_known = |(sent, _): &Decided| reasons.contains_key(&sent.key());
        let (known, undecided) =
            std::mem::take(&mut self.undecided).into_iter().partition(is_known);
        self.undecided = undecided;
        self.pass_on(known);
    }

    /// Decides all messages, because every confirm has arrived.
    pub(super) fn decide(&mut self) {
        let undecided = std::mem::take(&mut self.undecided);
        self.pass_on(undecided);
    }

    /// Fails the undecided messages, because no more confirms will arrive.
    pub(super) fn lose(&mut self) {
        for (sent, result) in &mut self.undecided {
            *result = Err(sent.unknown("the channel is gone".to_owned()));
        }
        self.decide();
    }

    fn pass_on(&mut self, decided: Vec<Decided>) {
        for (sent, result) in decided {
            let result = self.reason(&sent).map_or(result, |reason| Err(sent.returned(reason)));
            sent.answer(result);
        }
    }

    fn reason(&mut self, sent: &Sent) -> Option<String> {
        if self.reasons.is_empty() {
            return None;
        }
        let key = sent.key();
        let reasons = self.reasons.get_mut(&key)?;
        let reason = reasons.pop();
        if reasons.is_empty() {
            self.reasons.remove(&key);
        }
        reason
    }

    /// The result for a message, and whether a return came with its confirm.
    fn result(
        &mut self,
        sent: &Sent,
        confirm: Confirm,
        blocked: bool,
    ) -> (Result<(), PublishError>, bool) {
        let lost = match confirm {
            Ok(Ok(confirmation)) => {
                let result = if confirmation.is_nack() { Err(sent.refused()) } else { Ok(()) };
                let returned = confirmation.take_message();
                let with_return = returned.is_some();
                if let Some(message) = returned {
                    let reasons = self.reasons.entry(key_of(&message.delivery)).or_default();
                    reasons.push(message.reply_text.to_string());
                }
                return (result, with_return);
            }
            Ok(Err(error)) => sent.lost(&error),
            Err(_elapsed) if blocked => sent
                .unknown("the broker has blocked the connection (memory or disk alarm)".to_owned()),
            Err(waited) => sent.unknown(format!("no confirm within {}", length(waited))),
        };
        (Err(lost), false)
    }
}

fn key_of(returned: &Delivery) -> Key {
    let id = returned.properties.message_id().clone().unwrap_or_default();
    (id.to_string(), returned.exchange.to_string(), returned.routing_key.to_string())
}

#[cfg(test)]
mod tests {
    use lapin::{BasicProperties, Confirmation, message::BasicReturnMessage};
    use tokio::sync::oneshot;

    use super::*;
    use crate::wire::Message;

    fn return_of(id: &str) -> BasicReturnMessage {
        let mut delivery = Delivery::mock(0, "e".into(), "k".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(id.into());
        BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() }
    }

    /// The result of a message after a round; `None` if it is undecided.
    type Answered = Option<Result<(), PublishError>>;

    /// After each round, the new results of all messages so far.
    fn results(rounds: &[&[(&str, Option<&str>)]]) -> Vec<Vec<Answered>> {
        let (mut returns, mut waiting) = (Returns::default(), Vec::new());
        let mut round = |confirms: &[(&str, Option<&str>)]| {
            let mut confirmed = Vec::new();
            for (id, returned) in confirms {
                let message = Message::json("e".into(), "k".into(), (*id).into(), &"".into());
                let (answer, result) = oneshot::channel();
                waiting.push(result);
                let confirm = Confirmation::Ack(returned.map(return_of));
                confirmed.push((Sent::of(&message, answer), Ok(Ok(confirm))));
            }
            returns.answer(confirmed, false);
            waiting.iter_mut().map(|result| result.try_recv().ok()).collect()
        };
        rounds.iter().map(|confirms| round(confirms)).collect()
    }

    fn is_returned(result: &Answered) -> bool {
        matches!(result, Some(Err(PublishError::Returned { .. })))
    }

    /// lapin attaches the return of the first message to the confirm of the second, if it reads that confirm first.
    #[test]
    fn two_messages_returned_under_one_ack_are_both_returned() {
        let swapped = [("2", Some("1")), ("1", Some("2"))];
        let at_once = results(&[&swapped]);
        assert!(at_once[0].iter().all(is_returned), "{at_once:?}");
        let one_by_one = results(&[&swapped[..1], &swapped[1..]]);
        assert!(one_by_one[0][0].is_none(), "{one_by_one:?}");
        assert!(one_by_one[1].iter().all(is_returned), "{one_by_one:?}");
    }

    #[test]
    fn a_confirm_with_the_return_of_another_message_is_confirmed() {
        let results = results(&[&[("1", Some("2"))], &[("2", None)]]);
        assert!(results[0][0].is_none(), "{results:?}");
        assert!(matches!(results[1][0], Some(Ok(()))), "{results:?}");
        assert!(is_returned(&results[1][1]), "{results:?}");
    }
}
