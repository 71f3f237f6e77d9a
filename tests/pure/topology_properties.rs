//! Properties of every topology file, good or bad.

use overdue::internals::{
    objects::Argument,
    topology::{Topology, file::QueueType, level::Level, report},
};
use proptest::{prelude::*, sample::Index};

use crate::{
    broker_model::{dead_letter_exchange, route},
    generate,
};

proptest! {
    #[test]
    fn the_parser_reads_what_was_written(written in generate::written()) {
        let topology = written.read();
        let levels: Vec<(String, u64)> = topology
            .levels
            .iter()
            .map(|level| (level.name().to_owned(), level.ttl().as_millis()))
            .collect();
        prop_assert_eq!(&topology.name, &written.name);
        prop_assert_eq!(levels, written.levels);
        prop_assert_eq!(topology.queue_type, written.queue_type.unwrap_or(QueueType::Quorum));
        prop_assert_eq!(topology.delivery_limit, written.delivery_limit.unwrap_or(100));
        let retry: Vec<&str> = topology.retry.iter().map(Level::name).collect();
        prop_assert_eq!(retry, written.retry);
        prop_assert_eq!(topology.timeouts.len(), written.timeouts.len());
        for (read, written) in topology.timeouts.iter().zip(&written.timeouts) {
            prop_assert_eq!(&read.name, &written.name);
            prop_assert_eq!(read.after.name(), &written.after);
            prop_assert_eq!(&read.effect, "close");
            let named = read.after_by_category.iter().map(|(key, level)| (key, level.name()));
            prop_assert!(named.eq(written.after_by_category.iter().map(|(k, v)| (k, v.as_str()))));
        }
    }

    #[test]
    fn any_text_is_a_topology_or_a_readable_report(
        text in "\\PC{0,80}|[a-z\\[\\]={}\"'.#\r\n\t é𝄞]{0,120}",
    ) {
        readable(&text)?;
    }

    /// A good file without one part, or with an additional character: a report's place is difficult to find there.
    #[test]
    fn a_damaged_file_is_a_topology_or_a_readable_report(
        written in generate::written(),
        at in any::<Index>(),
        length in 0_usize..40,
        instead in "\\PC{0,2}|\r|\n|\"",
    ) {
        let characters: Vec<char> = written.toml().chars().collect();
        let at = at.index(characters.len());
        let after = (at + length).min(characters.len());
        let mut text: String = characters[..at].iter().collect();
        text.push_str(&instead);
        text.extend(&characters[after..]);
        readable(&text)?;
    }

    /// A key reaches only its level's queue, waits for the level's time minus the lead, and arrives only in its timeout's
    /// queue.
    #[test]
    fn every_key_waits_in_its_level_and_comes_out_in_its_timeout(topology in generate::topology()) {
        let objects = topology.objects();
        for level in &topology.levels {
            for timeout in &topology.timeouts {
                let key = Topology::routing_key(level, timeout);
                let delay = topology.delay_queue(level);
                let waits_in = route(&objects, &topology.entry_exchange(), &key);
                prop_assert_eq!(waits_in, Some([delay.clone()].into()), "key {}", key);
                let ttl_ms = objects.queues[&delay].arguments.get("x-message-ttl");
                let wanted = i64::try_from(topology.lead.lets_go(level).as_millis())?;
                prop_assert_eq!(ttl_ms, Some(&Argument::Integer(wanted)));
                let due = dead_letter_exchange(&objects, &delay).expect("a level dead-letters");
                let comes_out = route(&objects, due, &key);
                prop_assert_eq!(comes_out, Some(topology.business_queues(timeout).into_iter().collect()));
            }
        }
    }

    #[test]
    fn every_object_carries_the_prefix(topology in generate::topology()) {
        let prefix = format!("{}.", topology.name);
        let objects = topology.objects();
        for name in objects.exchanges.keys().chain(objects.queues.keys()) {
            prop_assert!(name.starts_with(&prefix), "{} would be somebody else's", name);
        }
    }
}

fn readable(text: &str) -> Result<(), TestCaseError> {
    if let Err(findings) = Topology::parse(text) {
        let report = report::render("topology.toml", text, &findings);
        prop_assert!(!findings.is_empty(), "refused without a reason");
        prop_assert_eq!(report.matches("--> topology.toml:").count(), findings.len(), "{}", report);
    }
    Ok(())
}
