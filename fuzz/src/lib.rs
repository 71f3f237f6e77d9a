//! What is promised of everything that others write, whatever they write: each function takes any bytes, and panics where a
//! promise is broken.

#![allow(clippy::missing_panics_doc, reason = "they are there to panic")]

use std::{fs, sync::LazyLock, time::Duration};

use lapin::types::{AMQPValue, FieldTable, parsing::parse_field_table};
use overdue::internals::{
    alerting::Template,
    broker::frames::FrameRepair,
    config::Settings,
    parking::{Cause, Fate, Filter, ParkedMessage, fate},
    plan::{Plan, Snapshot, diff},
    topology::{
        Topology,
        check::Surroundings,
        level_routes::LevelRoutes,
        lint,
        report::{Report, render},
        route::Delay,
    },
    wire::{DueNotice, MAX_BODY_BYTES, Received, x_delay as delay_of},
};

/// A reason travels in a header: with the others it has to fit into a frame.
const REASON_BYTES: usize = 2_000;
/// Larger inputs only make it slow.
const FRAME_MAX: u32 = 16_384;

static TOPOLOGIES: LazyLock<[Topology; 3]> = LazyLock::new(|| {
    let delays = [
        "levels = [\"5s\", \"5m\", \"30m\"]",
        "strategy = \"ladder\"\nlevels = [\"30m\"]\n[delay.ladder]\nmax = \"30d\"",
        "strategy = \"delayed-exchange\"",
    ];
    delays.map(|delay| {
        let rest = "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n[retry]\nafter = [\"5s\"]\n";
        Topology::parse(&format!("name = \"orders\"\n[delay]\n{delay}\n{rest}"))
            .expect("a good file")
    })
});

/// The body of a notice: read, or refused with a reason that fits into a header; what is written is read again.
pub fn body(data: &[u8]) {
    match DueNotice::decode(data) {
        Ok(notice) => {
            assert!(data.len() <= MAX_BODY_BYTES);
            assert_eq!(DueNotice::decode(&notice.encode()).as_ref(), Ok(&notice));
        }
        Err(refused) => {
            let reason = refused.to_string();
            assert!(!reason.is_empty() && reason.len() <= REASON_BYTES, "{reason}");
        }
    }
}

/// A table as it is on the wire, if lapin can read it.
fn table(data: &[u8]) -> Option<FieldTable> {
    // Deeper ones do not reach it: `frames` takes them away.
    if data.iter().filter(|byte| matches!(byte, b'F' | b'A')).count() > 24 {
        return None;
    }
    let sized = [&u32::try_from(data.len()).ok()?.to_be_bytes(), data].concat();
    parse_field_table(&sized[..]).ok().map(|(_, table)| table)
}

fn received(headers: FieldTable, key: &str, body: &[u8]) -> Received {
    Received {
        tag: 1,
        redelivered: true,
        exchange: "orders.dlx".into(),
        routing_key: key.into(),
        message_id: None,
        persistent: true,
        content_type: None,
        headers,
        properties: None,
        body: body.to_vec(),
    }
}

/// Headers: a copy of a copy has what the copy had, and says how often it was tried; memory is bounded.
pub fn headers(data: &[u8]) {
    let Some(headers) = table(data) else { return };
    let size = data.len();
    let first = received(headers, "30m.unpaid", b"4711");
    assert!(first.bytes() <= 4 + 64 * (size + 1), "{} of {size}", first.bytes());
    let _ = first.body_left_out();
    let topology = &TOPOLOGIES[0];
    let route = topology.route("unpaid", &Delay::Usual).expect("a route");
    let copy = first.put_back(route.clone(), 3, 0);
    let second = received(copy.headers.clone(), &copy.routing_key, &copy.body);
    // As texts, because a number that is none is not equal to itself.
    assert_eq!(
        format!("{:?}", second.put_back(route, 3, 0).headers),
        format!("{:?}", copy.headers)
    );
    let kept = second.without_needless_headers();
    let again = received(kept.headers.clone(), "30m.unpaid", b"4711").without_needless_headers();
    assert_eq!(format!("{:?}", again.headers), format!("{:?}", kept.headers));
}

/// Frames: the same however they are cut into pieces; what is repaired is not repaired again, and not larger by more than a
/// header for each frame.
pub fn frames(data: &[u8]) {
    let fed = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut repair, mut output) = (FrameRepair::new(FRAME_MAX), Vec::new());
        pieces.for_each(|piece| repair.feed(piece, &mut output));
        output
    };
    let whole = fed(&mut std::iter::once(data));
    let size = 1 + usize::from(data.first().copied().unwrap_or_default()) % 31;
    assert_eq!(fed(&mut data.chunks(size)), whole);
    assert!(
        whole.len() <= data.len() + 200 * (1 + data.len() / 8),
        "{} of {}",
        whole.len(),
        data.len()
    );
}

/// A topology file: each finding has its place; what is read is planned, and a broker that has it needs nothing.
pub fn topology(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let findings = lint(text, &Surroundings::default());
    let _ = render("topology.toml", text, &findings);
    for reported in Report::new(text, &findings).findings {
        assert!(reported.line >= 1 && reported.line <= text.lines().count().max(1) + 1);
        assert!(!reported.message.is_empty(), "{reported:?}");
    }
    // A ladder of thousands of queues takes its time.
    if let Ok(topology) = Topology::parse(text)
        && topology.objects().queues.len() < 200
    {
        assert_eq!(diff(&topology, &Snapshot::of(&topology), &[].into()), Plan::default());
        let empty = diff(&topology, &Snapshot::default(), &[].into());
        assert_eq!(empty.refusals, []);
        assert_eq!(empty.lost(), 0);
    }
}

/// A settings file: taken, or refused with the name of the file and a line.
pub fn settings(data: &[u8]) {
    static FILE: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
        let folder = std::env::temp_dir().join(format!("overdue-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder.join("overdue.toml")
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    fs::write(&*FILE, text).expect("written");
    if let Err(refused) = Settings::load(Some(&FILE), &Default::default()) {
        let refused = refused.to_string();
        assert!(refused.contains("overdue.toml"), "{refused}");
    }
}

/// `x-delay` of any type: none, or a delay; the plugin's limit is the caller's.
pub fn x_delay(data: &[u8]) {
    let Some(headers) = table(data) else { return };
    let named = |value: &AMQPValue| {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), value.clone());
        headers
    };
    for headers in std::iter::once(headers.clone()).chain(headers.inner().values().map(named)) {
        if let Some(delay) = delay_of(&headers) {
            assert!(delay >= Duration::from_millis(1));
            assert!(delay <= Duration::from_millis(i64::MAX.cast_unsigned()));
        }
    }
}

/// Headers in the parking lot: a line for a person, the same in every reading, and a decision that loses nothing.
pub fn parked(data: &[u8]) {
    let (body, rest) = data.split_at(data.len().min(8));
    let Some(headers) = table(rest) else { return };
    for topology in &*TOPOLOGIES {
        let message = received(headers.clone(), "30m.unpaid", body);
        let read = ParkedMessage::read(topology, &message);
        assert_eq!(ParkedMessage::read(topology, &message), read);
        assert!(!read.label().is_empty() && !read.cause.in_general().is_empty());
        assert!(Filter::default().is_open());
        let routes = LevelRoutes::of_objects(topology, &topology.objects());
        // Nothing is known of its order, so it stays.
        assert!(matches!(fate(topology, &routes, &read, None), Fate::Stay(_)));
        let _: &Cause = &read.cause;
    }
}

/// A template of an alert: refused with its place, or filled; one of JSON is JSON whatever is filled in.
pub fn alert_template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Template::parse(text) {
        Ok(template) => {
            let filled = template.filled(|placeholder| format!("\"{placeholder}\" \\ \n\u{0}{{}}"));
            if template.is_json() {
                serde_json::from_str::<serde_json::Value>(&filled).expect("it stays JSON");
            }
        }
        Err(refused) => assert!(refused.contains("line ") && refused.contains("column ")),
    }
}
