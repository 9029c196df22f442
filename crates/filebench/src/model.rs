//! What a script describes, resolved and checked: filesets, processes, threads, flowops, and the steps to take.

use crate::chance::RandomVariable;
use crate::flowop::Kind;
use crate::script::syntax::QuitMode;
use crate::sources::SourceSpec;
use gemelo_base::random::Random;
use std::path::PathBuf;
use std::sync::Arc;

/// A number that is fixed, or drawn anew each time.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// Always the same.
    Fixed(f64),
    /// Drawn from a random variable.
    Drawn(Arc<RandomVariable>),
}

impl Quantity {
    /// The next value, as a whole number; negative ones are 0.
    #[inline]
    #[must_use]
    pub fn next(&self, random: &mut Random) -> u64 {
        self.next_real(random) as u64
    }

    /// The next value.
    #[inline]
    #[must_use]
    pub fn next_real(&self, random: &mut Random) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Drawn(variable) => variable.draw(random),
        }
    }

    /// Its mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Drawn(variable) => variable.mean(),
        }
    }
}

/// `define file` or `define fileset`.
#[derive(Debug, Clone, PartialEq)]
pub struct FilesetSpec {
    /// Its name, and that of its folder.
    pub name: String,
    /// Where the script defines it, in bytes.
    pub at: usize,
    /// The folder that its folder lies in.
    pub path: PathBuf,
    /// Whether it is a single file.
    pub is_file: bool,
    /// Files.
    pub entries: u64,
    /// Empty folders that makedir and removedir work on.
    pub leaf_dirs: u64,
    /// Bytes of each file.
    pub size: Quantity,
    /// Entries of each folder.
    pub dir_width: Quantity,
    /// Shape of the gamma distribution of widths and depths; 0 for none.
    pub dir_gamma: f64,
    /// Depth of each folder, where the script gives it.
    pub dir_depth: Option<Quantity>,
    /// Share of the files that exist before the run, in percent.
    pub prealloc_percent: f64,
    /// Files are made by several threads.
    pub paralloc: bool,
    /// An existing tree is used.
    pub reuse: bool,
    /// An existing tree is used without looking at it.
    pub trust_tree: bool,
    /// Files are opened for reading only.
    pub read_only: bool,
    /// Files are opened for writing only.
    pub write_only: bool,
    /// Whether files may stay in the page cache after they were made.
    pub cached: bool,
    /// What is written into the files.
    pub source: Option<SourceSpec>,
}

/// Where a flowop finds its file handle among those of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// Always the same.
    Fixed(usize),
    /// The next of the rotating ones (`opennext`).
    Rotating,
}

/// One flowop of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// Its name; inside composites that of the composite, a dot, and its own.
    pub name: String,
    /// What it does.
    pub kind: Kind,
    /// Place of its statistics among those of its thread.
    pub cell: usize,
    /// How often it is done each time.
    pub iters: Quantity,
    /// The fileset it names.
    pub fileset: Option<usize>,
    /// Its file handle.
    pub slot: Slot,
    /// The file handle it takes data or sizes from; 0 for none.
    pub source_slot: usize,
    /// Bytes of an operation.
    pub io_size: Quantity,
    /// Bytes of the file that it works on; 0 for all.
    pub working_set: u64,
    /// What the flowop counts, waits for, ...
    pub value: Quantity,
    /// The text of `print`.
    pub message: String,
    /// Random places.
    pub random: bool,
    /// O_SYNC.
    pub dsync: bool,
    /// O_DIRECT.
    pub direct_io: bool,
    /// Read-ahead off.
    pub no_read_ahead: bool,
    /// `sempost` waits for the high water mark.
    pub blocking: bool,
    /// Which file, by number.
    pub index: Option<Quantity>,
    /// Whether the number is a share of half the set: its mean is at most 1.
    pub index_is_share: bool,
    /// Cells of the flowops that limits and finishers look at, in the same thread; empty for all of the process.
    pub target_cells: Vec<usize>,
    /// The name of the flowops that wakeup and sempost act on.
    pub target: String,
    /// The mark above which `sempost` waits.
    pub high_water: u64,
    /// Inner flowops of a composite.
    pub body: Vec<Flowop>,
}

/// `thread` of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSpec {
    /// Its name.
    pub name: String,
    /// How many run.
    pub instances: u64,
    /// Bytes of memory of each.
    pub memory_bytes: u64,
    /// What it does, again and again.
    pub flowops: Vec<Flowop>,
    /// Names of the flowops by cell.
    pub cells: Vec<(String, Kind)>,
    /// File handles that have a fixed place.
    pub slots: usize,
}

/// `define process`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSpec {
    /// Its name.
    pub name: String,
    /// How many run.
    pub instances: u64,
    /// Added to the niceness of its threads.
    pub nice: i64,
    /// Its threads.
    pub threads: Vec<ThreadSpec>,
}

/// Everything that is defined when files or processes are made.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Files and filesets.
    pub filesets: Vec<FilesetSpec>,
    /// Processes.
    pub processes: Vec<ProcessSpec>,
    /// Events a second, where `eventgen` set a rate.
    pub event_rate: Option<Quantity>,
    /// When a run ends.
    pub quit_mode: QuitMode,
    /// Whether the text shows latency histograms.
    pub histogram: bool,
}

/// A command, resolved.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Print a line.
    Say(String),
    /// Run a shell command.
    System(String),
    /// Make the files.
    CreateFiles(Arc<Plan>),
    /// Start the processes and go on.
    CreateProcesses(Arc<Plan>),
    /// Stop the processes.
    ShutdownProcesses,
    /// Make files, start, run this many seconds (0: until it ends by itself), print statistics, stop.
    Run(Arc<Plan>, f64),
    /// The same with statistics every so many seconds, which start anew each time where `reset` says so.
    PeriodicRun {
        /// What runs.
        plan: Arc<Plan>,
        /// Seconds between two statistics.
        period_s: f64,
        /// Whether statistics start anew.
        reset: bool,
        /// Seconds of the run; 0 until it ends by itself.
        time_s: f64,
    },
    /// Wait this many seconds.
    Sleep(f64),
    /// Start statistics anew.
    ClearStats,
    /// Print statistics.
    SnapStats,
    /// End.
    Quit,
}
