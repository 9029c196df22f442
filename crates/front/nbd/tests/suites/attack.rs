//! Runs a well-behaved client beside attackers on raw sockets. Its requests must succeed, and its
//! latency must stay bounded.

use crate::support::memory::MemoryDevice;
use crate::support::raw::{negotiated, read_simple_reply, request};
use crate::support::{TestServer, bytes, eventually};
use gemelo_base::StopFlag;
use gemelo_base::random::Random;
use gemelo_device::Export;
use gemelo_device::Memory;
use gemelo_nbd::client::Submission;
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{
    Command, ErrorCode, GREETING_BYTES, OptionCode, OptionHeader, REQUEST_BYTES,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Duration of each single attack, and of all attacks together.
const ATTACK: Duration = Duration::from_millis(600);
const ALL: Duration = Duration::from_millis(1500);
/// Bound for the latency of 99 in 100 requests. An attack that blocks a client does so for seconds,
/// and a busy machine does not.
const SLOWEST: Duration = Duration::from_millis(250);

const SIZE_BYTES: u64 = 64 << 20;
const MEMORY_BYTES: usize = 64 << 20;

/// State that the attackers share.
struct Attack<'a> {
    server: &'a TestServer,
    address: String,
    is_over: StopFlag,
    /// Number of connections or messages of the attackers.
    strikes: AtomicU64,
}

impl Attack<'_> {
    fn goes_on(&self) -> bool {
        self.strikes.fetch_add(1, Ordering::Relaxed);
        // Attackers must load the server, and not the processors of this machine.
        std::thread::sleep(Duration::from_micros(200));
        !self.is_over.is_raised()
    }

    fn wait(&self) {
        while !self.is_over.is_raised() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Opens a connection that has selected an export and whose reads and writes do not wait.
    fn inside(&self) -> UnixStream {
        let stream = negotiated(self.server);
        stream.set_nonblocking(true).unwrap();
        stream
    }
}

type Attacker = fn(&Attack<'_>);

/// Sends random bytes in every phase.
fn garbage(attack: &Attack<'_>) {
    let mut random = Random::new(7);
    while attack.goes_on() {
        let noise = bytes(random.next_u64(), random.next_u64() as usize % 5000);
        let mut stream = match random.next_u64() % 2 {
            0 => UnixStream::connect(attack.server.socket()).unwrap(),
            _ => attack.inside(),
        };
        // The server may have closed the connection, as it should.
        let _ = stream.write_all(&noise);
    }
}

/// Sends parts of headers, options and data, and then nothing.
fn halves(attack: &Attack<'_>) {
    let mut held = Vec::new();
    let mut random = Random::new(8);
    while attack.goes_on() && held.len() < 60 {
        let mut stream = attack.inside();
        let whole = [&request(Command::WRITE, 0, 0, 1 << 20)[..], &[1; 100_000]].concat();
        let _ = stream.write_all(&whole[..random.next_u64() as usize % whole.len()]);
        let mut half_open = TcpStream::connect(&attack.address).unwrap();
        let option = OptionHeader { option: OptionCode::GO, length: 60_000 }.encode();
        let _ = half_open.write_all(&[&3u32.to_be_bytes()[..], &option, b"x"].concat());
        held.push((stream, half_open));
    }
    attack.wait();
}

/// Sends the headers of the longest writes, and then their data a few bytes at a time.
fn drips(attack: &Attack<'_>) {
    let mut held: Vec<UnixStream> = (0..40).map(|_| attack.inside()).collect();
    for stream in &mut held {
        stream.write_all(&request(Command::WRITE, 0, 8 << 20, 32 << 20)).unwrap();
    }
    while attack.goes_on() {
        for stream in &mut held {
            let _ = stream.write(&[2]);
        }
    }
}

/// Opens connections at both addresses and closes them at once.
fn storm(attack: &Attack<'_>) {
    while attack.goes_on() {
        drop(TcpStream::connect(&attack.address).unwrap());
        let mut stream = UnixStream::connect(attack.server.socket()).unwrap();
        let _ = stream.read(&mut [0; GREETING_BYTES]);
    }
}

/// Opens connections and sends nothing.
fn silence(attack: &Attack<'_>) {
    let mut held = Vec::new();
    while attack.goes_on() && held.len() < 1000 {
        held.push(TcpStream::connect(&attack.address).unwrap());
    }
    attack.wait();
}

/// Requests reads of the whole device, and accepts no data.
fn greed(attack: &Attack<'_>) {
    let mut held = Vec::new();
    while attack.goes_on() && held.len() < 40 {
        let mut stream = attack.inside();
        for _ in 0..4 {
            let _ = stream.write_all(&request(Command::READ, 0, 0, 32 << 20));
        }
        held.push(stream);
    }
    attack.wait();
}

/// Returns the latencies of a client that writes and reads a few blocks at a time, and reconnects
/// now and then.
fn measure(server: &TestServer, duration: Duration) -> Vec<Duration> {
    let begun = Instant::now();
    let mut latencies = Vec::new();
    let mut client = server.client(1);
    let mut random = Random::new(1);
    while begun.elapsed() < duration {
        if latencies.len() % 50 == 49 {
            let connecting = Instant::now();
            client = server.client(1);
            latencies.push(connecting.elapsed());
        }
        let data = bytes(random.next_u64(), 8192);
        // The client alone uses the last MiB.
        let offset = SIZE_BYTES - (1 << 20) + random.next_u64() % 100 * 8192;
        let asking = Instant::now();
        let write = Submission::Write { offset, data: &data, durable: false };
        assert!(client.run(write, |done| done.error.is_none()).unwrap());
        let read = Submission::Read { offset, length: 8192 };
        assert!(client.run(read, |done| done.error.is_none() && done.data == data).unwrap());
        latencies.push(asking.elapsed() / 2);
        std::thread::sleep(Duration::from_millis(1));
    }
    latencies.sort();
    latencies
}

/// Measures a client beside these attackers, prints its latencies and checks them.
fn withstand(
    server: &TestServer,
    memory: &Memory,
    name: &str,
    attackers: &[Attacker],
    duration: Duration,
) {
    let address = server.addresses[1].to_string().strip_prefix("tcp:").unwrap().to_owned();
    let attack = Attack { server, address, is_over: StopFlag::new(), strikes: AtomicU64::new(0) };
    let mut max_bytes = 0;
    let latencies = std::thread::scope(|scope| {
        for attacker in attackers {
            scope.spawn(|| attacker(&attack));
        }
        let measured = scope.spawn(|| measure(server, duration));
        while !measured.is_finished() {
            max_bytes = max_bytes.max(memory.used_bytes());
            std::thread::sleep(Duration::from_millis(1));
        }
        attack.is_over.raise();
        measured.join().unwrap()
    });
    let at = |share: usize| latencies[(latencies.len() - 1) * share / 100];
    println!(
        "{name:8} {:6} strikes: {:4} requests, median {:8.1?}, 99th percentile {:8.1?}, slowest {:8.1?}, {:5.1} MiB",
        attack.strikes.load(Ordering::Relaxed),
        latencies.len(),
        at(50),
        at(99),
        at(100),
        max_bytes as f64 / (1 << 20) as f64
    );
    assert!(latencies.len() >= 20, "{name}: only {} requests", latencies.len());
    assert!(at(99) < SLOWEST, "{name}: {:?}", at(99));
    assert!(max_bytes <= MEMORY_BYTES, "{name}: {max_bytes} bytes");
    // The remains of all attacks must disappear with the attackers.
    eventually("the attackers have gone", || server.server.connections(None) == 0);
}

/// The writes that it has not flushed are flushed, and a failure is told whatever it sent.
#[test]
fn the_last_flush_of_a_client_that_breaks_the_protocol_is_not_forgotten() {
    let device = Arc::new(MemoryDevice::new(1 << 20));
    let server = TestServer::of(Arc::clone(&device) as _);
    for (last, count) in [(&[0; REQUEST_BYTES][..], 1), (&[], 2)] {
        let mut stream = negotiated(&server);
        stream.write_all(&request(Command::WRITE, 0, 0, 512)).unwrap();
        stream.write_all(&[7; 512]).unwrap();
        assert_eq!(read_simple_reply(&mut stream), ErrorCode::NONE);
        device.fails_flushes.store(true, Ordering::Relaxed);
        stream.write_all(last).unwrap();
        drop(stream);
        eventually("its connection has ended", || server.server.connections(None) == 0);
        let warnings = server.heard.warnings();
        let lost = |warning: &&String| warning.contains("data is lost");
        assert_eq!(warnings.iter().filter(lost).count(), count, "{warnings:?}");
    }
}

#[test]
fn a_client_beside_attackers_is_served_as_if_there_were_none() {
    let memory = Memory::new(MEMORY_BYTES, 256);
    let config = ServerConfig {
        memory: memory.clone(),
        receive_timeout: Some(Duration::from_secs(1)),
        send_timeout: Some(Duration::from_secs(1)),
        ..ServerConfig::default()
    };
    let device = Arc::new(MemoryDevice::new(SIZE_BYTES));
    let more = ["tcp:127.0.0.1:0".parse().unwrap()];
    let server = TestServer::start(vec![Export::new("disk", device)], config, &more);
    withstand(&server, &memory, "nobody", &[], ATTACK);
    let attackers: [(&str, Attacker); 6] = [
        ("garbage", garbage),
        ("halves", halves),
        ("drips", drips),
        ("storm", storm),
        ("silence", silence),
        ("greed", greed),
    ];
    for (name, attacker) in attackers {
        withstand(&server, &memory, name, &[attacker], ATTACK);
    }
    withstand(&server, &memory, "all", &attackers.map(|(_, attacker)| attacker), ALL);
    let warnings = server.heard.warnings();
    assert!(warnings.len() < 30, "a storm fills no log: {}", warnings.len());
}
