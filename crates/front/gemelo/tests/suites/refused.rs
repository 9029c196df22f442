//! Tests of requests that `gemelo serve` must refuse, sent by libnbd and as raw bytes. The server
//! must continue to serve.

use crate::support::{MIB, PATIENCE, TestPool, small};
use gemelo_base::random::Random;
use gemelo_format::{DedupMode, FingerprintKind};
use gemelo_nbd::client::Submission;
use gemelo_nbd::wire::{Command, InfoRequest, OptionCode, OptionHeader, RequestHeader};
use gemelo_tools::{all_of, python_with_libnbd};
use gemelo_volume::PoolOptions;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const PYTHON: &str = concat!(
    include_str!("../../../nbd/tests/suites/support/refused.py"),
    r#"
uri, snapshot_uri = sys.argv[1:]

for structured in [True, False]:
    h = connect(uri, structured)
    size = h.get_size()
    least = h.get_block_size(nbd.SIZE_MINIMUM)
    most = h.get_block_size(nbd.SIZE_MAXIMUM)
    zeros = bytearray(512)
    # Out of range.
    refused(errno.EINVAL, h.pread, 512, size)
    refused(errno.EINVAL, h.pread, 1024, size - 512)
    refused(errno.EINVAL, h.pread, 512, (1 << 63) - 512)
    refused(errno.ENOSPC, h.pwrite, zeros, size)
    refused(errno.ENOSPC, h.pwrite, zeros, size - 511)
    refused(errno.ENOSPC, h.zero, 1024, size - 512)
    refused(errno.EINVAL, h.trim, 1024, size - 512)
    refused(errno.EINVAL, h.cache, 512, size)
    # Too long; nothing at all.
    refused(errno.EINVAL, h.pread, most + 512, 0)
    refused(errno.EINVAL, h.pwrite, bytearray(most + 512), 0)
    refused(errno.EINVAL, h.zero, 0, 0)
    # Unknown flags, and flags of other commands.
    refused(errno.EINVAL, h.pwrite, zeros, 0, 1 << 14)
    refused(errno.EINVAL, h.pread, 512, 0, nbd.CMD_FLAG_REQ_ONE)
    refused(errno.EINVAL, h.pwrite, zeros, 0, nbd.CMD_FLAG_DF)
    refused(errno.EINVAL, h.trim, 512, 0, nbd.CMD_FLAG_NO_HOLE)
    refused(errno.EINVAL, h.flush, nbd.CMD_FLAG_REQ_ONE)
    # Not aligned to what is announced is refused; what is announced works, at any place, beside its neighbours.
    if least > 1:
        refused(errno.EINVAL, h.pread, least, 1)
        refused(errno.EINVAL, h.pwrite, bytearray(least - 1), 0)
    chance = random.Random(5)
    model = bytearray(1 << 18)
    h.zero(len(model), 0)
    for round in range(300):
        offset = chance.randrange(0, len(model), least)
        length = min(chance.choice([1, 3, 511, 513, 4095, 4097, 20000]) * least, len(model) - offset)
        flags = chance.choice([0, 0, 0, nbd.CMD_FLAG_FUA])
        kind = chance.randrange(8)
        if kind == 0:
            h.zero(length, offset, flags)
            model[offset:offset + length] = bytes(length)
        elif kind == 1:
            h.trim(length, offset, flags)
            found = h.pread(length, offset)
            assert all(new in (0, old) for new, old in zip(found, model[offset:offset + length]))
            model[offset:offset + length] = found
        else:
            data = bytearray(chance.choice([b"\0", b"x", bytes([round % 256])]) * length)
            h.pwrite(data, offset, flags)
            model[offset:offset + length] = data
        start = max(0, offset - 5000)
        assert h.pread(min(30000, len(model) - start), start) == model[start:start + 30000], round
    h.flush()
    assert h.pread(len(model), 0) == model
    if structured:
        seen = []
        h.block_status(size, 0, lambda *status: seen.append(status), nbd.CMD_FLAG_REQ_ONE)
        assert len(seen) == 1 and len(seen[0][2]) == 2, seen
        refused(errno.EINVAL, h.block_status, 512, size, lambda *status: 0)
    h.shutdown()

h = connect(snapshot_uri)
assert h.is_read_only()
refused(errno.EPERM, h.pwrite, bytearray(512), 0)
refused(errno.EPERM, h.zero, 512, 0)
refused(errno.EPERM, h.trim, 512, 0)
assert h.pread(512, 0) == b"k" * 512
h.shutdown()

h = nbd.NBD()
try:
    h.connect_uri(uri.replace("/disk?", "/nobody?"))
    raise AssertionError("an export that does not exist")
except nbd.Error as error:
    assert "no export" in str(error) or error.errnum == errno.ENOENT, error
"#
);

/// A pool with a volume, and a snapshot of another one.
fn pool(options: &PoolOptions) -> TestPool {
    let volumes = [("disk", 4 * MIB, DedupMode::Inline), ("source", MIB, DedupMode::Inline)];
    let pool = TestPool::new(options, &volumes);
    let server = pool.serve();
    let write = Submission::Write { offset: 0, data: &[b'k'; 4096], durable: true };
    pool.client("source", 1).run(write, |completion| assert!(completion.error.is_none())).unwrap();
    server.stop();
    pool.change(|open| open.snapshot_volume("source", "kept").unwrap());
    pool
}

#[test]
fn libnbd_is_refused_what_is_wrong_and_served_what_is_odd() {
    for (block_bytes, fingerprint) in [
        (4096, FingerprintKind::Blake3),
        (512, FingerprintKind::Xxh3Compare),
        (1 << 20, FingerprintKind::Blake3),
    ] {
        let Some(mut python) = python_with_libnbd() else { return };
        let pool = pool(&PoolOptions { block_bytes, fingerprint, ..small(64 * MIB) });
        let server = pool.serve();
        let output =
            python.args(["-c", PYTHON, &pool.uri("disk"), &pool.uri("kept")]).output().unwrap();
        assert!(output.status.success(), "{block_bytes}: {}", all_of(&output));
        server.stop();
        pool.check();
    }
}

/// Connects and goes this far: 0 greeted, 1 flags sent, 2 export chosen, 3 a request done.
fn connected(pool: &TestPool, phase: u64) -> UnixStream {
    let mut stream = UnixStream::connect(pool.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    if phase > 0 {
        stream.write_all(&3u32.to_be_bytes()).unwrap();
    }
    if phase > 1 {
        let data = InfoRequest { name: "disk", wanted: vec![] }.encode();
        let header = OptionHeader { option: OptionCode::GO, length: data.len() as u32 };
        stream.write_all(&[&header.encode()[..], &data].concat()).unwrap();
        // Information of 20 + 12 bytes, sizes of 20 + 14, and the end of 20.
        let mut last = [0; 20];
        while last[16..] != [0; 4] || last[12..16] != [0, 0, 0, 1] {
            stream.read_exact(&mut last).unwrap();
            let length = u32::from_be_bytes([last[16], last[17], last[18], last[19]]);
            stream.read_exact(&mut vec![0; length as usize]).unwrap();
        }
    }
    if phase > 2 {
        let header =
            RequestHeader { flags: 0, command: Command::READ, cookie: 1, offset: 0, length: 512 };
        stream.write_all(&header.encode()).unwrap();
        stream.read_exact(&mut [0; 16 + 512]).unwrap();
    }
    stream
}

#[test]
fn garbage_in_any_phase_ends_that_connection_and_no_other() {
    let pool = pool(&small(64 * MIB));
    let mut server = pool.serve();
    let mut good = pool.client("disk", 1);
    let mut random = Random::new(9);
    for round in 0..80 {
        let mut stream = connected(&pool, round % 4);
        let length = 40 + random.below(5000) as usize;
        // No byte is zero, so that nothing looks like a short length.
        let garbage: Vec<u8> = (0..length).map(|_| random.next_u64() as u8 | 1).collect();
        let write = Submission::Write {
            offset: round * 4096,
            data: &[round as u8 + 1; 4096],
            durable: false,
        };
        // The server may close before everything is sent.
        let _ = stream.write_all(&garbage);
        good.run(write, |completion| assert!(completion.error.is_none())).unwrap();
        let mut rest = Vec::new();
        if let Err(error) = stream.read_to_end(&mut rest) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        }
    }
    // Requests that no program sends: unknown commands, and a write that is longer than anything.
    for command in [7, 8, 99, u16::MAX] {
        let mut stream = connected(&pool, 3);
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
        assert_eq!(reply[4..8], [0, 0, 0, 22], "command {command}");
    }
    let mut stream = connected(&pool, 3);
    let header =
        RequestHeader { flags: 0, command: Command::WRITE, cookie: 5, offset: 0, length: u32::MAX };
    stream.write_all(&header.encode()).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0, "the connection ends");
    for round in 0..80 {
        let read = Submission::Read { offset: round * 4096, length: 4096 };
        good.run(read, |completion| assert!(completion.data == [round as u8 + 1; 4096])).unwrap();
    }
    assert!(server.is_running());
    drop(good);
    server.stop();
    pool.check();
}
