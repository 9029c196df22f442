//! Tests that every request of a batch has exactly one reply, and that it is the right one, no
//! matter what the batch holds and how the device fails.

use super::super::check::NegotiatedOptions;
use super::*;
use crate::wire::{
    CHUNK_HEADER_BYTES, ChunkKind, ERROR_CHUNK_BYTES, OFFSET_DATA_HEADER_BYTES, ReplyHead,
    SIMPLE_REPLY_BYTES, decode_block_descriptors, decode_error_chunk, decode_reply_head,
};
use gemelo_device::{DeviceError, Extent, Geometry, Operation};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Mutex;

/// A device in which every byte is the number of its 512-byte sector. A request that begins at an
/// odd sector fails.
#[derive(Default)]
struct Sectors {
    written: Mutex<Vec<(u64, Vec<u8>)>>,
}

fn fails(offset: u64) -> bool {
    offset / 512 % 2 == 1
}

const GEOMETRY: Geometry = Geometry {
    size_bytes: 1 << 16,
    minimum_block_bytes: 512,
    preferred_block_bytes: 4096,
    maximum_request_bytes: 1 << 14,
    read_only: false,
};

impl BlockDevice for Sectors {
    fn geometry(&self) -> Geometry {
        GEOMETRY
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        for Request { operation, outcome } in batch {
            let offset = match operation {
                Operation::Read { offset, buffer } => {
                    buffer
                        .chunks_mut(512)
                        .zip(*offset / 512..)
                        .for_each(|(part, sector)| part.fill(sector as u8));
                    *offset
                }
                Operation::Write { offset, data, .. } => {
                    self.written.lock().unwrap().push((*offset, data.to_vec()));
                    *offset
                }
                Operation::WriteZeroes { offset, .. } | Operation::Trim { offset, .. } => *offset,
                Operation::Flush => 0,
            };
            if fails(offset) {
                *outcome = Err(DeviceError::NoSpace);
            }
        }
    }

    /// Leaves each third request that is not waited for.
    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        let mut left = Vec::new();
        for (place, request) in batch.iter_mut().enumerate() {
            let is_left = match waiting {
                Waiting::All => false,
                Waiting::First => place % 3 == 1,
                Waiting::None => place % 3 == 0,
            };
            if is_left {
                left.push(place);
            } else {
                self.execute(std::slice::from_mut(request));
            }
        }
        left
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        _max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        if fails(offset) {
            return Err(DeviceError::Damaged { offset });
        }
        Ok(vec![Extent { length, allocated: true, zero: false }])
    }
}

/// Returns the error that the request must have.
fn expected(request: &RequestHeader, rules: &Rules) -> ErrorCode {
    match check(request, rules) {
        Err(error) => error,
        Ok(()) => match request.command {
            Command::BLOCK_STATUS if fails(request.offset) => ErrorCode::IO,
            // CACHE is only advice, so it does not fail for being too long.
            Command::CACHE if request.length > rules.sizes.maximum => ErrorCode::NONE,
            Command::FLUSH => ErrorCode::NONE,
            _ if fails(request.offset) => ErrorCode::NO_SPACE,
            _ => ErrorCode::NONE,
        },
    }
}

/// Takes one reply off the front. Returns its request, its error and, for a read, its data.
fn take_reply<'a>(
    bytes: &mut &'a [u8],
    requests: &[RequestHeader],
) -> (usize, ErrorCode, &'a [u8]) {
    let head = decode_reply_head(bytes).unwrap().unwrap();
    let (cookie, error, head_bytes, body_bytes) = match head {
        ReplyHead::Simple(reply) => {
            let request = requests[reply.cookie as usize];
            let has_data = request.command == Command::READ && reply.error.is_none();
            (
                reply.cookie,
                reply.error,
                SIMPLE_REPLY_BYTES,
                if has_data { request.length as usize } else { 0 },
            )
        }
        ReplyHead::Chunk(chunk) if chunk.kind == ChunkKind::ERROR => {
            let (error, _) = decode_error_chunk(&bytes[CHUNK_HEADER_BYTES..][..6]).unwrap();
            (chunk.cookie, error, ERROR_CHUNK_BYTES, 0)
        }
        ReplyHead::Chunk(chunk) if chunk.kind == ChunkKind::OFFSET_DATA => {
            (chunk.cookie, ErrorCode::NONE, OFFSET_DATA_HEADER_BYTES, chunk.length as usize - 8)
        }
        ReplyHead::Chunk(chunk) => {
            assert_eq!(chunk.kind, ChunkKind::BLOCK_STATUS);
            let body = &bytes[CHUNK_HEADER_BYTES..][..chunk.length as usize];
            assert_eq!(decode_block_descriptors(body).unwrap().len(), 1);
            (chunk.cookie, ErrorCode::NONE, CHUNK_HEADER_BYTES + body.len(), 0)
        }
    };
    let (reply, rest) = bytes.split_at(head_bytes + body_bytes);
    *bytes = rest;
    (cookie as usize, error, &reply[head_bytes..])
}

proptest! {
    #[test]
    fn every_request_has_its_reply(
        asked in vec((0u16..10, 0u64..140, 0u32..40, 0u16..4), 1..40),
        structured_replies: bool,
        base_allocation: bool,
    ) {
        let agreed = NegotiatedOptions {
            structured_replies,
            base_allocation: base_allocation && structured_replies,
            since: false,
            zeroes_are_fast: true,
        };
        let rules = Rules::new(agreed, &GEOMETRY);
        let requests: Vec<_> = (0..).zip(asked).map(|(cookie, (command, sector, sectors, flags))| {
            let (offset, length) = if command == 3 { (0, 0) } else { (sector * 512, sectors * 512) };
            RequestHeader { flags, command: Command(command), cookie, offset, length }
        }).collect();

        let mut received = Vec::new();
        let mut batch = Batch::new(structured_replies, &Memory::default()).unwrap();
        let device = Sectors::default();
        // Several rounds, because a batch is reused.
        for (round, waiting) in (0..).zip([Waiting::All, Waiting::None, Waiting::All]) {
            received.clear();
            device.written.lock().unwrap().clear();
            batch.clear();
            for request in &requests {
                let start = received.len();
                received.resize(start + request.payload_bytes(), request.cookie as u8 ^ round);
                prop_assert!(batch.push(*request, start..received.len(), &rules));
            }
            batch.execute(&received, &device, waiting);
            prop_assert!(waiting == Waiting::None || batch.left().next().is_none());

            let mut replies = batch.replies().to_vec();
            prop_assert_eq!(batch.answered() + batch.left().count(), requests.len());
            loop {
                let left: Vec<_> = batch.left().map(|(_, left)| left).collect();
                if left.is_empty() {
                    break;
                }
                batch.empty();
                for (request, payload) in left {
                    assert!(batch.push(request, payload, &rules));
                }
                batch.execute(&received, &device, Waiting::First);
                prop_assert!(batch.answered() > 0, "the first one is not left");
                replies.extend_from_slice(batch.replies());
            }
            let mut replies = replies.as_slice();
            let mut answered = vec![false; requests.len()];
            while !replies.is_empty() {
                let (place, error, data) = take_reply(&mut replies, &requests);
                let request = requests[place];
                prop_assert!(!std::mem::replace(&mut answered[place], true));
                prop_assert_eq!(error, expected(&request, &rules), "{:?}", request);
                if request.command == Command::READ && error.is_none() {
                    prop_assert_eq!(data.len(), request.length as usize);
                    for (part, sector) in data.chunks(512).zip(request.offset / 512..) {
                        prop_assert!(part.iter().all(|byte| *byte == sector as u8));
                    }
                }
            }
            prop_assert!(answered.iter().all(|is_answered| *is_answered));

            let is_accepted = |request: &&RequestHeader| {
                request.command == Command::WRITE && check(request, &rules).is_ok()
            };
            let mut accepted: Vec<_> = requests.iter().filter(is_accepted).map(|request| {
                (request.offset, vec![request.cookie as u8 ^ round; request.length as usize])
            }).collect();
            // Requests that were left are executed later.
            let mut written = std::mem::take(&mut *device.written.lock().unwrap());
            accepted.sort_unstable();
            written.sort_unstable();
            prop_assert_eq!(written, accepted);
        }
    }
}

#[test]
fn a_batch_takes_the_memory_of_its_replies_and_no_more() {
    const READ_BYTES: u32 = 256 << 10;
    let geometry = Geometry { maximum_request_bytes: READ_BYTES, size_bytes: 1 << 20, ..GEOMETRY };
    for structured_replies in [false, true] {
        let agreed = NegotiatedOptions {
            structured_replies,
            base_allocation: false,
            since: false,
            zeroes_are_fast: false,
        };
        let memory = Memory::default();
        let mut batch = Batch::new(structured_replies, &memory).unwrap();
        let (flags, command, offset) = (0, Command::READ, 0);
        for cookie in 0..2 {
            let read = RequestHeader { flags, command, cookie, offset, length: READ_BYTES };
            assert!(batch.push(read, 0..0, &Rules::new(agreed, &geometry)));
        }
        let least = 2 * READ_BYTES as usize;
        let used = memory.used_bytes();
        assert!((least..=2 * least).contains(&used), "{used} bytes");
    }
}

#[test]
fn a_reply_buffer_that_many_batches_in_a_row_hardly_used_is_released() {
    const LONG_BYTES: u32 = 1 << 20;
    let geometry =
        Geometry { maximum_request_bytes: LONG_BYTES, size_bytes: LONG_BYTES.into(), ..GEOMETRY };
    let agreed = NegotiatedOptions {
        structured_replies: false,
        base_allocation: false,
        since: false,
        zeroes_are_fast: false,
    };
    let device = Sectors::default();
    let mut batch = Batch::new(false, &Memory::default()).unwrap();
    let mut read = |length: u32, times: u32| {
        for cookie in 0..times.into() {
            let (flags, command, offset) = (0, Command::READ, 0);
            let read = RequestHeader { flags, command, cookie, offset, length };
            assert!(batch.push(read, 0..0, &Rules::new(agreed, &geometry)));
            batch.execute(&[], &device, Waiting::All);
            batch.clear();
        }
        batch.is_grown()
    };
    assert!(read(LONG_BYTES, 1));
    assert!(read(512, ROOMY_BATCHES - 1));
    // It is counted anew.
    assert!(read(LONG_BYTES, 1) && read(512, ROOMY_BATCHES - 1));
    assert!(!read(512, 1));
}

#[test]
fn the_data_of_reads_lies_where_the_kernel_copies_fast() {
    struct Places(Mutex<Vec<usize>>);
    impl BlockDevice for Places {
        fn geometry(&self) -> Geometry {
            Geometry { size_bytes: 1 << 20, maximum_request_bytes: 1 << 20, ..GEOMETRY }
        }

        fn execute(&self, batch: &mut [Request<'_>]) {
            for request in batch {
                if let Operation::Read { buffer, .. } = &request.operation {
                    self.0.lock().unwrap().push(buffer.as_ptr().addr() % 4096);
                }
            }
        }

        fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
            Ok(Vec::new())
        }
    }
    for structured_replies in [false, true] {
        for (count, length) in [(MAX_REQUESTS, 4096), (8, 128 << 10), (1, 1 << 20)] {
            let device = Places(Mutex::default());
            let agreed = NegotiatedOptions {
                structured_replies,
                base_allocation: false,
                since: false,
                zeroes_are_fast: true,
            };
            let rules = Rules::new(agreed, &device.geometry());
            let mut batch = Batch::new(structured_replies, &Memory::default()).unwrap();
            for _ in 0..count {
                let header = RequestHeader {
                    flags: 0,
                    command: Command::READ,
                    cookie: 0,
                    offset: 0,
                    length,
                };
                assert!(batch.push(header, 0..0, &rules));
            }
            batch.execute(&[], &device, Waiting::All);
            assert_eq!(batch.replies().as_ptr().addr() % 4096, 64);
            let places = device.0.into_inner().unwrap();
            assert_eq!(places.len(), count);
            assert!(places.iter().all(|place| *place >= 64), "{places:?}");
        }
    }
}

#[test]
fn a_batch_is_full_by_its_requests_its_data_or_its_replies() {
    let geometry = Geometry { size_bytes: 1 << 20, maximum_request_bytes: 1 << 20, ..GEOMETRY };
    let agreed = NegotiatedOptions {
        structured_replies: false,
        base_allocation: false,
        since: false,
        zeroes_are_fast: true,
    };
    let fill = |command, length: u32, payload: Range<usize>| {
        let mut batch = Batch::new(false, &Memory::default()).unwrap();
        while !batch.is_full() && batch.requests() < 1000 {
            let header = RequestHeader { flags: 0, command, cookie: 0, offset: 0, length };
            assert!(batch.push(header, payload.clone(), &Rules::new(agreed, &geometry)));
        }
        batch.requests()
    };
    assert_eq!(fill(Command::FLUSH, 0, 0..0), MAX_REQUESTS);
    assert_eq!(fill(Command::WRITE, 128 << 10, 0..128 << 10), 8);
    assert_eq!(fill(Command::READ, 64 << 10, 0..0), 4);
}
