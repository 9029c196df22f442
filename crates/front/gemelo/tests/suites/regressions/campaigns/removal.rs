//! Campaigns that removed what they had not made.

use crate::common::{Ran, gemelo};
use std::fs;
use std::path::{Path, PathBuf};

const PLAN: &str = "[campaign]\nname = 'x'\nrepetitions = 1\nwarm-up-runs = 0\n\
    [[target]]\nname = 'directory'\ndirectory = {}\n\
    [[workload]]\nname = 'script'\ncommand = 'true'\n";

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn with(plan: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("removal-").tempdir().unwrap();
        fs::write(directory.path().join("x.toml"), plan).unwrap();
        Self { directory }
    }

    fn out(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("out")
    }

    fn run(&self, more: &[&str]) -> Ran {
        let plan = self.directory.path().join("x.toml");
        let out = self.out();
        let words = ["campaign", "run", plan.to_str().unwrap(), "--out", out.to_str().unwrap()];
        gemelo(&[&words[..], more].concat())
    }

    fn clean(&self) -> Ran {
        gemelo(&["campaign", "clean", self.out().to_str().unwrap()])
    }
}

fn put(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "precious").unwrap();
}

fn is_kept(path: &Path) {
    assert_eq!(fs::read(path).unwrap(), b"precious", "{}", path.display());
}

/// A run that refused because OUT/work was there had that directory in its journal; `clean` and
/// `--resume`, which the message advised, deleted it.
#[test]
fn a_campaign_begins_only_where_nothing_has_the_name_of_its_files() {
    for name in
        ["work/thesis", "runs/thesis", "warm-up/thesis", "plan.toml", "journal.jsonl", "lock"]
    {
        let place = Place::with(PLAN);
        let file = place.out().join(name);
        put(&file);
        let ran = place.run(&[]);
        assert_eq!(ran.status, 2, "{name}: {}", ran.err);
        assert!(ran.err.contains("move it away") && !ran.err.contains("--resume"), "{}", ran.err);
        assert!(!place.out().join("campaign.json").exists(), "{name}");
        assert_eq!((place.run(&["--resume"]).status, place.clean().status), (2, 2), "{name}");
        is_kept(&file);
    }
    // Other files are beside it.
    let place = Place::with(PLAN);
    put(&place.out().join("notes.txt"));
    let ran = place.run(&[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    is_kept(&place.out().join("notes.txt"));
}

/// The user makes a `work` of his own in the directory of a campaign that is over.
#[test]
fn a_directory_of_the_user_survives_cleaning_and_resuming() {
    let place = Place::with(PLAN);
    assert_eq!(place.run(&[]).status, 0);
    let file = place.out().join("work/thesis");
    put(&file);
    let ran = place.run(&["--resume"]);
    assert!(ran.status == 2 && ran.err.contains("move it away"), "{}", ran.err);
    assert_eq!(place.clean().status, 0);
    is_kept(&file);
}

/// After a kill the user removes `work`, and makes another one, with the same inode on most file
/// systems: a path and an inode prove nothing.
#[test]
fn a_directory_in_the_place_of_one_of_the_campaign_survives() {
    let place = Place::with(&PLAN.replace("'true'", "'kill -9 $PPID; sleep 1000'"));
    let words = ["campaign", "run"];
    let plan = place.directory.path().join("x.toml");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_gemelo"));
    let child = child.args(words).arg(plan).arg("--out").arg(place.out()).output().unwrap();
    assert_eq!(child.status.code(), None, "it was killed");
    let work = place.out().join("work");
    fs::remove_dir_all(&work).unwrap();
    put(&work.join("0001/thesis"));
    let ran = place.clean();
    assert_eq!(ran.status, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("kept: ") && ran.out.contains("did not make"), "{}", ran.out);
    is_kept(&work.join("0001/thesis"));
}

/// The results of an earlier attempt are replaced, and a directory of that name without the mark of
/// a run is not.
#[test]
fn results_of_others_survive_a_resumption() {
    let place = Place::with(&PLAN.replace("'true'", "'false'"));
    assert_eq!(place.run(&[]).status, 1);
    let runs = place.out().join("runs");
    let run = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    assert_eq!(place.run(&["--resume"]).status, 1, "it runs again");
    fs::remove_dir_all(&run).unwrap();
    put(&run.join("thesis"));
    let ran = place.run(&["--resume"]);
    assert!(ran.status == 2 && ran.err.contains("move it away"), "{}", ran.err);
    is_kept(&run.join("thesis"));
}

/// A `work` behind a link: mounts below it were not seen, because the system tells their places
/// without links, and the removal would have gone through them.
#[test]
fn a_mount_below_a_directory_behind_a_link_keeps_its_files() {
    let place = Place::with(PLAN);
    let (real, link) = (place.directory.path().join("real"), place.directory.path().join("link"));
    let data = place.directory.path().join("data");
    put(&data.join("thesis"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mount = format!("mkdir $WORK/m && mount --bind {} $WORK/m", data.display());
    let plan = PLAN
        .replace("name = 'x'", &format!("name = 'x'\nwork = '{}'", link.display()))
        .replace("'true'", &format!("'{mount}'"));
    fs::write(place.directory.path().join("x.toml"), plan).unwrap();
    let ran = place.run(&[]);
    is_kept(&data.join("thesis"));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let base = real.canonicalize().unwrap();
    let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let mounted: Vec<_> = mounted.filter(|at| Path::new(at).starts_with(&base)).collect();
    if mounted.is_empty() {
        gemelo_tools::missing(&format!("the right to mount: {}", ran.err));
        return;
    }
    assert_eq!(ran.status, 1, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("something is mounted"), "{}", ran.out);
    for at in mounted {
        assert!(std::process::Command::new("umount").arg(at).status().unwrap().success());
    }
    assert_eq!(place.clean().status, 0);
    is_kept(&data.join("thesis"));
}

/// A tree that took the place of the one that a run of Filebench made.
#[test]
fn a_tree_in_the_place_of_a_fileset_survives() {
    let place = tempfile::tempdir().unwrap();
    let (script, dir) = (place.path().join("script"), place.path().join("dir"));
    let at = dir.display();
    let text = format!(
        "set $dir=/nowhere\nset mode quit firstdone\n\
         define fileset name=set,path=$dir,entries=2,dirwidth=5,size=4k,prealloc=50\n\
         define process name=p {{ thread name=t,memsize=1m {{ \
         flowop createfile name=new,filesetname=set,fd=1\nflowop closefile name=close,fd=1\n\
         flowop finishoncount name=done,value=1,target=close }} }}\nrun 1\n\
         system \"mv {at}/set {at}/old && mkdir {at}/set && printf precious >{at}/set/thesis\"\n"
    );
    fs::write(&script, text).unwrap();
    let words = ["filebench", script.to_str().unwrap(), "--dir", dir.to_str().unwrap()];
    let ran = gemelo(&words);
    assert_eq!(ran.status, 0, "{}", ran.err);
    is_kept(&dir.join("set/thesis"));
}

/// The far side of --hosts removes the copy of the program that it runs, and nothing else.
#[test]
fn a_host_removes_only_the_program_that_it_runs() {
    let place = tempfile::tempdir().unwrap();
    let remove = |program: &Path| {
        let mut host = std::process::Command::new(program);
        let host = host.args(["host", "--remove"]).arg(place.path());
        host.stdin(std::process::Stdio::null()).output().unwrap();
    };
    let copy = place.path().join("gemelo");
    put(&copy);
    remove(Path::new(env!("CARGO_BIN_EXE_gemelo")));
    is_kept(&copy);
    fs::copy(env!("CARGO_BIN_EXE_gemelo"), &copy).unwrap();
    remove(&copy);
    assert!(!place.path().exists(), "the copy and its directory are gone");
}
