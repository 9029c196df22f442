//! Computes the needs of a domain of 2 to 1,000 members, by simulation from measured costs:
//!
//! ```sh
//! cargo run --release -p gemelo-sharing --example sizing
//! ```
//!
//! `docs/internals/sizing-a-domain.md` has the output, and says what follows from it.

#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "it prints tables, and its arrays have as many elements as there are kinds of changes"
)]

mod costs;
mod load;

use costs::{Gathering, MemberLoad, need};
use load::{Outcome, Setup, run};

/// Members of the published measurement, and more.
const MEMBERS: [u32; 9] = [2, 4, 8, 16, 32, 100, 250, 500, 1000];
/// Blocks that all members examine together at most: more members have smaller volumes.
const MAX_BLOCKS: u64 = 8 << 20;
/// Blocks of a published image: 1 GB of each volume is not zero.
const IMAGE: u64 = 245_000;
/// Rates of the writes of one member.
const RATES: [(&str, f64); 3] = [("0.1 MB/s", 1e5), ("1 MB/s", 1e6), ("10 MB/s", 1e7)];
/// Stored bytes of a member.
const STORED: f64 = 1e12;
/// As members gather changes by default, and for minutes.
const GATHERINGS: [Gathering; 2] =
    [Gathering { pause_s: 0.5, batch: 16_384.0 }, Gathering { pause_s: 600.0, batch: 4e6 }];

fn setup(members: u32) -> Setup {
    let image = IMAGE.min(MAX_BLOCKS / u64::from(members));
    Setup { members, volume: 4 * image, image, rounds: 8, writes: image / 4, seed: 1 }
}

fn main() {
    println!("members  image %  writes %  all %  changes for each written block");
    let outcomes: Vec<(u32, Outcome)> =
        MEMBERS.iter().map(|members| (*members, run(&setup(*members)))).collect();
    for (members, outcome) in &outcomes {
        let [published, shared, released, withdrawn] = outcome.changes();
        println!(
            "{members:>7} {:>8.1} {:>9.1} {:>6.1}  published {published:.2}, shared {shared:.2}, \
             released {released:.2}, withdrawn {withdrawn:.2}",
            outcome.image.percent(),
            outcome.writes.percent(),
            outcome.all().percent(),
        );
    }
    for (name, rate) in RATES {
        println!("\neach member writes {name} and stores 1 TB");
        println!(
            "members   shards  keys/shard  changes/s  MB for each GB  memory MB  \
             busy/planned again: gathered for 0.5 s, for 600 s"
        );
        for (members, outcome) in &outcomes {
            let [soon, late] = GATHERINGS.map(|gathering| {
                need(
                    *members,
                    &MemberLoad {
                        written_bytes_per_s: rate,
                        changes: outcome.changes(),
                        stored_bytes: STORED,
                        entries_per_block: outcome.entries as f64
                            / outcome.references.max(1) as f64,
                        gathering,
                    },
                )
            });
            println!(
                "{members:>7} {:>8.0} {:>11.0} {:>10.0} {:>15.1} {:>10.0}  {:>9.2} {:>3.0} % {:>9.2} \
                 {:>3.0} %",
                soon.shards,
                soon.keys_per_shard,
                soon.changes_per_s,
                soon.bytes_per_gb / 1e6,
                soon.memory_bytes / 1e6,
                soon.busy,
                100.0 * soon.void,
                late.busy,
                100.0 * late.void,
            );
        }
    }
}
