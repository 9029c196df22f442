//! Tests that every workload published with the original runs. The scripts are rewritten for tiny
//! filesets, with the same files, threads and flowops and smaller numbers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::run_with;
use gemelo_filebench::Options;

/// Seconds of a run. The longer ones are for machines so busy that a shorter run did nothing.
const RUN_S: [f64; 3] = [0.25, 2.0, 20.0];

/// Runs a script. It must end by itself or by its time, without an error and with at least one
/// operation.
fn works(name: &str, text: &str) {
    let attempt = |seconds| run_with(text, &Options { run_s: Some(seconds), ..Options::default() });
    let is_idle =
        |ran: &common::Ran| ran.result().intervals.last().is_some_and(|last| last.operations == 0);
    let mut ran = attempt(RUN_S[0]);
    for seconds in &RUN_S[1..] {
        if ran.outcome.error.is_none() && is_idle(&ran) {
            ran = attempt(*seconds);
        }
    }
    assert!(ran.outcome.error.is_none(), "{name}: {:?}", ran.outcome.error);
    let result = ran.result();
    assert!(result.complete, "{name}: {:?}", result.ended_early);
    let last = result.intervals.last().expect("statistics");
    assert!(last.operations > 0, "{name}: {:?}", ran.lines);
    assert!(ran.lines.iter().any(|line| line.contains("IO Summary: ")), "{name}");
    let left = std::fs::read_dir(ran.directory.path()).unwrap().count();
    let reuses = text.contains("reuse");
    assert_eq!(
        left == 0,
        !reuses,
        "{name}: what the run made goes away, unless it is to be used again"
    );
}

fn thread(name: &str, instances: u32, flowops: &str) -> String {
    format!("thread name={name},memsize=2m,instances={instances} {{\n{flowops}\n}}\n")
}

fn process(threads: &str) -> String {
    format!("define process name=work,instances=1 {{\n{threads}}}\n")
}

fn gamma_set(name: &str, entries: u32, mean: u32, more: &str) -> String {
    format!(
        "define fileset name={name},path=$dir,entries={entries},{more},\
         size=cvar(type=cvar-gamma,parameters=mean:{mean};gamma:1.5)\n"
    )
}

/// Opens, reads and closes `n` files of a set.
fn reads(set: &str, n: u32) -> String {
    (1..=n)
        .map(|i| {
            format!(
                "flowop openfile name=open{i},filesetname={set},fd=1\n\
                 flowop readwholefile name=read{i},fd=1,iosize=1m\nflowop closefile name=shut{i},fd=1\n"
            )
        })
        .collect()
}

#[test]
fn fileserver() {
    let flowops = "flowop createfile name=make,filesetname=share,fd=1\n\
        flowop writewholefile name=fill,srcfd=1,fd=1,iosize=1m\nflowop closefile name=c1,fd=1\n\
        flowop openfile name=o1,filesetname=share,fd=1\nflowop appendfilerand name=grow,iosize=16k,fd=1\n\
        flowop closefile name=c2,fd=1\nflowop openfile name=o2,filesetname=share,fd=1\n\
        flowop readwholefile name=read,fd=1,iosize=1m\nflowop closefile name=c3,fd=1\n\
        flowop deletefile name=remove,filesetname=share\nflowop statfile name=stat,filesetname=share";
    let set = gamma_set("share", 1000, 4096, "dirwidth=20,prealloc=80");
    works("fileserver", &format!("{set}{}run 60", process(&thread("user", 10, flowops))));
}

#[test]
fn varmail() {
    let append = |n: u32| {
        format!(
            "flowop appendfilerand name=add{n},iosize=16k,fd=1\nflowop fsync name=sync{n},fd=1\nflowop closefile name=done{n},fd=1\n"
        )
    };
    let open = |n: u32| {
        format!(
            "flowop openfile name=o{n},filesetname=mail,fd=1\nflowop readwholefile name=r{n},fd=1,iosize=1m\n"
        )
    };
    let flowops = format!(
        "flowop deletefile name=del,filesetname=mail\nflowop createfile name=new,filesetname=mail,fd=1\n{}{}{}{}flowop closefile name=last,fd=1",
        append(1),
        open(1),
        append(2),
        open(2)
    );
    let set = gamma_set("mail", 100, 4096, "dirwidth=1000000,prealloc=80");
    works("varmail", &format!("{set}{}run 60", process(&thread("box", 4, &flowops))));
}

#[test]
fn webserver_and_webproxy() {
    let sets = gamma_set("pages", 100, 4096, "dirwidth=20,prealloc=100,readonly")
        + &gamma_set("log", 1, 4096, "dirwidth=20,prealloc");
    let flowops =
        reads("pages", 10) + "flowop appendfilerand name=log,filesetname=log,iosize=16k,fd=2";
    works("webserver", &format!("{sets}{}run 60", process(&thread("server", 10, &flowops))));
    let set =
        "define fileset name=cache,path=$dir,size=16k,entries=100,dirwidth=1000000,prealloc=80\n";
    let flowops = format!(
        "flowop deletefile name=d,filesetname=cache\nflowop createfile name=c,filesetname=cache,fd=1\n\
         flowop appendfilerand name=a,iosize=16k,fd=1\nflowop closefile name=x,fd=1\n{}flowop opslimit name=limit",
        reads("cache", 5)
    );
    works("webproxy", &format!("{set}{}", process(&thread("proxy", 10, &flowops))));
}

#[test]
fn videoserver() {
    let text = "eventgen rate=96\nset $active=live\nset $passive=old\nset $again=false\n\
        define fileset name=$active,path=$dir,size=1m,entries=4,dirwidth=4,prealloc,paralloc,reuse=$again\n\
        define fileset name=$passive,path=$dir,size=1m,entries=6,dirwidth=20,prealloc=50,paralloc\n\
        define process name=writer,instances=1 { thread name=w,memsize=10m {\n\
          flowop deletefile name=remove,filesetname=$passive\n flowop createfile name=new,filesetname=$passive,fd=1\n\
          flowop writewholefile name=fill,iosize=1m,fd=1,srcfd=1\n flowop closefile name=c,fd=1\n flowop delay name=wait,value=10 } }\n\
        define process name=readers { thread name=r,memsize=10m,instances=8 {\n\
          flowop read name=watch,filesetname=$active,iosize=256k\n flowop bwlimit name=limit,target=watch } }\n";
    works("videoserver", &text.replace(",reuse=$again", ""));
}

#[test]
fn oltp_and_tpcso() {
    let text = "set $direct=0\neventgen rate=0\n\
        define fileset name=data,path=$dir,size=256k,entries=4,dirwidth=1024,prealloc=100,reuse\n\
        define fileset name=log,path=$dir,size=512k,entries=1,dirwidth=1024,prealloc=100,reuse\n\
        define process name=lgwr { thread name=lgwr,memsize=1m,useism {\n\
          flowop aiowrite name=lw,filesetname=log,iosize=256k,random,directio=$direct,dsync\n flowop aiowait name=lwait\n\
          flowop semblock name=lgate,value=32,highwater=100 } }\n\
        define process name=dbwr,instances=2 { thread name=dbwr,memsize=1m,useism {\n\
          flowop aiowrite name=dw,filesetname=data,iosize=2k,workingset=0,random,iters=10,opennext,directio=$direct,dsync\n\
          flowop hog name=dhog,value=1000\n flowop semblock name=dgate,value=10,highwater=20\n flowop aiowait name=dwait } }\n\
        define process name=shadow,instances=8 { thread name=shadow,memsize=1m,useism {\n\
          flowop read name=sread,filesetname=data,iosize=2k,workingset=0,random,opennext,directio=$direct\n\
          flowop hog name=shog,value=1000\n flowop sempost name=p1,value=1,target=lgate,blocking\n\
          flowop sempost name=p2,value=1,target=dgate,blocking\n flowop eventlimit name=rate } }\nrun 60";
    works("oltp", text);
    let tables = ["cust_0_0", "item_0_0", "control_001", "aux.df"];
    let files: String = tables
        .iter()
        .map(|name| format!("define file name={name},path=$dir,size=64k,reuse,prealloc,paralloc\n"))
        .collect();
    let each = |kind: &str, more: &str| -> String {
        tables
            .iter()
            .map(|name| format!("flowop {kind} name={kind}-{name},filename={name},iosize=2k,workingset=32k,random,dsync{more}\nflowop hog name=think,value=100\n"))
            .collect()
    };
    let writer = each("aiowrite", ",iters=3")
        + "flowop semblock name=gate,value=4,highwater=100\nflowop aiowait name=w";
    let reader = each("read", "")
        + "flowop sempost name=post,value=1,target=gate,blocking\nflowop eventlimit name=rate";
    works(
        "tpcso",
        &(files + &process(&(thread("dbwr", 2, &writer) + &thread("shadow", 4, &reader)))),
    );
}

#[test]
fn mongo_copyfiles_and_their_rate_limited_form() {
    let sets = "set mode quit firstdone\ndefine fileset name=one,path=$dir,size=4k,entries=60,dirwidth=20,prealloc,paralloc\n\
                define fileset name=two,path=$dir,size=4k,entries=60,dirwidth=20,prealloc,paralloc\n";
    let mongo = "flowop openfile name=o1,filesetname=one,fd=1\nflowop appendfilerand name=a,iosize=4k,fd=1\nflowop closefile name=c1,fd=1\n\
                 flowop openfile name=o2,filesetname=one,fd=1\nflowop readwholefile name=r,fd=1,iosize=1m\nflowop closefile name=c2,fd=1\n\
                 flowop deletefile name=d,filesetname=two";
    works("mongo", &(sets.to_owned() + &process(&thread("user", 1, mongo))));
    let sets = sets.replace(
        "name=two,path=$dir,size=4k,entries=60,dirwidth=20,prealloc,paralloc",
        "name=two,path=$dir,size=4k,entries=60,dirwidth=20",
    );
    let copy = "flowop openfile name=o,filesetname=one,fd=1\nflowop readwholefile name=r,fd=1,iosize=1m\n\
                flowop createfile name=n,filesetname=two,fd=2\nflowop writewholefile name=w,filesetname=two,fd=2,srcfd=1,iosize=1m\n\
                flowop closefile name=c1,fd=1\nflowop closefile name=c2,fd=2";
    works("copyfiles", &(sets.clone() + &process(&thread("copier", 1, copy))));
    let limited = copy.to_owned() + "\nflowop iopslimit name=limit,target=w";
    works(
        "ratelimcopyfiles",
        &format!("eventgen rate=500\n{sets}{}", process(&thread("copier", 1, &limited))),
    );
}

#[test]
fn netsfs_networkfs_and_randomfileaccess() {
    let variables = "set $wsize=randvar(type=tabular,min=1k,round=1k,randtable={{0,1k,7k},{50,9k,15k},{50,17k,23k}})\n\
        define randvar name=$rsize, type=tabular, min=8k, round=1k, randtable = {{85,8k,8k},{15,17k,23k}}\n\
        set $size=randvar(type=tabular,min=1k,round=1k,randtable={{80,1k,1k},{20,1k,9k}})\n\
        set $idx=randvar(type=gamma,min=0,gamma=100)\nset $total=$n * 10\n";
    let text = format!(
        "eventgen rate=2000\nset $n=30\n{variables}define fileset name=set,path=$dir,size=$size,entries=$total,dirwidth=20,prealloc=60\n\
         define flowop name=rmw, $s {{ flowop openfile name=o,filesetname=$s,indexed=$idx,fd=1\n flowop readwholefile name=r,iosize=$rsize,fd=1\n\
           flowop createfile name=n,filesetname=$s,indexed=$idx,fd=2\n flowop writewholefile name=w,fd=2,iosize=$wsize,srcfd=1\n\
           flowop closefile name=c1,fd=1\n flowop closefile name=c2,fd=2\n flowop deletefile name=d,fd=1 }}\n\
         define flowop name=launch, $s {{ flowop openfile name=o3,filesetname=$s,indexed=$idx,fd=3\n flowop openfile name=o4,filesetname=$s,indexed=$idx,fd=4\n\
           flowop readwholefile name=r3,iosize=$rsize,fd=3\n flowop readwholefile name=r4,iosize=$rsize,fd=4\n\
           flowop closefile name=c3,fd=3\n flowop closefile name=c4,fd=4 }}\n\
         define process name=client {{ thread name=user,memsize=10m,instances=1 {{ flowop launch name=l,iters=1,$s=set\n flowop rmw name=m,iters=6,$s=set\n\
           flowop statfile name=st,filesetname=set,indexed=$idx\n flowop eventlimit name=rate }} }}\nrun 60"
    );
    works("netsfs", &text);
    let access = format!(
        "set $n=6\n{variables}define fileset name=set,path=$dir,size=$size,entries=$total,dirwidth=20,prealloc=100,cached=false\n{}",
        process(&thread(
            "user",
            3,
            "flowop openfile name=o1,filesetname=set,indexed=$idx,fd=1\nflowop openfile name=o2,filesetname=set,indexed=$idx,fd=2\n\
            flowop appendfilerand name=a,iosize=$wsize,fd=1\nflowop closefile name=c1,fd=1\nflowop readwholefile name=r,iosize=$rsize,fd=2\nflowop closefile name=c2,fd=2"
        ))
    );
    works("randomfileaccess", &access);
}

#[test]
fn random_and_streaming_reads_and_writes() {
    let file = |name: &str, more: &str| {
        format!("define file name={name},path=$dir,size=512k,prealloc{more}\n")
    };
    let random = |kind: &str| {
        format!(
            "flowop {kind} name=rand-{kind},filename=large1,iosize=8k,random,workingset=0,directio=0"
        )
    };
    for (name, kinds) in [
        ("randomread", &["read"][..]),
        ("randomwrite", &["write"]),
        ("randomrw", &["read", "write"]),
    ] {
        let threads: String = kinds.iter().map(|kind| thread(kind, 1, &random(kind))).collect();
        works(name, &(file("large1", ",reuse,paralloc") + &process(&threads)));
    }
    for (kind, direct) in
        [("read", ""), ("write", ""), ("read", ",directio=false"), ("write", ",directio=false")]
    {
        let one = |n: u32| {
            thread(
                &format!("s{n}"),
                1,
                &format!("flowop {kind} name=seq{n},filename=large{n},iosize=64k{direct}"),
            )
        };
        works("singlestream", &(file("large1", "") + &process(&one(1))));
        let files: String = (1..=5).map(|n| file(&format!("large{n}"), "")).collect();
        let threads: String = (1..=5).map(one).collect();
        works("fivestream", &(files + &process(&threads)));
    }
}

#[test]
fn filemicro_of_one_file() {
    let empty = "define file name=file,path=$dir,size=0,prealloc,cached=$cached\nset $cached=false\nset $sync=false\n";
    let large = "define file name=file,path=$dir,size=256k,prealloc,reuse\n";
    let finish = "\nflowop finishoncount name=finish,value=20";
    for (name, files, flowops) in [
        ("create", empty, "flowop appendfile name=w,filename=file,dsync=$sync,iosize=64k"),
        (
            "createrand",
            empty,
            "flowop appendfilerand name=w,filename=file,iosize=16k,iters=10\nflowop fsync name=s",
        ),
        (
            "seqwrite",
            empty,
            "flowop appendfile name=w,dsync=$sync,filename=file,iosize=64k,iters=5",
        ),
        (
            "seqwriterand",
            empty,
            "flowop openfile name=o,filename=file,fd=1\nflowop appendfilerand name=w,iosize=8k,fd=1,iters=9\nflowop closefile name=c,fd=1",
        ),
        ("rread", large, "flowop read name=r,filesetname=file,random,iosize=2k,iters=1"),
        ("rwrite", large, "flowop write name=w,filename=file,random,iosize=2k,iters=1"),
        ("rwritedsync", large, "flowop write name=w,filename=file,random,dsync,iosize=2k"),
        (
            "rwritefsync",
            large,
            "flowop write name=w,filename=file,random,iosize=8k,iters=16\nflowop fsync name=s",
        ),
        ("seqread", large, "flowop read name=r,filename=file,iosize=64k"),
    ] {
        works(
            name,
            &(files.to_owned() + &process(&thread("t", 1, &(flowops.to_owned() + finish)))),
        );
    }
    let appended = "flowop openfile name=o,filesetname=set,fd=1\nflowop appendfile name=w,iosize=$iosize,fd=1,iters=9\nflowop closefile name=c,fd=1";
    for (name, variable) in [
        ("seqwriterandvargam", "type=gamma, min=1k, mean=5632, gamma=1500"),
        (
            "seqwriterandvartab",
            "type=tabular, min=1k, randtable = {{ 80, 1k, 4k}, { 15, 4k, 16k}, { 05, 16k, 64k}}",
        ),
        ("cvar_example", "type=uniform, min=4k, mean=6k"),
    ] {
        let text = format!(
            "define randvar name=$iosize, {variable}\ndefine fileset name=set,path=$dir,size=0,entries=1,dirwidth=1024,prealloc=100\n"
        );
        works(name, &(text + &process(&thread("t", 1, &(appended.to_owned() + finish)))));
    }
    let text = format!(
        "set mode quit firstdone\n{empty}{}run",
        process(&thread(
            "t",
            1,
            "flowop appendfile name=w,filename=file,iosize=8k,iters=16\n\
        flowop fsync name=sync\nflowop finishoncount name=finish,value=4,target=sync"
        ))
    );
    works("writefsync", &text);
}

#[test]
fn files_and_directories_by_the_dozen() {
    let set = |more: &str| {
        format!(
            "set mode quit firstdone\ndefine fileset name=set,path=$dir,dirwidth=5,size=1k,{more}\n"
        )
    };
    let create = "flowop createfile name=n,filesetname=set,fd=1\nflowop writewholefile name=w,fd=1,iosize=1m\nflowop closefile name=c,fd=1";
    for (name, files, flowops) in [
        ("createfiles", "entries=200", create),
        (
            "filemicro_createfiles",
            "entries=200,prealloc=50",
            &(create.to_owned() + "\nflowop finishoncount name=f,value=60"),
        ),
        (
            "filemicro_delete",
            "entries=200,prealloc=100,paralloc",
            "flowop deletefile name=d,filesetname=set\nflowop opslimit name=l\nflowop finishoncount name=f,value=90",
        ),
        (
            "filemicro_statfile",
            "entries=100,prealloc=100",
            "flowop statfile name=s,filesetname=set",
        ),
        (
            "openfiles",
            "entries=100,prealloc",
            "flowop openfile name=o,filesetname=set,fd=1\nflowop closefile name=c,fd=1",
        ),
        ("listdirs", "entries=100,prealloc", "flowop listdir name=l,filesetname=set"),
        ("makedirs", "leafdirs=100", "flowop makedir name=m,filesetname=set"),
        ("removedirs", "leafdirs=100,prealloc", "flowop removedir name=r,filesetname=set"),
    ] {
        works(name, &(set(files) + &process(&thread("t", 4, flowops))));
    }
}

#[test]
fn createdelete_swing_and_composites() {
    let text = "set $path=$dir\nset $n=40\ndefine fileset name=many,path=$path,entries=$n,size=1k,dirwidth=$n,dirgamma=0\n\
        define flowop name=makeone { flowop createfile name=c,filesetname=many,fd=1\n flowop writewholefile name=w,filesetname=many,fd=1\n\
          flowop closefile name=x,fd=1\n flowop eventlimit name=l }\n\
        define process name=maker { thread name=t { flowop makeone name=all,iters=$n\n flowop wakeup name=go,target=deletes\n flowop block name=makes } }\n\
        define process name=deleter { thread name=t { flowop block name=deletes\n flowop deletefile name=d,filesetname=many,iters=$n\n\
          flowop wakeup name=back,target=makes } }\neventgen rate=0\nrun 60";
    works("createdelete-swing", text);
    let sets: String = (1..=2)
        .map(|n| {
            format!(
                "define fileset name=s{n},path=$dir,size=4k,entries=70,dirwidth=20,prealloc=80,paralloc\n"
            )
        })
        .collect();
    let text = sets
        + "define flowop name=both, $set { flowop openfile name=o4,filesetname=$set,fd=1\n flowop openfile name=o5,filesetname=$set,fd=2\n\
             flowop readwholefile name=r,fd=1\n flowop writewholefile name=w,fd=2,srcfd=1\n flowop closefile name=c4,fd=1\n flowop closefile name=c5,fd=2 }\n\
           define flowop name=work, $which, $times { flowop createfile name=n,filesetname=$which,fd=1\n flowop appendfilerand name=a,iosize=16k,fd=1\n\
             flowop closefile name=c,fd=1\n flowop both name=rw,iters=$times,$set=$which\n flowop deletefile name=d,filesetname=$which\n\
             flowop statfile name=s,filesetname=$which }\n\
           define process name=p { thread name=u1,memsize=10m,instances=3 { flowop work name=w1,iters=1,$times=5,$which=s1 }\n\
             thread name=u2,memsize=10m,instances=3 { flowop work name=w2,$times=3,$which=s2 } }\n";
    works("compflow_demo", &text);
}
