//! Writes a stream of a snapshot that is mapped from end to end, to a few contents:
//!
//! ```text
//! cargo run --release -p gemelo-copies --example large_stream -- GIBIBYTES >STREAM
//! ```
//!
//! The stream has some megabytes, whatever the size: all but its first MiB are copies of earlier
//! blocks. `benches/large-copy.sh` measures by it how much memory a receiver and a sender take.

use gemelo_base::random::Random;
use gemelo_copies::stream::{Head, Record, StreamWriter};
use gemelo_format::{SnapshotId, VolumeId};
use std::io::{self, BufWriter};

const BLOCK_BYTES: u32 = 4096;
const CONTENTS: u64 = 256;
/// Blocks of a record, so that a receiver shows progress.
const AT_ONCE: u64 = 1 << 18;

fn main() -> io::Result<()> {
    let gib = std::env::args().nth(1).and_then(|argument| argument.parse::<u64>().ok());
    let Some(gib) = gib.filter(|gib| (1..=1 << 14).contains(gib)) else {
        return Err(io::Error::other("usage: large_stream GIBIBYTES"));
    };
    let blocks = (gib << 30) / u64::from(BLOCK_BYTES);
    let head = Head {
        block_bytes: BLOCK_BYTES,
        size_bytes: gib << 30,
        padding_bytes: 0,
        identity: SnapshotId { pool: [7; 16], volume: VolumeId(1), created_s: 1 },
        source: None,
        created_s: Some(1),
        name: "large".to_owned(),
        since: None,
        is_compressed: false,
        is_exchange: false,
        has_compressed_frames: false,
    };
    let mut random = Random::new(1);
    let contents: Vec<u8> =
        (0..CONTENTS * u64::from(BLOCK_BYTES)).map(|_| random.next_u64() as u8).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut stream = StreamWriter::begin(&mut out, &head)?;
    stream.add(&Record::Plain { first: 0, contents: &contents })?;
    let mut first = CONTENTS;
    while first < blocks {
        let count = first.min(AT_ONCE).min(blocks - first);
        stream.add(&Record::Copies { first, count, from: 0 })?;
        first += count;
    }
    stream.finish()?;
    Ok(())
}
