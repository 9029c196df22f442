//! Connections that can send arbitrary bytes.

use super::TestServer;
use gemelo_nbd::wire::{
    CHUNK_FLAG_DONE, CHUNK_HEADER_BYTES, ChunkKind, Command, ErrorCode, GREETING_BYTES,
    InfoRequest, OPTION_REPLY_HEADER_BYTES, OptionCode, OptionHeader, OptionReplyHeader,
    OptionReplyKind, REQUEST_BYTES, ReplyHead, RequestHeader, SIMPLE_REPLY_BYTES, SimpleReply,
    decode_error_chunk, decode_reply_head,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Connects and receives the greeting.
pub(crate) fn greeted(server: &TestServer) -> UnixStream {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.read_exact(&mut [0; GREETING_BYTES]).unwrap();
    stream
}

pub(crate) fn read_option_reply(stream: &mut UnixStream) -> (OptionReplyKind, Vec<u8>) {
    let mut header = [0; OPTION_REPLY_HEADER_BYTES];
    stream.read_exact(&mut header).unwrap();
    let header = OptionReplyHeader::decode(&header).unwrap();
    let mut data = vec![0; header.length as usize];
    stream.read_exact(&mut data).unwrap();
    (header.kind, data)
}

pub(crate) fn send_option(stream: &mut UnixStream, option: OptionCode, data: &[u8]) {
    let header = OptionHeader { option, length: data.len() as u32 };
    stream.write_all(&[&header.encode(), data].concat()).unwrap();
}

/// Connects to the export `disk` without structured replies.
pub(crate) fn negotiated(server: &TestServer) -> UnixStream {
    let mut stream = greeted(server);
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    choose_disk(&mut stream);
    stream
}

/// Connects to the export `disk` with structured replies.
pub(crate) fn structured(server: &TestServer) -> UnixStream {
    let mut stream = greeted(server);
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    send_option(&mut stream, OptionCode::STRUCTURED_REPLY, &[]);
    assert_eq!(read_option_reply(&mut stream).0, OptionReplyKind::ACK);
    choose_disk(&mut stream);
    stream
}

fn choose_disk(stream: &mut UnixStream) {
    send_option(stream, OptionCode::GO, &InfoRequest { name: "disk", wanted: vec![] }.encode());
    while read_option_reply(stream).0 != OptionReplyKind::ACK {}
}

/// Encodes the header of a request.
pub(crate) fn request(
    command: Command,
    flags: u16,
    offset: u64,
    length: u32,
) -> [u8; REQUEST_BYTES] {
    RequestHeader { flags, command, cookie: 5, offset, length }.encode()
}

/// Receives a simple reply to [`request`] and returns its error.
pub(crate) fn read_simple_reply(stream: &mut UnixStream) -> ErrorCode {
    let mut reply = [0; SIMPLE_REPLY_BYTES];
    stream.read_exact(&mut reply).unwrap();
    match decode_reply_head(&reply).unwrap().unwrap() {
        ReplyHead::Simple(SimpleReply { error, cookie: 5 }) => error,
        other => panic!("{other:?}"),
    }
}

/// Receives a structured reply to a read made with [`request`], and returns its data and error.
pub(crate) fn read_chunks(stream: &mut impl Read, offset: u64) -> (Vec<u8>, ErrorCode) {
    let mut all = Vec::new();
    loop {
        let mut header = [0; CHUNK_HEADER_BYTES];
        stream.read_exact(&mut header).unwrap();
        let Some(ReplyHead::Chunk(chunk)) = decode_reply_head(&header).unwrap() else {
            panic!("no chunk")
        };
        assert_eq!(chunk.cookie, 5);
        let mut body = vec![0; chunk.length as usize];
        stream.read_exact(&mut body).unwrap();
        if chunk.kind.is_error() {
            return (all, decode_error_chunk(&body).unwrap().0);
        }
        assert_eq!(chunk.kind, ChunkKind::OFFSET_DATA);
        assert_eq!(body[..8], (offset + all.len() as u64).to_be_bytes());
        all.extend_from_slice(&body[8..]);
        if chunk.flags & CHUNK_FLAG_DONE != 0 {
            return (all, ErrorCode::NONE);
        }
    }
}

pub(crate) fn assert_closed(mut stream: UnixStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
    }
}
