//! Fuzz targets: a function of bytes for every parser of outside input.
//!
//! `fuzz/` runs each parser with libFuzzer, and `tests/smoke.rs` runs it for a short while on every
//! test run. A parser may refuse its input. It must not panic, hang, or read its own output
//! differently. This crate is for development only: the program does not depend on it.
//!
//! A new parser gets an entry in [`TARGETS`] and a file of its name in `fuzz/fuzz_targets`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![allow(clippy::panic, reason = "a fuzz target reports a defect of its parser by a panic")]

mod disk;
mod domain;
mod nbd;
mod packed;
mod pool;
mod stream;
mod vhost;

use gemelo_adapters::{NbdAdapter, PoolAdapter};
use gemelo_base::random::{Random, mix_pair};
use gemelo_base::{Silent, StopFlag, units};
use gemelo_campaign::Plan;
use gemelo_compare::Condition;
use gemelo_content::{Distribution, Figure, Profile, ScaledDistribution};
use gemelo_job::dedisbench::{DedisbenchJob, Surroundings};
use gemelo_job::distributions::formats::DistributionFormat;
use gemelo_job::job_file;
use gemelo_load::read_log;
use gemelo_pattern::Pattern;
use gemelo_scan::{ScanOptions, ScanRequest, merge_sets};
use gemelo_target::{TargetUri, Targets};
use gemelo_trace::{Merged, ReadOptions, Record, RecordSource, TraceFormat};
use std::io::Write;
use std::path::Path;

pub use pool::ForgedPool;

/// Divisor of the number of inputs for slow targets.
const SLOW: u64 = 5;
/// The same for a run that opens a pool.
const SLOWEST: u64 = 75;

/// A fuzz target, which is a parser and its seeds.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Name of the fuzz target and of its file.
    pub name: &'static str,
    /// Valid texts with which fuzzing begins.
    seeds: &'static [&'static str],
    /// The function that runs the parser and panics if it misbehaves.
    run: Parser,
}

/// The input of a parser.
#[derive(Debug, Clone, Copy)]
enum Parser {
    /// The parser reads text. Inputs that are not UTF-8 are skipped.
    Text(fn(&str)),
    /// The parser reads bytes.
    Bytes(fn(&[u8])),
    /// The parser reads bytes, and a function makes valid ones.
    Made(fn(&[u8]), fn() -> Vec<Vec<u8>>),
    /// The same of several parsers that take microseconds, with a seed for each.
    Quick(fn(&[u8]), fn() -> Vec<Vec<u8>>),
}

use Parser::{Bytes, Made, Quick, Text};

/// All fuzz targets.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "distribution_text",
        seeds: &["0 760\n1 60\n4 20\n", "# comment\n3 10\r\n\n0\t50 # unique\n7 0\n7 1\n"],
        run: Text(distribution_text),
    },
    FuzzTarget {
        name: "distribution_file",
        seeds: &[
            "0 5\n",
            "duplicates,contents\n0,5\n3,1\n",
            "schema = \"gemelo.profile/1\"\nname = \"x\"\nsource = \"y\"\nblock_bytes = 4096\ndistribution = [[0, 1]]\n",
            "{\"schema\": \"gemelo.profile/1\", \"name\": \"x\", \"source\": \"y\", \"block_bytes\": 1, \
             \"distribution\": [[0, 1]]}",
        ],
        run: Text(distribution_file),
    },
    FuzzTarget {
        name: "condition",
        seeds: &[
            "write/bytes_per_s[load, volume] / write/bytes_per_s[load, ext4] >= 1.5",
            "job.read/latency_p99_ns[load, volume] - read/x[a,b] about 1e3 within 5 %",
        ],
        run: Text(condition),
    },
    FuzzTarget {
        name: "result_file",
        seeds: &[
            include_str!("../../../comparison/figures/tests/data/fio.json"),
            include_str!("../../../comparison/figures/tests/data/pool.json"),
            include_str!("../../../comparison/figures/tests/data/replay.json"),
            include_str!("../../../comparison/figures/tests/data/filebench.json"),
        ],
        run: Text(result_file),
    },
    FuzzTarget {
        name: "profile",
        seeds: &[
            "schema = \"gemelo.profile/1\"\nname = \"x\"\nsource = \"y\"\nblock_bytes = 4096\n\
            distribution = [[0, 10], [3, 2]]\n[[class]]\nduplicates_from = 0\nduplicates_to = 0\n\
            sampled_contents = 10\nentropy_bits = 7.5\nlz4_saved_share = 0.1\nzstd_saved_share = 0.2\n",
        ],
        run: Text(profile),
    },
    FuzzTarget {
        name: "units",
        seeds: &["4096", "1.5GiB", "1h30m", "500ms", "12.5%", "2.76"],
        run: Text(units),
    },
    FuzzTarget {
        name: "job_file",
        seeds: &[
            "target = '/tmp'\nprocesses = 2\n[[job]]\noperation = 'read'\ntime = '5m'\nentropy = 5.5\nkeep = true\n",
        ],
        run: Text(job_file),
    },
    FuzzTarget {
        name: "dedisbench_ini",
        seeds: &[
            "[execution]\nnprocs=8 ; two each\nsync=3\n[results]\ngeneral_results=out:5:5\n[structural]\ncleantemp=0\n",
        ],
        run: Text(dedisbench_ini),
    },
    FuzzTarget {
        name: "trace",
        seeds: &[
            "1000 4253 nfsd 680 8 W 6 0 3df1244f6143869f52abf2a1d73d0c0f\n",
            "1000 4253 app 680 16 R 6 0 3df1244f6143869f52abf2a1d73d0c0f-00\n",
            "  8,0    3        1     0.000000001   697  Q   W 223490 + 8 [kjournald]\nCPU0 (8,0):\n",
            "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 150 0\nf write 4096 512\n",
            "fio version 3 iolog\n1 f add\n1 f open\n1 f read 0 4096\n2 f sync 0 0\n",
            "128166372003061629,mds,1,Write,3201662976,20480,45361\n",
            "7,R,126703644672,4096,1577808000000626\n",
            "1538323200,12910952,128,0,1063\n",
            "Timestamp,Response,IOType,LUN,Offset,Size\n1456135200.013,0.001,W,4,4096,8192\n",
            "1,41092,2a,4096,6160455\n",
            "0,20941264,8192,W,0.551706\n1,5,512,r,0.6,x\n",
            "4851300 1 524288 16 0\n4864300 1 524304 16 1\n",
            "0.0 1 524288 16 0\n4.5 1 524304 16 5\n",
            "\u{5}\0\0\0@\0\0\0\0\0\0\0\0\u{10}\0\0\u{1}\0\0\0\0\0\0\0",
            "  8,0 1 1 1266874889.670077392 7 C FN 0 [0]\ncat (7)\nSkips: 0\n8,0 1 1 0.1 7 C R 8 + 8 [0]\n",
        ],
        run: Bytes(trace),
    },
    FuzzTarget {
        name: "trace_options",
        seeds: &["bursty:10/10s", "640", "6,0=sda", "fiu"],
        run: Text(trace_options),
    },
    FuzzTarget {
        name: "dedisbench_line",
        seeds: &[
            "-p -w -t1 -b1024 -c1 -vabc123 -a0",
            "-m -nr100 -nw50 -s 8",
            "-n300 -r -t8 -fconfig.ini",
        ],
        run: Text(dedisbench_line),
    },
    FuzzTarget {
        name: "load_words",
        seeds: &[
            "sequential",
            "nurand:5000",
            "zipf:0.99",
            "hotspot:80/20",
            "null:",
            "./data",
            "file:/dev/zero",
            "file:a:b",
            "pool:/a/b",
            "nbd+unix:///x?socket=/y",
        ],
        run: Text(load_words),
    },
    FuzzTarget {
        name: "filebench_script",
        seeds: &[
            "set $dir=/x\nset $n=2 * 3\ndefine fileset name=s,path=$dir,entries=$n,dirwidth=5,prealloc=80,datasource=entro,entropy=5\n\
             define process name=p,instances=1 { thread name=t,memsize=1m { flowop openfile name=o,filesetname=s,fd=1\n\
             flowop closefile name=c,fd=1 } }\necho \"n is $n\"\npsrun -10 60\n",
            "define randvar name=$v, type=tabular, min=1k, randtable = {{80, 1k, 4k}, {20, 4k, 16k}}\n\
             define flowop name=c, $a, $b=1 { flowop delay name=d,value=$b }\nforeach $i in 1, 2 { run $i }\n",
        ],
        run: Text(filebench_script),
    },
    FuzzTarget {
        name: "globs",
        seeds: &["*.o", "/a/**/b", "{a,b}[0-9]?", "[!x]\\*"],
        run: Text(globs),
    },
    FuzzTarget { name: "operation_log", seeds: &["gemelog1"], run: Bytes(operation_log) },
    FuzzTarget { name: "saved_set", seeds: &["PAR1"], run: Bytes(saved_set) },
    FuzzTarget {
        name: "control_request",
        seeds: &[
            "\"stat\"",
            "\"attach\"",
            "{\"create-volume\":{\"name\":\"a\",\"size_bytes\":4096,\"mode\":\"inline\"}}",
            "{\"collect\":{\"max_bytes_per_s\":null}}",
            "{\"check\":{\"data\":true}}",
        ],
        run: Bytes(control_request),
    },
    FuzzTarget {
        name: "campaign_plan",
        seeds: &[
            "title = \"a\"\n[parameters]\nsize = \"1m\"\n[[target]]\nname = \"null\"\nnull = true\n\
             [[workload]]\nname = \"w-{n}\"\nmatrix = { n = [1, 2] }\nbench = { pattern = \"sequential\" }\n",
            include_str!("../../../../plans/quick.toml"),
        ],
        run: Text(campaign_plan),
    },
    FuzzTarget {
        name: "domain_names",
        seeds: &["rados:p/n", "rados:p/n/m:conf=/c:id=u", "rados:p/n/m/v"],
        run: Text(domain::names),
    },
    FuzzTarget { name: "domain_shard", seeds: &[], run: Made(domain::shard, domain::shard_seeds) },
    FuzzTarget {
        name: "domain_intent",
        seeds: &[],
        run: Made(domain::intent, domain::intent_seeds),
    },
    FuzzTarget {
        name: "domain_ledger",
        seeds: &[],
        run: Quick(domain::ledger, domain::ledger_seeds),
    },
    FuzzTarget {
        name: "domain_values",
        seeds: &[],
        run: Quick(domain::values, domain::value_seeds),
    },
    FuzzTarget { name: "nbd_wire", seeds: &[], run: Made(nbd::wire, nbd::wire_seeds) },
    FuzzTarget { name: "nbd_server", seeds: &[], run: Made(nbd::server, nbd::server_seeds) },
    FuzzTarget { name: "nbd_client", seeds: &[], run: Made(nbd::client, nbd::client_seeds) },
    FuzzTarget { name: "vhost_queue", seeds: &[], run: Made(vhost::queue, vhost::queue_seeds) },
    FuzzTarget { name: "packed_block", seeds: &[], run: Made(packed::block, packed::seeds) },
    FuzzTarget { name: "stream", seeds: &[], run: Quick(stream::stream, stream::stream_seeds) },
    FuzzTarget { name: "pool_forged", seeds: &[], run: Made(pool::forged, pool::forged_seeds) },
    FuzzTarget { name: "pool_kept", seeds: &[], run: Made(pool::kept, pool::kept_seeds) },
    FuzzTarget { name: "pool_table", seeds: &[], run: Made(pool::table, pool::table_seeds) },
    FuzzTarget { name: "pool_changes", seeds: &[], run: Made(pool::changes, pool::change_seeds) },
    FuzzTarget { name: "pool_damage", seeds: &[], run: Made(pool::damage, pool::patch_seeds) },
];

impl FuzzTarget {
    /// Returns valid inputs with which fuzzing begins.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        match self.run {
            Made(_, seeds) | Quick(_, seeds) => seeds(),
            Bytes(_) | Text(_) => self.seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect(),
        }
    }

    /// Returns whether the parser reads text.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        matches!(self.run, Text(_))
    }

    /// Returns the number of inputs for so many rounds. A run that connects to a server takes about
    /// a millisecond, one that opens a pool some fifteen, other runs take microseconds.
    #[must_use]
    pub fn inputs(&self, rounds: u64) -> u64 {
        match self.run {
            Made(..) if self.name.starts_with("pool_") => rounds / SLOWEST,
            Made(..) => rounds / SLOW,
            Quick(_, seeds) => rounds * seeds().len() as u64,
            Bytes(_) | Text(_) => rounds,
        }
    }

    /// Runs the parser on the bytes of a fuzzer.
    ///
    /// # Panics
    /// Panics if the parser misbehaves.
    pub fn run(&self, bytes: &[u8]) {
        match self.run {
            Bytes(run) | Made(run, _) | Quick(run, _) => run(bytes),
            Text(run) => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    run(text);
                }
            }
        }
    }
}

/// The number of kinds of pools that the targets of pools have. The first byte of their inputs
/// selects one.
#[must_use]
pub fn pool_kinds() -> usize {
    pool::kinds()
}

/// The number of kept pools that the target `pool_kept` has; none without `tar` and `zstd`.
#[must_use]
pub fn kept_pools() -> usize {
    pool::kept_pools()
}

/// Most edits of an input of [`forged_input`].
const FORGED_EDITS: u64 = 4;

/// Returns an input for the targets `pool_forged` and `pool_kept`: some edits of a pool, which
/// differ from round to round.
#[must_use]
pub fn forged_input(pool: usize, round: u64) -> Vec<u8> {
    let mut random = Random::new(mix_pair(round, pool as u64));
    let mut input = vec![pool as u8];
    for _ in 0..1 + random.below(FORGED_EDITS) {
        input.extend((0..pool::EDIT_HEAD_BYTES).map(|_| random.next_u64() as u8));
        input.extend(random.next_u64().to_le_bytes());
    }
    input
}

/// Returns inputs for the target `pool_kept` that each change one field of this pool, and together
/// all fields of all structs.
#[must_use]
pub fn field_inputs(pool: usize) -> Vec<Vec<u8>> {
    pool::field_inputs(pool)
}

/// Runs the target of this name. Does nothing if the name is unknown.
///
/// # Panics
/// Panics if the parser misbehaves.
pub fn run(name: &str, bytes: &[u8]) {
    if let Some(target) = TARGETS.iter().find(|target| target.name == name) {
        target.run(bytes);
    }
}

/// Number of blocks of the data set to which every distribution is scaled.
const SCALED_BLOCKS: u64 = 1000;

fn distribution_text(text: &str) {
    let problems = Distribution::problems(text);
    let Ok((distribution, _)) = Distribution::parse_with_notes(text) else {
        assert!(!problems.is_empty(), "a refused text must have a problem");
        return;
    };
    assert!(problems.is_empty(), "an accepted text must have no problem");
    assert_eq!(Distribution::parse(&distribution.to_text()).as_ref(), Ok(&distribution));
    let scaled = ScaledDistribution::new(&distribution, SCALED_BLOCKS);
    assert_eq!(scaled.map(|scaled| scaled.blocks()), Ok(SCALED_BLOCKS));
}

fn distribution_file(text: &str) {
    let format = DistributionFormat::of(text);
    assert_eq!(format.parse(text).is_err(), !format.problems(text).is_empty());
}

fn profile(text: &str) {
    let Ok(profile) = Profile::parse(text) else { return };
    let written = profile.to_toml().unwrap_or_default();
    assert_eq!(Profile::parse(&written).ok(), Some(profile), "a profile must survive its file");
}

fn units(text: &str) {
    if let Ok(bytes) = units::parse_size(text) {
        assert!(!units::format_size(bytes).is_empty());
    }
    if let Ok(share) = units::parse_percent(text) {
        assert!((0.0..=1.0).contains(&share));
    }
    let _ = units::parse_duration(text);
    let _ = (Figure::parse(text), Figure::parse_percent(text));
}

/// Parses a request that arrives at the control socket of a pool.
fn control_request(bytes: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<gemelo_serve::PoolRequest>(bytes) {
        let again = serde_json::to_vec(&request).ok();
        let read = again.and_then(|text| serde_json::from_slice(&text).ok());
        assert_eq!(read, Some(request), "a request must survive its frame");
    }
}

fn job_file(text: &str) {
    let _ = job_file::parse(text, &Targets::new());
}

fn dedisbench_ini(text: &str) {
    let _ = DedisbenchJob::default().with_configuration(text);
}

fn dedisbench_line(text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    if let Ok(job) = DedisbenchJob::of_words(&words) {
        let around = Surroundings { is_file: &|path| path.len().is_multiple_of(2), seed: 1 };
        let _ = (job.notes(), job.to_bench_arguments(&around));
    }
}

fn load_words(text: &str) {
    let _ = text.parse::<Pattern>();
    let targets = Targets::new().with(PoolAdapter::default()).with(NbdAdapter);
    let uri = TargetUri::from(text);
    let _ = targets.storage(&uri);
    assert_eq!(TargetUri::from(uri.to_string()), uri, "a printed name must parse to the same name");
}

fn filebench_script(text: &str) {
    if let Ok(script) = gemelo_filebench::Script::parse("f", text) {
        let _ = script.compile(&[]).map(gemelo_filebench::Program::with_run);
    }
    let _ = gemelo_filebench::sources::SourceSpec::parse(text);
}

fn condition(text: &str) {
    match Condition::parse(text) {
        Ok(condition) => assert!(condition.terms().count() > 0),
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column)),
    }
}

fn result_file(text: &str) {
    if let Ok(raw) = gemelo_figures::parse(text, Path::new("fuzzed.json")) {
        assert!(raw.figures.figures.iter().all(|figure| figure.value.is_finite()));
    }
}

fn campaign_plan(text: &str) {
    let _ = Plan::read(text, Path::new("/nowhere"), &[]);
}

fn globs(text: &str) {
    let request = ScanRequest {
        paths: vec![".".into()],
        exclude: vec![text.to_owned()],
        threads: 1,
        ..ScanRequest::default()
    };
    let _ = ScanOptions::new(request);
}

fn operation_log(bytes: &[u8]) {
    let _ = read_log(&mut &*bytes, |_| ());
}

/// Reads a saved set. It is read from a file because its columns can be anywhere in it. Few inputs
/// have the right checksum.
fn saved_set(bytes: &[u8]) {
    if let Ok(mut file) = tempfile::NamedTempFile::new()
        && file.write_all(bytes).is_ok()
    {
        let _ = merge_sets(&[file.path().to_owned()], None, &Silent, &StopFlag::new());
    }
}

/// Reads bytes in every format of traces, and in the recognised one. Each record must end below
/// 2^64 bytes.
fn trace(bytes: &[u8]) {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let paths = [file.path().to_owned()];
    for format in TraceFormat::ALL.into_iter().map(Some).chain([None]) {
        let options = ReadOptions { format, skips_malformed: true, devices: Vec::new() };
        let Ok(mut merged) = Merged::open(&paths, options) else { continue };
        let mut record = Record::new();
        while let Ok(true) = merged.next_record(&mut record) {
            let end = record.offset_bytes.checked_add(record.length_bytes);
            assert!(end.is_some(), "{format:?}: {record:?}");
        }
    }
}

fn trace_options(text: &str) {
    if let Ok(arrival) = text.parse::<gemelo_trace::Arrival>() {
        assert_eq!(arrival.to_string().parse(), Ok(arrival));
    }
    if let Ok(speed) = text.parse::<gemelo_replay::Speed>() {
        assert_eq!(speed.to_string().parse(), Ok(speed));
    }
    let _ = (text.parse::<gemelo_trace::DeviceRule>(), text.parse::<TraceFormat>());
}
