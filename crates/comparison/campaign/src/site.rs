//! The place of one run: its directories, and making resources that the journal names.

use crate::error::StepError;
use crate::journal::Journal;
use crate::monitor::Watched;
use crate::process::{self, ProcessId};
use crate::resource::Resource;
use crate::system::Boot;
use gemelo_base::{Clock, FileIdentity, StopFlag};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Longest time that a step of making a target may take, such as formatting.
const MAKE_LIMIT: Duration = Duration::from_secs(600);

/// Pause between looks whether something that was started is ready.
const READY_PAUSE: Duration = Duration::from_millis(5);

/// The place of one run.
pub(crate) struct RunSite<'a> {
    /// The path of this program, which the steps of a run call.
    pub(crate) program: &'a Path,
    /// Directory for everything that the run makes and removes.
    pub(crate) work: PathBuf,
    /// Directory for the results of the run, which stay.
    pub(crate) results: PathBuf,
    pub(crate) journal: &'a mut Journal,
    /// Mark of the run in the environment of all its processes.
    pub(crate) mark: String,
    pub(crate) stop: &'a StopFlag,
    pub(crate) clock: &'a dyn Clock,
    /// The processes of the target, for the monitor.
    pub(crate) watched: Watched,
    /// `true` if the processes of the load do the work of the target.
    pub(crate) load_is_target: bool,
    /// Seed of this repetition.
    pub(crate) seed: u64,
    pub(crate) repetition: u32,
    /// Warnings for the record of the run.
    pub(crate) warnings: Vec<String>,
}

impl RunSite<'_> {
    /// Returns a command of this program.
    pub(crate) fn gemelo(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(words);
        command
    }

    /// Returns the variables of the environment by which commands of the user learn of the run.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("RUN", self.mark.clone().into()),
            ("WORK", self.work.clone().into()),
            ("RESULTS", self.results.clone().into()),
            ("GEMELO", self.program.to_owned().into()),
            ("SEED", self.seed.to_string().into()),
            ("REPETITION", self.repetition.to_string().into()),
        ]
    }

    /// Returns a name for a thing of the system that nobody else has chosen.
    pub(crate) fn fresh_name(&self) -> String {
        format!("gemelo{:016x}", gemelo_base::random::fresh_word())
    }

    /// Makes a directory of the run that did not exist.
    pub(crate) fn directory(&mut self, path: &Path) -> Result<PathBuf, StepError> {
        self.journal.directory(path)
    }

    /// Makes a directory whose path is short enough for a socket in it.
    pub(crate) fn socket_directory(&mut self) -> Result<PathBuf, StepError> {
        let name = format!("gemelo-{:016x}", gemelo_base::random::fresh_word());
        self.directory(&std::env::temp_dir().join(name))
    }

    /// Makes a sparse file in the directory of the run.
    pub(crate) fn sparse_file(&self, name: &str, bytes: u64) -> Result<PathBuf, StepError> {
        let path = self.work.join(name);
        let made = File::create_new(&path).and_then(|file| file.set_len(bytes));
        made.map_err(StepError::io("create", &path))?;
        Ok(path)
    }

    /// Runs a program to its end and returns its standard output.
    pub(crate) fn run(&self, command: &mut Command) -> Result<String, StepError> {
        process::prepare(command, &self.mark);
        process::output(command, MAKE_LIMIT, Some(self.stop))
    }

    /// Runs a program whose outputs go to files of the results, and returns its status.
    pub(crate) fn run_logged(
        &mut self,
        command: &mut Command,
        name: &str,
        limit: Duration,
    ) -> Result<ExitStatus, StepError> {
        let (out, err) = (format!("{name}.out"), format!("{name}.err"));
        command.stdout(self.result_file(&out)?).stderr(self.result_file(&err)?);
        process::prepare(command, &self.mark);
        let mut child = process::start(command)?;
        if self.load_is_target {
            self.watched.add(child.id());
        }
        self.note_process(child.id(), &process::name_of(command))?;
        process::wait(&mut child, &process::name_of(command), limit, Some(self.stop))
    }

    /// Starts a process that runs until the target is given back. Its output goes to a file.
    pub(crate) fn start(&mut self, command: &mut Command, name: &str) -> Result<u32, StepError> {
        let log = self.result_file(&format!("{name}.log"))?;
        let twin = log.try_clone().map_err(StepError::io("open", name))?;
        command.stdout(log).stderr(twin);
        process::prepare(command, &self.mark);
        let child = process::start(command)?;
        self.note_process(child.id(), name)?;
        Ok(child.id())
    }

    /// Records a process that was just started. Until then, its mark identifies it.
    fn note_process(&mut self, pid: u32, name: &str) -> Result<(), StepError> {
        let Some(process) = ProcessId::of(pid) else { return Ok(()) };
        let name = name.to_owned();
        self.journal.note(Resource::Process { process, name, boot: Boot::this() })
    }

    fn result_file(&self, name: &str) -> Result<File, StepError> {
        let path = self.results.join(name);
        File::create(&path).map_err(StepError::io("create", path))
    }

    /// Returns the last part of a file of the results.
    fn end_of(&self, name: &str) -> String {
        process::end_of(&std::fs::read_to_string(self.results.join(name)).unwrap_or_default())
    }

    /// Makes the error of a program that has failed, with the last lines of its errors, which
    /// [`RunSite::run_logged`] has kept under this name.
    pub(crate) fn failure(&self, program: &str, name: &str, status: ExitStatus) -> StepError {
        let (program, status) = (program.to_owned(), status.to_string());
        StepError::Program { program, status, output: self.end_of(&format!("{name}.err")) }
    }

    /// Waits until a condition holds, while a process runs that is to bring it about.
    pub(crate) fn wait_until(
        &self,
        pid: u32,
        name: &str,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), StepError> {
        let start_ns = self.clock.now_ns();
        while !is_ready() {
            let waited = Duration::from_nanos(self.clock.now_ns().saturating_sub(start_ns));
            if self.stop.is_raised() {
                return Err(StepError::Interrupted);
            } else if !ProcessId::of(pid).is_some_and(|process| process.is_running()) {
                let (program, status) = (name.to_owned(), "an early end".to_owned());
                let output = self.end_of(&format!("{name}.log"));
                return Err(StepError::Program { program, status, output });
            } else if waited > MAKE_LIMIT {
                return Err(StepError::TooLong { program: name.to_owned(), limit: MAKE_LIMIT });
            }
            gemelo_base::pause(READY_PAUSE);
        }
        Ok(())
    }

    /// Attaches a file to a loop device and returns its path.
    pub(crate) fn attach(&mut self, file: &Path) -> Result<PathBuf, StepError> {
        let identity = FileIdentity::at(file).map_err(StepError::io("find", file))?;
        let file = file.to_owned();
        self.journal.note(Resource::Loop { file: file.clone(), identity, boot: Boot::this() })?;
        let printed = self.run(Command::new("losetup").args(["--find", "--show"]).arg(file))?;
        Ok(printed.trim().into())
    }

    /// Records a mount that is about to be made in a directory of the run.
    pub(crate) fn note_mount(&mut self, path: PathBuf) -> Result<(), StepError> {
        let directory = path.parent().unwrap_or(&self.work);
        let parent = FileIdentity::at(directory).map_err(StepError::io("find", directory))?;
        self.journal.note(Resource::Mount { path, parent, boot: Boot::this() })
    }

    /// Mounts a file system at a new directory of the run, and returns the directory.
    pub(crate) fn mount(&mut self, device: &Path, options: &str) -> Result<PathBuf, StepError> {
        let path = self.work.join("mount");
        std::fs::create_dir(&path).map_err(StepError::io("create", &path))?;
        self.note_mount(path.clone())?;
        let mut command = Command::new("mount");
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        self.run(command.arg(device).arg(&path))?;
        Ok(path)
    }

    /// Waits, and ends early if the campaign is asked to stop.
    pub(crate) fn pause(&self, length: Duration) -> Result<(), StepError> {
        /// Pause between looks at the stop flag.
        const STEP: Duration = Duration::from_millis(50);
        let start_ns = self.clock.now_ns();
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        loop {
            let left_ns = length_ns.saturating_sub(self.clock.now_ns().saturating_sub(start_ns));
            match left_ns {
                _ if self.stop.is_raised() => return Err(StepError::Interrupted),
                0 => return Ok(()),
                left => gemelo_base::pause(STEP.min(Duration::from_nanos(left))),
            }
        }
    }
}
