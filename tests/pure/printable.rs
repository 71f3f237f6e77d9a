//! Names and texts of others cannot control a terminal.

use overdue::internals::text::{one_line, printable, printable_json};
use proptest::prelude::*;
use serde_json::Value;

/// Clears the screen, begins a line, reverses the following text, rings the bell, and contains a C1 control.
const HOSTILE: &str = "a\u{1b}[2J\r\nb\u{202e}c\u{7}\u{9b}2J\u{2028}d";

fn is_harmless(text: &str) -> bool {
    let turns = |c| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !text.contains(|c: char| (c.is_control() && c != '\n') || turns(c))
}

#[test]
fn every_character_that_a_terminal_acts_on_is_shown_as_its_escape() {
    let lines = r"a\u{1b}[2J\r
b\u{202e}c\u{7}\u{9b}2J\u{2028}d";
    assert_eq!(printable(HOSTILE), lines);
    let line = r"a\u{1b}[2J\r\nb\u{202e}c\u{7}\u{9b}2J\u{2028}d";
    assert_eq!(one_line(HOSTILE), line);
}

#[test]
fn names_as_people_write_them_stay_as_they_are() {
    for name in
        ["orders.unpaid", "commandes.impayées", "注文.未払い", "заказы", "größe \"q\" \\ 'x'"]
    {
        assert_eq!(printable(name), name);
        assert_eq!(one_line(name), name);
    }
}

proptest! {
    #[test]
    fn whatever_comes_in_nothing_harmful_goes_out(text in any::<String>(), hostile in "[\\PC\\x00-\\x9f\u{200b}-\u{206f}]*") {
        for text in [&text, &hostile] {
            prop_assert!(is_harmless(&printable(text)));
            let line = one_line(text);
            prop_assert!(is_harmless(&line) && !line.contains('\n'));
        }
    }

    #[test]
    fn json_means_the_same(text in any::<String>(), hostile in "[\\x00-\\x9f\u{200b}-\u{206f}\u{e0020}-\u{e007f}]*") {
        let value = Value::from(vec![text, hostile]);
        for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let shown = printable_json(&json);
            prop_assert!(is_harmless(&shown));
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value.clone());
        }
    }
}
