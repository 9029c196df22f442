//! Loads and hosts that removed what they had not made; campaigns have such tests in their crate.

use crate::common::gemelo;
use gemelo_tools::{assert_is_kept, put_file_of_user};
use std::fs;
use std::path::Path;

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
    assert_is_kept(&dir.join("set/thesis"));
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
    put_file_of_user(&copy);
    remove(Path::new(env!("CARGO_BIN_EXE_gemelo")));
    assert_is_kept(&copy);
    fs::copy(env!("CARGO_BIN_EXE_gemelo"), &copy).unwrap();
    remove(&copy);
    assert!(!place.path().exists(), "the copy and its directory are gone");
}
