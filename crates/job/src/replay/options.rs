//! The options of a replay.

use crate::TraceInput;
use crate::options::ContentOptions;
use clap::Args;
use gemelo_base::values::Size;
use gemelo_replay::{MapRule, Speed};
use gemelo_target::{Engine, TargetUri};

/// The options of a replay.
#[derive(Debug, Clone, Args)]
pub struct ReplayJobOptions {
    /// The traces to replay.
    #[command(flatten)]
    pub trace: TraceInput,
    /// A file, a block device, pool:DIRECTORY/VOLUME, nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=PATH or null:
    #[arg(long, value_name = "URI", help_heading = "Target")]
    pub target: TargetUri,
    /// Size of the target [default: that of the device, volume or export, or what the trace needs]
    #[arg(long, value_name = "SIZE", help_heading = "Target")]
    pub size: Option<Size>,
    /// Places beyond the target's end: refuse; fold them back to its beginning; or lay all places out dense, one after the
    /// other
    #[arg(long, value_name = "HOW", default_value = "refuse", help_heading = "Target")]
    pub map: MapRule,
    /// Go past the page cache (O_DIRECT)
    #[arg(long, help_heading = "Target")]
    pub direct: bool,
    /// Keep the file after the replay
    #[arg(long, help_heading = "Target")]
    pub keep: bool,
    /// Overwrite existing files, and devices, volumes and exports that hold data
    #[arg(long, help_heading = "Target")]
    pub force: bool,
    /// With the recorded gaps, so many times as fast, such as 1, 40 or 640; or max
    #[arg(long, value_name = "FACTOR", default_value = "1", help_heading = "Load")]
    pub speed: Speed,
    /// Threads, each with a part of the target
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub processes: u32,
    /// Operations under way in each process; for pool: the length of its batches [default: 32 with io-uring, else 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub queue_depth: Option<u32>,
    /// For files and devices: psync or io-uring [default: io-uring with --queue-depth above 1, else psync]
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    pub engine: Option<Engine>,
    /// Check every block that is read
    #[arg(long, help_heading = "Load")]
    pub verify: bool,
    /// The contents of blocks whose content the traces do not state.
    #[command(flatten)]
    pub content: ContentOptions,
}
