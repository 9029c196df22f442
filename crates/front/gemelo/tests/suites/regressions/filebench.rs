//! Scripts of Filebench that the original runs.

use crate::common::gemelo;
use std::fs;
use std::path::Path;

/// Runs a script below a directory of its own.
fn run(script: &str) -> (i32, String, bool) {
    let directory = tempfile::tempdir().unwrap();
    let (file, dir) = (directory.path().join("s.f"), directory.path().join("d"));
    fs::write(&file, script.replace("path=/x", &format!("path={}", text(&dir)))).unwrap();
    let words = ["filebench", text(&file), "--dir", text(&dir)].map(str::to_owned);
    let ran = gemelo(&words);
    (ran.status, ran.out + &ran.err, dir.exists())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn with_thread(fileset: &str, name: &str, flowops: &str) -> String {
    format!(
        "set mode quit firstdone\ndefine {fileset}\n\
         define process name=p {{ thread name={name},memsize=1m {{ {flowops}\n\
         flowop finishoncount name=done,value=4 }} }}\nrun 20\n"
    )
}

const READ: &str = "flowop openfile name=o,filesetname=f,fd=1\n\
    flowop read name=r,fd=1,iosize=4k\nflowop closefile name=c,fd=1";

/// One script in six has dirwidth=1 or none, and was refused.
#[test]
fn directories_may_be_narrow() {
    for width in ["entries=1,dirwidth=1,size=64k", "entries=8,filesize=64k", "entries=8,dirwidth=0"]
    {
        let fileset = format!("fileset name=f,path=/x,{width},prealloc");
        let (status, said, _) = run(&with_thread(&fileset, "t", READ));
        assert_eq!(status, 0, "{width}: {said}");
    }
}

/// The buffers of asynchronous operations were not aligned, which O_DIRECT refuses.
#[test]
fn asynchronous_operations_do_direct_io() {
    for operation in ["aioread", "aiowrite"] {
        let flowops = format!(
            "flowop {operation} name=w,filename=f,iosize=4k,random,directio,iters=10\n\
             flowop aiowait name=wait"
        );
        let file = "file name=f,path=/x,size=4m,prealloc";
        let (status, said, _) = run(&with_thread(file, "t", &flowops));
        assert_eq!(status, 0, "{operation}: {said}");
    }
}

/// An unset variable in echo and usage, and a fileset in a process of no instances, were fatal.
#[test]
fn names_that_are_never_used_are_not_looked_up() {
    let script = with_thread("file name=f,path=/x,size=64k,prealloc", "t", READ)
        .replace("run 20", "usage \"set $nowhere=N\"\necho \"$unset\"\nrun 20")
        + "define process name=q,instances=0 { thread name=u { flowop read name=n,filename=g } }";
    let (status, said, _) = run(&script);
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("$unset"), "{said}");
}

/// A NUL in the name of a thread was a panic, and the fileset stayed.
#[test]
fn a_nul_is_refused_before_anything_is_made() {
    let (status, said, has_files) =
        run(&with_thread("file name=f,path=/x,size=64k,prealloc", "\"a\0b\"", READ));
    assert_eq!((status, has_files), (2, false), "{said}");
    assert!(said.contains("a NUL: a script is text"), "{said}");
}
