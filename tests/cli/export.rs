//! The commands' outputs and refusals, without a broker.

use crate::support::Folder;

const TOPOLOGY: &str =
    "name = 'orders'\ndelay.levels = ['30m']\n[[timeout]]\nname = 'unpaid'\nafter = '30m'\n";

/// Exit code, standard output, standard error.
fn overdue(arguments: &[&str]) -> (i32, String, String) {
    let folder = Folder::with(&[("topology.toml", TOPOLOGY)]);
    let broker = ("OVERDUE_BROKER__URL", "amqp://nobody:secret@nowhere.invalid/shop");
    let run = folder.run(arguments, &[broker]);
    (run.code.unwrap(), run.stdout, run.stderr)
}

#[test]
fn the_virtual_host_is_the_one_of_the_settings_unless_given() {
    let (code, text, _) = overdue(&["permissions"]);
    assert!(code == 0 && text.contains("set_permissions -p shop overdue-publisher"), "{text}");
    let (code, text, _) = overdue(&["export", "--format", "definitions", "--vhost", "other"]);
    assert!(code == 0 && text.contains(r#""vhost": "other""#) && !text.contains("shop"), "{text}");
}

#[test]
fn a_warning_about_passwords_is_not_part_of_the_definitions() {
    for (flags, warning) in
        [(&[][..], "have to exist"), (&["--create-users"][..], "takes the password")]
    {
        let (code, text, note) = overdue(&[&["permissions", "-o", "json"][..], flags].concat());
        assert_eq!(code, 0);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        assert!(note.starts_with("note: ") && note.contains(warning), "{note}");
    }
}

#[test]
fn what_does_not_fit_together_is_a_usage_error() {
    let wrong: [(&[&str], &str); 7] = [
        (&["export"], "--format"),
        (&["export", "--format", "mermaid", "--create-vhost"], "--format definitions only"),
        (&["export", "--format", "definitions", "--live"], "--format mermaid only"),
        (&["export", "--format", "ladder", "--vhost", "x"], "--format definitions only"),
        (&["export", "--format", "definitions", "--vhost", "a\nb"], "control character"),
        (&["permissions", "--user-prefix", "a\nb"], "control character"),
        (&["permissions", "--user-prefix=-x"], "taken for an option"),
    ];
    for (arguments, reason) in wrong {
        let (code, text, error) = overdue(arguments);
        assert_eq!((code, text.as_str()), (64, ""), "{arguments:?}");
        assert!(error.contains(reason), "{error}");
    }
}
