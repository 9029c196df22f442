//! The words of the language: commands, and the attributes of each definition.

pub(super) const COMMANDS: &[&str] = &[
    "create",
    "debug",
    "define",
    "domultisync",
    "echo",
    "enable",
    "eventgen",
    "foreach",
    "list",
    "psrun",
    "quit",
    "run",
    "set",
    "shutdown",
    "sleep",
    "stats",
    "system",
    "usage",
    "version",
];

pub(super) const DEFINABLE: &[&str] = &["file", "fileset", "process", "flowop", "randvar"];

pub(super) const FILE: &[&str] = &[
    "name",
    "path",
    "size",
    "filesize",
    "prealloc",
    "paralloc",
    "reuse",
    "trusttree",
    "readonly",
    "writeonly",
    "cached",
    "datasource",
];

pub(super) const FILESET: &[&str] = &[
    "name",
    "path",
    "entries",
    "size",
    "filesize",
    "filesizegamma",
    "prealloc",
    "paralloc",
    "reuse",
    "trusttree",
    "readonly",
    "writeonly",
    "cached",
    "dirwidth",
    "dirdepthrv",
    "dirgamma",
    "leafdirs",
    "datasource",
];

pub(super) const PROCESS: &[&str] = &["name", "instances", "nice"];

pub(super) const THREAD: &[&str] = &["name", "memsize", "useism", "instances", "ioprio"];

pub(super) const FLOWOP: &[&str] = &[
    "name",
    "filename",
    "filesetname",
    "fd",
    "srcfd",
    "iosize",
    "workingset",
    "wss",
    "iters",
    "random",
    "dsync",
    "directio",
    "opennext",
    "rotatefd",
    "indexed",
    "target",
    "value",
    "blocking",
    "highwater",
    "noreadahead",
];

pub(super) const COMPOSITE: &[&str] = &["name", "iters"];

pub(super) const RANDOM_VARIABLE: &[&str] =
    &["name", "type", "randsrc", "seed", "gamma", "mean", "min", "round", "randtable"];

pub(super) const CUSTOM_VARIABLE: &[&str] = &["type", "parameters", "min", "max", "round"];

pub(super) const EVENT_GENERATOR: &[&str] = &["rate"];

pub(super) const MODES: &[&str] = &["quit", "nousestats"];
pub(super) const QUIT_MODES: &[&str] = &["timeout", "alldone", "firstdone"];
pub(super) const STATS: &[&str] =
    &["clear", "snap", "dump", "multidump", "xmldump", "directory", "command"];
pub(super) const CREATED: &[&str] =
    &["file", "files", "fileset", "filesets", "process", "processes"];
