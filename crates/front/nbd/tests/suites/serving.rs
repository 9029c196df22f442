//! Tests of the life of a server: exports that are added, removed and changed, too many clients,
//! stopping, and clients and devices that hang.

use crate::support::memory::{Fault, MemoryDevice};
use crate::support::{PATIENCE, TestServer, bytes, eventually};
use gemelo_device::Export;
use gemelo_nbd::client::{Client, ClientError, ReplyWait, Submission};
use gemelo_nbd::server::{Listener, ServeError, Server, ServerConfig};
use gemelo_nbd::wire::ErrorCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const SIZE_BYTES: u64 = 1 << 20;

fn device() -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::new(SIZE_BYTES))
}

fn write(client: &mut Client, offset: u64, durable: bool) -> ErrorCode {
    client.run(Submission::Write { offset, data: &[5; 4096], durable }, |done| done.error).unwrap()
}

#[test]
fn exports_come_and_go_while_others_are_served() {
    let server = TestServer::of(device());
    let mut client = server.client(4);
    server.table.insert(Export::new("second", device()));
    let mut second = Client::connect(&server.uri_of("second"), 4, PATIENCE).unwrap();
    assert_eq!(server.server.connections(Some("second")), 1);
    server.table.remove("second").unwrap();
    assert!(Client::connect(&server.uri_of("second"), 4, PATIENCE).is_err());
    assert_eq!(write(&mut second, 0, false), ErrorCode::NONE);
    server.server.disconnect("second");
    eventually("the connection ends", || server.server.connections(Some("second")) == 0);
    let ended = second.run(Submission::Flush, |_| ());
    assert!(matches!(ended, Err(ClientError::Io(_) | ClientError::Closed)));
    assert_eq!(write(&mut client, 0, false), ErrorCode::NONE);
}

#[test]
fn the_default_export_is_the_only_one() {
    let server = TestServer::of(device());
    assert!(Client::connect(&server.uri_of(""), 1, PATIENCE).is_ok());
    server.table.insert(Export::new("half", Arc::new(MemoryDevice::new(SIZE_BYTES / 2))));
    assert!(Client::connect(&server.uri_of(""), 1, PATIENCE).is_err());
    let client = Client::connect(&server.uri_of("half"), 1, PATIENCE).unwrap();
    assert_eq!(client.export().size_bytes, SIZE_BYTES / 2);
    assert!(client.export().tells_block_status());
    assert_eq!(server.server.connections(Some("half")), 1);
}

#[test]
fn a_resize_counts_for_those_who_are_connected() {
    let device = device();
    device.resize(SIZE_BYTES / 2);
    let server = TestServer::of(Arc::clone(&device) as _);
    let mut client = server.client(1);
    assert_eq!(write(&mut client, SIZE_BYTES / 2, false), ErrorCode::NO_SPACE);
    device.resize(SIZE_BYTES);
    assert_eq!(write(&mut client, SIZE_BYTES / 2, false), ErrorCode::NONE);
    device.resize(4096);
    let read = Submission::Read { offset: SIZE_BYTES / 2, length: 4096 };
    assert_eq!(client.run(read, |done| done.error).unwrap(), ErrorCode::INVALID);
}

#[test]
fn a_server_that_writes_through_makes_every_change_durable() {
    let device = device();
    let config = ServerConfig { write_through: true, ..ServerConfig::default() };
    let export = Export::new("disk", Arc::clone(&device) as _);
    let server = TestServer::start(vec![export], config, &[]);
    let mut client = server.client(4);
    assert_eq!(write(&mut client, 0, false), ErrorCode::NONE);
    let (offset, length, durable) = (4096, 4096, false);
    let zeroes = Submission::WriteZeroes { offset, length, may_free: true, fast: false, durable };
    for change in [Submission::Trim { offset, length, durable }, zeroes] {
        assert_eq!(client.run(change, |done| done.error).unwrap(), ErrorCode::NONE);
    }
    assert_eq!(device.immediate.load(Relaxed), 3);
    client.run(Submission::Read { offset: 0, length: 4096 }, |_| ()).unwrap();
    assert_eq!((device.immediate.load(Relaxed), device.flushes.load(Relaxed)), (3, 0));
}

#[test]
fn durable_writes_and_flushes_reach_the_device() {
    let device = device();
    let server = TestServer::of(Arc::clone(&device) as _);
    let mut client = server.client(1);
    assert_eq!(write(&mut client, 0, false), ErrorCode::NONE);
    assert_eq!((device.immediate.load(Relaxed), device.flushes.load(Relaxed)), (0, 0));
    assert_eq!(write(&mut client, 0, true), ErrorCode::NONE);
    client.run(Submission::Flush, |done| assert!(done.error.is_none())).unwrap();
    assert_eq!((device.immediate.load(Relaxed), device.flushes.load(Relaxed)), (1, 1));
    client.disconnect().unwrap();
    eventually("the session ends", || server.server.connections(None) == 0);
    assert_eq!(device.flushes.load(Relaxed), 1, "nothing was left to flush");
}

#[test]
fn what_a_client_leaves_unflushed_is_flushed_when_it_goes() {
    let device = device();
    let server = TestServer::of(Arc::clone(&device) as _);
    let mut client = server.client(1);
    assert_eq!(write(&mut client, 0, false), ErrorCode::NONE);
    drop(client);
    eventually("the device is flushed", || device.flushes.load(Relaxed) == 1);
}

#[test]
fn what_is_sent_together_is_one_batch() {
    let device = device();
    let server = TestServer::of(Arc::clone(&device) as _);
    let mut client = server.client(32);
    let before = device.batches.load(Relaxed);
    for handle in 0..32 {
        client
            .submit(
                handle,
                Submission::Write { offset: handle * 4096, data: &[1; 512], durable: false },
            )
            .unwrap();
    }
    let mut completed = 0;
    while completed < 32 {
        completed += client.reap(ReplyWait::ForOne, |done| assert!(done.error.is_none())).unwrap();
    }
    assert_eq!(device.batches.load(Relaxed) - before, 1);
}

#[test]
fn a_client_too_many_is_turned_away() {
    let config = ServerConfig { max_connections: 2, ..ServerConfig::default() };
    let server = TestServer::start(vec![Export::new("disk", device())], config, &[]);
    let (first, _second) = (server.client(1), server.client(1));
    assert!(Client::connect(&server.uri_of("disk"), 1, PATIENCE).is_err());
    assert_eq!(server.server.counts().turned_away, 1);
    drop(first);
    eventually("a place is free", || Client::connect(&server.uri_of("disk"), 1, PATIENCE).is_ok());
}

#[test]
fn stopping_does_and_answers_what_was_sent_and_flushes() {
    let device = device();
    let mut server = TestServer::of(Arc::clone(&device) as _);
    let mut client = server.client(64);
    let idle = server.client(1);
    for handle in 0..64 {
        client
            .submit(
                handle,
                Submission::Write { offset: handle * 512, data: &[9; 512], durable: false },
            )
            .unwrap();
    }
    // The requests fit into a socket, so the first reap sends all of them.
    let mut completed = client.reap(ReplyWait::Not, |done| assert!(done.error.is_none())).unwrap();
    server.stop().unwrap();
    while completed < 64 {
        completed += client.reap(ReplyWait::ForOne, |done| assert!(done.error.is_none())).unwrap();
    }
    assert!(device.flushes.load(Relaxed) >= 1);
    assert!(!server.socket().exists());
    drop(idle);
}

#[test]
fn stopping_does_not_wait_for_ever_for_a_client_that_takes_no_replies() {
    let config =
        ServerConfig { stop_timeout: Duration::from_millis(200), ..ServerConfig::default() };
    let mut server = TestServer::start(vec![Export::new("disk", device())], config, &[]);
    let mut client = server.client(64);
    for handle in 0..64 {
        client.submit(handle, Submission::Read { offset: 0, length: SIZE_BYTES as u32 }).unwrap();
    }
    client.reap(ReplyWait::Not, |_| {}).unwrap();
    let begun = Instant::now();
    server.stop().unwrap();
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_device_that_panics_ends_its_connection_only() {
    let device = device();
    device.fail(0..4096, Fault::Panic);
    let mut server = TestServer::of(device);
    let mut client = server.client(1);
    assert!(client.run(Submission::Read { offset: 0, length: 512 }, |_| ()).is_err());
    eventually("its place is free", || server.server.connections(None) == 0);
    assert_eq!(write(&mut server.client(1), 8192, false), ErrorCode::NONE);
    server.stop().unwrap();
}

#[test]
fn the_network_is_not_served_without_tls_unless_that_is_allowed() {
    let open = || vec![Listener::bind(&"tcp:0.0.0.0:0".parse().unwrap()).unwrap()];
    let serve = |config: ServerConfig, stop: &gemelo_base::StopFlag| {
        let table = Arc::new(gemelo_device::ExportTable::new());
        Server::new(table, config, Arc::new(gemelo_base::Silent)).serve(open(), stop)
    };
    let stop = gemelo_base::StopFlag::new();
    stop.raise();
    let refused = serve(ServerConfig::default(), &stop);
    assert!(matches!(refused, Err(ServeError::Insecure(_))), "{refused:?}");
    assert!(serve(ServerConfig { allow_insecure: true, ..ServerConfig::default() }, &stop).is_ok());
}

#[test]
fn several_connections_read_what_the_others_have_written() {
    let server = TestServer::of(device());
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let server = &server;
            scope.spawn(move || {
                let (mut writer, mut reader) = (server.client(8), server.client(8));
                for round in 0..100 {
                    let data = bytes(thread << 32 | round, 4096);
                    let offset = (thread * 16 + round % 16) * 4096;
                    let submission = Submission::Write { offset, data: &data, durable: false };
                    assert!(writer.run(submission, |done| done.error.is_none()).unwrap());
                    let read = Submission::Read { offset, length: 4096 };
                    assert!(reader.run(read, |done| done.data == data).unwrap());
                }
            });
        }
    });
}

#[test]
fn connections_are_logged_when_they_come_and_when_they_leave() {
    let config = ServerConfig {
        log_connections: true,
        idle_timeout: Some(Duration::from_millis(1500)),
        ..ServerConfig::default()
    };
    let disk = Export::new("disk", Arc::new(MemoryDevice::new(8 << 20)));
    let mut server = TestServer::start(vec![disk], config, &["tcp:127.0.0.1:0".parse().unwrap()]);
    let mut client = server.client(4);
    assert_eq!(write(&mut client, 0, false), ErrorCode::NONE);
    // A request of one piece, and one that is executed in many.
    for length in [4096, 8 << 20] {
        let read = Submission::Read { offset: 0, length };
        assert_eq!(client.run(read, |done| done.error).unwrap(), ErrorCode::NONE);
    }
    let beyond = Submission::Read { offset: 8 << 20, length: 4096 };
    assert_ne!(client.run(beyond, |done| done.error).unwrap(), ErrorCode::NONE);
    client.disconnect().unwrap();
    let logged = |count: usize| {
        eventually("the line is logged", || server.heard.logged().len() >= count);
        server.heard.logged()[count - 1].clone()
    };
    let user = rustix::process::geteuid().as_raw();
    let peer = format!(
        "connection 0: {} (user {user}, process {})",
        server.addresses[0],
        std::process::id()
    );
    assert_eq!(logged(1), format!("{peer} connected to 'disk', not encrypted"));
    let left = logged(2);
    assert!(left.starts_with(&format!("{peer} left 'disk' after ")), "{left}");
    let traffic = "4 requests, 8.00 MiB read, 4.00 KiB written: the client ended the session";
    assert!(left.ends_with(traffic), "{left}");

    // A client that is idle, one without an export, and one that the server sees off.
    let _idle = server.client(4);
    assert!(logged(4).ends_with("0 B written: the client was idle for too long"), "{}", logged(4));
    assert!(Client::connect(&server.uri_of("nothing"), 1, PATIENCE).is_err());
    let left = logged(5);
    assert!(left.starts_with("connection 2: ") && left.contains("without an export: "), "{left}");
    let address = server.addresses[1].to_string();
    let uri = format!("nbd://{}/disk", address.strip_prefix("tcp:").unwrap());
    let _client = Client::connect(&uri.parse().unwrap(), 4, PATIENCE).unwrap();
    let connected = logged(6);
    assert!(connected.starts_with("connection 3: tcp:127.0.0.1:"), "{connected}");
    assert!(!connected.contains("user"), "{connected}");
    server.stop().unwrap();
    let left = server.heard.logged()[6].clone();
    assert!(left.ends_with("the server stops, or the volume was removed"), "{left}");
    assert!(server.heard.warnings().is_empty(), "{:?}", server.heard.warnings());
}
