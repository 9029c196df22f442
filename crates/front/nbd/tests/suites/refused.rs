//! Tests of requests that must be refused, and of garbage in every phase.

use crate::support::memory::MemoryDevice;
use crate::support::raw::{assert_closed, greeted, negotiated, read_option_reply, send_option};
use crate::support::{TestServer, all_of, eventually, python_with_libnbd};
use gemelo_base::random::Random;
use gemelo_device::{Export, Geometry};
use gemelo_nbd::server::ServerConfig;
use gemelo_nbd::wire::{
    Command, InfoRequest, OptionCode, OptionHeader, OptionReplyKind, RequestHeader,
};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

const GEOMETRY: Geometry = Geometry {
    size_bytes: 1 << 20,
    minimum_block_bytes: 512,
    preferred_block_bytes: 4096,
    maximum_request_bytes: 64 << 10,
    read_only: false,
};

const PYTHON: &str = concat!(
    include_str!("support/refused.py"),
    r#"
uri, read_only_uri = sys.argv[1:]

for structured in [True, False]:
    h = connect(uri, structured)
    size = h.get_size()
    assert size == 1 << 20
    assert h.get_block_size(nbd.SIZE_MINIMUM) == 512
    assert h.get_block_size(nbd.SIZE_MAXIMUM) == 65536
    zeros = bytearray(512)
    # Out of range.
    refused(errno.EINVAL, h.pread, 512, size)
    refused(errno.EINVAL, h.pread, 1024, size - 512)
    refused(errno.ENOSPC, h.pwrite, zeros, size)
    refused(errno.ENOSPC, h.zero, 1024, size - 512)
    refused(errno.EINVAL, h.trim, 1024, size - 512)
    refused(errno.EINVAL, h.cache, 512, size)
    refused(errno.EINVAL, h.pread, 512, (1 << 63) - 512)
    # Not aligned.
    refused(errno.EINVAL, h.pread, 512, 1)
    refused(errno.EINVAL, h.pread, 511, 0)
    refused(errno.EINVAL, h.pwrite, bytearray(100), 0)
    refused(errno.EINVAL, h.zero, 512, 100)
    refused(errno.EINVAL, h.trim, 100, 512)
    # Too long, and far too long: the connection stays.
    refused(errno.EINVAL, h.pread, 65536 + 512, 0)
    refused(errno.EINVAL, h.pwrite, bytearray(65536 + 512), 0)
    refused(errno.EINVAL, h.pwrite, bytearray(33 << 20), 0)
    # Nothing at all.
    refused(errno.EINVAL, h.zero, 0, 0)
    # Unknown flags, and flags of other commands.
    refused(errno.EINVAL, h.pwrite, zeros, 0, 1 << 14)
    refused(errno.EINVAL, h.pwrite, zeros, 0, nbd.CMD_FLAG_DF)
    refused(errno.EINVAL, h.trim, 512, 0, nbd.CMD_FLAG_NO_HOLE)
    refused(errno.EINVAL, h.flush, nbd.CMD_FLAG_REQ_ONE)
    # What is right still works.
    h.pwrite(bytearray(b"x" * 512), 512, nbd.CMD_FLAG_FUA)
    assert h.pread(512, 512) == b"x" * 512
    h.zero(512, 512, nbd.CMD_FLAG_FAST_ZERO)
    assert h.pread(512, 512) == bytes(512)
    h.cache(size, 0)
    h.flush()
    if structured:
        seen = []
        h.block_status(size, 0, lambda *status: seen.append(status), nbd.CMD_FLAG_REQ_ONE)
        assert len(seen) == 1 and len(seen[0][2]) == 2, seen
        refused(errno.EINVAL, h.block_status, 512, size, lambda *status: 0)
    h.shutdown()

h = connect(read_only_uri)
assert h.is_read_only()
refused(errno.EPERM, h.pwrite, bytearray(512), 0)
refused(errno.EPERM, h.zero, 512, 0)
refused(errno.EPERM, h.trim, 512, 0)
assert h.pread(512, 0) == bytes(512)
h.shutdown()

h = nbd.NBD()
try:
    h.connect_uri(uri.replace("/disk?", "/nobody?"))
    raise AssertionError("an export that does not exist")
except nbd.Error as error:
    assert "no export" in str(error) or error.errnum == errno.ENOENT, error
"#
);

#[test]
fn libnbd_is_refused_what_is_wrong() {
    let Some(mut python) = python_with_libnbd() else { return };
    let disk = Export::new("disk", Arc::new(MemoryDevice::with_geometry(GEOMETRY)));
    let mut kept = Export::new("kept", Arc::new(MemoryDevice::with_geometry(GEOMETRY)));
    kept.read_only = true;
    let server = TestServer::start(vec![disk, kept], ServerConfig::default(), &[]);
    let output = python
        .args(["-c", PYTHON, &server.uri(), &server.uri_of("kept").to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", all_of(&output));
}

fn server() -> TestServer {
    TestServer::of(Arc::new(MemoryDevice::with_geometry(GEOMETRY)))
}

#[test]
fn garbage_in_any_phase_ends_the_connection_and_only_that() {
    let server = server();
    let mut random = Random::new(3);
    for round in 0..40 {
        let garbage: Vec<u8> = (0..200).map(|_| random.next_u64() as u8 | 1).collect();
        let mut stream = match round % 4 {
            0 => greeted(&server),
            1 => {
                let mut stream = greeted(&server);
                stream.write_all(&3u32.to_be_bytes()).unwrap();
                stream
            }
            2 => {
                let mut stream = greeted(&server);
                stream.write_all(&3u32.to_be_bytes()).unwrap();
                send_option(&mut stream, OptionCode::GO, &garbage);
                assert_eq!(read_option_reply(&mut stream).0, OptionReplyKind::ERR_INVALID);
                stream
            }
            _ => negotiated(&server),
        };
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(&garbage);
        assert_closed(stream);
    }
    assert_eq!(server.server.counts().broken, 40);
    eventually("all connections end", || server.server.connections(None) == 0);
    assert_eq!(server.client(1).export().size_bytes, 1 << 20);
}

#[test]
fn unknown_commands_are_refused_and_the_connection_stays() {
    let server = server();
    let mut stream = negotiated(&server);
    for command in [7, 8, 99, u16::MAX] {
        let header = RequestHeader {
            flags: 0,
            command: Command(command),
            cookie: 5,
            offset: 0,
            length: 512,
        };
        stream.write_all(&header.encode()).unwrap();
        let mut reply = [0; 16];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 5]);
    }
}

#[test]
fn a_write_longer_than_anything_ends_the_connection() {
    let server = server();
    let mut stream = negotiated(&server);
    let header =
        RequestHeader { flags: 0, command: Command::WRITE, cookie: 5, offset: 0, length: u32::MAX };
    stream.write_all(&header.encode()).unwrap();
    assert_closed(stream);
    eventually("the server has said so", || {
        server
            .heard
            .warnings()
            .iter()
            .any(|warning| warning.contains("a write of 4294967295 bytes"))
    });
}

#[test]
fn options_that_are_unknown_wrong_or_long_are_refused_and_negotiation_goes_on() {
    let server = server();
    let mut stream = greeted(&server);
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    for (option, data, expected) in [
        (OptionCode(77), vec![1, 2, 3], OptionReplyKind::ERR_UNSUPPORTED),
        // It is received in several parts.
        (OptionCode(77), vec![1; 20_000], OptionReplyKind::ERR_UNSUPPORTED),
        (OptionCode::LIST, vec![1], OptionReplyKind::ERR_INVALID),
        (OptionCode::STRUCTURED_REPLY, vec![1], OptionReplyKind::ERR_INVALID),
        (OptionCode::STARTTLS, vec![1], OptionReplyKind::ERR_INVALID),
        (OptionCode::STARTTLS, vec![], OptionReplyKind::ERR_POLICY),
        (OptionCode::SET_META_CONTEXT, vec![0; 8], OptionReplyKind::ERR_INVALID),
        (OptionCode::INFO, vec![0xff; 10], OptionReplyKind::ERR_INVALID),
        (
            OptionCode::GO,
            InfoRequest { name: "x", wanted: vec![] }.encode(),
            OptionReplyKind::ERR_UNKNOWN,
        ),
        (OptionCode::GO, vec![0; 100_000], OptionReplyKind::ERR_TOO_BIG),
        (OptionCode::STRUCTURED_REPLY, vec![], OptionReplyKind::ACK),
        (OptionCode::SET_META_CONTEXT, vec![0; 7], OptionReplyKind::ERR_INVALID),
        (OptionCode::SET_META_CONTEXT, vec![0; 8], OptionReplyKind::ACK),
        (OptionCode::ABORT, vec![], OptionReplyKind::ACK),
    ] {
        send_option(&mut stream, option, &data);
        assert_eq!(read_option_reply(&mut stream).0, expected, "{option:?}");
    }
    assert_closed(stream);
    assert_eq!(server.server.counts().broken, 0);
}

#[test]
fn an_option_longer_than_anything_ends_the_connection() {
    let server = server();
    let mut stream = greeted(&server);
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    stream.write_all(&OptionHeader { option: OptionCode::GO, length: u32::MAX }.encode()).unwrap();
    assert_closed(stream);
}

#[test]
fn export_name_of_nobody_ends_the_connection_and_of_somebody_begins_transmission() {
    let server = server();
    let mut stream = greeted(&server);
    stream.write_all(&1u32.to_be_bytes()).unwrap();
    send_option(&mut stream, OptionCode::EXPORT_NAME, b"nobody");
    assert_closed(stream);

    let mut stream = greeted(&server);
    stream.write_all(&1u32.to_be_bytes()).unwrap();
    send_option(&mut stream, OptionCode::EXPORT_NAME, b"disk");
    let mut reply = [0xff; 134];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], (1u64 << 20).to_be_bytes());
    assert_eq!(reply[10..], [0; 124]);
}

#[test]
fn a_silent_or_dripping_client_is_not_waited_for_long() {
    let config =
        ServerConfig { handshake_timeout: Duration::from_millis(300), ..ServerConfig::default() };
    let disk = Export::new("disk", Arc::new(MemoryDevice::new(4096)));
    let server = TestServer::start(vec![disk], config, &[]);
    let silent = greeted(&server);
    let mut dripping = greeted(&server);
    let option = OptionHeader { option: OptionCode::LIST, length: 0 }.encode();
    for byte in option {
        std::thread::sleep(Duration::from_millis(50));
        if dripping.write_all(&[byte]).is_err() {
            break;
        }
    }
    assert_closed(silent);
    assert_closed(dripping);
    eventually("both are gone", || server.server.connections(None) == 0);
}
