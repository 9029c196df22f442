//! Tests of reads that wait for the medium, on a device of this machine that can tell: those whose
//! data is in memory are answered meanwhile, and the server's promises hold.

use crate::support::gated::Gated;
use crate::support::memory::Fault;
use crate::support::{PATIENCE, TestServer, bytes, eventually};
use gemelo_device::Export;
use gemelo_device::Memory;
use gemelo_nbd::client::{Client, ReplyWait, Submission};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::ErrorCode;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Time in which something happens that must not happen.
const TIME_TO_FAIL: Duration = Duration::from_millis(100);

fn served_with(config: ServerConfig) -> (Arc<Gated>, TestServer) {
    let device = Arc::new(Gated::over_medium(SIZE_BYTES));
    let export = Export::new("disk", Arc::clone(&device) as _);
    (device, TestServer::start(vec![export], config, &[]))
}

fn served() -> (Arc<Gated>, TestServer) {
    served_with(ServerConfig::default())
}

fn blocks(blocks: Range<u64>) -> Range<u64> {
    blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES
}

fn read(block: u64) -> Submission<'static> {
    Submission::Read { offset: block * BLOCK_BYTES, length: BLOCK_BYTES as u32 }
}

fn write(block: u64, data: &[u8]) -> Submission<'_> {
    Submission::Write { offset: block * BLOCK_BYTES, data, durable: false }
}

/// The handle, the error and the data of a reply.
type Reply = (u64, ErrorCode, Vec<u8>);

/// A client that keeps replies until the test wants them.
struct Asker {
    client: Client,
    received: Vec<Reply>,
}

impl Asker {
    fn new(server: &TestServer, depth: usize) -> Self {
        Self { client: server.client(depth), received: Vec::new() }
    }

    fn reap(&mut self, wait: ReplyWait) -> usize {
        let take = |done: gemelo_nbd::client::CompletedRequest<'_>| {
            self.received.push((done.handle, done.error, done.data.to_vec()));
        };
        self.client.reap(wait, take).unwrap()
    }

    /// Sends requests together.
    fn send<'d>(&mut self, requests: impl IntoIterator<Item = (u64, Submission<'d>)>) {
        for (handle, request) in requests {
            self.client.submit(handle, request).unwrap();
        }
        self.reap(ReplyWait::Not);
    }

    /// Receives this number of replies, in the order of their handles.
    fn receive(&mut self, replies: usize) -> Vec<Reply> {
        while self.received.len() < replies {
            assert!(self.reap(ReplyWait::AtMost(PATIENCE)) > 0, "no reply in time");
        }
        let mut received = std::mem::take(&mut self.received);
        assert_eq!(received.len(), replies, "a reply came too early");
        received.sort_unstable_by_key(|(handle, ..)| *handle);
        received
    }

    /// Nothing is answered for a while.
    fn assert_silent(&mut self) {
        self.reap(ReplyWait::AtMost(TIME_TO_FAIL));
        assert!(self.received.is_empty(), "a reply came too early");
    }

    fn run(&mut self, request: Submission<'_>) -> Reply {
        self.send([(u64::MAX, request)]);
        self.receive(1).remove(0)
    }
}

fn handles(replies: &[Reply]) -> Vec<u64> {
    replies.iter().map(|(handle, ..)| *handle).collect()
}

/// Fills the first blocks, and keeps reads of some of them from the data.
fn fill_and_hold(device: &Gated, client: &mut Asker, held: Range<u64>) -> Vec<u8> {
    let data = bytes(1, 64 * BLOCK_BYTES as usize);
    // In short writes, which the thread of the connection executes.
    for (part, block) in data.chunks(16 * BLOCK_BYTES as usize).zip((0..).step_by(16)) {
        assert!(client.run(write(block, part)).1.is_none());
    }
    device.hold_reads(blocks(held));
    data
}

fn assert_right(data: &[u8], replies: &[Reply]) {
    for (block, error, read) in replies {
        let expected = data.chunks(BLOCK_BYTES as usize).nth(*block as usize).unwrap();
        assert!(error.is_none() && read == expected, "block {block}");
    }
}

#[test]
fn reads_of_data_in_memory_do_not_wait_for_others() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 64);
    let data = fill_and_hold(&device, &mut client, 3..20);
    client.send((0..24).map(|block| (block, read(block))));
    let first = client.receive(7);
    assert_eq!(handles(&first), [0, 1, 2, 20, 21, 22, 23]);
    // The connection goes on with reads that it receives later.
    for block in 24..40 {
        client.send([(block, read(block))]);
        assert_eq!(handles(&client.receive(1)), [block]);
    }
    client.assert_silent();
    device.open();
    let late = client.receive(17);
    assert!(handles(&late).into_iter().eq(3..20));
    assert_right(&data, &[first, late].concat());
    assert!(server.server.counts().overlapping >= 1);
}

#[test]
fn the_oldest_read_waits_alone() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 64);
    let data = fill_and_hold(&device, &mut client, 0..10);
    client.send((0..12).map(|block| (block, read(block))));
    assert_eq!(handles(&client.receive(2)), [10, 11]);
    assert!(device.has_reads_waiting(1));
    // The first block is still held: what is behind it is ready, and is not looked at before.
    device.hold_reads(blocks(9..10));
    let late = client.receive(9);
    assert!(handles(&late).into_iter().eq(0..9));
    assert_right(&data, &late);
    device.open();
    assert_eq!(handles(&client.receive(1)), [9]);
}

#[test]
fn changes_wait_for_reads_of_the_same_place_alone() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 64);
    let data = fill_and_hold(&device, &mut client, 3..4);
    let other = bytes(2, 1 << 20);
    for (round, length) in [BLOCK_BYTES as usize, 1 << 20].into_iter().enumerate() {
        device.hold_reads(blocks(3..4));
        client.send([(3, read(3)), (4, read(4))]);
        assert_right(&data, &client.receive(1));
        // Requests of another place, and flushes, overtake the read.
        client.send([(7, write(1024, &other[..length])), (8, Submission::Flush)]);
        assert_eq!(handles(&client.receive(2)), [7, 8], "round {round}");
        client.send([(9, write(3, &other[..length]))]);
        client.assert_silent();
        device.open();
        let replies = client.receive(2);
        assert_eq!(handles(&replies), [3, 9], "round {round}");
        assert_right(&data, &replies[..1]);
        assert!(client.run(read(3)).2 == other[..4096], "round {round}");
        assert!(client.run(write(0, &data)).1.is_none());
    }
}

#[test]
fn a_client_that_waits_for_each_reply_needs_no_thread() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 1);
    let data = fill_and_hold(&device, &mut client, 0..32);
    for block in 0..32 {
        client.send([(block, read(block))]);
        assert!(device.has_reads_waiting(1));
        device.open();
        assert_right(&data, &client.receive(1));
        device.hold_reads(blocks(0..32));
    }
    assert_eq!(server.server.counts().overlapping, 0);
}

#[test]
fn a_client_that_sends_one_by_one_is_not_kept_from_data_in_memory_for_long() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 2);
    fill_and_hold(&device, &mut client, 0..1);
    // The connection waits for the first read, and finds the second one after it.
    client.send([(0, read(0))]);
    assert!(device.has_reads_waiting(1));
    client.send([(1, read(1))]);
    client.assert_silent();
    device.open();
    client.receive(2);
    device.hold_reads(blocks(0..1));
    client.send([(0, read(0))]);
    assert!(device.has_reads_waiting(1));
    client.send([(1, read(1))]);
    assert_eq!(handles(&client.receive(1)), [1]);
    device.open();
    client.receive(1);
}

#[test]
fn errors_and_long_reads_that_wait_are_answered_right() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 64);
    let data = fill_and_hold(&device, &mut client, 0..48);
    device.memory.fail(blocks(5..6), Fault::Io);
    let lengths: Vec<u32> = (0..40).map(|at| [512, 4096, 40_000, 100_000][at % 4]).collect();
    let long = |at: usize| Submission::Read { offset: at as u64 * 3000, length: lengths[at] };
    client.send((0..40).map(|at| (at as u64, long(at))));
    client.assert_silent();
    device.open();
    for (handle, error, read) in client.receive(40) {
        let range =
            handle as usize * 3000..handle as usize * 3000 + lengths[handle as usize] as usize;
        let touches = range.start < 6 * 4096 && range.end > 5 * 4096;
        assert_eq!(error, if touches { ErrorCode::IO } else { ErrorCode::NONE }, "{handle}");
        assert!(touches || read[..] == data[range], "{handle}");
    }
}

#[test]
fn many_reads_that_wait_hold_the_client_up_and_are_answered() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 1024);
    let data = fill_and_hold(&device, &mut client, 0..64);
    for round in 0..8 {
        for block in 0..64 {
            client.client.submit(round * 64 + block, read(block)).unwrap();
        }
    }
    client.assert_silent();
    // 128, and those of one further batch.
    assert!((128..=256).contains(&device.reads_left()), "{}", device.reads_left());
    device.open();
    let replies = client.receive(512);
    assert!(handles(&replies).into_iter().eq(0..512), "each has one reply");
    let of_block = |(handle, error, data)| (handle % 64, error, data);
    assert_right(&data, &replies.into_iter().map(of_block).collect::<Vec<_>>());
}

#[test]
fn without_threads_and_memory_the_connection_waits_itself() {
    for config in [
        ServerConfig { max_helpers: 0, ..ServerConfig::default() },
        ServerConfig { memory: Memory::new(0, 1), ..ServerConfig::default() },
    ] {
        let (device, server) = served_with(config);
        let mut client = Asker::new(&server, 64);
        let data = fill_and_hold(&device, &mut client, 3..20);
        client.send((0..24).map(|block| (block, read(block))));
        assert!(device.has_reads_waiting(1));
        device.open();
        assert_right(&data, &client.receive(24));
        assert_eq!(server.server.counts().overlapping, 0);
    }
}

#[test]
fn a_panic_of_a_read_that_waits_ends_the_connection() {
    let (device, server) = served();
    let mut client = Asker::new(&server, 64);
    fill_and_hold(&device, &mut client, 0..8);
    device.memory.fail(blocks(0..1), Fault::Panic);
    client.send((0..12).map(|block| (block, read(block))));
    client.receive(4);
    device.open();
    assert!(client.client.reap(ReplyWait::AtMost(PATIENCE), |_| {}).is_err());
    eventually("its place is free", || server.server.connections(None) == 0);
    let warnings = server.heard.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("the device panicked at a request")));
    assert!(server.client(1).run(read(9), |done| done.error.is_none()).unwrap());
}

#[test]
fn stopping_and_disconnecting_wait_for_reads_that_wait() {
    let (device, mut server) = served();
    let mut client = Asker::new(&server, 64);
    let data = fill_and_hold(&device, &mut client, 0..8);
    client.send((0..12).map(|block| (block, read(block))));
    client.receive(4);
    server.raise_stop();
    eventually("the server has stopped to listen", || !server.socket().exists());
    assert_eq!(server.server.connections(None), 1);
    device.open();
    assert_right(&data, &client.receive(8));
    server.stop().unwrap();
    assert_eq!(device.flushes().len(), 1, "the write was flushed");
}
