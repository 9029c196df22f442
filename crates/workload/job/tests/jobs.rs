//! Jobs from their options to results that are read back from a file.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use clap::Parser;
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_filebench::Console;
use gemelo_job::filebench::{self, FilebenchOptions};
use gemelo_job::replay::{self, ReplayJobOptions};
use gemelo_job::{
    JobEnvironment, OutputError, OutputFile, OutputFiles, bench, job_file, suite, verify,
};
use gemelo_load::History;
use gemelo_record::{Provenance, read_result, to_json};
use gemelo_target::Targets;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Writes outputs as plain files.
struct PlainFiles;

struct PlainFile(std::fs::File);

impl OutputFiles for PlainFiles {
    fn create(&self, path: &Path, _force: bool) -> Result<Box<dyn OutputFile>, OutputError> {
        Ok(Box::new(PlainFile(std::fs::File::create(path).unwrap())))
    }
}

impl Write for PlainFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl OutputFile for PlainFile {
    fn finish(self: Box<Self>) -> Result<(), OutputError> {
        self.0.sync_all().unwrap();
        Ok(())
    }
}

/// Calls `act` with an environment that knows files and `null:`.
fn with_environment<T>(act: impl FnOnce(&JobEnvironment<'_>) -> T) -> T {
    let (targets, clock, stop) = (Targets::new(), SystemClock::new(), StopFlag::new());
    let (monitor, outputs) = (&Silent, &PlainFiles);
    act(&JobEnvironment {
        targets: &targets,
        clock: &clock,
        monitor,
        stop: &stop,
        start: &gemelo_base::AtOnce,
        outputs,
    })
}

fn provenance() -> Provenance {
    Provenance::of_this_process(SystemTime::now())
}

fn written(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("result.json");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_job_file_becomes_a_result_that_is_read_back_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let (place, log) = (directory.path().join("data"), directory.path().join("accesses"));
    std::fs::create_dir(&place).unwrap();
    let text = format!(
        "target = '{}'\nfile-size = '1m'\nkeep = true\n[[job]]\nname = 'first'\n\
         access-log = '{}'\n[[job]]\nname = 'again'\npattern = 'uniform'\n",
        place.display(),
        log.display()
    );
    with_environment(|environment| {
        let jobs = job_file::parse(&text, environment.targets).unwrap();
        let jobs = bench::resolve_all(jobs, environment).unwrap();
        assert_eq!(jobs[0].outputs().collect::<Vec<_>>(), [log.as_path()]);
        bench::check(&jobs).unwrap();
        let mut names = Vec::new();
        let ran = bench::run(jobs, environment, |input, _| {
            names.push(input.name.clone());
            ControlFlow::Continue(())
        });
        assert!(ran.is_success && ran.errors.is_empty(), "{:?}", ran.errors);
        assert_eq!(names, ["first", "again"]);
        let file = ran.into_file(provenance());
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), 256);

        let path = written(directory.path(), &to_json(&file).unwrap());
        let read = read_result::<bench::BenchFile>(&path, bench::SCHEMA);
        let read = read.unwrap();
        assert_eq!(read, file);
        let checked = verify::verify(&read, None, environment).unwrap();
        assert!(checked.verification.is_success() && checked.failure.is_none());
        assert_eq!(checked.verification.checked_blocks, 256);
    });
}

/// Runs jobs and returns their result as it is read from a file.
fn result_of(text: &str, environment: &JobEnvironment<'_>) -> bench::BenchFile {
    let jobs = job_file::parse(text, environment.targets).unwrap();
    let jobs = bench::resolve_all(jobs, environment).unwrap();
    let ran = bench::run(jobs, environment, |_, _| ControlFlow::Continue(()));
    assert!(ran.is_success && ran.errors.is_empty(), "{:?}", ran.errors);
    ran.into_file(provenance())
}

/// A job with other contents than the job before it writes the files anew.
#[test]
fn files_are_verified_with_the_contents_of_the_job_that_wrote_them() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "target = '{}'\nfile-size = '64k'\nkeep = true\nforce = true\n\
         [[job]]\nentropy = 8\n[[job]]\nentropy = 4\n[[job]]\nentropy = 4\n",
        directory.path().join("data").display()
    );
    with_environment(|environment| {
        let file = result_of(&text, environment);
        let checked = verify::verify(&file, None, environment).unwrap();
        assert_eq!(file.result[2].history.as_ref().unwrap().segments.len(), 2);
        assert_eq!(checked.verification.wrong_blocks, 0, "{:?}", checked.verification);
        assert_eq!(checked.verification.checked_blocks, 16);
    });
}

#[test]
fn a_result_whose_history_is_not_that_of_its_jobs_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "target = '{}'\nfile-size = '64k'\nkeep = true\n",
        directory.path().join("data").display()
    );
    with_environment(|environment| {
        let file = result_of(&text, environment);
        let with = |change: fn(&mut History)| {
            let mut file = file.clone();
            change(file.result[0].history.as_mut().unwrap());
            verify::verify(&file, None, environment)
        };
        assert!(with(|_| ()).is_ok());
        let changes: [fn(&mut History); 5] = [
            |history| history.block_bytes = 0,
            |history| history.place_blocks = u64::MAX,
            |history| history.processes = u32::MAX,
            |history| history.segments.clear(),
            |history| history.segments.extend(history.segments.clone()),
        ];
        for change in changes {
            assert!(matches!(with(change), Err(verify::VerifyError::OtherHistory)));
        }
    });
}

#[test]
fn a_run_ends_after_the_job_that_the_caller_breaks_at() {
    let text = "target = 'null:'\nfile-size = '64k'\n[[job]]\n[[job]]\n";
    with_environment(|environment| {
        let jobs = job_file::parse(text, environment.targets).unwrap();
        let jobs = bench::resolve_all(jobs, environment).unwrap();
        let ran = bench::run(jobs, environment, |_, _| ControlFlow::Break(()));
        assert_eq!((ran.input.len(), ran.result.len(), ran.is_success), (1, 1, false));
    });
}

#[test]
fn the_suite_is_eight_jobs_with_operations_of_its_own() {
    let options = job_file::parse("target = 'null:'\n", &Targets::new()).unwrap().remove(0);
    assert_eq!(suite::jobs(&options).unwrap().len(), 8);
    let own = job_file::parse("operation = 'read'\n", &Targets::new()).unwrap().remove(0);
    assert!(suite::jobs(&own).unwrap_err().to_string().contains("--operation"));
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Replay {
    #[command(flatten)]
    job: ReplayJobOptions,
}

#[test]
fn a_replay_has_a_result_that_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let line = |n: u64| format!("{n} 1 app {} 8 W 6 0 3df1244f6143869f52abf2a1d73d0c0f\n", n * 8);
    std::fs::write(&trace, (0..20).map(line).collect::<String>()).unwrap();
    let target = directory.path().join("disk");
    let words = [trace.to_str().unwrap(), "--speed=max", "--target", target.to_str().unwrap()];
    let job = Replay::parse_from(words).job;
    with_environment(|environment| {
        let ran = replay::resolve(&job, environment).unwrap().run(environment).unwrap();
        assert!(ran.is_success && ran.errors.is_empty() && !target.exists());
        assert_eq!(ran.result.records, 20);
        let file = ran.into_file(provenance());
        let path = written(directory.path(), &to_json(&file).unwrap());
        let read = read_result::<replay::ReplayFile>(&path, replay::SCHEMA).unwrap();
        assert_eq!(read, file);
    });
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Filebench {
    #[command(flatten)]
    job: FilebenchOptions,
}

struct NoLines;

impl Console for NoLines {
    fn line(&self, _text: &str) {}
}

#[test]
fn a_sweep_of_a_script_has_a_result_that_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let text = "set $dir=/none\nset $n=1\n\
        define fileset name=s,path=$dir,entries=$n,filesize=4k,dirwidth=5,prealloc\n\
        set mode quit firstdone\n\
        define process name=p { thread name=t { flowop openfile name=o,filesetname=s\n\
        flowop closefile name=c\nflowop finishoncount name=f,value=10 } }\nrun 5\n";
    let dir = directory.path().join("tree");
    std::fs::create_dir(&dir).unwrap();
    let words = ["x.f", "--dir", dir.to_str().unwrap(), "--sweep", "n=1,2"];
    let job = Filebench::parse_from(words).job;
    with_environment(|environment| {
        let resolved = filebench::resolve(&job, text.to_owned()).unwrap();
        let console: Arc<dyn Console> = Arc::new(NoLines);
        let ran = resolved.run(&console, environment).unwrap();
        assert!(ran.is_success && ran.errors.is_empty(), "{:?}", ran.errors);
        assert_eq!(ran.result.len(), 2);
        let file = ran.into_file(provenance());
        let path = written(directory.path(), &to_json(&file).unwrap());
        let read = read_result::<filebench::FilebenchFile>(&path, filebench::SCHEMA).unwrap();
        assert_eq!(read, file);
    });
}
