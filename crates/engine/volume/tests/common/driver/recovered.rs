//! The comparison of a pool that was opened after a crash with the model.

use super::*;
use gemelo_volume::VolumeSummary;

fn holds_of(volume: &VolumeSummary) -> Vec<String> {
    volume.record.holds.tags().map(str::to_owned).collect()
}

/// Compares a pool that was opened after a crash with the allowed states, and updates the model to
/// the state found.
pub fn check_recovered(pool: &Pool, model: &mut Model) {
    let names: Vec<String> = pool.volumes().into_iter().map(|volume| volume.record.name).collect();
    let fits = |volumes: &BTreeMap<String, ModelVolume>| {
        volumes.keys().eq(names.iter())
            && pool.volumes().iter().all(|volume| {
                volumes[&volume.record.name].blocks.len() * BLOCK
                    == volume.record.size_bytes as usize
                    && volumes[&volume.record.name].read_only == volume.record.read_only
                    && holds_of(volume) == volumes[&volume.record.name].holds
            })
    };
    let contents: BTreeMap<String, Vec<u8>> = pool
        .volumes()
        .iter()
        .map(|volume| {
            let bytes = read(
                &pool.volume(&volume.record.name).unwrap(),
                0,
                volume.record.size_bytes as usize,
            )
            .unwrap();
            (volume.record.name.clone(), bytes)
        })
        .collect();
    let wrong_block = |volumes: &BTreeMap<String, ModelVolume>| {
        volumes.iter().find_map(|(name, volume)| {
            let blocks = contents[name].chunks(BLOCK).zip(&volume.blocks);
            let wrong = blocks
                .enumerate()
                .find(|(_, (bytes, block))| !block.allowed.iter().any(|c| c == bytes));
            wrong.map(|(number, (_, block))| {
                format!("block {number} of {name}, which may be one of {}", block.allowed.len())
            })
        })
    };
    let candidates: Vec<&BTreeMap<String, ModelVolume>> = std::iter::once(&model.volumes)
        .chain(&model.after_change)
        .filter(|volumes| fits(volumes))
        .collect();
    assert!(!candidates.is_empty(), "volumes {names:?}, not {:?}", model.volumes.keys());
    let wrong: Vec<String> = candidates.iter().filter_map(|volumes| wrong_block(volumes)).collect();
    assert!(wrong.len() < candidates.len(), "{wrong:?}");
    model.volumes = pool
        .volumes()
        .iter()
        .map(|volume| {
            let blocks = contents[&volume.record.name]
                .chunks(BLOCK)
                .map(|bytes| Block::durable(bytes.to_vec()));
            (
                volume.record.name.clone(),
                ModelVolume {
                    blocks: blocks.collect(),
                    read_only: volume.record.read_only,
                    holds: holds_of(volume),
                },
            )
        })
        .collect();
    model.after_change = None;
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}
