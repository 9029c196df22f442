//! Tests of long reads from a device of this machine: those that have arrived together are executed
//! by two threads, and all requests keep their order.

use crate::support::gated::Gated;
use crate::support::{PATIENCE, TestServer, bytes, eventually};
use gemelo_nbd::client::{Client, ReplyWait, Submission};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;
/// Length of a read that has a batch of its own.
const LONG_BYTES: u64 = 1 << 20;
/// Time in which something happens that must not happen.
const TIME_TO_FAIL: Duration = Duration::from_millis(100);

/// Returns a server of a device in which each MiB has bytes of its own, and a client, if the
/// machine has cores for lanes.
fn served() -> Option<(Arc<Gated>, TestServer, Client)> {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        gemelo_tools::missing("a second processor, for lanes of long reads");
        return None;
    }
    let device = Arc::new(Gated::new(SIZE_BYTES, false));
    let server = TestServer::of(Arc::clone(&device) as _);
    let mut client = server.client(16);
    for place in 0..SIZE_BYTES / LONG_BYTES {
        let data = bytes(place, LONG_BYTES as usize);
        let write = Submission::Write { offset: place * LONG_BYTES, data: &data, durable: false };
        assert!(client.run(write, |done| done.error.is_none()).unwrap());
    }
    Some((device, server, client))
}

fn range(places: Range<u64>) -> Range<u64> {
    places.start * LONG_BYTES..places.end * LONG_BYTES
}

/// Sends reads of whole MiB, all at once. The handle of each is its place.
fn read(client: &mut Client, places: Range<u64>) {
    for place in places {
        let (offset, length) = (place * LONG_BYTES, LONG_BYTES as u32);
        client.submit(place, Submission::Read { offset, length }).unwrap();
    }
    client.reap(ReplyWait::Not, |_| panic!("no reply")).unwrap();
}

/// Sends a long read of the last MiB, and reads of others that arrive while it is executed. Then
/// holds the others that are in a range.
fn read_together(device: &Gated, client: &mut Client, places: Range<u64>, held: Range<u64>) {
    device.hold_reads(range(63..64));
    read(client, 63..64);
    assert!(device.has_reads_waiting(1));
    read(client, places);
    device.hold_reads(range(held));
}

/// Receives replies, and compares those of reads with the data of their places. Returns the handles
/// in the order of the replies.
fn receive(client: &mut Client, replies: usize) -> Vec<u64> {
    let mut received = Vec::new();
    while received.len() < replies {
        let take = |done: gemelo_nbd::client::CompletedRequest<'_>| {
            assert!(done.error.is_none());
            let is_read = !done.data.is_empty();
            assert!(!is_read || done.data == bytes(done.handle, LONG_BYTES as usize));
            received.push(done.handle);
        };
        assert!(client.reap(ReplyWait::AtMost(PATIENCE), take).unwrap() > 0, "no reply in time");
    }
    received
}

#[test]
fn long_reads_that_have_arrived_are_executed_by_two_threads() {
    let Some((device, server, mut client)) = served() else { return };
    let before = server.server.counts().overlapping;
    read_together(&device, &mut client, 0..3, 0..3);
    assert_eq!(receive(&mut client, 1), [63]);
    assert!(device.has_reads_waiting(2));
    device.open();
    assert_eq!(receive(&mut client, 3).len(), 3);
    assert!(server.server.counts().overlapping > before);
    // A lone read is not worth a thread.
    let before = server.server.counts().overlapping;
    read(&mut client, 7..8);
    assert_eq!(receive(&mut client, 1), [7]);
    assert_eq!(server.server.counts().overlapping, before);
}

#[test]
fn a_write_waits_for_a_long_read_of_its_place() {
    let Some((device, _server, mut client)) = served() else { return };
    read_together(&device, &mut client, 0..2, 0..1);
    // The second one overtakes the first one, which is in a lane.
    assert_eq!(receive(&mut client, 2), [63, 1]);
    let data = bytes(99, 4096);
    client.submit(70, Submission::Write { offset: 512, data: &data, durable: false }).unwrap();
    assert_eq!(client.reap(ReplyWait::AtMost(TIME_TO_FAIL), |_| {}).unwrap(), 0);
    assert_eq!(device.waiting(), [1, 0, 0]);
    device.open();
    assert_eq!(receive(&mut client, 2), [0, 70], "the read has the data before the write");
}

#[test]
fn many_long_reads_get_their_data() {
    let Some((_device, server, mut client)) = served() else { return };
    for first in (0..48).step_by(16) {
        read(&mut client, first..first + 16);
        let mut places = receive(&mut client, 16);
        places.sort_unstable();
        assert!(places.into_iter().eq(first..first + 16));
    }
    client.disconnect().unwrap();
    eventually("the connection ends", || server.server.connections(None) == 0);
}
