//! Tests that each message decodes to the value that was encoded, and that no input makes a decoder
//! panic.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Runs every decoder on the bytes.
fn decode_all(bytes: &[u8]) {
    let _ = decode_greeting(bytes);
    let _ = OptionHeader::decode(bytes);
    let _ = OptionReplyHeader::decode(bytes);
    let _ = InfoRequest::decode(bytes);
    let _ = Info::decode(bytes);
    let _ = decode_listed_export(bytes);
    let _ = MetaContextRequest::decode(bytes);
    let _ = decode_meta_context(bytes);
    let _ = RequestHeader::decode(bytes);
    let _ = decode_reply_head(bytes);
    let _ = decode_block_status_context(bytes);
    let _ = decode_block_descriptors(bytes).map(Iterator::last);
    let _ = decode_error_chunk(bytes);
}

fn info_request_of(name: &str, kinds: &[u16]) -> Vec<u8> {
    InfoRequest { name, wanted: kinds.iter().copied().map(InfoKind).collect() }.encode()
}

#[test]
fn the_greeting_is_that_of_the_document() {
    let bytes = encode_greeting(HandshakeFlags(3));
    assert_eq!(&bytes, b"NBDMAGICIHAVEOPT\0\x03");
    assert_eq!(decode_greeting(&bytes), Ok(HandshakeFlags(3)));
    assert!(matches!(decode_greeting(b"SSH-2.0-OpenSSH_9"), Err(WireError::Magic { .. })));
}

#[test]
fn a_request_is_that_of_the_document() {
    let request =
        RequestHeader { flags: 1, command: Command::WRITE, cookie: 2, offset: 3, length: 4 };
    let expected = [
        0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0,
        0, 4,
    ];
    assert_eq!(request.encode(), expected);
    assert_eq!(request.payload_bytes(), 4);
}

#[test]
fn a_reply_to_export_name_has_zeros_unless_both_do_without() {
    assert_eq!(encode_export_name_reply(1, ExportFlags(2), false), [0, 0, 0, 0, 0, 0, 0, 1, 0, 2]);
    assert_eq!(encode_export_name_reply(1, ExportFlags(2), true).len(), 134);
}

#[test]
fn what_is_too_long_is_refused() {
    let name = "x".repeat(LONGEST_STRING_BYTES + 1);
    assert!(matches!(
        InfoRequest::decode(&info_request_of(&name, &[])),
        Err(WireError::TooLong { .. })
    ));
    let longest = "x".repeat(LONGEST_STRING_BYTES);
    assert!(InfoRequest::decode(&info_request_of(&longest, &[])).is_ok());
}

#[test]
fn a_count_without_its_queries_is_refused_without_allocating_for_it() {
    let bytes = [&[0, 0, 0, 0][..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(MetaContextRequest::decode(&bytes), Err(Truncated.into()));
}

#[test]
fn texts_with_zero_bytes_or_broken_characters_are_refused() {
    for name in [&b"a\0b"[..], b"\xff"] {
        let bytes = [&(name.len() as u32).to_be_bytes()[..], name, &[0, 0]].concat();
        assert_eq!(InfoRequest::decode(&bytes), Err(WireError::NoText("an export's name")));
    }
}

#[test]
fn what_is_left_over_is_refused() {
    let mut bytes = info_request_of("disk", &[3]);
    bytes.push(0);
    assert_eq!(InfoRequest::decode(&bytes), Err(WireError::Excess));
}

proptest! {
    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
        decode_all(&bytes);
    }

    /// Damages valid messages, so that the decoders get beyond the first field.
    #[test]
    fn no_damaged_message_makes_a_decoder_panic(
        kind in 0..8, cut in 0usize..60, place in 0usize..60, byte: u8, number: u64, name in "\\PC{0,8}",
    ) {
        let mut bytes = match kind {
            0 => encode_greeting(HandshakeFlags(3)).to_vec(),
            1 => OptionHeader { option: OptionCode::GO, length: number as u32 }.encode().to_vec(),
            2 => info_request_of(&name, &[1, 2, 3]),
            3 => MetaContextRequest { name: &name, queries: vec![&name, BASE_ALLOCATION] }.encode(),
            4 => encode_listed_export(&name, &name),
            5 => [&encode_block_status_header(number, 1, 2, CHUNK_FLAG_DONE)[..], &[7; 16]].concat(),
            6 => encode_error_chunk(number, ErrorCode::IO).to_vec(),
            _ => Info::Description(&name).encode(),
        };
        bytes.truncate(cut);
        if let Some(there) = bytes.get_mut(place) {
            *there = byte;
        }
        decode_all(&bytes);
    }

    #[test]
    fn requests_round_trip(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        let request = RequestHeader { flags, command: Command(command), cookie, offset, length };
        prop_assert_eq!(RequestHeader::decode(&request.encode()), Ok(request));
    }

    #[test]
    fn options_and_their_replies_round_trip(option: u32, kind: u32, length: u32) {
        let header = OptionHeader { option: OptionCode(option), length };
        prop_assert_eq!(OptionHeader::decode(&header.encode()), Ok(header));
        let reply = OptionReplyHeader { option: OptionCode(option), kind: OptionReplyKind(kind), length };
        prop_assert_eq!(OptionReplyHeader::decode(&reply.encode()), Ok(reply));
    }

    #[test]
    fn option_data_round_trips(name in "[^\0]{0,20}", other in "[^\0]{0,20}", kinds in vec(any::<u16>(), 0..5), id: u32) {
        let info = InfoRequest { name: &name, wanted: kinds.into_iter().map(InfoKind).collect() };
        prop_assert!(InfoRequest::decode(&info.encode()) == Ok(info.clone()));
        let meta = MetaContextRequest { name: &name, queries: vec![&other, &name] };
        prop_assert!(MetaContextRequest::decode(&meta.encode()) == Ok(meta.clone()));
        let listed = encode_listed_export(&name, &other);
        prop_assert_eq!(decode_listed_export(&listed), Ok((&*name, &*other)));
        let context = encode_meta_context(id, &name);
        prop_assert_eq!(decode_meta_context(&context), Ok((id, &*name)));
    }

    #[test]
    fn information_round_trips(size_bytes: u64, flags: u16, minimum: u32, preferred: u32, maximum: u32, text in "[^\0]{0,20}") {
        for info in [
            Info::Export { size_bytes, flags: ExportFlags(flags) },
            Info::BlockSize(BlockSizes { minimum, preferred, maximum }),
            Info::Name(&text),
            Info::Description(&text),
        ] {
            prop_assert!(Info::decode(&info.encode()) == Ok(info.clone()), "{:?}", info);
        }
    }

    #[test]
    fn replies_round_trip(error: u32, cookie: u64, offset: u64, length in 0..u32::MAX - 8, state: u32) {
        let simple = SimpleReply { error: ErrorCode(error), cookie };
        prop_assert_eq!(decode_reply_head(&simple.encode()), Ok(Some(ReplyHead::Simple(simple))));

        let data = encode_offset_data_header(cookie, offset, length);
        let header = ChunkHeader { flags: 1, kind: ChunkKind::OFFSET_DATA, cookie, length: length + 8 };
        prop_assert_eq!(decode_reply_head(&data), Ok(Some(ReplyHead::Chunk(header))));
        prop_assert_eq!(&data[CHUNK_HEADER_BYTES..], &offset.to_be_bytes()[..]);

        let failed = encode_error_chunk(cookie, ErrorCode(error));
        prop_assert_eq!(decode_error_chunk(&failed[CHUNK_HEADER_BYTES..]), Ok((ErrorCode(error), "")));

        let extent = BlockDescriptor { length, state };
        let mut status = encode_block_status_header(cookie, 5, 1, CHUNK_FLAG_DONE).to_vec();
        status.extend_from_slice(&extent.encode());
        prop_assert_eq!(decode_block_status_context(&status[CHUNK_HEADER_BYTES..]), Ok(5));
        let found: Vec<_> = decode_block_descriptors(&status[CHUNK_HEADER_BYTES..]).unwrap().collect();
        prop_assert_eq!(found, vec![extent]);
    }

    #[test]
    fn a_reply_that_has_not_arrived_is_waited_for(cookie: u64, cut in 0usize..SIMPLE_REPLY_BYTES) {
        let bytes = SimpleReply { error: ErrorCode::NONE, cookie }.encode();
        prop_assert_eq!(decode_reply_head(&bytes[..cut]), Ok(None));
    }
}
