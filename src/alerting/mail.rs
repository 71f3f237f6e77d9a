//! A message as a mail.

use super::notice::{Notice, Sender};

/// Subject and text.
#[must_use]
pub fn mail(notice: &Notice, sender: &Sender<'_>) -> (String, String) {
    let lines: Vec<String> = notice.lines(sender);
    let text = format!(
        "{}\n\nAlert {} of overdue, topology {}, host {}. `overdue status` shows what is so now.\n",
        lines.join("\n\n"),
        sender.alert,
        sender.topology,
        sender.host
    );
    (notice.headline(sender), text)
}
