//! Tests of long writes to a device of this machine: they are executed while the next ones are
//! received, and all requests keep their order.

use crate::support::gated::Gated;
use crate::support::{PATIENCE, TestServer, bytes, eventually};
use gemelo_nbd::client::{Client, ReplyWait, Submission};
use gemelo_nbd::wire::ErrorCode;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;
/// Length of a write that has a batch of its own.
const LONG_BYTES: usize = 1 << 20;
/// Time in which something happens that must not happen.
const TIME_TO_FAIL: Duration = Duration::from_millis(100);

/// Returns a server of a device, and whether it uses lanes.
fn served() -> Option<(Arc<Gated>, TestServer)> {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        gemelo_tools::missing("a second processor, for lanes of long writes");
        return None;
    }
    let device = Arc::new(Gated::new(SIZE_BYTES, false));
    Some((Arc::clone(&device), TestServer::of(device)))
}

fn submit(client: &mut Client, handle: u64, place: u64, data: &[u8]) {
    let offset = place * LONG_BYTES as u64;
    client.submit(handle, Submission::Write { offset, data, durable: false }).unwrap();
}

/// Sends the queued requests while the server takes them.
fn send(client: &mut Client) {
    client.reap(ReplyWait::AtMost(Duration::from_millis(10)), |_| panic!("no reply")).unwrap();
}

fn receive(client: &mut Client, replies: usize) -> Vec<(u64, ErrorCode)> {
    let mut received = Vec::new();
    while received.len() < replies {
        let wait = ReplyWait::AtMost(PATIENCE);
        let done = client.reap(wait, |done| received.push((done.handle, done.error))).unwrap();
        assert!(done > 0, "no reply in time");
    }
    received
}

fn holds(client: &mut Client, place: u64, data: &[u8]) -> bool {
    let offset = place * LONG_BYTES as u64;
    let read = Submission::Read { offset, length: data.len() as u32 };
    client.run(read, |done| done.error.is_none() && done.data == data).unwrap()
}

#[test]
fn a_long_write_is_executed_while_the_next_one_is_received() {
    let Some((device, server)) = served() else { return };
    let mut client = server.client(4);
    device.hold_writes();
    let data: Vec<_> = (0..3).map(|seed| bytes(seed, LONG_BYTES)).collect();
    for (place, data) in (0..).zip(&data) {
        submit(&mut client, place, place, data);
    }
    // The second one is executed by the thread that received it.
    eventually("two wait", || {
        send(&mut client);
        device.waiting()[2] == 2
    });
    device.open();
    receive(&mut client, 3);
    assert!((0..).zip(&data).all(|(place, data)| holds(&mut client, place, data)));
    assert!(server.server.counts().overlapping >= 1);
}

#[test]
fn other_requests_and_writes_to_the_same_place_wait_for_a_long_write() {
    let Some((device, server)) = served() else { return };
    let mut client = server.client(4);
    let (first, second) = (bytes(1, LONG_BYTES), bytes(2, LONG_BYTES));
    for round in 0..3 {
        device.hold_writes();
        submit(&mut client, 0, 0, &first);
        eventually("it waits", || {
            send(&mut client);
            device.waiting()[2] == 1
        });
        match round {
            0 => submit(&mut client, 1, 0, &second),
            1 => client.submit(1, Submission::Flush).unwrap(),
            _ => client.submit(1, Submission::Read { offset: 0, length: 512 }).unwrap(),
        }
        let wait = ReplyWait::AtMost(TIME_TO_FAIL);
        assert_eq!(client.reap(wait, |_| {}).unwrap(), 0, "round {round}");
        assert_eq!(device.waiting(), [0, 0, 1], "round {round}");
        device.open();
        let handles: Vec<_> = receive(&mut client, 2).into_iter().map(|(at, _)| at).collect();
        assert_eq!(handles, [0, 1], "round {round}");
        assert!(holds(&mut client, 0, if round == 0 { &second } else { &first }));
    }
    assert_eq!(device.flushes(), [3], "the flush covers the write that was sent before it");
}

#[test]
fn many_long_writes_keep_their_data() {
    let Some((device, server)) = served() else { return };
    let mut client = server.client(16);
    let lengths = [130 << 10, 1 << 20, 200_000, 2 << 20, 131_072, 777_777];
    let mut expected = vec![0; SIZE_BYTES as usize];
    let mut in_flight = 0;
    for round in 0..120u64 {
        let length = lengths[round as usize % lengths.len()];
        let offset = (round * 1_500_001) % (SIZE_BYTES - length as u64);
        let data = bytes(round, length);
        expected[offset as usize..offset as usize + length].copy_from_slice(&data);
        client.submit(round, Submission::Write { offset, data: &data, durable: false }).unwrap();
        in_flight += 1;
        if in_flight == 16 {
            let done = receive(&mut client, 1);
            assert!(done.iter().all(|(_, error)| error.is_none()));
            in_flight -= done.len();
        }
    }
    receive(&mut client, in_flight);
    for (place, part) in (0..).zip(expected.chunks(LONG_BYTES)) {
        assert!(holds(&mut client, place, part), "MiB {place}");
    }
    assert!(server.server.counts().overlapping > 10);
    client.disconnect().unwrap();
    eventually("the connection ends", || server.server.connections(None) == 0);
    assert_eq!(device.flushes(), [120], "the end of the connection flushes");
}
