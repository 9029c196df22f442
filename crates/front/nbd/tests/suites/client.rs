//! Tests of the client against three servers: nbdkit, qemu-nbd and this one.

use crate::support::memory::{Fault, MemoryDevice};
use crate::support::{PATIENCE, TestServer, bytes, eventually, tool};
use gemelo_base::random::Random;
use gemelo_device::Export;
use gemelo_nbd::client::{Client, ClientError, NbdUri, ReplyWait, ServerAddress, Submission};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{ErrorCode, STATE_HOLE, STATE_ZERO};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 8 << 20;

/// A server process that ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn uri(socket: &Path) -> NbdUri {
    NbdUri { server: ServerAddress::Unix(socket.to_owned()), name: String::new(), tls: None }
}

fn connected(socket: &Path) -> Client {
    eventually("the server listens", || Client::connect(&uri(socket), 1, PATIENCE).is_ok());
    Client::connect(&uri(socket), 32, PATIENCE).unwrap()
}

/// The expected result of a request in flight.
enum Expected {
    Done,
    Content(Vec<u8>),
}

/// Compares the export with a model in a thousand random requests. Up to 32 are in flight, and none
/// of these overlap.
fn compare_with_a_model(client: &mut Client) {
    const PIECES: u64 = 64;
    let piece_bytes = SIZE_BYTES / PIECES;
    let mut random = Random::new(7);
    let mut model = vec![0u8; SIZE_BYTES as usize];
    let mut in_flight: BTreeMap<u64, Expected> = BTreeMap::new();
    let durable = client.export().flags.has(gemelo_nbd::wire::ExportFlags::SEND_FUA);
    for _ in 0..1000 {
        let piece = random.below(PIECES);
        while in_flight.len() == 32 || in_flight.contains_key(&piece) {
            client.reap(ReplyWait::ForOne, |done| check(&mut in_flight, done)).unwrap();
        }
        let length = 512 * (1 + random.below(piece_bytes / 512)) as u32;
        let start = (piece * piece_bytes) as usize;
        let place = start..start + length as usize;
        let offset = start as u64;
        let expected = match random.below(10) {
            0..4 => {
                let data = bytes(random.next_u64(), length as usize);
                model[place].copy_from_slice(&data);
                client.submit(piece, Submission::Write { offset, data: &data, durable }).unwrap();
                Expected::Done
            }
            4 => {
                model[place].fill(0);
                let zeroes = Submission::WriteZeroes {
                    offset,
                    length,
                    may_free: true,
                    fast: false,
                    durable: false,
                };
                client.submit(piece, zeroes).unwrap();
                Expected::Done
            }
            _ => {
                client.submit(piece, Submission::Read { offset, length }).unwrap();
                Expected::Content(model[place].to_vec())
            }
        };
        in_flight.insert(piece, expected);
    }
    while !in_flight.is_empty() {
        client.reap(ReplyWait::AtMost(PATIENCE), |done| check(&mut in_flight, done)).unwrap();
    }
    assert_eq!(client.in_flight(), 0);
    assert!(client.run(Submission::Flush, |done| done.error.is_none()).unwrap());
}

fn check(in_flight: &mut BTreeMap<u64, Expected>, done: gemelo_nbd::client::CompletedRequest<'_>) {
    assert!(done.error.is_none(), "{:?}", done.error);
    match in_flight.remove(&done.handle).unwrap() {
        Expected::Done => assert!(done.data.is_empty()),
        Expected::Content(content) => assert!(done.data == content, "piece {}", done.handle),
    }
}

#[test]
fn this_server_agrees_with_a_model() {
    let server = TestServer::of(Arc::new(MemoryDevice::new(SIZE_BYTES)));
    let mut client = server.client(32);
    compare_with_a_model(&mut client);
    client.disconnect().unwrap();
    eventually("the session ends", || server.server.connections(Some("disk")) == 0);
    assert_eq!(server.server.counts().broken, 0);
    assert!(server.server.counts().batches < server.server.counts().requests);
}

#[test]
fn this_server_over_tcp_agrees_with_a_model() {
    let disk = Export::new("disk", Arc::new(MemoryDevice::new(SIZE_BYTES)));
    let server = TestServer::start(
        vec![disk],
        ServerConfig::default(),
        &["tcp:127.0.0.1:0".parse().unwrap()],
    );
    let address = server.addresses[1].to_string().replace("tcp:", "nbd://");
    let uri: NbdUri = format!("{address}/disk").parse().unwrap();
    compare_with_a_model(&mut Client::connect(&uri, 32, PATIENCE).unwrap());
}

#[test]
fn nbdkit_agrees_with_a_model() {
    let Some(mut nbdkit) = tool("nbdkit") else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _peer =
        Peer(nbdkit.args(["-f", "-U"]).arg(&socket).args(["memory", "8M"]).spawn().unwrap());
    let mut client = connected(&socket);
    assert!(client.export().structured_replies && client.export().tells_block_status());
    compare_with_a_model(&mut client);
}

#[test]
fn an_nbdkit_that_knows_no_structured_replies_agrees_with_a_model() {
    let Some(mut nbdkit) = tool("nbdkit") else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _peer = Peer(
        nbdkit.args(["-f", "--no-sr", "-U"]).arg(&socket).args(["memory", "8M"]).spawn().unwrap(),
    );
    let mut client = connected(&socket);
    assert!(!client.export().structured_replies && !client.export().tells_block_status());
    compare_with_a_model(&mut client);
}

#[test]
fn qemu_nbd_agrees_with_a_model_and_sends_holes_in_chunks() {
    let Some(mut qemu_nbd) = tool("qemu-nbd") else { return };
    let directory = tempfile::tempdir().unwrap();
    let (socket, image) = (directory.path().join("socket"), directory.path().join("image"));
    std::fs::File::create(&image).unwrap().set_len(SIZE_BYTES).unwrap();
    let peer = qemu_nbd
        .args(["-f", "raw", "--persistent", "--shared=4", "-k"])
        .arg(&socket)
        .arg(&image)
        .spawn();
    let _peer = Peer(peer.unwrap());
    let mut client = connected(&socket);
    compare_with_a_model(&mut client);

    let data = bytes(1, 65536);
    let write = Submission::Write { offset: 1 << 20, data: &data, durable: false };
    let zeroes = |offset| Submission::WriteZeroes {
        offset,
        length: 1 << 20,
        may_free: true,
        fast: false,
        durable: false,
    };
    for submission in [zeroes(0), zeroes(1 << 20), write] {
        assert!(client.run(submission, |done| done.error.is_none()).unwrap());
    }
    let read = Submission::Read { offset: 0, length: 2 << 20 };
    let found = client.run(read, |done| done.data.to_vec()).unwrap();
    assert!(found[1 << 20..][..65536] == data && found[..1 << 20].iter().all(|byte| *byte == 0));
    let status = Submission::BlockStatus { offset: 0, length: 2 << 20, one: false };
    let extents = client.run(status, |done| done.extents.to_vec()).unwrap();
    assert_eq!(extents[0].state, STATE_HOLE | STATE_ZERO);
    assert!(extents[0].length >= 1 << 19, "{extents:?}");
}

#[test]
fn errors_reach_the_request_that_failed_and_no_other() {
    let device = Arc::new(MemoryDevice::new(SIZE_BYTES));
    device.fail(4096..8192, Fault::Io);
    device.fail(1 << 20..(1 << 20) + 1, Fault::NoSpace);
    device.fail(2 << 20..(2 << 20) + 1, Fault::Damaged);
    let server = TestServer::of(device);
    let mut client = server.client(16);
    let data = bytes(3, 4096);
    for place in 0..4 {
        client
            .submit(place, Submission::Write { offset: place * 4096, data: &data, durable: false })
            .unwrap();
    }
    client.submit(4, Submission::Write { offset: 1 << 20, data: &data, durable: false }).unwrap();
    for place in 0..4 {
        client.submit(10 + place, Submission::Read { offset: place * 4096, length: 4096 }).unwrap();
    }
    client.submit(14, Submission::Read { offset: 2 << 20, length: 4096 }).unwrap();
    client.submit(15, Submission::BlockStatus { offset: 0, length: 65536, one: false }).unwrap();
    let mut errors = BTreeMap::new();
    while client.in_flight() > 0 {
        client
            .reap(ReplyWait::ForOne, |done| {
                errors.insert(done.handle, done.error);
                let expected: &[u8] = if [10, 12, 13].contains(&done.handle) { &data } else { &[] };
                assert!(done.data == expected, "{done:?}");
            })
            .unwrap();
    }
    let failed: Vec<_> = errors.into_iter().filter(|(_, error)| !error.is_none()).collect();
    let expected = [
        (1, ErrorCode::IO),
        (4, ErrorCode::NO_SPACE),
        (11, ErrorCode::IO),
        (14, ErrorCode::IO),
        (15, ErrorCode::IO),
    ];
    assert_eq!(failed, expected);
}

#[test]
fn a_queue_takes_its_depth_and_no_more() {
    let server = TestServer::of(Arc::new(MemoryDevice::new(SIZE_BYTES)));
    let mut client = server.client(2);
    for handle in 0..2 {
        client.submit(handle, Submission::Read { offset: 0, length: 512 }).unwrap();
    }
    let full = client.submit(2, Submission::Flush);
    assert!(matches!(full, Err(ClientError::QueueFull)), "{full:?}");
    assert_eq!(client.in_flight(), 2);
}

/// Both sides have more to send than sockets hold. A client that sent without receiving would wait
/// for ever.
#[test]
fn long_writes_and_long_reads_at_once_do_not_lock_up() {
    let server = TestServer::of(Arc::new(MemoryDevice::new(SIZE_BYTES)));
    let mut client = server.client(32);
    let data = bytes(4, 4 << 20);
    for handle in 0..32 {
        let submission = if handle % 2 == 0 {
            Submission::Read { offset: 0, length: 4 << 20 }
        } else {
            Submission::Write { offset: 4 << 20, data: &data, durable: false }
        };
        client.submit(handle, submission).unwrap();
    }
    let mut completed = 0;
    while completed < 32 {
        completed +=
            client.reap(ReplyWait::AtMost(PATIENCE), |done| assert!(done.error.is_none())).unwrap();
    }
}

#[test]
fn reap_waits_as_long_as_it_is_told() {
    let server = TestServer::of(Arc::new(MemoryDevice::new(SIZE_BYTES)));
    let mut client = server.client(1);
    assert_eq!(client.reap(ReplyWait::ForOne, |_| panic!("nothing was asked")).unwrap(), 0);
    client.submit(1, Submission::Flush).unwrap();
    let mut completed = 0;
    eventually("the flush completes", || {
        completed += client.reap(ReplyWait::Not, |_| {}).unwrap();
        completed == 1
    });
}

#[test]
fn what_is_no_server_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let missing = Client::connect(&uri(&socket), 1, PATIENCE);
    assert!(matches!(missing, Err(ClientError::Io(_))), "{missing:?}");

    let silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let waited = Client::connect(&uri(&socket), 1, Duration::from_millis(50));
    assert!(
        matches!(&waited, Err(ClientError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut)
    );
    let answering = std::thread::spawn(move || {
        // The first connection is the one that the client gave up.
        let _ = silent.accept().unwrap();
        let (mut stream, _) = silent.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"220 mail.example ESMTP ready").unwrap();
    });
    let other = Client::connect(&uri(&socket), 1, PATIENCE);
    assert!(matches!(other, Err(ClientError::Wire(_))), "{other:?}");
    answering.join().unwrap();

    let server = TestServer::of(Arc::new(MemoryDevice::new(SIZE_BYTES)));
    let nobody = Client::connect(&server.uri_of("nobody"), 1, PATIENCE);
    assert!(matches!(nobody, Err(ClientError::NoSuchExport)), "{nobody:?}");
}
