//! The numbers of a queue in each spelling of the management API.

use overdue::internals::plan::QueueStats;

fn read(fields: &str) -> QueueStats {
    let text = format!(r#"{{"name": "shop.unpaid", "type": "quorum"{fields}}}"#);
    serde_json::from_str(&text).expect("a queue")
}

/// The broker writes an empty object as `[]`, or leaves it out.
#[test]
fn rates_are_read_where_there_are_any() {
    let rates = |fields: &str| {
        let rates = read(fields).rates;
        (rates.published, rates.acked)
    };
    let [publish, ack] = [r#""publish_details": {"rate": 2.5}"#, r#""ack_details": {"rate": 1}"#];
    let stats = |stats: &str| rates(&format!(r#", "message_stats": {stats}"#));
    assert_eq!(stats(&format!("{{{publish}, {ack}}}")), (Some(2.5), Some(1.0)));
    assert_eq!(stats(&format!("{{{publish}}}")), (Some(2.5), None));
    assert_eq!(stats(r#"{"publish": 3, "publish_details": {}}"#), (None, None));
    assert_eq!([stats("[]"), stats("null"), rates("")], [(None, None); 3]);
}

#[test]
fn a_policy_is_read_with_what_it_sets() {
    let sets = |fields: &str| read(fields).effective_policy_definition.into_iter();
    let definition = |text: &str| format!(r#", "effective_policy_definition": {text}"#);
    let two = definition(r#"{"max-length": 10, "overflow": "drop-head"}"#);
    assert!(
        sets(&two).eq([
            ("max-length".to_owned(), 10.into()),
            ("overflow".to_owned(), "drop-head".into())
        ])
    );
    for nothing in ["", &definition("[]"), &definition("{}"), &definition("null")] {
        assert_eq!(sets(nothing).count(), 0, "{nothing}");
    }
}
