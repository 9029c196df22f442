//! A receiver takes bounded memory, whatever a stream has.

use super::common::simulated::Simulation;
use super::common::{open, options, read, tuning};
use super::head;
use gemelo_base::memory::allocated_bytes;
use gemelo_base::{Silent, StopFlag};
use gemelo_copies::stream::{Head, Record, StreamWriter};
use gemelo_copies::{ReceiveOptions, receive};
use gemelo_format::{Compression, DedupMode};
use gemelo_store::Codec;
use gemelo_volume::Pool;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest blocks that a stream may have.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS: u64 = 32;

/// A stream of some kilobytes, whose contents are so many MiB.
fn tiny_stream() -> Vec<u8> {
    let content = vec![7; BLOCK_BYTES];
    let compressed = Codec::new(BLOCK_BYTES).compress(Compression::Zstd(1), &[&content]);
    let (algorithm, bytes) = compressed.parts().next().unwrap().unwrap();
    let head = Head { is_compressed: true, ..head(BLOCK_BYTES, BLOCKS) };
    let mut stream = Vec::new();
    let mut writer = StreamWriter::begin(&mut stream, &head).unwrap();
    for block in 0..BLOCKS {
        writer.add(&Record::Compressed { block, algorithm, bytes }).unwrap();
    }
    writer.finish().unwrap();
    stream
}

/// All contents of a frame were decompressed together, which took any memory.
#[test]
fn contents_of_a_frame_are_decompressed_bit_by_bit() {
    let (stream, simulation) = (tiny_stream(), Simulation::new(1));
    assert!(stream.len() < 16 << 10, "it is one frame");
    Pool::format(&simulation.disks(), &options(200)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let Some(before) = allocated_bytes() else { return };
    let is_over = AtomicBool::new(false);
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(allocated_bytes().unwrap_or_default());
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let options = ReceiveOptions { mode: DedupMode::Inline, tells: true };
        let progress = (&Silent as _, &StopFlag::new());
        let received = receive(&pool, "s", &mut &*stream, None, options, progress);
        is_over.store(true, Ordering::Relaxed);
        received.unwrap();
        watch.join().unwrap()
    });
    let taken = most.saturating_sub(before);
    eprintln!("{taken} bytes for {BLOCKS} MiB");
    assert!(taken < BLOCKS << 19, "{taken} bytes");
    let last = read(&pool.volume("s").unwrap(), (BLOCKS - 1) << 20, BLOCK_BYTES).unwrap();
    assert!(last.iter().all(|byte| *byte == 7));
}
