//! Tests of requests that are in execution together: on a device that waits for other machines,
//! the requests of one client wait together, and the server's promises hold meanwhile.

use crate::support::gated::Gated;
use crate::support::memory::Fault;
use crate::support::raw::{assert_closed, negotiated, read_simple_reply, request};
use crate::support::{PATIENCE, TestServer, bytes, eventually};
use gemelo_device::Export;
use gemelo_device::Memory;
use gemelo_nbd::client::{Client, ReplyWait, Submission};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{Command, ErrorCode};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: u64 = 4096;
/// All reads that a connection has in execution: 16 lanes of 4.
const MAX_READS: usize = 64;
const READS_OF_A_LANE: u64 = 4;

fn served() -> (Arc<Gated>, TestServer) {
    let device = Arc::new(Gated::new(SIZE_BYTES, true));
    (Arc::clone(&device), TestServer::of(device))
}

fn served_with(config: ServerConfig) -> (Arc<Gated>, TestServer) {
    let device = Arc::new(Gated::new(SIZE_BYTES, true));
    let export = Export::new("disk", Arc::clone(&device) as _);
    (device, TestServer::start(vec![export], config, &[]))
}

fn write(client: &mut Client, block: u64, data: &[u8]) {
    let write = Submission::Write { offset: block * BLOCK_BYTES, data, durable: false };
    assert_eq!(client.run(write, |done| done.error).unwrap(), ErrorCode::NONE);
}

fn read(block: u64) -> Submission<'static> {
    Submission::Read { offset: block * BLOCK_BYTES, length: BLOCK_BYTES as u32 }
}

/// Sends the queued requests, and takes no reply.
fn send(client: &mut Client) {
    assert_eq!(client.reap(ReplyWait::Not, |_| {}).unwrap(), 0);
}

/// Receives this number of replies. Returns their handles, errors and data.
fn receive(client: &mut Client, replies: usize) -> Vec<(u64, ErrorCode, Vec<u8>)> {
    let mut received = Vec::new();
    while received.len() < replies {
        let take = |done: gemelo_nbd::client::CompletedRequest<'_>| {
            received.push((done.handle, done.error, done.data.to_vec()));
        };
        assert!(client.reap(ReplyWait::AtMost(PATIENCE), take).unwrap() > 0, "no reply in time");
    }
    received
}

#[test]
fn reads_of_several_batches_wait_together() {
    let (device, server) = served();
    let mut client = server.client(2 * MAX_READS);
    let data = bytes(1, MAX_READS * BLOCK_BYTES as usize);
    write(&mut client, 0, &data);
    device.hold_reads(0..SIZE_BYTES);
    for block in 0..MAX_READS as u64 {
        client.submit(block, read(block)).unwrap();
        // Each send fills a lane, so that all lanes are full even if each is received by itself.
        if block % READS_OF_A_LANE == READS_OF_A_LANE - 1 {
            send(&mut client);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert!(device.has_reads_waiting(MAX_READS), "the reads take more than one wait");
    device.open();
    for (block, error, read) in receive(&mut client, MAX_READS) {
        let expected = data.chunks(BLOCK_BYTES as usize).nth(block as usize).unwrap();
        assert!(error.is_none() && read == expected, "block {block}");
    }
    assert!(server.server.counts().overlapping >= 16);
}

#[test]
fn more_reads_than_may_be_in_execution_are_answered_as_well() {
    let (device, server) = served();
    let mut client = server.client(8 * MAX_READS);
    device.hold_reads(0..SIZE_BYTES);
    for block in 0..8 * MAX_READS as u64 {
        client.submit(block, read(block)).unwrap();
    }
    send(&mut client);
    assert!(device.has_reads_waiting(MAX_READS));
    device.open();
    let mut handles: Vec<_> =
        receive(&mut client, 8 * MAX_READS).into_iter().map(|(handle, ..)| handle).collect();
    handles.sort_unstable();
    assert!(handles.into_iter().eq(0..8 * MAX_READS as u64), "each has one reply");
}

#[test]
fn a_local_device_has_one_batch_of_a_client_at_a_time() {
    let server = TestServer::of(Arc::new(Gated::new(SIZE_BYTES, false)));
    let mut client = server.client(MAX_READS);
    (0..MAX_READS as u64).for_each(|block| client.submit(block, read(block)).unwrap());
    receive(&mut client, MAX_READS);
    assert_eq!(server.server.counts().overlapping, 0);
}

#[test]
fn a_flush_covers_what_was_answered_and_holds_nothing_up() {
    let (device, server) = served();
    let mut client = server.client(8);
    write(&mut client, 0, &[1; BLOCK_BYTES as usize]);
    device.hold_flushes();
    // A write that was received together with the flush is executed before it as well.
    let second = Submission::Write { offset: BLOCK_BYTES, data: &[2; 512], durable: false };
    client.submit(1, second).unwrap();
    client.submit(2, Submission::Flush).unwrap();
    let mut answered = Vec::new();
    client.reap(ReplyWait::Not, |done| answered.push(done.handle)).unwrap();
    assert!(device.has_flushes_waiting(1));
    assert_eq!(device.flushes(), [2]);
    if answered.is_empty() {
        answered.push(receive(&mut client, 1)[0].0);
    }
    assert_eq!(answered, [1], "the write is answered before the flush");
    write(&mut client, 2, &[3; BLOCK_BYTES as usize]);
    let read = client.run(read(2), |done| done.data.to_vec()).unwrap();
    assert_eq!(read, [3; BLOCK_BYTES as usize]);
    // A further flush covers the last write, and waits beside the first one.
    client.submit(3, Submission::Flush).unwrap();
    send(&mut client);
    assert!(device.has_flushes_waiting(2));
    assert_eq!(device.flushes(), [2, 3]);
    device.open();
    let mut flushed: Vec<_> =
        receive(&mut client, 2).into_iter().map(|(handle, error, _)| (handle, error)).collect();
    flushed.sort_unstable_by_key(|(handle, _)| *handle);
    assert_eq!(flushed, [(2, ErrorCode::NONE), (3, ErrorCode::NONE)]);
    // Everything is flushed, so the end of the connection flushes nothing.
    client.disconnect().unwrap();
    eventually("the connection ends", || server.server.connections(None) == 0);
    assert_eq!(device.flushes(), [2, 3]);
}

#[test]
fn a_write_after_a_flush_began_is_flushed_when_the_connection_ends() {
    let (device, server) = served();
    let mut client = server.client(8);
    write(&mut client, 0, &[1; 512]);
    device.hold_flushes();
    client.submit(1, Submission::Flush).unwrap();
    send(&mut client);
    assert!(device.has_flushes_waiting(1));
    write(&mut client, 1, &[2; 512]);
    device.open();
    receive(&mut client, 1);
    drop(client);
    eventually("the connection ends", || server.server.connections(None) == 0);
    assert_eq!(device.flushes(), [1, 2]);
}

#[test]
fn durable_writes_keep_their_data_while_more_is_received() {
    let (device, server) = served();
    let mut client = server.client(64);
    device.hold_flushes();
    let lengths: Vec<usize> = (0..12).map(|at| 512 << (at % 9)).collect();
    let data: Vec<Vec<u8>> = (0..12).map(|at| bytes(at, lengths[at as usize])).collect();
    let offset = |at: usize| at as u64 * (1 << 20);
    for (at, data) in data.iter().enumerate() {
        let write = Submission::Write { offset: offset(at), data, durable: true };
        client.submit(at as u64, write).unwrap();
        client.reap(ReplyWait::Not, |_| panic!("nothing is durable yet")).unwrap();
    }
    assert!(device.has_flushes_waiting(3), "one of each lane");
    // Other data passes through the memory of the connection meanwhile.
    write(&mut client, 15 << 8, &[0xee; 1 << 20]);
    device.open();
    assert!(receive(&mut client, 12).iter().all(|(_, error, _)| error.is_none()));
    for (at, data) in data.iter().enumerate() {
        let read = Submission::Read { offset: offset(at), length: lengths[at] as u32 };
        assert!(client.run(read, |done| done.data == data).unwrap(), "write {at}");
    }
    assert_eq!(device.memory.immediate.load(Relaxed), 12);
}

#[test]
fn an_error_leaves_other_requests_right() {
    let (device, server) = served();
    let mut client = server.client(MAX_READS);
    let data = bytes(3, MAX_READS * BLOCK_BYTES as usize);
    write(&mut client, 0, &data);
    device.memory.fail(5 * BLOCK_BYTES..6 * BLOCK_BYTES, Fault::Io);
    (0..MAX_READS as u64).for_each(|block| client.submit(block, read(block)).unwrap());
    for (block, error, read) in receive(&mut client, MAX_READS) {
        let expected = data.chunks(BLOCK_BYTES as usize).nth(block as usize).unwrap();
        assert_eq!(error, if block == 5 { ErrorCode::IO } else { ErrorCode::NONE });
        assert!(block == 5 || read == expected, "block {block}");
    }
}

#[test]
fn a_panic_ends_the_connection_after_the_replies_of_others() {
    let (device, mut server) = served();
    let mut client = server.client(8);
    device.memory.fail(0..512, Fault::Panic);
    device.hold_reads(BLOCK_BYTES..2 * BLOCK_BYTES);
    client.submit(1, read(1)).unwrap();
    send(&mut client);
    assert!(device.has_reads_waiting(1));
    client.submit(0, read(0)).unwrap();
    send(&mut client);
    let warns = |server: &TestServer| {
        let warnings = server.heard.warnings();
        warnings.iter().any(|warning| warning.contains("the device panicked at a request"))
    };
    // The panicking lane ends, and the other one still waits.
    eventually("one is left", || device.has_reads_waiting(1));
    device.open();
    let replies = receive(&mut client, 1);
    assert_eq!((replies[0].0, replies[0].1), (1, ErrorCode::NONE));
    assert!(client.reap(ReplyWait::AtMost(PATIENCE), |_| {}).is_err());
    eventually("its place is free", || server.server.connections(None) == 0);
    eventually("the panic is reported", || warns(&server));
    let mut other = server.client(1);
    write(&mut other, 2, &[7; 512]);
    server.stop().unwrap();
}

#[test]
fn memory_stays_bounded_however_many_slow_requests_there_are() {
    const LONG_BYTES: u32 = 1 << 20;
    const CLIENTS: usize = 4;
    const READS: usize = 16;
    let memory = Memory::new(16 << 20, CLIENTS);
    let config = ServerConfig { memory: memory.clone(), ..ServerConfig::default() };
    let (device, server) = served_with(config);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.client(READS)).collect();
    device.hold_reads(0..SIZE_BYTES);
    for client in &mut clients {
        for at in 0..READS as u64 {
            let read = Submission::Read { offset: at << 20, length: LONG_BYTES };
            client.submit(at, read).unwrap();
        }
        send(client);
    }
    assert!(device.has_reads_waiting(CLIENTS), "each client has some in execution");
    assert!(memory.used_bytes() <= memory.limit_bytes(), "{}", memory.used_bytes());
    device.open();
    for client in &mut clients {
        assert!(receive(client, READS).iter().all(|(_, error, _)| error.is_none()));
        assert!(memory.used_bytes() <= memory.limit_bytes(), "{}", memory.used_bytes());
    }
    eventually("silent connections release memory", || {
        memory.used_bytes() == CLIENTS * 2 * (64 << 10)
    });
    drop(clients);
    eventually("all have gone", || memory.used_bytes() == 0);
}

#[test]
fn a_client_that_takes_no_replies_leaves_threads_to_others() {
    let (device, server) = served_with(ServerConfig { max_helpers: 8, ..ServerConfig::default() });
    let mut greedy = server.client(32);
    for at in 1..33 {
        greedy.submit(at, Submission::Read { offset: at << 20, length: 1 << 20 }).unwrap();
    }
    send(&mut greedy);
    let mut modest = server.client(8);
    device.hold_reads(0..BLOCK_BYTES);
    // The first read waits at the gate, and the others overlap with it.
    modest.submit(0, read(0)).unwrap();
    send(&mut modest);
    assert!(device.has_reads_waiting(1));
    for block in 1..100 {
        modest.submit(block, read(block)).unwrap();
        assert_eq!(receive(&mut modest, 1)[0].0, block);
    }
    device.open();
    assert_eq!(receive(&mut modest, 1)[0].0, 0);
    // The replies of the greedy client are all there once it takes them.
    assert_eq!(receive(&mut greedy, 32).len(), 32);
}

#[test]
fn without_threads_and_memory_requests_are_executed_one_batch_after_the_other() {
    let little = Memory::new(0, 1);
    for config in [
        ServerConfig { max_helpers: 0, ..ServerConfig::default() },
        ServerConfig { memory: little, ..ServerConfig::default() },
    ] {
        let (_, server) = served_with(config);
        let mut client = server.client(MAX_READS + 1);
        let data = bytes(4, MAX_READS * BLOCK_BYTES as usize);
        write(&mut client, 0, &data);
        (0..MAX_READS as u64).for_each(|block| client.submit(block, read(block)).unwrap());
        client.submit(99, Submission::Flush).unwrap();
        for (block, error, read) in receive(&mut client, MAX_READS + 1) {
            let expected = data.chunks(BLOCK_BYTES as usize).nth(block as usize);
            assert!(error.is_none() && read == expected.unwrap_or_default(), "block {block}");
        }
        assert_eq!(server.server.counts().overlapping, 0);
    }
}

#[test]
fn requests_in_execution_end_before_their_connection_does() {
    let (device, server) = served();
    let mut client = negotiated(&server);
    client.write_all(&request(Command::WRITE, 0, 0, 512)).unwrap();
    client.write_all(&[1; 512]).unwrap();
    assert_eq!(read_simple_reply(&mut client), ErrorCode::NONE);
    device.hold_reads(0..SIZE_BYTES);
    client.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    assert!(device.has_reads_waiting(1));
    drop(client);
    // The end of the stream has no effect while a request is in execution.
    let mut other = server.client(1);
    write(&mut other, 1, &[2; 512]);
    assert_eq!((server.server.connections(None), device.flushes().len()), (2, 0));
    device.open();
    eventually("the connection ends", || server.server.connections(None) == 1);
    assert_eq!(device.flushes().len(), 1, "the write was flushed");
}

#[test]
fn stopping_waits_for_requests_in_execution_and_answers_them() {
    let (device, mut server) = served();
    let mut client = server.client(8);
    device.hold_reads(0..SIZE_BYTES);
    (0..8).for_each(|block| client.submit(block, read(block)).unwrap());
    send(&mut client);
    assert!(device.has_reads_waiting(8));
    server.raise_stop();
    eventually("the server has stopped to listen", || !server.socket().exists());
    device.open();
    assert!(receive(&mut client, 8).iter().all(|(_, error, _)| error.is_none()));
    server.stop().unwrap();
}

#[test]
fn long_requests_and_short_ones_do_not_mix() {
    const LONG_BYTES: usize = 5 << 20;
    let (_, server) = served();
    let mut client = server.client(16);
    let data = bytes(6, LONG_BYTES);
    write(&mut client, 0, &data);
    for round in 0..4 {
        for at in 0..3 {
            client.submit(round * 10 + at, read(at)).unwrap();
        }
        let long = Submission::Read { offset: 0, length: LONG_BYTES as u32 };
        client.submit(round * 10 + 9, long).unwrap();
    }
    for (handle, error, read) in receive(&mut client, 16) {
        let start = if handle % 10 == 9 { 0 } else { (handle % 10) as usize * 4096 };
        assert!(error.is_none() && read[..] == data[start..start + read.len()], "{handle}");
    }
}

#[test]
fn a_client_that_waits_for_a_reply_is_not_idle() {
    const IDLE: Duration = Duration::from_millis(400);
    let config = ServerConfig { idle_timeout: Some(IDLE), ..ServerConfig::default() };
    let (device, server) = served_with(config);
    let mut client = negotiated(&server);
    device.hold_reads(0..SIZE_BYTES);
    client.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    assert!(device.has_reads_waiting(1));
    std::thread::sleep(3 * IDLE);
    device.open();
    for _ in 0..2 {
        assert_eq!(read_simple_reply(&mut client), ErrorCode::NONE);
        client.read_exact(&mut [0; 512]).unwrap();
        client.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    }
    assert_eq!(read_simple_reply(&mut client), ErrorCode::NONE);
    assert_closed(client);
}
