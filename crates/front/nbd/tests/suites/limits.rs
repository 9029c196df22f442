//! Tests of the limits of time and number: for silent, half-open, slow and too many clients, and
//! the reports about them.

use crate::support::memory::MemoryDevice;
use crate::support::raw::{
    assert_closed, greeted, negotiated, read_option_reply, read_simple_reply, request, send_option,
};
use crate::support::{PATIENCE, TestServer, eventually};
use gemelo_device::Export;
use gemelo_nbd::client::{Client, ClientError, NbdUri, ServerAddress, Submission};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{Command, ErrorCode, InfoRequest, OptionCode, OptionReplyKind};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE_BYTES: u64 = 8 << 20;
const LIMIT: Duration = Duration::from_millis(400);

fn start(config: ServerConfig, more: &[&str]) -> TestServer {
    let more: Vec<_> = more.iter().map(|address| address.parse().unwrap()).collect();
    TestServer::start(
        vec![Export::new("disk", Arc::new(MemoryDevice::new(SIZE_BYTES)))],
        config,
        &more,
    )
}

fn tcp_address(server: &TestServer) -> String {
    server.addresses[1].to_string().strip_prefix("tcp:").unwrap().to_owned()
}

fn tells(server: &TestServer, text: &str) -> usize {
    server.heard.warnings().iter().filter(|warning| warning.contains(text)).count()
}

#[test]
fn half_sent_requests_end_and_idle_and_slow_clients_stay() {
    let server =
        start(ServerConfig { receive_timeout: Some(LIMIT), ..ServerConfig::default() }, &[]);
    let mut idle = negotiated(&server);
    let mut slow = negotiated(&server);
    for (length, sent) in [(4096, 10), (4096, 100), (1 << 20, 200_000), (4 << 20, 3 << 20)] {
        let mut half = negotiated(&server);
        let bytes = [&request(Command::WRITE, 0, 0, length)[..], &vec![1; 3 << 20]].concat();
        half.write_all(&bytes[..sent]).unwrap();
        let begun = Instant::now();
        // The slow client sends a whole request byte by byte, and takes longer than the limit.
        slow.write_all(&request(Command::READ, 0, 0, 512)[..7]).unwrap();
        for byte in &request(Command::READ, 0, 0, 512)[7..] {
            std::thread::sleep(LIMIT / 14);
            slow.write_all(&[*byte]).unwrap();
        }
        assert_eq!(read_simple_reply(&mut slow), ErrorCode::NONE);
        slow.read_exact(&mut [0; 512]).unwrap();
        assert!(begun.elapsed() > LIMIT, "the slow request took longer than the limit");
        assert_closed(half);
    }
    assert_eq!(
        tells(&server, "a part of a request and then nothing for 0.4 s"),
        1,
        "{:?}",
        server.heard.warnings()
    );
    assert_eq!(server.server.counts().broken, 4);
    idle.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    assert_eq!(read_simple_reply(&mut idle), ErrorCode::NONE);
}

#[test]
fn pauses_within_a_slow_request_do_not_add_up() {
    const IDLE: Duration = Duration::from_millis(150);
    let (idle_timeout, receive_timeout) = (Some(IDLE), Some(3 * IDLE));
    let server =
        start(ServerConfig { idle_timeout, receive_timeout, ..ServerConfig::default() }, &[]);
    let mut slow = negotiated(&server);
    for part in request(Command::READ, 0, 0, 512).chunks(5) {
        slow.write_all(part).unwrap();
        // The pause is longer than one wait of the server, and shorter than the limit.
        std::thread::sleep(IDLE * 3 / 2);
        if part.len() < 5 {
            break;
        }
    }
    assert_eq!(read_simple_reply(&mut slow), ErrorCode::NONE);
}

#[test]
fn idle_clients_end_if_that_is_wanted() {
    let server = start(ServerConfig { idle_timeout: Some(LIMIT), ..ServerConfig::default() }, &[]);
    let mut busy = negotiated(&server);
    let mut idle = negotiated(&server);
    idle.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    assert_eq!(read_simple_reply(&mut idle), ErrorCode::NONE);
    for _ in 0..8 {
        std::thread::sleep(LIMIT / 4);
        busy.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
        assert_eq!(read_simple_reply(&mut busy), ErrorCode::NONE);
        busy.read_exact(&mut [0; 512]).unwrap();
    }
    assert_closed(idle);
    eventually("one is left", || server.server.connections(None) == 1);
    assert_eq!((server.server.counts().broken, server.heard.warnings().len()), (0, 0));
}

#[test]
fn a_client_that_takes_no_replies_ends_and_one_that_takes_them_slowly_stays() {
    const LENGTH: usize = 4 << 20;
    let server = start(ServerConfig { send_timeout: Some(LIMIT), ..ServerConfig::default() }, &[]);
    let (mut greedy, mut slow) = (negotiated(&server), negotiated(&server));
    for client in [&mut greedy, &mut slow] {
        client.write_all(&request(Command::READ, 0, 0, LENGTH as u32)).unwrap();
    }
    let begun = Instant::now();
    assert_eq!(read_simple_reply(&mut slow), ErrorCode::NONE);
    let mut part = vec![0; LENGTH / 16];
    for _ in 0..16 {
        std::thread::sleep(LIMIT / 4);
        slow.read_exact(&mut part).unwrap();
    }
    assert!(begun.elapsed() > 2 * LIMIT);
    eventually("the greedy one has ended", || server.server.connections(None) == 1);
    assert_eq!(
        tells(&server, "accepted nothing of its replies for 0.4 s"),
        1,
        "{:?}",
        server.heard.warnings()
    );
    slow.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    assert_eq!(read_simple_reply(&mut slow), ErrorCode::NONE);
}

#[test]
fn thousands_of_half_open_clients_of_one_address_keep_nobody_out_of_another() {
    const HALF_OPEN: usize = 2000;
    let server = start(ServerConfig::default(), &["tcp:127.0.0.1:0"]);
    let address = tcp_address(&server);
    let mut served = negotiated(&server);
    let storm = std::thread::spawn({
        let address = address.clone();
        move || (0..HALF_OPEN).filter_map(|_| TcpStream::connect(&address).ok()).collect::<Vec<_>>()
    });
    let mut longest = Duration::ZERO;
    let mut clients = 0;
    let mut ask = || {
        let begun = Instant::now();
        let mut client = server.client(1);
        let read = Submission::Read { offset: 0, length: 4096 };
        assert_eq!(client.run(read, |done| done.error).unwrap(), ErrorCode::NONE);
        longest = longest.max(begun.elapsed());
        clients += 1;
    };
    while !storm.is_finished() {
        ask();
    }
    let storm = storm.join().unwrap();
    assert_eq!(storm.len(), HALF_OPEN);
    for _ in 0..20 {
        ask();
    }
    println!(
        "{clients} clients served beside {HALF_OPEN} half-open ones, the slowest in {longest:?}"
    );
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    // Further clients of the same address are accepted as well: the oldest half-open ones are
    // ended.
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    let uri =
        NbdUri { server: ServerAddress::Tcp("127.0.0.1".into(), port), ..server.uri_of("disk") };
    eventually("the storm was dealt with", || server.server.connections(None) <= 1 + 64);
    assert!(Client::connect(&uri, 1, PATIENCE).is_ok());
    // Clients that had selected an export are not affected.
    served.write_all(&request(Command::READ, 0, 0, 512)).unwrap();
    assert_eq!(read_simple_reply(&mut served), ErrorCode::NONE);
    assert!(server.heard.warnings().len() <= 3, "{:?}", server.heard.warnings());
}

#[test]
fn clients_that_were_too_many_are_counted_and_not_told_one_by_one() {
    let config = ServerConfig { max_connections: 1, ..ServerConfig::default() };
    let mut server = start(config, &[]);
    let first = negotiated(&server);
    for _ in 0..50 {
        assert!(Client::connect(&server.uri_of("disk"), 1, PATIENCE).is_err());
    }
    assert_eq!((server.server.counts().turned_away, server.heard.warnings().len()), (50, 1));
    // A breach of the protocol is reported as another kind.
    drop(first);
    eventually("a place is free", || server.server.connections(None) == 0);
    for _ in 0..20 {
        let mut stream = greeted(&server);
        stream.write_all(&[0xff; 4]).unwrap();
        assert_closed(stream);
    }
    server.stop().unwrap();
    let told = server.heard.warnings();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].contains("refused, because there are too many connections"), "{told:?}");
    assert!(told[1].contains("unknown client flags"), "{told:?}");
    let counted = |count: &str, what: &str| {
        told.iter().any(|warning| warning.starts_with(count) && warning.contains(what))
    };
    assert!(
        counted("49 more", "too many connections") && counted("19 more", "unknown client"),
        "{told:?}"
    );
}

#[test]
fn a_client_that_chooses_an_export_when_there_are_too_many_is_told_so() {
    let config = ServerConfig { max_connections: 1, ..ServerConfig::default() };
    let server = start(config, &[]);
    let mut late = greeted(&server);
    late.write_all(&3u32.to_be_bytes()).unwrap();
    let _first = negotiated(&server);
    send_option(&mut late, OptionCode::GO, &InfoRequest { name: "disk", wanted: vec![] }.encode());
    assert_eq!(
        read_option_reply(&mut late),
        (OptionReplyKind::ERR_POLICY, b"the server has too many clients: try again later".to_vec())
    );
    assert_closed(late);
    let refused = Client::connect(&server.uri_of("disk"), 1, PATIENCE);
    assert!(matches!(refused, Err(ClientError::Closed)), "{refused:?}");
}
