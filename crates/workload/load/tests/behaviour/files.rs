//! Tests real files through both engines.

use super::{blocks, contents, job, run_on, verify_on};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_load::{
    Ended, Environment, FoundContent, Job, JobError, JobOperation, JobSpec, Pace, Populate,
    RunResult, SyncPolicy, Verify, run,
};
use gemelo_target::{Engine, FileStorage, PlaceAccess, Storage, Target};
use std::os::unix::fs::FileExt;
use std::path::Path;

fn open(path: &Path, job: &Job) -> Box<dyn Target> {
    FileStorage::new(path).plan(&job.layout(false)).unwrap().prepare().unwrap()
}

fn mixed() -> JobSpec {
    JobSpec {
        operation: JobOperation::Mixed,
        pattern: "uniform".parse().unwrap(),
        processes: 2,
        file_bytes: blocks(300),
        process_bytes: Some(blocks(1500)),
        populate: Populate::Content,
        verify: Verify::Both,
        ..JobSpec::default()
    }
}

#[test]
fn every_engine_and_sync_reads_back_what_it_wrote() {
    let engines = [(Engine::Psync, 1), (Engine::IoUring, 1), (Engine::IoUring, 32)];
    for (engine, queue_depth) in engines {
        for sync in [SyncPolicy::None, SyncPolicy::Direct, SyncPolicy::Both] {
            let job = job(JobSpec { engine, queue_depth, sync, fsync_every: 500, ..mixed() });
            // The files are not in /tmp, which may be on storage without direct I/O.
            let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let mut target = open(directory.path(), &job);
            let result = run_on(&job, target.as_ref());
            assert!(result.is_success(), "{engine} {queue_depth} {sync:?}: {result:?}");
            target.finish(false).unwrap();
            assert_eq!(directory.path().read_dir().unwrap().count(), 0, "files are removed");
        }
    }
}

#[test]
fn a_kept_file_is_verified_later_from_the_result_alone() {
    let job =
        job(JobSpec { verify: Verify::None, engine: Engine::IoUring, queue_depth: 8, ..mixed() });
    let directory = tempfile::tempdir().unwrap();
    let mut target = open(directory.path(), &job);
    let result = run_on(&job, target.as_ref());
    target.finish(true).unwrap();
    let text = serde_json::to_string(&result).unwrap();
    let result: RunResult = serde_json::from_str(&text).unwrap();
    let storage = FileStorage::new(directory.path());
    let layout = job.layout_with(PlaceAccess::Read, false);
    let reopen = || storage.plan(&layout).unwrap().prepare().unwrap();
    let verification = verify_on(&job, reopen().as_ref(), &result);
    assert!(verification.is_success() && verification.checked_blocks == 600, "{verification:?}");

    let path = directory.path().join("gemelo-0001.data");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; 4096], blocks(17)).unwrap();
    file.write_all_at(b"!", blocks(20) + 5).unwrap();
    let verification = verify_on(&job, reopen().as_ref(), &result);
    assert_eq!(verification.wrong_blocks, 2);
    let [zeros, garbage] = &verification.mismatches[..] else { panic!("{verification:?}") };
    assert_eq!(
        (zeros.process, zeros.offset_bytes, &zeros.found),
        (1, blocks(17), &FoundContent::Zeros)
    );
    assert_eq!(garbage.found, FoundContent::Garbage { first_difference: 5, different_bytes: 1 });
}

#[test]
fn a_job_goes_on_where_another_ended() {
    let directory = tempfile::tempdir().unwrap();
    let write = job(JobSpec {
        operation: JobOperation::Write,
        populate: Populate::None,
        process_bytes: Some(blocks(300)),
        verify: Verify::None,
        ..mixed()
    });
    let target = open(directory.path(), &write);
    let written = run_on(&write, target.as_ref());
    let read = job(JobSpec { operation: JobOperation::Read, populate: Populate::None, ..mixed() });
    let (clock, stop) = (SystemClock::new(), StopFlag::new());
    let environment =
        Environment { clock: &clock, monitor: &Silent, stop: &stop, start: &gemelo_base::AtOnce };
    let contents = contents(&write);
    let again = |job: &Job, before: &RunResult| {
        run(job, &contents, target.as_ref(), before.history.as_ref(), &environment, None)
    };
    let result = again(&read, &written).unwrap();
    assert!(result.is_success(), "{result:?}");
    let rewritten = again(&write, &result).unwrap();
    let reread = again(&read, &rewritten).unwrap();
    assert!(reread.is_success(), "{reread:?}");
    assert_eq!(reread.verification.unwrap().unknown_blocks, 0);
    let other = job(JobSpec { file_bytes: blocks(299), ..mixed() });
    assert!(again(&other, &written).is_err());
}

#[test]
fn a_full_disk_is_named_and_the_figures_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(directory.path())
        .status();
    if !mount.is_ok_and(|status| status.success()) {
        gemelo_tools::skip!("root, for mounting");
    }
    let job = job(JobSpec {
        operation: JobOperation::Write,
        populate: Populate::None,
        preallocate: false,
        file_bytes: blocks(1024),
        pattern: "sequential".parse().unwrap(),
        process_bytes: Some(blocks(1024)),
        ..mixed_final()
    });
    let mut target = open(directory.path(), &job);
    let result = run_on(&job, target.as_ref());
    let removed = target.finish(false);
    drop(target);
    let unmounted = std::process::Command::new("umount").arg(directory.path()).status();
    assert_eq!(result.ended, Ended::Failed);
    let failure = result.failure.as_ref().unwrap();
    assert!(
        failure.reason.contains("No space left") && failure.place.contains("gemelo-000"),
        "{failure}"
    );
    assert!(failure.offset_bytes > 0 && failure.operation == "write", "{failure}");
    let written = result.total.writes.unwrap().operations;
    assert!((200..=256).contains(&written), "{written}");
    assert!(removed.is_ok() && unmounted.is_ok_and(|status| status.success()));
}

fn mixed_final() -> JobSpec {
    JobSpec { verify: Verify::Final, ..mixed() }
}

#[test]
fn a_file_that_is_cut_short_under_a_run_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let spec = JobSpec {
        operation: JobOperation::Read,
        pattern: "sequential".parse().unwrap(),
        ..mixed()
    };
    let job = job(JobSpec { populate: Populate::None, ..spec });
    for process in 0..2 {
        let name = format!("gemelo-000{process}.data");
        std::fs::write(directory.path().join(name), vec![0; blocks(300) as usize]).unwrap();
    }
    let target = open(directory.path(), &job);
    let cut =
        std::fs::OpenOptions::new().write(true).open(directory.path().join("gemelo-0001.data"));
    cut.unwrap().set_len(blocks(100)).unwrap();
    let result = run_on(&job, target.as_ref());
    let failure = result.failure.unwrap();
    assert_eq!((failure.process, failure.offset_bytes), (1, blocks(100)));
    assert!(failure.reason.contains("the file ends before the range does"), "{failure}");
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let refused = |spec: JobSpec| Job::new(spec).unwrap_err().to_string();
    let cases: [(JobSpec, &str); 16] = [
        (JobSpec { block_bytes: 8, ..mixed() }, "the block size is 8"),
        (JobSpec { file_bytes: 5000, ..mixed() }, "the file size is 5000"),
        (JobSpec { file_bytes: 0, ..mixed() }, "the file size is 0"),
        (JobSpec { processes: 0, ..mixed() }, "the number of processes is 0"),
        (JobSpec { queue_depth: 0, ..mixed() }, "the queue depth is 0"),
        (JobSpec { queue_depth: 2, ..mixed() }, "psync does one operation"),
        (JobSpec { process_bytes: Some(1), ..mixed() }, "at least an operation"),
        (JobSpec { request_blocks: 0, ..mixed() }, "the request size is 0"),
        (JobSpec { request_blocks: 1 << 40, ..mixed() }, "from one block to 16 MiB"),
        (JobSpec { request_blocks: 7, ..mixed() }, "and of the request size"),
        (JobSpec { process_bytes: None, ..mixed() }, "never end"),
        (JobSpec { write_share: f64::NAN, ..mixed() }, "the write share"),
        (JobSpec { pace: Pace::Rate { ops_per_s: 0.0 }, ..mixed() }, "the rate is 0"),
        (JobSpec { cool_down_ns: 1, ..mixed() }, "a cool-down needs a time"),
        (JobSpec { ramp_up_ns: 5, time_ns: Some(5), ..mixed() }, "no time to measure"),
        (JobSpec { operation: JobOperation::Write, ..mixed() }, "reads nothing to verify"),
    ];
    for (spec, message) in cases {
        let error = refused(spec);
        assert!(error.contains(message), "{error}");
    }
    let rates = Pace::Rates { reads_per_s: 1.0, writes_per_s: 1.0 };
    let error = Job::new(JobSpec { pace: rates, operation: JobOperation::Read, ..mixed() });
    assert!(matches!(error, Err(JobError::Contradiction(_))));
}
