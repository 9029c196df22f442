//! Campaigns that removed what they had not made.

use super::*;
use gemelo_tools::{assert_is_kept, put_file_of_user};

const PLAN: &str = "[campaign]\nname = 'x'\nrepetitions = 1\nwarm-up-runs = 0\n\
    [[target]]\nname = 'directory'\ndirectory = {}\n\
    [[workload]]\nname = 'script'\ncommand = 'true'\n";

/// A run that refused because OUT/work was there had that directory in its journal; `clean` and
/// `--resume`, which the message advised, deleted it.
#[test]
fn a_campaign_begins_only_where_nothing_has_the_name_of_its_files() {
    for name in
        ["work/thesis", "runs/thesis", "warm-up/thesis", "plan.toml", "journal.jsonl", "lock"]
    {
        let place = Place::with(PLAN);
        let file = place.out().join(name);
        put_file_of_user(&file);
        let error = place.run().unwrap_err();
        assert_eq!(error.kind(), FailureKind::BadInput, "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("move it away") && !text.contains("--resume"), "{text}");
        assert!(!place.out().join("campaign.json").exists(), "{name}");
        refused(place.resume(), FailureKind::BadInput, "has no campaign");
        assert!(clean(&place.out()).is_err(), "{name}");
        assert_is_kept(&file);
    }
    // Other files are beside it.
    let place = Place::with(PLAN);
    put_file_of_user(&place.out().join("notes.txt"));
    assert_eq!(place.run().unwrap().done, 1);
    assert_is_kept(&place.out().join("notes.txt"));
}

/// The user makes a `work` of his own in the directory of a campaign that is over.
#[test]
fn a_directory_of_the_user_survives_cleaning_and_resuming() {
    let place = Place::with(PLAN);
    place.run().unwrap();
    let file = place.out().join("work/thesis");
    put_file_of_user(&file);
    refused(place.resume(), FailureKind::BadInput, "move it away");
    clean(&place.out()).unwrap();
    assert_is_kept(&file);
}

/// After a kill the user removes `work`, and makes another one, with the same inode on most file
/// systems: a path and an inode prove nothing.
#[test]
fn a_directory_in_the_place_of_one_of_the_campaign_survives() {
    let place = Place::with(&PLAN.replace("'true'", "'kill -9 $PPID; sleep 1000'"));
    assert_eq!(place.run_elsewhere().code(), None, "it was killed");
    let work = place.out().join("work");
    fs::remove_dir_all(&work).unwrap();
    put_file_of_user(&work.join("0001/thesis"));
    let cleaned = clean(&place.out()).unwrap();
    assert_eq!(cleaned.left, [""; 0]);
    assert!(cleaned.kept.iter().any(|kept| kept.contains("did not make")), "{cleaned:?}");
    assert_is_kept(&work.join("0001/thesis"));
}

/// The results of an earlier attempt are replaced, and a directory of that name without the mark of
/// a run is not.
#[test]
fn results_of_others_survive_a_resumption() {
    let place = Place::with(&PLAN.replace("'true'", "'false'"));
    assert_eq!(place.run().unwrap().failed.len(), 1);
    let run = run_directory(&place.out(), &place.record().runs[0].id);
    assert_eq!(place.resume().unwrap().failed.len(), 1, "it runs again");
    fs::remove_dir_all(&run).unwrap();
    put_file_of_user(&run.join("thesis"));
    refused(place.resume(), FailureKind::BadInput, "move it away");
    assert_is_kept(&run.join("thesis"));
}

/// A `work` behind a link: mounts below it were not seen, because the system tells their places
/// without links, and the removal would have gone through them.
#[test]
fn a_mount_below_a_directory_behind_a_link_keeps_its_files() {
    let place = Place::with(PLAN);
    let [real, link, data] = ["real", "link", "data"].map(|name| place.path(name));
    put_file_of_user(&data.join("thesis"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mount = format!("mkdir $WORK/m && mount --bind {} $WORK/m", data.display());
    let plan = PLAN
        .replace("name = 'x'", &format!("name = 'x'\nwork = '{}'", link.display()))
        .replace("'true'", &format!("'{mount}'"));
    place.set_plan(&plan);
    let summary = place.run().unwrap();
    assert_is_kept(&data.join("thesis"));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounted = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let mounted: Vec<_> = mounted.filter(|at| Path::new(at).starts_with(&real)).collect();
    if mounted.is_empty() {
        gemelo_tools::skip!("the right to mount: {:?}", summary.failed);
    }
    assert!(summary.left.iter().any(|left| left.contains("something is mounted")), "{summary:?}");
    for at in mounted {
        assert!(Command::new("umount").arg(at).status().unwrap().success());
    }
    clean(&place.out()).unwrap();
    assert_is_kept(&data.join("thesis"));
}
