//! Random topologies as operators might write them: written as TOML, read by the parser.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use overdue::internals::{
    ladder::{Ladder, LadderSpec},
    topology::{Topology, file::QueueType, report},
};
use proptest::{collection, option, prelude::*, sample::Index};

/// The content of a topology file, with the references resolved to level names.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) strategy: WrittenStrategy,
    /// Name and milliseconds, shortest first.
    pub(crate) levels: Vec<(String, u64)>,
    /// `None` leaves the key out.
    pub(crate) queue_type: Option<QueueType>,
    pub(crate) delivery_limit: Option<i64>,
    pub(crate) timeouts: Vec<WrittenTimeout>,
    pub(crate) retry: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenStrategy {
    Levels,
    /// Up to `max_s` seconds; `queues` more than the minimum, or the round ones.
    Ladder {
        max_s: u64,
        queues: Option<u32>,
    },
    DelayedExchange,
}

#[derive(Clone, Debug)]
pub(crate) struct WrittenTimeout {
    pub(crate) name: String,
    pub(crate) after: String,
    pub(crate) after_by_category: BTreeMap<String, String>,
    /// `None` with the strategy `delayed-exchange`, which has no shards.
    pub(crate) shards: Option<u16>,
}

impl Written {
    pub(crate) fn toml(&self) -> String {
        let mut text = format!("name = \"{}\"\n\n[delay]\n", self.name);
        let levels: Vec<&str> = self.levels.iter().map(|(name, _)| name.as_str()).collect();
        line(&mut text, "levels", &levels);
        match self.strategy {
            WrittenStrategy::Levels => {}
            WrittenStrategy::DelayedExchange => line(&mut text, "strategy", "delayed-exchange"),
            WrittenStrategy::Ladder { max_s, queues } => {
                line(&mut text, "strategy", "ladder");
                text.push_str("\n[delay.ladder]\n");
                line(&mut text, "max", format!("{max_s}s"));
                if let Some(more) = queues {
                    let spec = LadderSpec::up_to(Duration::from_secs(max_s));
                    let least = Ladder::compile("a", &spec).expect("a ladder").queue_count();
                    line(&mut text, "queues", least + more);
                }
            }
        }
        text.push_str("\n[queues]\n");
        if let Some(queue_type) = self.queue_type {
            line(&mut text, "type", queue_type.as_str());
        }
        if let Some(limit) = self.delivery_limit {
            line(&mut text, "delivery_limit", limit);
        }
        for timeout in &self.timeouts {
            text.push_str("\n[[timeout]]\n");
            line(&mut text, "name", &timeout.name);
            line(&mut text, "after", &timeout.after);
            if let Some(shards) = timeout.shards.filter(|_| !self.is_delayed_exchange()) {
                line(&mut text, "shards", shards);
            }
            if !timeout.after_by_category.is_empty() {
                let of = |(category, level): (&String, &String)| format!("{category} = {level:?}");
                let pairs: Vec<String> = timeout.after_by_category.iter().map(of).collect();
                let table = pairs.join(", ");
                writeln!(text, "after_by_category = {{ {table} }}")
                    .expect("a String takes everything");
            }
        }
        text.push_str("\n[retry]\n");
        line(&mut text, "after", &self.retry);
        text
    }

    fn is_delayed_exchange(&self) -> bool {
        self.strategy == WrittenStrategy::DelayedExchange
    }

    /// Parses the file.
    pub(crate) fn read(&self) -> Topology {
        let text = self.toml();
        Topology::parse(&text).unwrap_or_else(|findings| {
            panic!(
                "a valid file is refused:\n{}",
                report::render("generated.toml", &text, &findings)
            )
        })
    }

    /// An earlier version of the file: one timeout, and only the levels that it or a retry names.
    pub(crate) fn earlier(&self) -> Self {
        let mut earlier = self.clone();
        earlier.timeouts.truncate(1);
        let first = &earlier.timeouts[0];
        let used = |level: &String| {
            *level == first.after
                || first.after_by_category.values().any(|named| named == level)
                || self.retry.contains(level)
        };
        earlier.levels.retain(|(level, _)| used(level));
        earlier
    }
}

/// `key = value` in TOML; Rust's debug form is the same for texts, lists of texts and numbers.
fn line(text: &mut String, key: &str, value: impl std::fmt::Debug) {
    writeln!(text, "{key} = {value:?}").expect("a String takes everything");
}

/// Any file with levels that passes every check.
pub(crate) fn written() -> impl Strategy<Value = Written> {
    let queue_type = option::of(prop_oneof![Just(QueueType::Quorum), Just(QueueType::Classic)]);
    let delivery_limit = option::of(1_i64..=1_000_000);
    let timeouts = collection::btree_map(
        timeout_name(),
        (any::<Index>(), collection::btree_map("[a-z]{1,8}", any::<Index>(), 0..3), shards()),
        1..5,
    );
    let retry = collection::vec(any::<Index>(), 0..4);
    (topology_name(), levels(), queue_type, delivery_limit, timeouts, retry).prop_map(
        |(name, levels, queue_type, delivery_limit, timeouts, retry)| {
            let named = |index: &Index| index.get(&levels).0.clone();
            let timeouts =
                timeouts.iter().map(|(name, (after, by_category, shards))| WrittenTimeout {
                    name: name.clone(),
                    shards: *shards,
                    after: named(after),
                    after_by_category: by_category
                        .iter()
                        .map(|(category, level)| (category.clone(), named(level)))
                        .collect(),
                });
            Written {
                name,
                strategy: WrittenStrategy::Levels,
                timeouts: timeouts.collect(),
                retry: retry.iter().map(named).collect(),
                levels,
                queue_type,
                delivery_limit,
            }
        },
    )
}

/// Any valid file with any strategy; ladders have few places, because each queue costs steps.
pub(crate) fn written_anyhow() -> impl Strategy<Value = Written> {
    (written(), strategy()).prop_map(|(written, strategy)| Written { strategy, ..written })
}

/// Any topology with any strategy.
pub(crate) fn topology_anyhow() -> impl Strategy<Value = Topology> {
    written_anyhow().prop_map(|written| written.read())
}

fn strategy() -> impl Strategy<Value = WrittenStrategy> {
    let ladder = (1_u64..=70, option::of(0_u32..4));
    prop_oneof![
        2 => Just(WrittenStrategy::Levels),
        2 => ladder.prop_map(|(max_s, queues)| WrittenStrategy::Ladder { max_s, queues }),
        1 => Just(WrittenStrategy::DelayedExchange),
    ]
}

/// Any valid topology with levels, through its file.
pub(crate) fn topology() -> impl Strategy<Value = Topology> {
    written().prop_map(|written| written.read())
}

fn topology_name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,12}(\\.[a-zA-Z0-9_-]{1,8}){0,2}"
        .prop_filter("belongs to the broker", |name| name != "amq" && !name.starts_with("amq."))
}

fn timeout_name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,12}".prop_filter("is the parking lot", |name| name != "parked")
}

fn shards() -> impl Strategy<Value = Option<u16>> {
    option::weighted(0.4, prop_oneof![4 => 2_u16..=4, 1 => 11_u16..=12])
}

/// Generates one to eight levels, shortest first, up to exactly ten years.
fn levels() -> impl Strategy<Value = Vec<(String, u64)>> {
    let level = prop_oneof![
        (1_u64..=999_999, Just(("ms", 1))),
        (1_u64..=100_000, Just(("s", 1_000))),
        (1_u64..=10_000, Just(("m", 60_000))),
        (1_u64..=1_000, Just(("h", 3_600_000))),
        (prop_oneof![1_u64..=3_650, Just(3_650)], Just(("d", 86_400_000))),
    ];
    collection::vec(level, 1..=8).prop_map(|levels| {
        let by_millis: BTreeMap<u64, String> = levels
            .into_iter()
            .map(|(number, (unit, unit_ms))| (number * unit_ms, format!("{number}{unit}")))
            .collect();
        by_millis.into_iter().map(|(ms, name)| (name, ms)).collect()
    })
}

/// Two versions of a file with any changes: more, fewer or other arguments, all at once.
pub(crate) fn change() -> impl Strategy<Value = (Written, Written)> {
    let shards = collection::vec(shards(), 1..5);
    (written_anyhow(), written_anyhow(), 0..11_u8, shards).prop_map(
        |(one, other, which, shards)| {
            let flipped = |written: &Written| Written {
                queue_type: Some(match written.queue_type {
                    Some(QueueType::Classic) => QueueType::Quorum,
                    Some(QueueType::Quorum) | None => QueueType::Classic,
                }),
                ..written.clone()
            };
            let limited = Written {
                delivery_limit: Some(one.delivery_limit.map_or(7, |limit| limit + 1)),
                ..one.clone()
            };
            match which {
                0 => (one.earlier(), one),
                1 => (one.clone(), one.earlier()),
                2 => (one.clone(), flipped(&one)),
                3 => (one.clone(), limited),
                4 => (one.clone(), flipped(&one.earlier())),
                5 => (one.earlier(), flipped(&one)),
                6 => (one.clone(), one),
                // More shards, fewer, none, or the first ones.
                9 | 10 => {
                    let mut sharded = one.clone();
                    for (timeout, shards) in sharded.timeouts.iter_mut().zip(shards.iter().cycle())
                    {
                        timeout.shards = *shards;
                    }
                    (one, sharded)
                }
                7 => (one.clone(), Written { strategy: other.strategy, ..one }),
                _ => (one.clone(), Written { name: one.name, ..other }),
            }
        },
    )
}
