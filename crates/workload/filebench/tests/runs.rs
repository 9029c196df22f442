//! Tests waiting, rates, signals, ends of runs, statistics, and the files left on disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{once, run, run_in, run_shown, run_with};
use gemelo_base::{Classified, FailureKind, Recorder, StopFlag};
use gemelo_filebench::Options;
use std::time::{Duration, Instant};

const FILE: &str = "define file name=file,path=$dir,size=4k,prealloc";

#[test]
fn delay_waits_and_hog_counts() {
    let ran = run(&once(
        FILE,
        "flowop delay name=d,value=0.2\nflowop hog name=h,value=1000\nflowop statfile name=s,filename=file",
    ));
    let last = ran.result().intervals.last().unwrap();
    let delay = &last.flowops[0];
    assert!(delay.mean_latency_ns >= 2e8, "{}", delay.mean_latency_ns);
    assert_eq!((ran.flowop("h").0, last.operations), (1, 1), "neither is an operation on files");
}

#[test]
fn a_run_shows_its_operations_of_each_second() {
    let script = format!(
        "{FILE}\ndefine process name=p {{ thread name=t,memsize=1m {{\n\
         flowop read name=r,filename=file,iosize=1k\nflowop delay name=d,value=0.01 }} }}\nrun 2"
    );
    let (directory, shown) = (tempfile::tempdir().unwrap(), Recorder::new());
    let options = Options::default();
    let ran = run_shown(directory.path(), &script, &options, &StopFlag::new(), &shown);
    assert!(ran.0.unwrap().error.is_none());
    assert!(shown.phases().contains(&"running".to_owned()), "{:?}", shown.phases());
    let texts = shown.shown();
    assert!((1..=2).contains(&texts.len()), "{texts:?}");
    let (rate, rest) = texts[0].split_once(" operations/s, mean latency ").unwrap();
    // The delay is no operation on a file, and limits the reads to 100 a second.
    assert!((10..=100).contains(&rate.parse::<u32>().unwrap()), "{texts:?}");
    assert!(rest.ends_with('s'), "{texts:?}");
    assert!((1.7..2.1).contains(&(shown.advanced() as f64 / 1e9)), "{}", shown.advanced());
}

#[test]
fn events_limit_operations_transfers_and_bytes() {
    // Each run ends after 0.6 s. At 50 events a second there are 30 events, and those granted at
    // the start. A read of 1 MiB returns 4 KiB, and the next one finds the end: 512 reads for each
    // MiB.
    for (flowops, name, most) in [
        ("flowop read name=r,filename=file,iosize=1k\nflowop eventlimit name=l", "r", 33),
        ("flowop read name=r,filename=file,iosize=1k\nflowop opslimit name=l", "r", 35),
        ("flowop read name=r,filename=file,iosize=1k\nflowop iopslimit name=l,target=r", "r", 35),
        ("flowop read name=r,filename=file,iosize=1m\nflowop bwlimit name=l,target=r", "r", 17_000),
    ] {
        let text = format!(
            "{FILE}\neventgen rate=50\ndefine process name=p {{ thread name=t,memsize=1m {{ {flowops} }} }}\nrun 0.6"
        );
        let ran = run(&text);
        let last = ran.result().intervals.last().unwrap();
        let count = ran.flowop(name).0;
        let allowed = most as f64 * (last.elapsed_s / 0.6);
        assert!(count > 1 && (count as f64) <= allowed, "{flowops}: {count}");
    }
}

#[test]
fn a_rate_of_zero_limits_nothing() {
    let ran = run(&once(
        &format!("{FILE}\neventgen rate=0"),
        "flowop eventlimit name=l\nflowop statfile name=s,filename=file",
    ));
    assert_eq!((ran.flowop("l").0, ran.flowop("s").0), (0, 1));
}

#[test]
fn semaphores_hold_threads_back() {
    // Each take needs 10 posts, and posts block when 20 are ahead.
    let text = format!(
        "{FILE}\nset mode quit firstdone\ndefine process name=a {{ thread name=t {{ flowop semblock name=gate,value=10,highwater=20\n\
         flowop statfile name=s,filename=file\nflowop finishoncount name=f,value=5,target=s }} }}\n\
         define process name=b {{ thread name=t {{ flowop sempost name=post,target=gate,value=1,blocking }} }}\nrun 20"
    );
    let ran = run(&text);
    assert!(ran.outcome.error.is_none());
    assert_eq!(ran.flowop("s").0, 5);
    let posts = ran.flowop("post").0;
    assert!((50..=71).contains(&posts), "{posts}");
}

#[test]
fn wakeup_lets_blocked_threads_go_on() {
    let text = format!(
        "{FILE}\nset mode quit firstdone\ndefine process name=a {{ thread name=t,instances=2 {{ flowop block name=wait\n\
         flowop statfile name=s,filename=file\nflowop finishoncount name=f,value=4,target=s }} }}\n\
         define process name=b {{ thread name=t {{ flowop wakeup name=w,target=wait\nflowop delay name=d,value=0.02 }} }}\nrun 20"
    );
    let ran = run(&text);
    // A wakeup releases both blocked threads.
    assert!(ran.flowop("s").0 >= 4 && ran.flowop("w").0 >= 2);
}

#[test]
fn finishers_end_a_run_at_their_goal() {
    let append = "flowop appendfile name=a,filename=file,iosize=1k";
    for (finisher, bytes) in [
        ("flowop finishoncount name=f,value=7", 7 << 10),
        ("flowop finishonbytes name=f,value=5k", 5 << 10),
        ("flowop finishoncount name=f,value=3,target=a", 3 << 10),
    ] {
        let text = format!(
            "define file name=file,path=$dir,size=0,prealloc\n\
             define process name=p {{ thread name=t {{ {append}\n{finisher} }} }}\nrun 20"
        );
        let ran = run(&text);
        assert_eq!(ran.files("file")[0].1, bytes, "{finisher}");
        assert!(ran.result().complete);
    }
}

#[test]
fn running_out_of_files_ends_as_the_mode_says() {
    let script = |mode: &str| {
        format!(
            "{mode}\ndefine fileset name=set,path=$dir,entries=30,dirwidth=5,size=0,prealloc\n\
             define process name=p {{ thread name=t,instances=2 {{ flowop deletefile name=d,filesetname=set }} }}\nrun 20"
        )
    };
    for (mode, complete) in [
        ("set mode quit timeout", false),
        ("set mode quit firstdone", true),
        ("set mode quit alldone", true),
    ] {
        let ran = run(&script(mode));
        assert_eq!(ran.flowop("d").0, 30, "{mode}");
        assert_eq!(ran.result().complete, complete, "{mode}");
        assert!(ran.result().intervals.last().unwrap().elapsed_s < 15.0);
    }
}

/// The only file is open when the other thread wants to delete it, and is closed a moment later.
#[test]
fn deletefile_waits_for_a_file_that_nobody_has_open() {
    let text = format!(
        "set mode quit firstdone\n{FILE}\n\
         define process name=p {{ thread name=a {{ flowop openfile name=o,filename=file,fd=1\n\
           flowop sempost name=post,target=gate,value=1\nflowop delay name=d,value=0.02\nflowop closefile name=c,fd=1\n\
           flowop block name=forever }}\n\
         thread name=b {{ flowop semblock name=gate,value=1,highwater=1\nflowop deletefile name=del,filename=file\n\
           flowop finishoncount name=done,value=1,target=del }} }}\nrun 5"
    );
    let ran = run(&text);
    assert!(ran.outcome.error.is_none(), "{:?}", ran.outcome.error);
    assert_eq!((ran.flowop("o").0, ran.flowop("del").0, ran.files("file").len()), (1, 1, 0));
}

#[test]
fn print_and_testrandvar_say_what_they_found() {
    let ran = run(&once(
        FILE,
        "flowop statfile name=s,filename=file\nflowop print name=p,value=hello\n\
         flowop testrandvar name=v,value=cvar(type=cvar-uniform,parameters=lower:0;upper:100),iters=2000",
    ));
    assert!(
        ran.lines.contains(&"Message from process (p,1), thread (t,1): hello".to_owned()),
        "{:?}",
        ran.lines
    );
    let line = ran.lines.iter().find(|line| line.starts_with("testrandvar v: ops = 2000")).unwrap();
    let mean: f64 =
        line.split("mean = ").nth(1).unwrap().split(',').next().unwrap().trim().parse().unwrap();
    assert!((mean - 50.0).abs() < 3.0, "{line}");
}

#[test]
fn a_flowop_that_fails_ends_the_run_and_keeps_what_was_measured() {
    let ran = run(&once(
        FILE,
        "flowop statfile name=s,filename=file,iters=5\nflowop closefile name=c,fd=3",
    ));
    let error = ran.outcome.error.as_ref().unwrap().to_string();
    assert_eq!(error, "p, t: c cannot close a file: none is open");
    assert_eq!(ran.flowop("s").0, 5);
    assert!(!ran.result().complete);
}

#[test]
fn statistics_can_be_taken_and_cleared_while_processes_run() {
    let text = format!(
        "{FILE}\nenable lathist\ndefine process name=p {{ thread name=t {{ flowop statfile name=s,filename=file }} }}\n\
         create files\ncreate processes\nsleep 0.1\nstats snap\nstats clear\nsleep 0.1\nstats snap\nshutdown processes"
    );
    let ran = run(&text);
    let intervals = &ran.result().intervals;
    assert_eq!(intervals.len(), 2);
    let (first, second) = (&intervals[0].flowops[0], &intervals[1].flowops[0]);
    assert!(first.operations > 0 && second.operations > 0);
    assert!(intervals[1].elapsed_s < intervals[0].elapsed_s + 0.5);
    assert_eq!(second.latency_histogram.iter().sum::<u64>(), second.operations);
    assert!(second.min_latency_ns <= second.max_latency_ns && second.min_latency_ns > 0);
    assert!(
        ran.lines
            .iter()
            .any(|line| line.starts_with("Per-Operation Breakdown\ns ") && line.contains("\t[ "))
    );
}

#[test]
fn psrun_takes_statistics_every_period() {
    let process =
        "define process name=p { thread name=t { flowop statfile name=s,filename=file } }";
    let ran = run(&format!("{FILE}\n{process}\npsrun -0.1 0.45"));
    let elapsed: Vec<f64> =
        ran.result().intervals.iter().map(|interval| interval.elapsed_s).collect();
    assert!(elapsed.len() >= 3, "{elapsed:?}");
    assert!(elapsed.iter().all(|elapsed| *elapsed < 0.4), "each starts anew: {elapsed:?}");
}

#[test]
fn a_run_has_its_operations_of_each_second() {
    let process = "define process name=p { thread name=t { flowop statfile name=s,filename=file \
        flowop delay name=d,value=0.01 } }";
    let ran = run(&format!("{FILE}\n{process}\nrun 2.5"));
    let result = ran.result();
    let seconds = &result.seconds;
    assert!(seconds.len() >= 3, "{seconds:?}");
    let mut end_ns = 0;
    for second in seconds {
        assert_eq!(second.start_ns, end_ns, "{seconds:?}");
        assert!(second.operations > 0 && second.latency_sum_ns > 0, "{seconds:?}");
        end_ns += second.length_ns;
    }
    let counted: u64 = seconds.iter().map(|second| second.operations).sum();
    let all = result.intervals[0].operations;
    assert!(counted <= all && counted + 10 >= all, "{counted} of {all}");
}

#[test]
fn what_the_run_made_goes_away_and_what_was_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("a/b");
    let text = once(
        "define fileset name=set,path=$dir,entries=9,dirwidth=3,size=1k,prealloc",
        "flowop statfile name=s,filesetname=set",
    );
    let stop = StopFlag::new();
    let (outcome, _) = run_in(&deep, &text, &Options::default(), &stop);
    assert!(outcome.unwrap().error.is_none());
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        0,
        "directories above are gone too"
    );

    std::fs::create_dir_all(deep.join("set")).unwrap();
    std::fs::write(deep.join("set/precious"), "x").unwrap();
    let (outcome, _) = run_in(&deep, &text, &Options::default(), &stop);
    let error = outcome.unwrap_err();
    assert!(
        error.kind() == FailureKind::BadInput && error.to_string().contains("does not say 'reuse'"),
        "{error}"
    );
    assert!(deep.join("set/precious").exists());

    let reusing = text.replace("prealloc", "prealloc,reuse");
    let (outcome, _) = run_in(&deep, &reusing, &Options::default(), &stop);
    assert_eq!(outcome.unwrap().runs[0].filesets[0].files_made, 9);
    assert!(deep.join("set/precious").exists());
    let (outcome, lines) = run_in(&deep, &reusing, &Options::default(), &stop);
    assert_eq!(outcome.unwrap().runs[0].filesets[0].written_bytes, 0, "{lines:?}");

    let (outcome, _) = run_in(&deep, &text, &Options { force: true, ..Options::default() }, &stop);
    assert!(outcome.unwrap().error.is_none());
    assert!(!deep.join("set").exists());
}

#[test]
fn everything_stays_below_the_directory_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { dir: Some(directory.path().join("in")), ..Options::default() };
    for path in ["$dir/..", "$dir/out", "/tmp"] {
        let text = once(
            &format!("define file name=file,path=\"{path}\""),
            "flowop statfile name=s,filename=file",
        );
        let (outcome, _) = run_in(directory.path(), &text, &options, &StopFlag::new());
        assert_eq!(outcome.unwrap_err().kind(), FailureKind::BadInput, "{path}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_raised_flag_ends_a_run_at_once_with_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let stop = StopFlag::new();
    let (raised, root) = (stop.clone(), directory.path().to_owned());
    std::thread::spawn(move || {
        // The file has 4 KiB at first, so several operations have ended.
        gemelo_tools::wait_until("the file has grown", || {
            let mut files = Vec::new();
            common::collect(&root, &mut files);
            files.iter().any(|(_, bytes)| *bytes >= 8 << 10)
        });
        raised.raise();
    });
    let text = format!(
        "{FILE}\ndefine process name=p {{ thread name=t {{ flowop appendfile name=a,filename=file,iosize=1k\nflowop delay name=d,value=0.01 }}\n\
         thread name=u {{ flowop block name=b }} }}\nrun 60"
    );
    let begin = Instant::now();
    let (outcome, _) = run_in(directory.path(), &text, &Options::default(), &stop);
    let outcome = outcome.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(outcome.interrupted && !outcome.runs[0].complete);
    assert!(outcome.runs[0].intervals[0].operations > 0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn generation_is_kept_apart_and_a_source_can_come_from_outside() {
    let text = once(FILE, "flowop write name=w,filename=file,iosize=1m,iters=8");
    let source =
        gemelo_filebench::sources::SourceSpec::parse("entro,entropy=4,method=search").unwrap();
    let options = Options { keep: true, source: Some(source), ..Options::default() };
    let ran = run_with(&text, &options);
    let last = ran.result().intervals.last().unwrap();
    assert!(last.generation_ns > 0 && last.generation_ns < (last.elapsed_s * 1e9) as u64);
    assert!(last.data_bytes_per_io_s > last.data_bytes_per_s);
    let bytes = std::fs::read(&ran.files("file")[0].0).unwrap();
    assert!(bytes.iter().all(|byte| *byte < 16), "16 symbols have 4 bits");
    let other =
        Options { source_attribute: Some(("entropy".to_owned(), "0".to_owned())), ..options };
    let ran = run_with(&text, &other);
    assert!(std::fs::read(&ran.files("file")[0].0).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn system_runs_a_shell_and_the_same_seed_makes_the_same_tree() {
    let text = "system \"echo made by $dir\"\ndefine fileset name=set,path=$dir,entries=50,dirwidth=4,prealloc=60,\
                size=cvar(type=cvar-gamma,parameters=mean:2000;gamma:1.5)\ncreate files";
    let (one, other) = (run(text), run(text));
    assert!(one.lines[0].starts_with("made by /"), "{:?}", one.lines);
    let shape = |ran: &common::Ran| -> Vec<(String, u64)> {
        let root = ran.directory.path();
        ran.files("set")
            .iter()
            .map(|(path, bytes)| (path.strip_prefix(root).unwrap().display().to_string(), *bytes))
            .collect()
    };
    assert_eq!(shape(&one).len(), 30);
    assert_eq!(shape(&one), shape(&other));
}
