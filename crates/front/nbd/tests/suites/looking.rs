//! Tests of looking for the next request before sleeping: for whom the server looks, and how long.

use crate::support::memory::MemoryDevice;
use crate::support::raw::{negotiated, read_simple_reply, request};
use crate::support::{PATIENCE, TestServer};
use gemelo_device::Export;
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{Command, ErrorCode};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The pause of a client between requests. On a busy machine no thread looks for much longer.
const PAUSE: Duration = Duration::from_micros(50);
/// A time of looking that is longer than that.
const LONG: Duration = Duration::from_millis(100);
/// A pause of a client that is longer than the time of looking.
const LONG_PAUSE: Duration = Duration::from_millis(300);
const REQUESTS: u64 = 100;

/// A client of a server that looks for this time; [`None`] on a machine with one processor, where
/// no server looks.
fn served(busy_wait: Duration) -> Option<(TestServer, UnixStream)> {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        gemelo_tools::missing("a second processor");
        return None;
    }
    let export = Export::new("disk", Arc::new(MemoryDevice::new(1 << 20)));
    let config = ServerConfig { busy_wait, ..ServerConfig::default() };
    let server = TestServer::start(vec![export], config, &[]);
    let client = negotiated(&server);
    Some((server, client))
}

/// Sends flushes together after a pause, and receives the replies.
fn flush(client: &mut UnixStream, pause: Duration, together: usize) {
    std::thread::sleep(pause);
    client.write_all(&request(Command::FLUSH, 0, 0, 0).repeat(together)).unwrap();
    for _ in 0..together {
        assert_eq!(read_simple_reply(client), ErrorCode::NONE);
    }
}

fn found(server: &TestServer) -> u64 {
    server.server.counts().found
}

#[test]
fn a_server_finds_requests_that_come_soon_and_does_not_look_longer_than_it_may() {
    let Some((server, mut client)) = served(LONG) else { return };
    let begun = Instant::now();
    while found(&server) < 3 {
        flush(&mut client, PAUSE, 1);
        assert!(begun.elapsed() < PATIENCE, "none is found");
    }
    let before = found(&server);
    for _ in 0..5 {
        flush(&mut client, LONG_PAUSE, 1);
    }
    // A thread that lost its processor for the whole pause may find one.
    assert!(found(&server) < before + 5, "it has looked until a request came");
}

#[test]
fn a_server_does_not_look_without_time_or_for_a_client_with_several_requests_in_flight() {
    for (busy_wait, together) in [(Duration::ZERO, 1), (LONG, 2)] {
        let Some((server, mut client)) = served(busy_wait) else { return };
        for _ in 0..REQUESTS {
            flush(&mut client, PAUSE, together);
        }
        assert_eq!(found(&server), 0, "{busy_wait:?}, {together} requests");
    }
}
