//! Items for the tests of this project, in addition to the public API. They are not part of it and change without notice.

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
    pub use crate::condition::{
        Condition, Facts, Unpublished, Why,
        gone::{GoneNotices, LastHour, Totals},
    };
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
        CHECKS, DoctorReport, database, diagnose, effect_plan::*, facts::*, horizon, machine,
        topology,
    };
}
pub mod export {
    pub mod ladder {
        pub use crate::export::ladder::render;
    }
    pub mod definitions {
        pub use crate::export::definitions::render;
    }
}
pub use crate::decisions::{destination_window, low_watermark};
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
        mark::{exchange_mark, mark},
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
        Change, Contents, Difference, DrainStatus, Draining, Note, Plan, Reason, Refusal, Replaced,
        Step,
        counts::{CountReport, CountReports, StatisticsInterval},
        diff::diff,
        fingerprint::Fingerprint,
        generation::{is_of, name_of, number_of},
        json::{BrokerIdentity, PlanJson, schema},
        own_queues::parking_lots,
        removal::removal,
        retired_exchange::is_needed,
        snapshot::{Clock, Policy, QueueStats, Snapshot},
    };
}
pub mod effect {
    pub use crate::effect::{
        Description, EffectKeys, Facts, Statements,
        facts::{Column, Relation},
        proposal, reference,
    };
    pub use crate::effect::{
        Ended, Ending, Found, Watch,
        watch::{Report, Summary},
    };
}
pub mod secret {
    pub use crate::secret::Secret;
}
pub mod shutdown {
    pub use crate::shutdown::{DrainOverrun, Stop};
}
pub use crate::condition::obstacle;
pub mod status {
    pub use crate::condition::pause::Pause;
    pub use crate::status::*;
}
pub mod store {
    pub use crate::store::pauses::Holder;
    pub use crate::store::{FailureKind, Store, failure::kind_of, pool::Connection};
    pub mod clock {
        pub use crate::store::clock::ClockEstimate;
    }
    pub mod orders {
        pub use crate::store::{
            effects::{Effect, Source, Written},
            orders::ClosingPath,
        };
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

    pub use crate::topology::{
        Timeout, Topology, check, file, file::BUILT_IN_EFFECTS, level, lint, report, strategy,
        taken_over_exchange,
    };

    pub fn least_lead(topology: &Topology) -> Duration {
        topology.least_lead()
    }
    pub mod level_routes {
        pub use crate::topology::level_routes::LevelRoutes;
        use crate::topology::route::Route;

        pub fn lose(routes: &mut LevelRoutes, route: &Route) {
            routes.lose(route);
        }
    }
    pub mod route {
        pub use crate::topology::route::{Delay, LONGEST_IN_HAND, Route, RouteError};

        pub fn place(route: &Route) -> &str {
            route.place()
        }
    }
}
pub mod verify {
    pub use crate::verify::{
        VerifyReport,
        dead_letters::{blockers, not_known, stuck, suspects, unknown},
        findings,
        held_back::{MemberState, leaders_not_known, no_leader},
        is_wrong,
        policies::foreseen,
        probe::{Canaries, Canary, Fate, Tried, judge},
        remaining_routes::{RULES, check},
    };
}
pub mod why {
    pub use crate::why::*;
}
pub mod wire {
    pub use crate::wire::{
        BODY_LEFT_OUT, DueNotice, MAX_BODY_BYTES, Message, Properties, Received, Trace, Unreadable,
        headers::{attempt, canary_id, guarded},
        x_delay::{Delayed, x_delay},
    };
}
pub mod worker {
    pub use crate::decisions::{
        batch, bisection, delivery_tags as tags, disposition, readiness, readiness as progress,
        recently_closed, timer_queue,
    };
    pub use crate::worker::{Counts, Worker, kept_bytes, log_lines, run};
}
