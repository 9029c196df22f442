//! Tests the effect of each flowop on a directory on disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{once, run};

const SET: &str = "define fileset name=set,path=$dir,entries=20,dirwidth=4,size=10000,prealloc=50";
const FILE: &str = "define file name=file,path=$dir,size=4k,prealloc";
const EMPTY: &str = "define file name=file,path=$dir,size=0,prealloc";

fn bytes_of(ran: &common::Ran, fileset: &str) -> Vec<u8> {
    std::fs::read(&ran.files(fileset)[0].0).unwrap()
}

#[test]
fn prealloc_makes_its_share_of_the_files_in_a_tree_of_directories() {
    let ran = run(&once(SET, "flowop statfile name=s,filesetname=set"));
    assert!(ran.outcome.error.is_none());
    let files = ran.files("set");
    assert_eq!(files.len(), 10);
    assert!(files.iter().all(|(_, bytes)| *bytes == 10_000));
    assert!(files.iter().all(|(path, _)| path.file_name().unwrap().len() == 8));
    assert_eq!(ran.flowop("s"), (1, 0));
}

#[test]
fn createfile_writewholefile_and_closefile_make_a_file_of_its_planned_size() {
    let ran = run(&once(
        SET,
        "flowop createfile name=c,filesetname=set,fd=1\nflowop writewholefile name=w,fd=1,iosize=4k\nflowop closefile name=x,fd=1",
    ));
    assert_eq!(ran.files("set").len(), 11);
    assert!(
        ran.files("set").iter().all(|(_, bytes)| *bytes == 10_000),
        "the last write is a short one"
    );
    assert_eq!((ran.flowop("c"), ran.flowop("w"), ran.flowop("x")), ((1, 0), (1, 10_000), (1, 0)));
}

#[test]
fn writewholefile_takes_its_size_from_the_source() {
    let definitions = "define file name=small,path=$dir,size=3000,prealloc\ndefine file name=large,path=$dir,size=90000";
    let flowops = "flowop openfile name=o,filename=small,fd=1\nflowop createfile name=c,filename=large,fd=2\n\
                   flowop writewholefile name=w,fd=2,srcfd=1\nflowop closefile name=x,fd=1\nflowop closefile name=y,fd=2";
    assert_eq!(run(&once(definitions, flowops)).files("large")[0].1, 3000);
}

#[test]
fn readwholefile_reads_all_whatever_the_size_of_one_read() {
    for size in ["iosize=1k", "iosize=4096", "iosize=1m", "workingset=0"] {
        let ran =
            run(&once(FILE, &format!("flowop readwholefile name=r,filename=file,{size},iters=3")));
        assert_eq!(ran.flowop("r"), (3, 3 * 4096), "{size}");
    }
}

#[test]
fn a_sequential_read_starts_anew_behind_the_end() {
    // Four reads return data, and the fifth one finds the end.
    let ran = run(&once(FILE, "flowop read name=r,filename=file,iosize=1k,iters=10"));
    assert_eq!(ran.flowop("r"), (10, 8 * 1024));
}

#[test]
fn sequential_writes_go_on_where_the_last_one_ended() {
    let ran =
        run(&once(FILE, "flowop write name=w,filename=file,iosize=3000,iters=3,dsync,noreadahead"));
    assert_eq!((ran.flowop("w"), ran.files("file")[0].1), ((3, 9000), 9000));
}

#[test]
fn random_writes_stay_in_the_working_set() {
    let definitions = "define file name=plain,path=$dir,size=64k,prealloc,datasource=random";
    let ran =
        run(&once(definitions, "flowop read name=r,filename=plain,iosize=4k,random,iters=50"));
    assert_eq!(ran.flowop("r"), (50, 50 * 4096));
    // The file holds zeros until the flowop writes into its first half.
    let flowops = "flowop openfile name=o,filename=zeros,fd=1\nflowop copyfile name=c,srcfd=1,filename=mixed,fd=2\n\
                   flowop closefile name=x,fd=1\nflowop write name=w,filename=mixed,iosize=4k,random,workingset=32k,iters=200";
    let definitions = "define file name=zeros,path=$dir,size=64k,prealloc\n\
                       define file name=mixed,path=$dir,size=64k,datasource=random";
    let ran = run(&once(definitions, flowops));
    let bytes = bytes_of(&ran, "mixed");
    assert_eq!(bytes.len(), 64 << 10);
    let touched: Vec<bool> =
        bytes.chunks(4096).map(|block| block.iter().any(|byte| *byte != 0)).collect();
    assert_eq!(touched, [[true; 8], [false; 8]].concat());
}

#[test]
fn appends_add_to_the_end() {
    let ran = run(&once(EMPTY, "flowop appendfile name=a,filename=file,iosize=1000,iters=5"));
    assert_eq!((ran.flowop("a"), ran.files("file")[0].1), ((5, 5000), 5000));
    let ran = run(&once(EMPTY, "flowop appendfilerand name=a,filename=file,iosize=1000,iters=50"));
    let (count, bytes) = ran.flowop("a");
    assert_eq!((count, ran.files("file")[0].1), (50, bytes));
    // The sum is near 50 times the mean of the numbers below 1000.
    assert!((15_000..35_000).contains(&bytes), "{bytes}");
}

#[test]
fn a_read_after_an_append_is_at_the_end() {
    let flowops = "flowop appendfile name=a,filename=file,iosize=1k\nflowop read name=r,filename=file,iosize=1k,iters=2";
    assert_eq!(run(&once(FILE, flowops)).flowop("r"), (2, 1024));
}

#[test]
fn deletefile_takes_the_next_file_or_the_one_that_was_open() {
    let ran = run(&once(SET, "flowop deletefile name=d,filesetname=set,iters=4"));
    assert_eq!((ran.flowop("d").0, ran.files("set").len()), (4, 6));
    let flowops = "flowop openfile name=o,filesetname=set,fd=1\nflowop closefile name=c,fd=1\nflowop deletefile name=d,fd=1";
    let ran = run(&once(SET, flowops));
    assert_eq!((ran.flowop("d").0, ran.files("set").len()), (1, 9));
}

#[test]
fn openfile_opens_what_exists_into_a_free_place() {
    let set = "define fileset name=set,path=$dir,entries=3,dirwidth=4,size=10,prealloc";
    let flowops = "flowop openfile name=a,filesetname=set,fd=1\nflowop openfile name=b,filesetname=set,fd=2\n\
                   flowop readwholefile name=r,fd=1\nflowop readwholefile name=q,fd=2\n\
                   flowop closefile name=x,fd=1\nflowop closefile name=y,fd=2";
    let ran = run(&once(set, flowops));
    assert_eq!((ran.flowop("a"), ran.flowop("r"), ran.flowop("q")), ((1, 0), (1, 10), (1, 10)));
    assert_eq!(ran.files("set").len(), 3, "nothing is made");
    let ran = run(&once(set, "flowop openfile name=a,filesetname=set,fd=1,iters=2"));
    let error = ran.outcome.error.unwrap().to_string();
    assert!(
        error.contains("a cannot open a file: the earlier one in its fd was not closed"),
        "{error}"
    );
    let ran = run(&once(
        "define fileset name=set,path=$dir,entries=3,dirwidth=4,size=10",
        "flowop openfile name=a,filesetname=set,fd=1",
    ));
    assert_eq!(ran.files("set").len(), 0, "no file is there to open");
}

#[test]
fn a_file_that_somebody_else_has_open_is_not_deleted() {
    let flowops = "flowop openfile name=o,filename=file,fd=1\nflowop deletefile name=d,filename=file\nflowop closefile name=c,fd=1";
    let ran = run(&once(FILE, flowops));
    assert_eq!((ran.flowop("d").0, ran.files("file").len()), (0, 1));
}

#[test]
fn syncs_count_every_open_file_of_the_set() {
    let flowops = "flowop openfile name=a,filesetname=set,fd=1\nflowop openfile name=b,filesetname=set,fd=2\n\
                   flowop fsync name=one,fd=1\nflowop fsyncset name=all,filesetname=set\n\
                   flowop closefile name=x,fd=1\nflowop closefile name=y,fd=2";
    let ran = run(&once(SET, flowops));
    assert_eq!((ran.flowop("one").0, ran.flowop("all").0), (1, 2));
}

#[test]
fn leaf_directories_are_made_removed_and_listed() {
    let definitions = "define fileset name=dirs,path=$dir,leafdirs=30,dirwidth=5,prealloc=50";
    let ran = run(&once(
        definitions,
        "flowop makedir name=m,filesetname=dirs,iters=10\nflowop removedir name=r,filesetname=dirs,iters=3\n\
         flowop listdir name=l,filesetname=dirs,iters=20",
    ));
    assert_eq!((ran.flowop("m").0, ran.flowop("r").0), (10, 3));
    let (count, bytes) = ran.flowop("l");
    assert!(count == 20 && bytes > 20 * 560, "{bytes}: at least . and .. in each");
    // The test adds ten directories to those that existed and removes three.
    let leaves = |ran: &common::Ran| count_directories(&ran.directory.path().join("dirs"));
    let before = run(&once(definitions, "flowop listdir name=l,filesetname=dirs"));
    assert_eq!(leaves(&ran), leaves(&before) + 10 - 3);
}

fn count_directories(directory: &std::path::Path) -> usize {
    let below = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    below.map(|path| 1 + count_directories(&path)).sum()
}

#[test]
fn copyfile_copies_every_byte() {
    let definitions = "define file name=from,path=$dir,size=300001,prealloc,datasource=random\n\
                       define fileset name=to,path=$dir,entries=3,dirwidth=5,size=1";
    let flowops = "flowop openfile name=o,filename=from,fd=1\nflowop copyfile name=c,srcfd=1,filesetname=to,iosize=64k,iters=2\n\
                   flowop closefile name=x,fd=1";
    let ran = run(&once(definitions, flowops));
    assert_eq!(ran.flowop("c"), (2, 2 * 300_001));
    assert_eq!(ran.files("to").len(), 2);
    assert!(bytes_of(&ran, "from") == bytes_of(&ran, "to"));
}

#[test]
fn asynchronous_operations_are_done_when_the_run_ends() {
    let definitions =
        "define file name=file,path=$dir,size=256k,prealloc,datasource=entro,entropy=8";
    let flowops = "flowop aiowrite name=w,filename=file,iosize=8k,random,iters=300\nflowop aiowait name=wait\n\
                   flowop aioread name=r,filename=file,iosize=8k,random,iters=100";
    let ran = run(&once(definitions, flowops));
    assert!(ran.outcome.error.is_none(), "{:?}", ran.outcome.error);
    assert_eq!(
        (ran.flowop("w"), ran.flowop("r").0, ran.flowop("wait").0),
        ((300, 300 << 13), 100, 1)
    );
    assert_eq!(ran.files("file")[0].1, 256 << 10);
}

#[test]
fn opennext_goes_through_the_files() {
    let definitions =
        "define fileset name=set,path=$dir,entries=5,dirwidth=10,size=4k,prealloc,writeonly";
    let flowops = "flowop write name=w,filesetname=set,iosize=8k,opennext,iters=5";
    let ran = run(&once(definitions, flowops));
    assert!(ran.files("set").iter().all(|(_, bytes)| *bytes == 8192), "{:?}", ran.files("set"));
}

#[test]
fn indexed_flowops_take_the_file_of_that_number() {
    let flowops = "flowop deletefile name=d,filesetname=set,indexed=3\nflowop createfile name=c,filesetname=set,indexed=3,fd=1\n\
                   flowop closefile name=x,fd=1";
    let ran = run(&once(
        "define fileset name=set,path=$dir,entries=9,dirwidth=100,dirgamma=0,size=7,prealloc",
        flowops,
    ));
    let sizes: Vec<u64> = ran.files("set").iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!(sizes, [7, 7, 7, 0, 7, 7, 7, 7, 7]);
}

#[test]
fn readonly_files_can_be_read_and_direct_io_is_aligned() {
    let definitions = "define file name=file,path=$dir,size=64k,prealloc,readonly,cached=false";
    let ran = run(&once(
        definitions,
        "flowop read name=r,filename=file,iosize=4k,random,directio,iters=9",
    ));
    match &ran.outcome.error {
        None => assert_eq!(ran.flowop("r"), (9, 9 * 4096)),
        // File systems without O_DIRECT refuse the open.
        Some(error) => assert!(error.to_string().contains("r cannot open"), "{error}"),
    }
}
