//! Frames from the broker to the AMQP client: readable ones are unchanged, the others repaired, none lost.

use overdue::internals::{
    broker::{
        frames::{DROPPED, FrameRepair},
        large_bodies::{CONSUMER_TAG, HISTORY_TAG, LARGE_TAG, MAX_PASSED_BYTES},
    },
    wire::{BODY_LEFT_OUT, MAX_BODY_BYTES},
};
use proptest::{collection::vec, prelude::*};

const FRAME_MAX: u32 = 131_072;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![kind, 0, 1];
    frame.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend(payload);
    frame.push(0xCE);
    frame
}

/// A content header of class basic with a body of 7 bytes.
fn header(flags: u16, properties: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    payload.extend(flags.to_be_bytes());
    payload.extend(properties);
    frame(2, &payload)
}

fn short(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn entry(name: &[u8], kind: u8, value: &[u8]) -> Vec<u8> {
    [short(name), vec![kind], value.to_vec()].concat()
}

/// Bit of the property `headers`.
const HEADERS: u16 = 0x2000;
/// Bit of the property `message-id`.
const MESSAGE_ID: u16 = 0x0080;

fn headers(entries: &[u8]) -> Vec<u8> {
    header(HEADERS, &long(entries))
}

/// Nested values, from the outermost inwards, each with this beginning: a table with a name of one letter, or an array.
fn nested(begin: &[u8], depth: usize) -> Vec<u8> {
    let level = |inside: usize| {
        let length = u32::try_from((begin.len() + 4) * inside).unwrap().to_be_bytes();
        [begin, &length].concat()
    };
    (0..depth).rev().flat_map(level).collect()
}

fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    FrameRepair::new(FRAME_MAX).feed(bytes, &mut output);
    output
}

/// Why properties were dropped; empty if they were not.
fn dropped(bytes: &[u8]) -> String {
    let output = String::from_utf8_lossy(&repaired(bytes)).into_owned();
    let reason = output.split_once(DROPPED).and_then(|it| it.1.split_once("dropped: "));
    reason.map_or("", |it| it.1).trim_end_matches('\u{fffd}').to_owned()
}

#[test]
fn readable_frames_are_passed_on_as_they_are() {
    let sizes = [1, 1, 1, 2, 2, 4, 4, 8, 4, 8, 5, 8, 0];
    let fixed = b"tbBsuIilfdDTV".iter().zip(sizes);
    let fixed: Vec<u8> = fixed.flat_map(|(it, size)| entry(&[*it], *it, &vec![1; size])).collect();
    let every_kind = [
        fixed,
        entry(b"S", b'S', &long(b"bytes \xff of any kind")),
        entry(b"x", b'x', &long(b"\xff")),
        entry("\u{e4}".as_bytes(), b'F', &long(&entry(b"n", b'V', &[]))),
        entry(b"A", b'A', &long(&[b'V', b't', 1])),
        nested(b"\x01nF", 31),
    ];
    let all: Vec<u8> = every_kind.concat();
    let frames = [
        headers(&all),
        headers(b""),
        header(0, b""),
        header(MESSAGE_ID, &short("caf\u{e9}".as_bytes())),
        frame(3, &[0xFF; 1_000]),
        frame(8, b""),
        // basic.deliver
        frame(
            1,
            &[&[0, 60, 0, 60][..], &short(b"tag"), &[0; 9], &short(b"in"), &short(b"key")].concat(),
        ),
    ];
    for frame in &frames {
        assert_eq!(&repaired(frame), frame);
    }
    assert_eq!(repaired(&frames.concat()), frames.concat());
}

#[test]
fn text_that_is_not_utf8_is_mended_in_place() {
    assert_eq!(
        repaired(&header(MESSAGE_ID, &short(b"caf\xe9 \xff\xfe"))),
        header(MESSAGE_ID, &short(b"caf? ??"))
    );
    assert_eq!(repaired(&headers(&entry(b"\xe9", b'V', &[]))), headers(&entry(b"?", b'V', &[])));
    let deliver = |key: &[u8]| {
        let parts = [&[0, 60, 0, 60][..], &short(b"tag"), &[0; 9], &short(b"in"), &short(key)];
        frame(1, &parts.concat())
    };
    assert_eq!(repaired(&deliver(b"\xff.unpaid")), deliver(b"?.unpaid"));
    // A text that the broker has cut in the middle of a character.
    let close =
        |text: &[u8]| frame(1, &[&[0, 20, 0, 40, 1, 148][..], &short(text), &[0; 4]].concat());
    assert_eq!(repaired(&close(b"no exchange 'caf\xc3")), close(b"no exchange 'caf?"));
}

#[test]
fn properties_that_cannot_be_mended_give_way_to_one_header_that_says_why() {
    let arrays = [short(b"n"), nested(b"A", 20_000)].concat();
    let full = entry(b"long", b'S', &long(&vec![b'x'; 130_000]));
    for (frame, why) in [
        (headers(&nested(b"\x01nF", 17_000)), "their headers are nested too deeply"),
        (headers(&arrays), "their headers are nested too deeply"),
        (headers(&full), "they fill a frame"),
        (headers(&entry(b"n", b'?', b"")), "their headers cannot be read"),
        (header(MESSAGE_ID, b"\x05abc"), "they are cut short"),
    ] {
        assert_eq!(dropped(&frame), why);
        // Class, weight and body size are unchanged, so that the following body belongs to the header.
        assert_eq!(repaired(&frame)[7..19], frame[7..19]);
        let once = repaired(&frame);
        assert_eq!(repaired(&once), once);
    }
}

/// Even the smallest frames (8 KiB) have room for headers and for the reserve that copies need.
#[test]
fn the_frame_size_that_the_broker_asks_for_is_followed() {
    let tune = |kib: u8| frame(1, &[0, 10, 0, 30, 0, 0, 0, 0, 4 * kib, 0, 0, 60]);
    let header = headers(&entry(b"long", b'S', &long(&[b'x'; 13_000])));
    assert_eq!(dropped(&header), "");
    assert_eq!(dropped(&[tune(16), header].concat()), "they fill a frame");
    let header = headers(&entry(b"x-attempt", b'I', &[0, 0, 0, 2]));
    assert_eq!(dropped(&[tune(8), header].concat()), "");
}

#[test]
fn what_is_no_amqp_is_passed_on_for_the_client_to_say_so() {
    for foreign in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"AMQP\x00\x00\x09\x01",
        b"\x01 no frame end at all",
    ] {
        let mut repair = FrameRepair::new(FRAME_MAX);
        let mut output = Vec::new();
        for byte in foreign {
            repair.feed(&[*byte], &mut output);
        }
        repair.feed(&[0; 64], &mut output);
        let expected = [foreign, &[0; 64]].concat();
        assert!(expected.starts_with(&output), "{foreign:?}");
    }
    assert_eq!(repaired(b"HTTP/1.1 400 Bad Request"), b"HTTP/1.1 400 Bad Request");
}

/// A frame of channel 1 on another channel.
fn on(channel: u8, mut frame: Vec<u8>) -> Vec<u8> {
    frame[2] = channel;
    frame
}

/// `basic.deliver` with a consumer, or `basic.return` and `basic.get-ok`, which have none.
fn method(id: u8, consumer: &str) -> Vec<u8> {
    let consumer = if id == 60 { short(consumer.as_bytes()) } else { Vec::new() };
    let after_it: &[u8] = if id == 50 { &[1, 56, 0] } else { &[0; 9] };
    let rest = [short(b"in"), short(b"key")].concat();
    frame(1, &[&[0, 60, 0, id][..], &consumer, after_it, &rest].concat())
}

/// A content header and its body, in frames of at most 20,000 bytes.
fn content(size: usize, letter: u8) -> Vec<Vec<u8>> {
    let mut head = header(MESSAGE_ID, &short(b"some id"));
    head[11..19].copy_from_slice(&u64::try_from(size).unwrap().to_be_bytes());
    let body = vec![letter; size];
    std::iter::once(head).chain(body.chunks(20_000).map(|part| frame(3, part))).collect()
}

/// The content header that replaces a large body, with the body's size.
fn left_out(size: usize) -> Vec<u8> {
    let entry = entry(BODY_LEFT_OUT.as_bytes(), b'S', &long(size.to_string().as_bytes()));
    let mut head = headers(&entry);
    head[11..19].fill(0);
    head
}

#[test]
fn a_body_that_is_too_large_for_a_due_notice_is_left_out_of_a_delivery_to_a_worker() {
    left_out_of_deliveries_to(CONSUMER_TAG, MAX_BODY_BYTES);
    left_out_of_deliveries_to(HISTORY_TAG, MAX_BODY_BYTES);
    left_out_of_deliveries_to(LARGE_TAG, MAX_PASSED_BYTES);
}

fn left_out_of_deliveries_to(tag: &str, most: usize) {
    let deliver = || method(60, tag);
    let largest = [vec![deliver()], content(most, b'a')].concat().concat();
    assert_eq!(repaired(&largest), largest);
    for size in [most + 1, 16 * 1024 * 1024] {
        let large = [vec![deliver()], content(size, b'a')].concat().concat();
        let bytes = [&large[..], &largest, &large, &frame(8, b"")].concat();
        let short = [deliver(), left_out(size)].concat();
        assert_eq!(repaired(&bytes), [&short[..], &largest, &short, &frame(8, b"")].concat());
    }
    // A wrong size: no byte of the body is kept.
    let mut endless = content(most + 1, b'a');
    endless[0][11..19].fill(0xFF);
    let bytes = [vec![deliver()], endless].concat().concat();
    assert!(repaired(&bytes).len() < 200);
}

/// An array of values that take a byte each, and many times that in memory.
fn voids(name: &str, count: usize) -> Vec<u8> {
    entry(name.as_bytes(), b'A', &long(&vec![b'V'; count]))
}

/// 100,000 values of a byte each are megabytes in memory, times the prefetch count.
#[test]
fn headers_take_no_more_memory_than_a_body() {
    let delivered =
        |tag: &str, table: &[u8]| [method(60, tag), headers(table), frame(3, b"ordered")].concat();
    for tag in [CONSUMER_TAG, HISTORY_TAG, LARGE_TAG] {
        let few = delivered(tag, &voids("values", 500));
        assert_eq!(repaired(&few), few, "{tag}");
        let many = delivered(tag, &voids("values", 100_000));
        let without = repaired(&many);
        assert!(without.len() < 300, "{tag}: {}", without.len());
        let has_body = without.windows(7).any(|it| it == b"ordered");
        assert_eq!(has_body, tag == CONSUMER_TAG, "{tag}");
        assert_eq!(repaired(&[many, few.clone()].concat()), [without, few].concat(), "{tag}");
    }
    let notice = [method(60, CONSUMER_TAG), headers(&voids("values", 100_000))].concat();
    assert_eq!(dropped(&notice), "their headers take too much memory");
    // Larger than `MAX_BODY_BYTES`, and smaller than `MAX_PASSED_BYTES`.
    let some = delivered(LARGE_TAG, &voids("values", 5_000));
    assert_eq!(repaired(&some), some);
    assert_ne!(repaired(&delivered(HISTORY_TAG, &voids("values", 5_000))), some);
    // An omitted history uses none of the limit.
    let history = [voids("x-death", 50_000), voids("values", 500)].concat();
    assert_eq!(
        repaired(&delivered(CONSUMER_TAG, &history)),
        delivered(CONSUMER_TAG, &voids("values", 500))
    );
}

#[test]
fn a_large_body_for_somebody_else_is_passed_on_as_it_is() {
    let large = || content(300_000, b'a');
    for (id, consumer) in [(60, "amq.ctag-1"), (60, ""), (60, "overdue2"), (50, ""), (71, "")] {
        let bytes = [vec![method(id, consumer)], large()].concat().concat();
        assert_eq!(repaired(&bytes), bytes, "{id} {consumer}");
    }
}

/// Frames of channels alternate; an omitted body of one channel removes nothing from another.
#[test]
fn what_is_left_out_of_one_channel_leaves_the_others_as_they_are() {
    let large = [vec![method(60, CONSUMER_TAG)], content(300_000, b'a')].concat();
    let returned = [vec![method(50, "")], content(300_000, b'b')].concat();
    let mut bytes = Vec::new();
    let mut expected =
        [method(60, CONSUMER_TAG), on(2, method(50, "")), left_out(300_000)].concat();
    for (n, (one, other)) in large.into_iter().zip(returned).enumerate() {
        let other = on(2, other);
        if n > 0 {
            expected.extend_from_slice(&other);
        }
        bytes.extend([one, other].concat());
    }
    assert_eq!(repaired(&bytes), expected);
    // A reopened channel begins at the first frame.
    let cut_off = [vec![method(60, CONSUMER_TAG)], content(300_000, b'a')[..4].to_vec()].concat();
    let again = [vec![method(60, "amq.ctag-1")], content(100_000, b'a')].concat().concat();
    let both = [cut_off.concat(), again.clone()].concat();
    assert!(repaired(&both).ends_with(&again));
}

/// A header of this name; the history of dead-lettering is a table in an array.
fn named(name: &str) -> Vec<u8> {
    let inside = entry(b"x-death", b'S', &long(b"orders.delay.30m"));
    entry(name.as_bytes(), b'A', &long(&[&b"F"[..], &long(&inside)].concat()))
}

/// A message to a consumer with these headers, and a property after them.
fn delivered(consumer: &str, names: &[&str]) -> Vec<u8> {
    let table: Vec<u8> = names.iter().flat_map(|name| named(name)).collect();
    let properties = [long(&table), short(b"some id")].concat();
    [method(60, consumer), header(HEADERS | MESSAGE_ID, &properties), frame(3, b"o-1")].concat()
}

#[test]
fn a_worker_gets_no_history_of_dead_lettering_and_everybody_else_does() {
    let names = ["x-death", "a", "x-first-death-queue", "x-last-death-reason", "b", "x-death"];
    assert_eq!(repaired(&delivered(CONSUMER_TAG, &names)), delivered(CONSUMER_TAG, &["a", "b"]));
    assert_eq!(repaired(&delivered(CONSUMER_TAG, &["x-death"])), delivered(CONSUMER_TAG, &[]));
    for consumer in ["amq.ctag-1", HISTORY_TAG] {
        let others = delivered(consumer, &names);
        assert_eq!(repaired(&others), others);
    }
    // The history made the headers too long.
    let own = entry(b"own", b'S', &long("x".repeat(60_000).as_bytes()));
    let both =
        [own.clone(), entry(b"x-death", b'S', &long("x".repeat(65_000).as_bytes()))].concat();
    let bytes = [method(60, CONSUMER_TAG), headers(&both)].concat();
    assert_eq!(repaired(&bytes), [method(60, CONSUMER_TAG), headers(&own)].concat());
    assert_eq!(dropped(&headers(&both)), "they fill a frame");
}

/// A copy of a message has more headers; the original's just fit. Without its `message-id` no return of the copy could be matched.
#[test]
fn what_comes_back_is_known_however_much_of_its_frame_its_headers_fill() {
    let table = entry(b"own", b'S', &long("x".repeat(FRAME_MAX as usize - 100).as_bytes()));
    let properties = [long(&table), short(b"some id")].concat();
    let header = header(HEADERS | MESSAGE_ID, &properties);
    let returned = [method(50, ""), header.clone(), frame(3, b"o-1")].concat();
    assert_eq!(repaired(&returned), returned);
    assert_eq!(dropped(&[method(60, "amq.ctag-1"), header].concat()), "they fill a frame");
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let class = prop_oneof![
        Just([0, 60, 0, 60]),
        Just([0, 60, 0, 50]),
        Just([0, 10, 0, 30]),
        any::<[u8; 4]>()
    ];
    let method = (class, vec(any::<u8>(), 0..60))
        .prop_map(|(class, rest)| frame(1, &[&class[..], &rest].concat()));
    let header =
        (any::<u16>(), vec(any::<u8>(), 0..200)).prop_map(|(flags, rest)| header(flags, &rest));
    let table = vec(
        (
            vec(any::<u8>(), 0..5),
            prop::sample::select(b"tbsIlSFAVxD?".to_vec()),
            vec(any::<u8>(), 0..9),
        ),
        0..6,
    )
    .prop_map(|entries| {
        let entries = entries.iter().map(|(name, kind, value)| entry(name, *kind, value));
        headers(&entries.collect::<Vec<_>>().concat())
    });
    let other = (prop::sample::select(vec![2u8, 3, 8]), vec(any::<u8>(), 0..40))
        .prop_map(|(kind, payload)| frame(kind, &payload));
    let delivery = (any::<bool>(), 0usize..200_000).prop_map(|(ours, size)| {
        let consumer = if ours { CONSUMER_TAG } else { "amq.ctag-1" };
        [vec![self::method(60, consumer)], content(size, b'a')].concat().concat()
    });
    let names = vec(prop::sample::select(NAMES.to_vec()), 0..8);
    let dead_lettered = names.prop_map(|names| self::delivered(CONSUMER_TAG, &names));
    prop_oneof![4 => method, 4 => header, 4 => table, 4 => other, 1 => delivery, 2 => dead_lettered]
}

const NAMES: [&str; 7] =
    ["x-death", "x-first-death-exchange", "x-last-death-queue", "a", "", "x-deat", "x-attempt"];

proptest! {
    /// Any split of the bytes gives the same frames, none is lost, and a second repair changes nothing.
    #[test]
    fn frames_in_any_pieces_come_out_the_same(frames in vec(any_frame(), 1..8), cuts in vec(1usize..40, 1..60)) {
        let bytes = frames.concat();
        let whole = repaired(&bytes);
        let mut repair = FrameRepair::new(FRAME_MAX);
        let (mut output, mut rest) = (Vec::new(), &bytes[..]);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, next) = rest.split_at((*cut).min(rest.len()));
            repair.feed(piece, &mut output);
            rest = next;
        }
        prop_assert_eq!(&output, &whole);
        prop_assert_eq!(repaired(&whole), whole);
    }

    #[test]
    fn whatever_stands_between_the_history_is_kept_in_its_order(names in vec(prop::sample::select(NAMES.to_vec()), 0..12)) {
        let kept: Vec<&str> =
            names.iter().copied().filter(|name| !name.starts_with("x-death") && !name.contains("-death-")).collect();
        prop_assert_eq!(repaired(&delivered(CONSUMER_TAG, &names)), delivered(CONSUMER_TAG, &kept));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _whatever_comes_out = repaired(&bytes);
    }
}
