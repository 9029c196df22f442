//! The content of a script, resolved and checked: filesets, processes, threads, flowops, and the
//! steps to take.

use crate::chance::RandomVariable;
use crate::flowop::Kind;
use crate::script::syntax::QuitMode;
use crate::sources::SourceSpec;
use gemelo_base::random::Random;
use std::path::PathBuf;
use std::sync::Arc;

/// A number that is fixed, or drawn at each use.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantity {
    /// A number that does not change during the run.
    Fixed(f64),
    /// A number drawn from a random variable.
    Drawn(Arc<RandomVariable>),
}

impl Quantity {
    /// Returns the next value as a whole number. Negative values become 0.
    #[inline]
    #[must_use]
    pub fn next(&self, random: &mut Random) -> u64 {
        self.next_real(random) as u64
    }

    /// Returns the next value.
    #[inline]
    #[must_use]
    pub fn next_real(&self, random: &mut Random) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Drawn(variable) => variable.draw(random),
        }
    }

    /// Returns the mean of the values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Drawn(variable) => variable.mean(),
        }
    }
}

/// The definition of a fileset, by `define file` or `define fileset`.
#[derive(Debug, Clone, PartialEq)]
pub struct FilesetSpec {
    /// Name of the fileset and of its directory.
    pub name: String,
    /// Byte of the script at which the definition begins.
    pub at: usize,
    /// Directory that contains the fileset's directory.
    pub path: PathBuf,
    /// `true` if the fileset is a single file.
    pub is_file: bool,
    /// Number of files.
    pub entries: u64,
    /// Number of empty directories, on which makedir and removedir work.
    pub leaf_dirs: u64,
    /// Size of each file in bytes.
    pub size: Quantity,
    /// Number of entries in each directory.
    pub dir_width: Quantity,
    /// Shape of the gamma distribution of widths and depths; 0 makes both fixed.
    pub dir_gamma: f64,
    /// Depth of each directory, if the script gives it.
    pub dir_depth: Option<Quantity>,
    /// Percentage of the files that exist before the run.
    pub prealloc_percent: f64,
    /// `true` if several threads create the files.
    pub paralloc: bool,
    /// `true` if an existing tree is used.
    pub reuse: bool,
    /// `true` if an existing tree is used without checking it.
    pub trust_tree: bool,
    /// `true` if files are opened for reading only.
    pub read_only: bool,
    /// `true` if files are opened for writing only.
    pub write_only: bool,
    /// `true` if files may stay in the page cache after they were created.
    pub cached: bool,
    /// Data source of the files.
    pub source: Option<SourceSpec>,
}

/// The file handle of a flowop among those of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandleSlot {
    /// The handle with this number.
    Fixed(usize),
    /// The next of the rotating handles (`opennext`).
    Rotating,
}

/// One flowop of a thread.
#[derive(Debug, Clone, PartialEq)]
pub struct Flowop {
    /// Name of the flowop. Within a composite it follows the name of the composite and a dot.
    pub name: String,
    /// Kind of the flowop.
    pub kind: Kind,
    /// Index of its statistics among those of its thread.
    pub cell: usize,
    /// Number of repetitions at each turn.
    pub iters: Quantity,
    /// Index of its fileset.
    pub fileset: Option<usize>,
    /// File handle of the flowop.
    pub slot: HandleSlot,
    /// File handle from which it takes data or sizes; 0 stands for none.
    pub source_slot: usize,
    /// Bytes of one operation.
    pub io_size: Quantity,
    /// Bytes of the file on which it works; 0 stands for the whole file.
    pub working_set: u64,
    /// Value of the flowop, such as a number of operations or a time.
    pub value: Quantity,
    /// Text of `print`.
    pub message: String,
    /// `true` if offsets are random.
    pub random: bool,
    /// `true` if files are opened with `O_SYNC`.
    pub dsync: bool,
    /// `true` if files are opened with `O_DIRECT`.
    pub direct_io: bool,
    /// `true` if read-ahead is disabled.
    pub no_read_ahead: bool,
    /// `true` if `sempost` waits at the high water mark.
    pub blocking: bool,
    /// Number of the file, if the script gives it.
    pub index: Option<Quantity>,
    /// `true` if the number is a share of half the set, which it is if its mean is at most 1.
    pub index_is_share: bool,
    /// Cells of the flowops that a limit or finisher observes in its own thread. An empty list
    /// stands for the whole process.
    pub target_cells: Vec<usize>,
    /// Name of the flowops on which wakeup and sempost act.
    pub target: String,
    /// Mark above which `sempost` waits.
    pub high_water: u64,
    /// Flowops of a composite.
    pub body: Vec<Flowop>,
}

/// The definition of a thread in a process.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadSpec {
    /// Name of the thread.
    pub name: String,
    /// Number of instances.
    pub instances: u64,
    /// Bytes of memory for each instance.
    pub memory_bytes: u64,
    /// Flowops that the thread executes in turn until the run ends.
    pub flowops: Vec<Flowop>,
    /// Names and kinds of the flowops by cell.
    pub cells: Vec<(String, Kind)>,
    /// Number of fixed file handles.
    pub slots: usize,
}

/// The definition of a process, by `define process`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSpec {
    /// Name of the process.
    pub name: String,
    /// Number of instances.
    pub instances: u64,
    /// Number added to the niceness of its threads.
    pub nice: i64,
    /// Threads of each instance.
    pub threads: Vec<ThreadSpec>,
}

/// The definitions in effect when files are created or processes start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkloadPlan {
    /// Definitions of files and filesets.
    pub filesets: Vec<FilesetSpec>,
    /// Definitions of processes.
    pub processes: Vec<ProcessSpec>,
    /// Events a second, if `eventgen` set a rate.
    pub event_rate: Option<Quantity>,
    /// Condition that ends a run.
    pub quit_mode: QuitMode,
    /// `true` if the printed statistics include latency histograms.
    pub histogram: bool,
}

/// A command whose variables have values.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Prints a line.
    Say(String),
    /// Runs a shell command.
    System(String),
    /// Creates the files.
    CreateFiles(Arc<WorkloadPlan>),
    /// Starts the processes and continues with the next step.
    CreateProcesses(Arc<WorkloadPlan>),
    /// Stops the processes.
    ShutdownProcesses,
    /// Creates the files, starts the processes, runs for this number of seconds, prints statistics
    /// and stops. With 0 seconds the run ends by itself.
    Run(Arc<WorkloadPlan>, f64),
    /// Does the same, and prints statistics periodically.
    PeriodicRun {
        /// Definitions of the run.
        plan: Arc<WorkloadPlan>,
        /// Seconds between two statistics.
        period_s: f64,
        /// `true` if each period has statistics of its own.
        reset: bool,
        /// Seconds of the run. With 0 seconds the run ends by itself.
        time_s: f64,
    },
    /// Waits for this number of seconds.
    Sleep(f64),
    /// Resets the statistics.
    ClearStats,
    /// Prints the statistics.
    SnapStats,
    /// Ends the program.
    Quit,
}

/// Calls `act` with each flowop, those of composites included.
pub(crate) fn each_flowop<'a>(flowops: &'a [Flowop], act: &mut dyn FnMut(&'a Flowop)) {
    for flowop in flowops {
        act(flowop);
        each_flowop(&flowop.body, act);
    }
}
