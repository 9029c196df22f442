//! Tests of the language and of the positions of its errors.

use super::*;
use crate::model::{HandleSlot, Quantity};
use proptest::prelude::*;

fn program(text: &str) -> Program {
    Script::parse("t.f", text)
        .and_then(|script| script.compile(&[]))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    let result = Script::parse("t.f", text).and_then(|script| script.compile(&[]));
    result.expect_err(text).to_string()
}

const FILESET: &str = "define fileset name=set,path=/x,entries=10,dirwidth=5\n";

fn thread(flowops: &str) -> String {
    format!("{FILESET}define process name=p {{ thread name=t,memsize=1m {{ {flowops} }} }}")
}

#[test]
fn variables_have_the_value_they_have_when_the_run_begins() {
    let text = "set $n=5\ndefine fileset name=s,path=$dir,entries=$n,dirwidth=20,size=$size\n\
                set $dir=/data/x\nset $size=16k\nset $n=$n * 3 + 1\nrun 7";
    let program = program(text);
    let set = &program.plan.filesets[0];
    assert_eq!((set.entries, set.size.clone()), (16, Quantity::Fixed(16_384.0)));
    assert_eq!(set.path, std::path::Path::new("/data/x"));
    assert_eq!(program.variables["n"], "16");
    assert!(matches!(program.steps[..], [Step::Run(_, seconds)] if seconds == 7.0));
}

#[test]
fn definitions_of_the_command_line_win_and_can_be_any_value() {
    let text = "set $dir=/tmp\nset $n=3\ndefine fileset name=s,path=$dir,entries=$n,size=$size,dirwidth=20\nset $size=1k";
    let script = Script::parse("t.f", text).unwrap();
    let over = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let defined = [
        over("dir", "/a directory/x"),
        over("n", "2k"),
        over("size", "cvar(type=cvar-gamma,parameters=mean:9;gamma:1.5)"),
    ];
    let set = script.compile(&defined).unwrap().plan.filesets[0].clone();
    assert_eq!((set.entries, set.path.to_str()), (2048, Some("/a directory/x")));
    assert!(matches!(set.size, Quantity::Drawn(_)));
    assert!(script.mentions("size") && !script.mentions("iosize"));
    let error = script.compile(&[over("n", "cvar(type=cvar-gama)")]).unwrap_err();
    assert!(error.to_string().contains("did you mean 'gamma'?"), "{error}");
}

#[test]
fn both_forms_of_random_variables_and_all_of_their_laws_are_read() {
    for law in [
        "cvar(type=cvar-erlang,parameters=shape:3;rate:2.0)",
        "cvar(type=cvar-exponential,parameters=mean:100)",
        "cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5,min=1,max=1m,round=512)",
        "cvar(type=cvar-lognormal,parameters=shape:1.5;scale:2.5)",
        "cvar(type=cvar-normal,parameters=mean:100;sigma:3)",
        "cvar(type=cvar-triangular,parameters=lower:1;upper:9;mode:3)",
        "cvar(type=cvar-uniform,parameters=lower:4096;upper:8192)",
        "cvar(type=cvar-weibull,parameters=shape:2;scale:50)",
        "cvar(type=cvar-weibull)",
        "randvar(type=uniform,min=1k,mean=4k)",
        "randvar(type=gamma,mean=16k,gamma=1500,seed=7,randsrc=urandom)",
        "randvar(type=tabular,min=1k,round=1k,randtable={{80,1k,4k},{15,4k,16k},{05,16k,64k}})",
    ] {
        let program = program(&format!("set $v={law}\n{FILESET}"));
        assert_eq!(program.variables["v"], "a random variable", "{law}");
    }
    let older = program("define randvar name=$v, type=gamma, min=1k, mean=5632, gamma=1500\n");
    assert_eq!(older.variables["v"], "a random variable");
}

#[test]
fn a_table_keeps_its_own_minimum_and_mean() {
    let text = "set $v=randvar(type=tabular,min=1k,randtable={{50,1k,3k},{50,3k,5k}})\n\
                define fileset name=s,path=/x,entries=1,dirwidth=5,size=$v";
    let mean = program(text).plan.filesets[0].size.mean();
    assert!((mean / 3072.0 - 1.0).abs() < 0.02, "{mean}");
}

#[test]
fn composites_unfold_with_their_local_variables() {
    let text = "define fileset name=one,path=/x,entries=1,dirwidth=5\n\
                define fileset name=two,path=/x,entries=1,dirwidth=5\n\
                define flowop name=inner, $file, $n=3 { flowop statfile name=stat,filesetname=$file,iters=$n }\n\
                define flowop name=outer, $which { flowop inner name=in,$file=$which }\n\
                define process name=p,instances=2 { thread name=t,instances=3 {\n\
                flowop outer name=a,$which=one,iters=2\n flowop outer name=b,$which=two } }";
    let program = program(text);
    let process = &program.plan.processes[0];
    assert_eq!((process.instances, process.threads[0].instances), (2, 3));
    let outer = &process.threads[0].flowops[1];
    let stat = &outer.body[0].body[0];
    assert_eq!(
        (stat.name.as_str(), stat.fileset, stat.iters.clone()),
        ("b.in.stat", Some(1), Quantity::Fixed(3.0))
    );
}

#[test]
fn filesets_without_fd_have_handles_of_their_own() {
    let text = "define file name=a,path=/x\ndefine file name=b,path=/x\ndefine process name=p { thread name=t {\n\
                flowop read name=r,filename=a,iosize=1k\n flowop write name=w,filename=b,iosize=1k\n\
                flowop fsync name=f\n flowop read name=o,filename=a,iosize=1k,opennext } }";
    let flowops = program(text).plan.processes[0].threads[0].flowops.clone();
    let slots: Vec<HandleSlot> = flowops.iter().map(|flowop| flowop.slot).collect();
    assert_eq!(
        slots,
        [HandleSlot::Fixed(0), HandleSlot::Fixed(129), HandleSlot::Fixed(0), HandleSlot::Rotating]
    );
}

#[test]
fn commands_become_steps_in_order() {
    let text = format!(
        "{FILESET}set $t=3\necho \"sizes: $t\"\nusage \"none\"\nversion\ndebug 1\nset mode nousestats\n\
         create files\ncreate processes\nstats clear\nsleep $t\nstats snap\nshutdown processes\n\
         system \"true $t\"\nlist fileset\nforeach $i in 1, 2 {{ echo \"i=$i\" }}\npsrun -5 20\nrun\nquit"
    );
    let steps = program(&text).steps;
    let names: Vec<String> = steps
        .iter()
        .map(|step| {
            format!("{step:?}").chars().take_while(|letter| letter.is_alphabetic()).collect()
        })
        .collect();
    assert_eq!(
        names,
        [
            "Say",
            "Say",
            "Say",
            "CreateFiles",
            "CreateProcesses",
            "ClearStats",
            "Sleep",
            "SnapStats",
            "ShutdownProcesses",
            "System",
            "Say",
            "Say",
            "Say",
            "PeriodicRun",
            "Run",
            "Quit"
        ]
    );
    assert_eq!(steps[0], Step::Say("sizes: 3".to_owned()));
    assert!(matches!(
        steps[13],
        Step::PeriodicRun { period_s: 5.0, reset: true, time_s: 20.0, .. }
    ));
    assert!(matches!(steps[14], Step::Run(_, 60.0)));
}

#[test]
fn errors_have_a_place_and_the_nearest_word() {
    for (text, message) in [
        (
            "define filset name=x",
            "t.f:1:8: unknown thing to define: 'filset'; did you mean 'fileset'?",
        ),
        (
            "define thread name=t { }",
            "t.f:1:8: a thread belongs in a process: define process name=p { thread",
        ),
        ("set $a=1\n  rnu 60", "t.f:2:3: unknown command: 'rnu'; did you mean 'run'?"),
        (
            "define file name=x,pth=/tmp",
            "t.f:1:20: unknown attribute of a file: 'pth'; did you mean 'path'?",
        ),
        ("define file name=x,path=/y,name=z", "t.f:1:28: 'name' is given twice"),
        ("set a=1", "t.f:1:5: expected a variable ($name) or 'mode' after 'set', found 'a'"),
        ("set $a 1", "t.f:1:8: expected '=' after the variable, found '1'"),
        (
            "define file name=x,path=$dri\nset $dir=/x",
            "t.f:1:25: unknown variable (it must be set before its use): 'dri'; did you mean 'dir'",
        ),
        ("enable multi master=a", "t.f:1:8: the mode with several clients is not supported"),
        ("domultisync value=1", "t.f:1:1: domultisync needs the mode with several clients"),
        (
            "define process name=p { thread name=t { flowop read name=r",
            "t.f:1:59: expected 'flowop', or '}' after the flowops, found the end",
        ),
        ("echo hello", "t.f:1:6: expected a quoted text, found 'hello'"),
        ("define file name=\"a\0b\",path=/x", "t.f:1:20: a NUL: a script is text"),
        ("define fileset name=s,path=/x,dirwidth=5", "t.f:1:1: the fileset 's' has no files"),
        (
            "define fileset name=s/t,path=/x,entries=1,dirwidth=5",
            "t.f:1:1: the name of a fileset is the name of one directory",
        ),
        ("define file name=x,path=/y,prealloc=101", "t.f:1:37: prealloc is a percentage"),
        ("define file name=x,path=/y,entropy=5", "t.f:1:28: 'entropy' belongs to a data source"),
        (
            "define file name=x,path=/y,datasource=entropy",
            "t.f:1:39: unknown data source: 'entropy'; did you mean 'entro'?",
        ),
        (
            "define file name=x,path=/y,datasource=entro,entropy=9",
            "t.f:1:39: entropy is '9'; it must be a number from 0 to 8",
        ),
        (
            "define file name=x,path=/y,datasource=random,entropy=1",
            "t.f:1:46: unknown attribute of the data source 'random': 'entropy'",
        ),
        (
            "set $x=randvar(type=tabular,randtable={{50,1,2}})",
            "t.f:1:39: the shares of the rows add up to 50 %",
        ),
        ("set $x=5 / 0", "t.f:1:8: a division by 0"),
        ("run -1", "t.f:1:5: a time is 0 or more seconds"),
    ] {
        let found = refusal(text);
        assert!(found.starts_with(message), "{text}\n  {found}\n  {message}");
    }
}

#[test]
fn flowops_that_can_never_work_are_refused() {
    for (flowops, message) in [
        ("flowop raed name=r", "unknown flowop: 'raed'; did you mean 'read'?"),
        ("flowop read filename=set", "a flowop needs name=..."),
        (
            "flowop read name=r,filename=sett,iosize=1k",
            "unknown file or fileset: 'sett'; did you mean 'set'?",
        ),
        ("flowop read name=r,filename=set", "r needs iosize=SIZE above 0"),
        ("flowop read name=r,filename=set,iosize=2g", "r has an iosize above 1g"),
        ("flowop createfile name=c", "c needs filesetname=NAME"),
        ("flowop openfile name=o,filename=set,fd=129", "'fd' is a whole number from 0 to 128"),
        ("flowop aiowrite name=a,filename=set,iosize=1k", "a works at random places: say 'random'"),
        ("flowop finishoncount name=f,value=1,target=rd", "unknown flowop of this thread: 'rd'"),
        ("flowop wakeup name=w,target=nobody", "unknown block flowop (target of 'w'): 'nobody'"),
        ("flowop sempost name=s", "s needs target=NAME"),
        ("flowop read name=r,iosize=1k,$x=1", "only flowops defined by 'define flowop'"),
    ] {
        let found = refusal(&thread(flowops));
        assert!(found.contains(message), "{flowops}\n  {found}\n  {message}");
    }
    let recursive = "define flowop name=c { flowop c name=again }\n";
    let text = format!("{recursive}{}", thread("flowop c name=x"));
    assert!(refusal(&text).contains("does one use itself?"));
}

#[test]
fn deep_nesting_and_long_sums_are_refused_without_harm() {
    for text in [
        format!("set $a={}1", "(".repeat(100_000)),
        format!("set $a=1{}", " + 1".repeat(100_000)),
        "foreach $a in 1 { ".repeat(100_000),
    ] {
        let message = refusal(&text);
        assert!(
            message.contains("nested more than") || message.contains("sum or product is too long"),
            "{message}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,80}") {
        let _ = Script::parse("f", &text).map(|script| script.compile(&[]));
    }

    #[test]
    fn no_mixture_of_words_makes_it_panic(words in proptest::collection::vec(prop::sample::select(vec![
        "define", "fileset", "file", "process", "thread", "flowop", "name=", "a", "path=", "/x", ",", "{", "}", "(", ")", "=",
        "entries=", "5", "16k", "-1", "1.5", "$a", "${a}", "\"x $a\"", "\"", "set", "run", "read", "iosize=", "randvar", "cvar",
        "type=", "tabular", "randtable=", "cvar-gamma", "dirwidth=", "size=", "true", "*", "+", "foreach", "in", "psrun", "#c\n",
        "composite", "eventgen", "rate=", "99999999999g", "instances=", "datasource=", "entro", "entropy=", "value=", "target=",
    ]), 0..60)) {
        let _ = Script::parse("f", &words.join(" ")).map(|script| script.compile(&[]));
    }

    #[test]
    fn no_damage_to_a_script_makes_it_panic(cut in 0usize..700, with in "\\PC{0,4}") {
        let mut text = thread("flowop openfile name=o,filesetname=set,fd=1 flowop closefile name=c,fd=1");
        text.push_str("\nset $x=randvar(type=tabular,min=1k,randtable={{80,1k,4k},{20,4k,16k}})\npsrun -10 60\n");
        let at = cut % text.len();
        if text.is_char_boundary(at) {
            text.replace_range(at..(at + with.len()).min(text.len()), &with);
            let _ = Script::parse("f", &text).map(|script| script.compile(&[]));
        }
    }
}

#[test]
fn names_that_are_never_used_need_not_exist() {
    let text = format!(
        "{FILESET}usage \"set $dir=DIR\"\necho \"$dirs of $n\"\nset $n=3\n\
         define process name=p,instances=0 {{ thread name=t {{\n\
           flowop read name=r,filesetname=nowhere,iosize=$unset }} }}"
    );
    let program = Script::parse("t.f", &text).unwrap().compile(&[]).unwrap();
    assert!(program.plan.processes[0].threads.is_empty());
    let says = |text: &str| Step::Say(text.to_owned());
    assert_eq!(program.steps[..2], [says("set $dir=DIR"), says("$dirs of $n")]);
    let used = text.replace("instances=0", "instances=1");
    assert!(Script::parse("t.f", &used).unwrap().compile(&[]).is_err());
    let system = "system \"rm -rf $unset/x\"";
    assert!(Script::parse("t.f", system).unwrap().compile(&[]).is_err());
}
