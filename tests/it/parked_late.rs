//! `overdue parked` on a slow broker: a quiet second does not prove that no delivery follows.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::parked::{all_back, furnished};

const METHOD: u8 = 1;
const DELIVER: [u8; 4] = [0, 60, 0, 60];
const DECLARE_OK: [u8; 4] = [0, 50, 0, 11];

/// Forwards the broker's frames, but delays deliveries up to the second answer to a request on their channel, the latest possible
/// moment. The first answer may overtake them: a channel queries the queue, and reads no deliveries before it has the
/// answer.
async fn hold_back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let (mut held, mut on, mut answers) = (Vec::new(), None, 0);
    let mut start = [0; 7];
    while from.read_exact(&mut start).await.is_ok() {
        let [kind, c0, c1, s0, s1, s2, s3] = start;
        let (channel, size) = ([c0, c1], u32::from_be_bytes([s0, s1, s2, s3]));
        let mut frame = start.to_vec();
        frame.resize(start.len() + usize::try_from(size).unwrap() + 1, 0);
        from.read_exact(&mut frame[start.len()..]).await.unwrap();
        let method = (kind == METHOD).then(|| &frame[7..11]);
        if method == Some(&DELIVER) {
            on = Some(channel);
        }
        if on == Some(channel) && method == Some(&DECLARE_OK) {
            answers += 1;
        }
        // Frames of content follow their method.
        let is_delivery = on == Some(channel) && method.is_none_or(|method| method == DELIVER);
        if is_delivery && answers < 2 {
            held.append(&mut frame);
            continue;
        }
        if answers == 2 {
            to.write_all(&std::mem::take(&mut held)).await.unwrap();
        }
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

#[apply(world_test)]
async fn messages_that_are_on_their_way_are_listed() {
    let world = furnished().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let late = world.services.broker_url(&world.vhost, Some(listener.local_addr().unwrap().port()));
    let service = world.services.broker_socket();
    tokio::spawn(async move {
        let (mut from_program, to_program) = listener.accept().await.unwrap().0.into_split();
        let service = TcpStream::connect(service).await.unwrap();
        let (from_service, mut to_service) = service.into_split();
        tokio::join!(copy(&mut from_program, &mut to_service), hold_back(from_service, to_program))
    });
    let late = [("OVERDUE_BROKER__URL", late.as_str())];
    let run = world.overdue_with(&["parked", "list", "--limit", "0", "-o", "json"], &late);
    assert_eq!(run.json()["messages"].as_array().unwrap().len(), 7, "{run}");
    all_back(&world, 7).await;
}
