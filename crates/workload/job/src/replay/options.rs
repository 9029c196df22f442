//! The options of a replay.

use crate::TraceInput;
use crate::options::ContentOptions;
use clap::Args;
use gemelo_base::values::Size;
use gemelo_content::ContentSpec;
use gemelo_replay::{MapRule, Speed};
use gemelo_target::{Engine, TargetUri};
use serde::{Deserialize, Serialize};

/// The options of a replay.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct ReplayJobOptions {
    /// The traces to replay.
    #[command(flatten)]
    pub trace: TraceInput,
    /// Target of the replay: a file, a block device, pool:DIRECTORY/VOLUME, nbd://HOST/EXPORT,
    /// nbd+unix:///EXPORT?socket=PATH, vhost-user:SOCKET or null:
    #[arg(long, value_name = "URI", help_heading = "Target")]
    pub target: TargetUri,
    /// Size of the target [default: that of the device, volume or export, or the size that the
    /// trace needs]
    #[arg(long, value_name = "SIZE", help_heading = "Target")]
    pub size: Option<Size>,
    /// Treatment of places beyond the end of the target: refuse the trace, fold such places back to
    /// the start, or place all blocks densely side by side (refuse, fold or dense)
    #[arg(long, value_name = "HOW", default_value = "refuse", help_heading = "Target")]
    pub map: MapRule,
    /// Bypass the page cache (O_DIRECT)
    #[arg(long, help_heading = "Target")]
    pub direct: bool,
    /// Keep the file after the replay
    #[arg(long, help_heading = "Target")]
    pub keep: bool,
    /// Overwrite existing files, and devices, volumes and exports that hold data
    #[arg(long, help_heading = "Target")]
    pub force: bool,
    /// Speed as a multiple of the recorded one, such as 1, 40 or 640; or max, which ignores the
    /// recorded times
    #[arg(long, value_name = "FACTOR", default_value = "1", help_heading = "Load")]
    pub speed: Speed,
    /// Number of processes; each is a thread that replays a part of the target
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    pub processes: u32,
    /// Operations in flight of each process; on pool: the length of a batch [default: 32 with
    /// io-uring, else 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub queue_depth: Option<u32>,
    /// Interface to files and devices: psync or io-uring [default: io-uring with --queue-depth
    /// above 1, else psync]
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    pub engine: Option<Engine>,
    /// Compare every block that is read with its expected content
    #[arg(long, help_heading = "Load")]
    pub verify: bool,
    /// The contents of blocks whose content the traces do not state.
    #[command(flatten)]
    pub content: ContentOptions,
    /// The contents that the options describe, for other hosts, which then need none of the files
    /// that the options name.
    #[arg(skip)]
    pub spec: Option<ContentSpec>,
}
