//! What the tests of this project need beside the public API. No part of it: it changes without notice.

#![allow(
    missing_docs,
    clippy::must_use_candidate,
    reason = "the items are documented where they are"
)]

pub mod alerting {
    pub use crate::alerting::{
        Episodes, Rule,
        channel::pause,
        message::{Message, Sender},
    };
    pub use crate::condition::{Condition, Facts, Unpublished, Why};
    pub use crate::config::template::{PLACEHOLDERS, Template};
}
pub mod broker {
    pub use crate::administration::{
        ChangeError, ChangeEvent, Goal, LockError, Management, ManagementError, TopologyChange,
        TopologyLock,
    };
    pub use crate::messaging::{BrokerAddress, Link, PublishError, Publisher};
    pub mod apply {
        pub use crate::administration::apply::{ApplyError, StepError, StepResult, plan};
    }
    pub mod consume {
        pub use crate::messaging::consume::{ConsumeError, Subscription};
    }
    pub mod frames {
        pub use crate::messaging::frames::FrameRepair;
        pub use crate::wire::PROPERTIES_DROPPED as DROPPED;
    }
    pub mod large_bodies {
        pub use crate::messaging::large_bodies::{
            CONSUMER_TAG, HISTORY_TAG, LARGE_TAG, MAX_PASSED_BYTES,
        };
    }
    pub mod lock {
        pub use crate::administration::lock::PURPOSE;
    }
    pub mod passive {
        pub use crate::messaging::passive::{exchange_exists, queue_exists};
    }
    pub mod probe {
        pub use crate::administration::probe::send;
    }
}
pub mod cli {
    pub use crate::cli::command;
    pub use crate::oncall::failure::exit_codes;
}
pub mod config {
    pub use crate::config::{EventsSettings, SecretUrl, Settings, WorkerSettings, schema};
}
pub mod diagnostic {
    pub use crate::diagnostic::{
        Diagnostic, Draft, Fix, Severity, Subject, Target, counts_by_severity,
    };
}
pub mod doctor {
    pub use crate::doctor::{
        CHECKS, diagnose,
        effect_plan::{EffectPlan, RowLocks, Scan},
        facts::{
            Alarm, AmqpConnection, ApiFacts, BrokerFacts, DatabaseFacts, Encryption, ExposedFile,
            Facts, Gap, HeldBy, Holder, Horizon, MachineFacts, Outbox, Overview, Permission,
            RefusedName, Replicas, Scheduled, Schema, Server, Session, Skew, Sweep, Table, User,
            is_loopback,
        },
    };
    pub mod broker {
        pub use crate::doctor::broker::{
            judge_alarms, judge_delayed_exchange, judge_feature_flags, judge_leaders,
            judge_plugins, judge_replicas, judge_tls, judge_version,
        };
        pub use crate::doctor::known_defects::judge_known_defects;
    }
    pub mod database {
        pub use crate::doctor::database::{
            judge_connections, judge_effects, judge_lock_timeout, judge_outbox, judge_pooler,
            judge_scheduled, judge_search_path, judge_sweeps, judge_tables, judge_version,
        };
    }
    pub mod horizon {
        pub use crate::doctor::horizon::judge_horizon;
    }
    pub mod machine {
        pub use crate::doctor::machine::{between, judge_clock, judge_cores, judge_open_files};
    }
    pub mod topology {
        pub use crate::doctor::topology::{
            judge_applied, judge_consumers, judge_dead_letters, judge_parked, judge_rights,
        };
    }
}
pub mod export {
    pub mod ladder {
        pub use crate::export::ladder::render;
    }
    pub mod definitions {
        pub use crate::export::definitions::render;
    }
}
pub mod floor {
    pub use crate::decisions::floor::Floor;
}
pub mod place {
    pub use crate::decisions::place::Place;
}
pub mod graph {
    pub use crate::graph::{Count, Graph, Live};
    pub mod mermaid {
        pub use crate::graph::mermaid::render;
    }
}
pub mod ladder {
    pub use crate::ladder::{
        Ends, Ladder, Place,
        path::{DelayError, Path, Rounding},
        spec::{LadderSpec, MAX_MS, MAX_QUEUES, SpecError},
    };
}
pub mod objects {
    pub use crate::objects::{
        Argument, Binding, Exchange, Objects, Queue,
        mark::{Acks, Leaving, exchange_mark, mark},
        routing::{overlap, route},
        shard::{CONSISTENT_HASH, MAX_SHARDS},
    };
}
pub mod order {
    pub use crate::order::{
        FinalState, FinalStates, MAX_ORDER_ID_BYTES, OrderId, Outcome, Spelled,
    };
}
pub mod parking {
    pub use crate::parking::{
        Cause, Fate, Filter, ParkedMessage, Reasons, Selection, Stays, Totals, fate, state,
        state_word,
    };
}
pub mod permissions {
    pub use crate::permissions::{
        Object, Request, Right, Role, Tag,
        broker_rights::{Reach, RoutingKeys},
    };
    pub mod definitions {
        pub use crate::permissions::definitions::render;
    }
    pub mod grants {
        pub use crate::permissions::database_grants::{
            DatabaseRequest, DatabaseRole, EffectSql, Grant, Grants, render,
        };
    }
    pub mod rabbitmqctl {
        pub use crate::permissions::rabbitmqctl::render;
    }
}
pub mod plan {
    pub use crate::plan::{
        Change, Contents, Difference, Draining, Drains, Note, Plan, Reason, Refusal, Replaced,
        Step,
        counts::{CountReport, CountReports, StatisticsInterval},
        diff::diff,
        drain_wait::{DrainWait, GaveUp, Next},
        generation::{is_of, name_of, number_of},
        own_queues::parking_lots,
        removal::removal,
        retired_exchange::is_needed,
        saved::{BrokerIdentity, PlanFileError, SavedPlan, StalePlan, VERSION, schema},
        snapshot::{AppliedPolicy, Clock, QueueStats, Snapshot},
        step_order::KeptQueues,
    };
}
pub mod secret {
    pub use crate::secret::Secret;
}
pub mod shutdown {
    pub use crate::shutdown::{DrainOverrun, Stop};
}
pub mod obstacle {
    pub use crate::condition::obstacle::{Holder, Kind, Lock, Obstacle};
}
pub mod status {
    pub use crate::condition::pause::Pause;
    pub use crate::status::{
        BrokerReading, Burst, BusinessQueue, ClosingRate, Closings, DatabaseReading, Due, DueSoon,
        Failing, Known, LastHour, Lateness, Level, MINUTES, Reading, State, WaitingEvents,
        WaitingNotices, Word, Wrong,
    };
}
pub mod store {
    pub use crate::store::pauses::Holder;
    pub use crate::store::{FailureKind, Store, failure::kind_of, pool::Connection};
    pub mod clock {
        pub use crate::store::clock::ClockEstimate;
    }
    pub mod orders {
        pub use crate::store::orders::{ClosingPath, Effect};
    }
}
pub mod telemetry {
    pub mod labels {
        pub use crate::telemetry::labels::described;
    }
    pub mod metrics {
        pub use crate::telemetry::metrics::described;
    }
}
pub mod text {
    pub use crate::text::{one_line, printable, printable_json};
}
pub mod timing {
    pub use crate::timing::Timing;
}
pub mod topology {
    use std::time::Duration;

    pub use crate::topology::{Timeout, Topology, file::BUILT_IN_EFFECTS, lint};

    pub fn least_lead(topology: &Topology) -> Duration {
        topology.least_lead()
    }
    pub mod check {
        pub use crate::topology::check::{BrokerVersion, RULES, Surroundings};
    }
    pub mod file {
        pub use crate::topology::file::{QueueType, RoutingType, schema};
    }
    pub mod level {
        pub use crate::topology::level::{Interval, Lead, Level, MAX_TTL_MS, Ttl, best_level};
    }
    pub mod level_routes {
        pub use crate::topology::level_routes::LevelRoutes;
        use crate::topology::{Topology, level::Level, route::Route};

        pub fn without(topology: &Topology, levels: &[&Level]) -> LevelRoutes {
            LevelRoutes::without(topology, levels)
        }

        pub fn lose(routes: &mut LevelRoutes, route: &Route) {
            routes.lose(route);
        }
    }
    pub mod report {
        pub use crate::topology::report::{Report, render};
    }
    pub mod route {
        pub use crate::topology::route::{Delay, LONGEST_IN_HAND, Route, RouteError};

        pub fn place(route: &Route) -> &str {
            route.place()
        }
    }
    pub mod strategy {
        pub use crate::topology::strategy::{BeforeTimeout, Entry, Strategy};
    }
    pub mod taken_over_exchange {
        pub use crate::topology::taken_over_exchange::XDelay;
    }
}
pub mod verify {
    pub use crate::verify::{
        VerifyReport,
        dead_letters::{blockers, not_known, stuck, suspects, unknown},
        findings,
        held_back::{MemberState, leaders_not_known, no_leader},
        is_wrong,
        policies::exchange_policies,
        probe::{Canaries, Canary, Fate, Tried, judge},
        remaining_routes::{RULES, check},
    };
}
pub mod why {
    pub use crate::why::{
        Action, Answer, Closure, Event, Found, Notice, OrderReading, Parked, Seen,
    };
}
pub mod wire {
    pub use crate::wire::{
        BODY_LEFT_OUT, DueNotice, MAX_BODY_BYTES, Message, Properties, Received, Trace, Unreadable,
        headers::{attempt, canary_id, guarded},
        x_delay::{Delayed, x_delay},
    };
}
pub mod worker {
    pub use crate::worker::{Counts, Worker, run};
    pub mod batch {
        pub use crate::decisions::batch::{Batches, Coming, MANY, Running, TOGETHER};
    }
    pub mod verdict {
        pub use crate::decisions::verdict::{Failure, Isolation, MANY, Suspect, Verdict};
    }
    pub mod disposition {
        pub use crate::decisions::disposition::{
            Disposition, NOWHERE_TO_WAIT, ParkReason, Tries, Waits, decide,
        };
    }
    pub mod kept_bytes {
        pub use crate::worker::kept_bytes::{BOUND, KeptBytes};
    }
    pub mod log_lines {
        pub use crate::worker::log_lines::{LINE_EVERY, Seldom};
    }
    pub mod recently_closed {
        pub use crate::decisions::recently_closed::{HALF, RecentlyClosed};
    }
    pub mod progress {
        pub use crate::decisions::readiness::{Progress, Suspect};
    }
    pub mod readiness {
        pub use crate::decisions::readiness::{Answer, Session, WorkerState};
    }
    pub mod timer_queue {
        pub use crate::decisions::timer_queue::TimerQueue;
    }
    pub mod tags {
        pub use crate::decisions::delivery_tags::{Ack, Tags};
    }
}
