//! Tests of a queue of the kernel's NBD.

use super::*;
use crate::kept::Kept;
use gemelo_device::{BlockDevice, Extent, Geometry};
use rustix::event::{EventfdFlags, eventfd};

/// A device in memory whose every other request of a batch may fail.
struct InMemory {
    bytes: Mutex<Vec<u8>>,
    longest: Mutex<usize>,
    fails: bool,
}

impl BlockDevice for InMemory {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: 1 << 20,
            minimum_block_bytes: 512,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 4096,
            read_only: false,
        }
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        let mut bytes = self.bytes.lock().unwrap();
        for (number, request) in batch.iter_mut().enumerate() {
            let mut length = 0;
            match &mut request.operation {
                Operation::Read { offset, buffer } => {
                    length = buffer.len();
                    buffer.copy_from_slice(&bytes[*offset as usize..][..length]);
                }
                Operation::Write { offset, data, .. } => {
                    length = data.len();
                    bytes[*offset as usize..][..length].copy_from_slice(data);
                }
                Operation::Trim { offset, length, .. }
                | Operation::WriteZeroes { offset, length, .. } => {
                    bytes[*offset as usize..][..*length as usize].fill(0);
                }
                Operation::Flush => {}
            }
            let mut longest = self.longest.lock().unwrap();
            *longest = longest.max(length);
            if self.fails && number % 2 == 1 {
                request.outcome = Err(DeviceError::NoSpace);
            }
        }
    }

    fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
        Ok(Vec::new())
    }
}

fn side(fails: bool) -> (Arc<Side>, Arc<InMemory>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Mutex::new(vec![7; 1 << 20]);
    let device = Arc::new(InMemory { bytes, longest: Mutex::default(), fails });
    let side = Side {
        device: Arc::clone(&device) as _,
        stop: eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        write_through: false,
        kept: Kept::create(&directory.path().join("new/kept"), 1, 1, true).unwrap(),
    };
    (Arc::new(side), device, directory)
}

fn request(command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(*b"cookie12");
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(data);
    bytes
}

fn input(bytes: Vec<u8>) -> Input {
    Input { filled: bytes.len(), bytes }
}

#[test]
fn a_request_is_read_once_it_is_there_as_a_whole() {
    let bytes = [request(WRITE, FUA, 4096, 512, &[5; 512]), request(READ, 0, 0, 512, &[])].concat();
    for end in 0..=bytes.len() {
        let (asked, used) = input(bytes[..end].to_vec()).requests().unwrap();
        let expected = [28 + 512, 56 + 512].iter().filter(|whole| **whole <= end).count();
        assert_eq!((asked.len(), used), (expected, [0, 540, 568][expected]), "{end}");
    }
    let write = parse(&bytes, 0).unwrap().unwrap();
    assert_eq!((write.command, write.flags, write.offset, write.length), (WRITE, FUA, 4096, 512));
    assert_eq!((write.cookie, write.data), (*b"cookie12", 28..540));
}

#[test]
fn what_the_kernel_cannot_send_is_refused() {
    let good = request(READ, 0, 0, MAX_REQUEST_BYTES as u32, &[]);
    assert!(parse(&good, 0).unwrap().is_some());
    for command in [READ, WRITE] {
        let too_long = request(command, 0, 0, MAX_REQUEST_BYTES as u32 + 1, &[]);
        assert!(parse(&too_long, 0).is_err());
    }
    assert!(parse(&request(TRIM, 0, 0, u32::MAX, &[]), 0).unwrap().is_some());
    let mut strange = good;
    strange[0] ^= 1;
    assert!(parse(&strange, 0).is_err());
}

fn replies(side: &Side, bytes: Vec<u8>) -> Vec<u8> {
    let input = input(bytes);
    let (asked, end) = input.requests().unwrap();
    assert_eq!(end, input.filled);
    let mut output = vec![9; 3];
    execute(side, None, 4096, (&input.bytes[..end], &asked), &mut output);
    output
}

fn head(error: u32) -> Vec<u8> {
    [&REPLY_MAGIC.to_be_bytes()[..], &error.to_be_bytes(), b"cookie12"].concat()
}

#[test]
fn long_requests_are_executed_in_pieces_and_answered_as_one() {
    let (side, device, _directory) = side(false);
    let data: Vec<u8> = (0..10_240u32).map(|byte| (byte / 100) as u8).collect();
    let asked = [
        request(WRITE, 0, 512, 10_240, &data),
        request(FLUSH, 0, 0, 0, &[]),
        request(READ, 0, 512, 10_240, &[]),
        request(TRIM, 0, 0, 512, &[]),
        request(WRITE_ZEROES, NO_HOLE, 512, 512, &[]),
        request(77, 0, 0, 512, &[]),
    ];
    let expected = [head(0), head(0), head(0), data.clone(), head(0), head(0), head(22)].concat();
    assert_eq!(replies(&side, asked.concat()), expected);
    assert_eq!(*device.longest.lock().unwrap(), 4096);
    let bytes = device.bytes.lock().unwrap();
    assert_eq!((&bytes[..1024], &bytes[1024..10_752]), (&[0; 1024][..], &data[512..]));
}

#[test]
fn a_request_fails_with_any_of_its_pieces() {
    let (side, ..) = side(true);
    let asked = [
        request(READ, 0, 0, 4096, &[]),
        request(WRITE, 0, 0, 8192, &[1; 8192]),
        request(FLUSH, 0, 0, 0, &[]),
        request(READ, 0, 0, 512, &[]),
    ];
    let output = replies(&side, asked.concat());
    let heads = [0, 4112, 4128, 4144].map(|at| output[at..at + 16].to_vec());
    let no_space = 28;
    assert_eq!(heads, [head(0), head(no_space), head(no_space), head(0)]);
}

#[test]
fn a_batch_waits_for_those_of_closed_sockets_and_none_of_a_closed_one_begins() {
    let (ours, theirs): (Vec<_>, Vec<_>) = (0..2).map(|_| UnixStream::pair().unwrap()).unzip();
    let links = Links::new(ours);
    assert!(links.begin(0).unwrap());
    assert!(links.begin(1).unwrap(), "open sockets do not wait for each other");
    links.end(1);
    theirs[0].shutdown(std::net::Shutdown::Both).unwrap();
    std::thread::scope(|scope| {
        let begun = scope.spawn(|| links.begin(1).unwrap());
        gemelo_base::pause(Duration::from_millis(100));
        assert!(!begun.is_finished(), "the first batch is still being executed");
        links.end(0);
        assert!(begun.join().unwrap());
    });
    links.end(1);
    assert!(!links.begin(0).unwrap(), "its socket is closed");
    assert!(links.begin(1).unwrap(), "what did not begin keeps nobody waiting");
}
