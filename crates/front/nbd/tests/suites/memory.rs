//! Tests of the server's memory. Announced data takes none, received data takes little, and all of
//! it is released. Long requests succeed even with very little memory.

use crate::support::memory::{Fault, MemoryDevice};
use crate::support::raw::{negotiated, read_chunks, read_simple_reply, request, structured};
use crate::support::{TestServer, bytes, eventually};
use gemelo_device::Memory;
use gemelo_device::{BlockDevice, DeviceError, Export, Extent, Geometry, Operation, Request};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{COMMAND_FLAG_DF, COMMAND_FLAG_FUA, Command, ErrorCode};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const MEBIBYTE: usize = 1 << 20;
const LONGEST: u32 = 32 << 20;

/// A device that discards writes, so that all memory is the server's.
struct Forgetful;

impl BlockDevice for Forgetful {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: 1 << 30,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: LONGEST,
            read_only: false,
        }
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        for request in batch {
            if let Operation::Read { buffer, .. } = &mut request.operation {
                buffer.fill(7);
            }
        }
    }

    fn extents(&self, _offset: u64, length: u64, _most: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(vec![Extent { length, allocated: true, zero: false }])
    }
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

fn start(device: Arc<dyn BlockDevice>, memory: &Memory) -> TestServer {
    let config = ServerConfig { memory: memory.clone(), ..ServerConfig::default() };
    TestServer::start(vec![Export::new("disk", device)], config, &[])
}

#[test]
fn announced_writes_take_no_memory_and_what_requests_took_comes_back() {
    const CLIENTS: usize = 100;
    let memory = Memory::default();
    let server = start(Arc::new(Forgetful), &memory);
    let mut clients: Vec<UnixStream> = (0..CLIENTS).map(|_| negotiated(&server)).collect();
    let piece = vec![9; MEBIBYTE];
    // 64 KiB for receiving, and the same for replies.
    let reserved = CLIENTS * 2 * (64 << 10);
    eventually("all are there", || memory.used_bytes() == reserved);
    let before = resident_bytes();
    let grown = |what: &str| {
        let grown = resident_bytes().saturating_sub(before);
        println!("{what}: {} KiB resident, {} KiB granted", grown >> 10, memory.used_bytes() >> 10);
        grown
    };

    // The headers announce 3.2 GB.
    for client in &mut clients {
        client.write_all(&request(Command::WRITE, 0, 0, LONGEST)).unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(grown("announced") < 4 * MEBIBYTE);
    assert_eq!(memory.used_bytes(), reserved);

    // The announced data, from one client after another.
    for client in &mut clients {
        for _ in 0..LONGEST as usize / MEBIBYTE {
            client.write_all(&piece).unwrap();
        }
        assert_eq!(read_simple_reply(client), ErrorCode::NONE);
    }
    assert!(grown("sent") < memory.limit_bytes() && memory.used_bytes() < memory.limit_bytes());
    // The longest reads as well, each of which is answered by one simple reply.
    let mut data = vec![0; LONGEST as usize];
    for client in clients.iter_mut().take(8) {
        client.write_all(&request(Command::READ, 0, 0, LONGEST)).unwrap();
        assert_eq!(read_simple_reply(client), ErrorCode::NONE);
        client.read_exact(&mut data).unwrap();
        assert!(data.iter().all(|byte| *byte == 7));
    }
    drop(data);
    grown("read");
    eventually("buffers are small again", || memory.used_bytes() == reserved);
    assert!(grown("after a pause") < 8 * MEBIBYTE);
    drop(clients);
    eventually("all have gone", || memory.used_bytes() == 0);
}

/// Makes a device of some MiB with noise in it, and returns it with the noise.
fn noisy(seed: u64, length: usize) -> (Arc<MemoryDevice>, Vec<u8>) {
    let device = Arc::new(MemoryDevice::new(length as u64));
    let data = bytes(seed, length);
    let mut write = [Request {
        operation: Operation::Write {
            offset: 0,
            data: &data,
            durability: gemelo_device::Durability::Flushed,
        },
        outcome: Ok(()),
    }];
    device.execute(&mut write);
    (device, data)
}

#[test]
fn long_requests_succeed_however_little_memory_there_is() {
    const LENGTH: usize = 9 * MEBIBYTE + 12_345;
    for limit_bytes in [0, MEBIBYTE, 8 * MEBIBYTE, 256 * MEBIBYTE] {
        let memory = Memory::new(limit_bytes, 2);
        let (device, data) = noisy(limit_bytes as u64, LENGTH);
        let server = start(Arc::clone(&device) as _, &memory);
        let (mut plain, mut chunked) = (negotiated(&server), structured(&server));
        let length = (LENGTH - 1000) as u32;
        let expected = &data[1000..];

        plain.write_all(&request(Command::READ, 0, 1000, length)).unwrap();
        assert_eq!(read_simple_reply(&mut plain), ErrorCode::NONE);
        let mut found = vec![0; length as usize];
        plain.read_exact(&mut found).unwrap();
        assert!(found == expected, "simple, {limit_bytes}");
        for flags in [0, COMMAND_FLAG_DF] {
            chunked.write_all(&request(Command::READ, flags, 1000, length)).unwrap();
            let (found, error) = read_chunks(&mut chunked, 1000);
            assert!(error.is_none() && found == expected, "in chunks, {limit_bytes}, {flags}");
        }
        // This covers requests that would be executed whole with more memory, unusual offsets, and
        // the requests that follow.
        for (seed, length) in
            [(1, 100_000), (2, 2 * MEBIBYTE), (3, 2 * MEBIBYTE + 1), (4, 8_765_432)]
        {
            let data = bytes(seed, length);
            plain
                .write_all(&request(Command::WRITE, COMMAND_FLAG_FUA, 777, length as u32))
                .unwrap();
            plain.write_all(&data).unwrap();
            plain.write_all(&request(Command::CACHE, 0, 777, length as u32)).unwrap();
            plain.write_all(&request(Command::READ, 0, 777, length as u32)).unwrap();
            for _ in 0..3 {
                assert_eq!(read_simple_reply(&mut plain), ErrorCode::NONE);
            }
            let mut found = vec![0; length];
            plain.read_exact(&mut found).unwrap();
            assert!(found == data, "{length} with {limit_bytes}");
        }
        let durable = device.immediate.load(Relaxed) + device.flushes.load(Relaxed);
        assert!(durable >= 4, "each of the writes was made durable: {durable}");
        drop((plain, chunked));
        eventually("all have gone", || memory.used_bytes() == 0);
    }
}

#[test]
fn a_long_request_that_fails_in_the_middle_is_answered_and_the_connection_stays() {
    const LENGTH: u32 = 8 << 20;
    for limit_bytes in [0, 256 * MEBIBYTE] {
        let (device, data) = noisy(3, LENGTH as usize);
        device.fail(5 << 20..(5 << 20) + 1, Fault::NoSpace);
        let server = start(device, &Memory::new(limit_bytes, 2));
        let (mut plain, mut chunked) = (negotiated(&server), structured(&server));
        plain.write_all(&request(Command::READ, 0, 0, LENGTH)).unwrap();
        assert_eq!(read_simple_reply(&mut plain), ErrorCode::NO_SPACE);
        plain.write_all(&request(Command::WRITE, COMMAND_FLAG_FUA, 0, LENGTH)).unwrap();
        plain.write_all(&data).unwrap();
        assert_eq!(read_simple_reply(&mut plain), ErrorCode::NO_SPACE);
        for flags in [0, COMMAND_FLAG_DF] {
            chunked.write_all(&request(Command::READ, flags, 0, LENGTH)).unwrap();
            let (found, error) = read_chunks(&mut chunked, 0);
            assert!(error == ErrorCode::NO_SPACE && found == data[..found.len()], "{flags}");
        }
        // A request beyond the end fails, and both connections continue in step.
        plain.write_all(&request(Command::WRITE, 0, 1 << 20, LENGTH)).unwrap();
        plain.write_all(&data).unwrap();
        assert_eq!(read_simple_reply(&mut plain), ErrorCode::NO_SPACE);
        chunked.write_all(&request(Command::READ, 0, 4096, 4096)).unwrap();
        assert!(read_chunks(&mut chunked, 4096) == (data[4096..8192].to_vec(), ErrorCode::NONE));
        assert_eq!(server.server.counts().broken, 0);
    }
}

#[test]
fn greedy_clients_leave_memory_for_others() {
    let memory = Memory::new(48 * MEBIBYTE, 32);
    let server = start(Arc::new(Forgetful), &memory);
    // Each client requests the longest read, and accepts nothing of it.
    let mut greedy: Vec<UnixStream> = (0..20).map(|_| negotiated(&server)).collect();
    for client in &mut greedy {
        client.write_all(&request(Command::READ, 0, 0, 20 << 20)).unwrap();
    }
    eventually("memory is taken", || memory.used_bytes() > 20 * MEBIBYTE);
    std::thread::sleep(Duration::from_millis(100));
    assert!(memory.used_bytes() <= memory.limit_bytes());
    let mut modest = negotiated(&server);
    let mut data = vec![0; 4 * MEBIBYTE];
    let begun = std::time::Instant::now();
    for length in [4096, MEBIBYTE, 4 * MEBIBYTE] {
        modest.write_all(&request(Command::READ, 0, 0, length as u32)).unwrap();
        assert_eq!(read_simple_reply(&mut modest), ErrorCode::NONE);
        modest.read_exact(&mut data[..length]).unwrap();
    }
    println!("others' reads beside greedy clients: {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5));
}
