//! The measured costs of the index, and what a domain needs by them.

/// The cost of changes of one kind.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Time of the store for a batch of one shard, and for each content of it. Three storage
    /// servers work side by side, so this is a share of their time and not a latency.
    batch_s: f64,
    content_s: f64,
    /// Bytes of index and ledger that a change moves, without replication.
    bytes: f64,
}

/// Published, shared, released: fitted to measurements with
/// 1,000, 16,000 and 48,000 contents submitted together to 16 shards by one member. The bytes are
/// those of `cargo bench -p gemelo-sharing --bench sharing`.
const COSTS: [Cost; 3] = [
    Cost { batch_s: 0.9e-3, content_s: 4.5e-6, bytes: BYTES[0] },
    Cost { batch_s: 1.2e-3, content_s: 8.4e-6, bytes: BYTES[1] },
    Cost { batch_s: 1.4e-3, content_s: 9.0e-6, bytes: BYTES[2] },
];
/// Bytes of a change that is published, shared, released.
const BYTES: [f64; 3] = [152.0, 177.0, 184.0];

/// The entries above which a shard is split.
const SHARD_ENTRIES: f64 = 200_000.0;
/// The least shards: the default of `gemelo domain create`.
const MIN_SHARDS: f64 = 16.0;
/// Time from the read of a shard to its guarded write, in which another change makes it void.
const WINDOW_S: f64 = 5e-3;
const BLOCK_BYTES: f64 = 4096.0;
/// Memory of a member's tables for each block of its pool: bitmaps, and the places of borrowed
/// blocks, which take memory for 256 blocks around each. From the same benchmark as the bytes.
const BITMAP_BYTES: f64 = 0.29;
const PLACE_BYTES: f64 = 8.1;
const GROUP_BLOCKS: f64 = 256.0;
/// Blocks that a GB has.
const GB_BLOCKS: f64 = 1e9 / BLOCK_BYTES;

/// The way in which a member gathers changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gathering {
    /// The time between two rounds.
    pub(crate) pause_s: f64,
    /// Most contents of a round.
    pub(crate) batch: f64,
}

/// The load of one member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberLoad {
    pub(crate) written_bytes_per_s: f64,
    /// Changes that are published, shared, released and withdrawn, for each written block.
    pub(crate) changes: [f64; 4],
    pub(crate) stored_bytes: f64,
    /// Contents of the index for each reference of a member.
    pub(crate) entries_per_block: f64,
    pub(crate) gathering: Gathering,
}

/// The needs of a domain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    pub(crate) shards: f64,
    pub(crate) keys_per_shard: f64,
    /// Changes of the index a second.
    pub(crate) changes_per_s: f64,
    /// Share of the time of three storage servers that the index takes: above 1 it is saturated.
    pub(crate) busy: f64,
    /// Share of the intents that are planned again.
    pub(crate) void: f64,
    pub(crate) bytes_per_gb: f64,
    /// Memory of the tables of one member.
    pub(crate) memory_bytes: f64,
}

/// Returns the bytes of index and ledger for each GB that is written.
pub(crate) fn bytes_per_gb(changes: [f64; 4]) -> f64 {
    let of = |(change, cost): (f64, &Cost)| change * cost.bytes;
    GB_BLOCKS * changes.into_iter().take(3).zip(&COSTS).map(of).sum::<f64>()
}

/// Returns what members of this load need. Each works in rounds, of all contents that came in one
/// pause or of a full batch.
pub(crate) fn need(members: u32, load: &MemberLoad) -> Need {
    let members = f64::from(members);
    let entries = members * load.stored_bytes / BLOCK_BYTES * load.entries_per_block;
    let shards = MIN_SHARDS.max((entries / SHARD_ENTRIES).log2().ceil().exp2());
    let blocks_per_s = load.written_bytes_per_s / BLOCK_BYTES;
    let rates = [0, 1, 2].map(|kind| load.changes[kind] * blocks_per_s);
    let all: f64 = rates.iter().sum();
    // A member that is too fast for one batch in a pause makes more rounds.
    let Gathering { pause_s, batch } = load.gathering;
    let rounds_per_s = (1.0 / pause_s).max(all / batch);
    let touched = |contents: f64| shards * (1.0 - (1.0 - 1.0 / shards).powf(contents));
    // Publishing and sharing go together, releases by themselves.
    let groups = [(rates[0] + rates[1], [0, 1]), (rates[2], [2, 2])];
    let mut busy = 0.0;
    let mut touches = 0.0;
    for (rate, kinds) in groups {
        let batches = rounds_per_s * touched(rate / rounds_per_s);
        touches += batches;
        busy += batches * COSTS[kinds[1]].batch_s;
    }
    busy += (0..3).map(|kind| rates[kind] * COSTS[kind].content_s).sum::<f64>();
    // The others change a shard at times that do not depend on each other.
    let void = 1.0 - (-(members - 1.0) * touches / shards * WINDOW_S).exp();
    Need {
        shards,
        keys_per_shard: entries / shards,
        changes_per_s: members * all,
        busy: members * busy / (1.0 - void).max(0.02),
        void,
        bytes_per_gb: bytes_per_gb(load.changes),
        memory_bytes: memory_bytes(load),
    }
}

fn memory_bytes(load: &MemberLoad) -> f64 {
    // The contents that are not in the index once for each reference are borrowed.
    let groups = 1.0 - load.entries_per_block.min(1.0).powf(GROUP_BLOCKS);
    load.stored_bytes / BLOCK_BYTES * (BITMAP_BYTES + PLACE_BYTES * groups)
}
