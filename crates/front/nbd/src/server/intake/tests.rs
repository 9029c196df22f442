//! Tests that a stream gives the same requests in whatever pieces it arrives, and that the buffer
//! grows only with the bytes that arrive.

use super::*;
use gemelo_device::RESERVED_BUFFER_BYTES;
use proptest::collection::vec;
use proptest::prelude::*;

fn intake() -> ReceiveBuffer {
    ReceiveBuffer::new(&Memory::default(), false).unwrap()
}

fn header(length: u32) -> RequestHeader {
    RequestHeader { flags: 0, command: Command::WRITE, cookie: 0, offset: 0, length }
}

fn write(cookie: u64, length: u32) -> Vec<u8> {
    let mut bytes = RequestHeader { cookie, ..header(length) }.encode().to_vec();
    bytes.resize(REQUEST_BYTES + length as usize, cookie as u8);
    bytes
}

fn receive(intake: &mut ReceiveBuffer, bytes: &[u8]) -> usize {
    let room = intake.room();
    let fits = room.len().min(bytes.len());
    room[..fits].copy_from_slice(&bytes[..fits]);
    intake.received(fits);
    fits
}

#[test]
fn the_buffer_grows_with_what_arrives_and_not_with_what_is_announced() {
    let mut intake = intake();
    receive(&mut intake, &header(LONGEST_WHOLE_BYTES).encode());
    assert_eq!(intake.peek(), Ok(Next::Incomplete));
    intake.room();
    assert_eq!(intake.capacity(), RESERVED_BUFFER_BYTES - HELD_AT);
    let mut arrived = REQUEST_BYTES;
    while arrived < REQUEST_BYTES + LONGEST_WHOLE_BYTES as usize {
        assert_eq!(intake.peek(), Ok(Next::Incomplete));
        arrived += receive(&mut intake, &[7; 10_000]);
        assert!(
            intake.capacity() <= (2 * arrived).max(RESERVED_BUFFER_BYTES),
            "{arrived} have arrived"
        );
    }
    let Ok(Next::Request(_, data)) = intake.peek() else { panic!("the request has arrived") };
    intake.take(data.end);
    assert!(intake.is_grown());
    intake.shrink();
    assert_eq!(intake.capacity(), RESERVED_BUFFER_BYTES - HELD_AT);
}

#[test]
fn the_data_of_a_write_lies_where_the_kernel_copies_fast() {
    // Small requests in one receipt, and a long one that arrives in parts.
    for (count, length) in [(15, 4096), (1, 1 << 20)] {
        let mut intake = intake();
        let sent: Vec<u8> = (0..count).flat_map(|cookie| write(cookie, length)).collect();
        for _ in 0..2 {
            let mut done = 0;
            while done < sent.len() {
                done += receive(&mut intake, &sent[done..]);
            }
            for at in 0..count as usize {
                let Ok(Next::Request(_, data)) = intake.peek() else { panic!("{at} has arrived") };
                let address = intake.all()[data.clone()].as_ptr().addr();
                assert_eq!(address % 4096, 64 + at * REQUEST_BYTES, "request {at}");
                intake.take(data.end);
            }
        }
    }
}

#[test]
fn a_buffer_that_is_not_used_for_long_becomes_small_while_requests_go_on() {
    let mut intake = intake();
    let sent = write(1, 1 << 20);
    let mut done = 0;
    while done < sent.len() {
        done += receive(&mut intake, &sent[done..]);
    }
    for round in 0.. {
        while let Ok(Next::Request(_, data)) = intake.peek() {
            intake.take(data.end);
        }
        if !intake.is_grown() {
            break;
        }
        assert!(round <= ROOMY_RECEIPTS, "still large");
        receive(&mut intake, &write(2, 4096));
    }
}

#[test]
fn a_request_that_no_memory_is_granted_for_is_done_in_pieces() {
    let memory = Memory::new(2 * RESERVED_BUFFER_BYTES, 1);
    let mut intake = ReceiveBuffer::new(&memory, false).unwrap();
    let sent = write(3, 100_000);
    let mut done = 0;
    while intake.peek() == Ok(Next::Incomplete) {
        done += receive(&mut intake, &sent[done..]);
        intake.room();
    }
    assert_eq!(intake.peek(), Ok(Next::Large(RequestHeader { cookie: 3, ..header(100_000) })));
    assert_eq!((done, intake.held().len()), (intake.capacity(), intake.capacity()));
}

#[test]
fn large_and_over_long_requests_are_told_apart_by_their_headers() {
    for (command, length, expected) in [
        (Command::WRITE, LONGEST_WHOLE_BYTES + 1, Next::Large as fn(RequestHeader) -> Next),
        (Command::READ, LONGEST_WHOLE_BYTES + 1, Next::Large),
        (Command::CACHE, u32::MAX, Next::Large),
        (Command::WRITE, LONGEST_PAYLOAD_BYTES + 1, Next::TooLong),
    ] {
        let mut intake = intake();
        let sent = RequestHeader { command, ..header(length) };
        receive(&mut intake, &sent.encode());
        assert_eq!(intake.peek(), Ok(expected(sent)));
    }
}

#[test]
fn what_is_no_request_is_an_error() {
    let mut intake = intake();
    receive(&mut intake, &[0x55; 100]);
    assert!(matches!(intake.peek(), Err(WireError::Magic { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A stream gives the same requests with the same data, no matter how it is cut into pieces.
    #[test]
    fn pieces_do_not_matter(lengths in vec(0u32..300_000, 1..30), pieces in vec(1usize..400_000, 1..20)) {
        let stream: Vec<u8> =
            lengths.iter().enumerate().flat_map(|(cookie, length)| write(cookie as u64, *length)).collect();
        let mut intake = intake();
        let mut sent = 0;
        let mut found = 0;
        for piece in pieces.iter().cycle() {
            loop {
                match intake.peek() {
                    Ok(Next::Request(header, data)) => {
                        prop_assert_eq!(header.cookie, found);
                        prop_assert_eq!(data.len(), lengths[found as usize] as usize);
                        prop_assert!(intake.all()[data.clone()].iter().all(|byte| *byte == found as u8));
                        intake.take(data.end);
                        found += 1;
                    }
                    Ok(Next::Incomplete) => break,
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            if sent == stream.len() {
                break;
            }
            let end = stream.len().min(sent + piece);
            sent += receive(&mut intake, &stream[sent..end]);
        }
        prop_assert_eq!(found as usize, lengths.len());
        prop_assert!(intake.held.is_empty());
    }
}
