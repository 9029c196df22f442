//! Contents that name their block, written to volumes and read back.

use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use std::ops::Range;

pub(crate) const BLOCK: usize = 4096;
/// Blocks written or read by one list of requests.
const LIST_BLOCKS: usize = 256;

/// Executes one request.
pub(crate) fn execute(
    device: &dyn BlockDevice,
    operation: Operation<'_>,
) -> Result<(), DeviceError> {
    let mut batch = [Request { operation, outcome: Ok(()) }];
    device.execute(&mut batch);
    let [Request { outcome, .. }] = batch;
    outcome
}

/// Returns the content of a block in a generation.
pub(crate) fn content(block: u64, generation: u8) -> Vec<u8> {
    let mut bytes = vec![generation; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// Writes blocks and flushes. What is acknowledged by it must never be lost.
pub(crate) fn try_write(
    device: &dyn BlockDevice,
    blocks: Range<u64>,
    generation: u8,
) -> Result<(), DeviceError> {
    let contents: Vec<(u64, Vec<u8>)> =
        blocks.map(|block| (block * BLOCK as u64, content(block, generation))).collect();
    for list in contents.chunks(LIST_BLOCKS) {
        let mut batch: Vec<Request<'_>> = list
            .iter()
            .map(|(offset, data)| Request {
                operation: Operation::Write {
                    offset: *offset,
                    data,
                    durability: Durability::Flushed,
                },
                outcome: Ok(()),
            })
            .collect();
        device.execute(&mut batch);
        batch.into_iter().try_for_each(|request| request.outcome)?;
    }
    execute(device, Operation::Flush)
}

pub(crate) fn write(device: &dyn BlockDevice, blocks: Range<u64>, generation: u8) {
    try_write(device, blocks, generation).unwrap();
}

pub(crate) fn read(device: &dyn BlockDevice, block: u64) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; BLOCK];
    execute(device, Operation::Read { offset: block * BLOCK as u64, buffer: &mut bytes })?;
    Ok(bytes)
}

pub(crate) fn assert_written(device: &dyn BlockDevice, blocks: Range<u64>, generation: u8) {
    for block in blocks {
        assert!(read(device, block).unwrap() == content(block, generation), "block {block}");
    }
}
