//! Pools: create, open, measure, grow and close them.

mod arrange;
mod copies;
mod create;
mod directory;
mod estimate;
mod find;
mod judge;
mod keep;
mod make;
mod memory;
mod open;
mod opened;
mod past_loss;
mod plan;
mod proof;
mod recompress;
mod remove;
mod repair;
mod replay;
mod replayed_data;
mod scrub;
mod set_apart;
mod stat;
mod tuning;

pub use create::{FullPool, PoolOptions};
pub use directory::PoolDirectory;
pub use estimate::FindEstimate;
pub use make::NewPool;
pub use opened::Pool;
pub use past_loss::RenamedVolume;
pub use plan::{LossChoice, RepairCost, RepairOptions, RepairOutlook, RepairPlan};
pub use remove::{PoolRemoval, RemovalStep};
pub use repair::{record_damage, repair, repair_outlook, repair_outlook_within, repair_within};
pub use scrub::{DamagedContent, ScrubOptions, ScrubReport};
pub use stat::{PoolStat, VolumeSummary};
pub use tuning::Tuning;
