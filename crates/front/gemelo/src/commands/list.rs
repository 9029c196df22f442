//! The one list of commands, with what they read, take and make. Schemas, and the tests that hold
//! for every command of a sort, are made from it; a test compares it with the command line.

use super::volume;
use super::{
    bench, campaign, compare, distribution, domain, filebench, pool, replay, scan, settings,
    support, trace,
};
use crate::kind::Described;

/// A command that does something, and its properties.
#[derive(Debug)]
pub struct ListedCommand {
    /// The words that call it.
    pub name: &'static str,
    /// The calls that read files.
    pub readers: &'static [Reader],
    /// The arguments of calls that write a file at `OUT`, with `TRACE`, `SCRIPT` and `DIR` for what
    /// they read.
    pub writers: &'static [&'static str],
    /// The arguments of calls that open a pool, with `POOL`, `FILE` (data), `TRACE` and `OUT` in
    /// the place of paths. They end with status 3 if the pool is in use, and with 4 if it is
    /// damaged.
    pub on_pools: &'static [&'static str],
    /// The kinds of results.
    pub(crate) kinds: &'static [Described],
    /// Whether it makes results of a kind that another command has.
    makes_other_kinds: bool,
}

/// A call that reads a file.
#[derive(Debug)]
pub struct Reader {
    /// The arguments, with `INPUT` and `OUTPUT` in the place of paths.
    pub arguments: &'static str,
    /// Whether the call refuses bytes without a meaning. Calls that accept any data do not.
    pub refuses_garbage: bool,
    /// Whether the call refuses an empty file.
    pub refuses_empty: bool,
}

impl ListedCommand {
    /// Returns the words of a call with these arguments.
    #[must_use]
    pub fn words(&self, arguments: &'static str) -> Vec<&'static str> {
        self.name.split(' ').chain(arguments.split(' ')).collect()
    }

    /// Returns whether the command makes results, which `--json` writes.
    #[must_use]
    pub const fn makes_results(&self) -> bool {
        self.makes_other_kinds || !self.kinds.is_empty()
    }

    const fn reads(self, readers: &'static [Reader]) -> Self {
        Self { readers, ..self }
    }

    const fn writes(self, writers: &'static [&'static str]) -> Self {
        Self { writers, ..self }
    }

    const fn on_pools(self, on_pools: &'static [&'static str]) -> Self {
        Self { on_pools, ..self }
    }

    const fn makes(self, kinds: &'static [Described]) -> Self {
        Self { kinds, ..self }
    }

    /// States that the command makes results of kinds that an earlier one has.
    const fn makes_other_kinds(self) -> Self {
        Self { makes_other_kinds: true, ..self }
    }
}

const fn command(name: &'static str) -> ListedCommand {
    ListedCommand {
        name,
        readers: &[],
        writers: &[],
        on_pools: &[],
        kinds: &[],
        makes_other_kinds: false,
    }
}

/// A call that reads files of a format.
const fn format(arguments: &'static str) -> Reader {
    Reader { arguments, refuses_garbage: true, refuses_empty: true }
}

/// A call that reads files of a format, of which an empty one leaves all to the command line.
const fn settings(arguments: &'static str) -> Reader {
    Reader { refuses_empty: false, ..format(arguments) }
}

/// A call that reads a directory, of which one without anything is an answer.
const fn directory(arguments: &'static str) -> Reader {
    Reader { refuses_garbage: false, ..format(arguments) }
}

/// A call that reads any data.
const fn data(arguments: &'static str) -> Reader {
    Reader { refuses_empty: false, ..directory(arguments) }
}

/// Every command, in the order in which schemas are listed.
pub static COMMANDS: &[ListedCommand] = &[
    command("bench")
        .makes(&bench::KINDS)
        .reads(&[
            format("--distribution INPUT --target null: --bytes 1m --json OUTPUT"),
            settings("INPUT --target null: --bytes 1m"),
        ])
        .on_pools(&["--target pool:POOL/a --operation write --bytes 64k"])
        .writes(&[
            "--target null: --file-size 16k --json OUT",
            "--target null: --file-size 16k --log OUT",
            "--target null: --file-size 16k --report OUT",
        ]),
    command("suite")
        .makes_other_kinds()
        .reads(&[format("--distribution INPUT --target null: --bytes 1m --json OUTPUT")])
        .on_pools(&["--target pool:POOL/a --file-size 64k"])
        .writes(&["--target null: --file-size 16k --json OUT"]),
    command("dedisbench").reads(&[settings("--dry-run -p -w -t1 -fINPUT")]),
    command("replay")
        .makes(&replay::KINDS)
        .reads(&[format("INPUT --target null: --json OUTPUT")])
        .on_pools(&["TRACE --target pool:POOL/a --force"])
        .writes(&[
            "TRACE --target null: --speed max --report OUT",
            "TRACE --target null: --speed max --json OUT",
        ]),
    command("filebench")
        .makes(&filebench::KINDS)
        .reads(&[format("INPUT --json OUTPUT")])
        .writes(&["SCRIPT --dir DIR --report OUT", "SCRIPT --dir DIR --json OUT"]),
    command("verify").reads(&[format("INPUT")]),
    command("log").reads(&[format("INPUT")]),
    command("compare").makes(&compare::KINDS).reads(&[format("INPUT INPUT --json OUTPUT")]),
    command("report").reads(&[format("INPUT --output OUTPUT")]),
    command("scan").makes(&scan::KINDS).reads(&[data("INPUT --json OUTPUT")]).writes(&[
        "TRACE --json OUT",
        "TRACE --plan --json OUT",
        "TRACE --report OUT",
    ]),
    command("scan merge").makes_other_kinds().reads(&[format("INPUT --json OUTPUT")]),
    command("distribution show")
        .makes(&distribution::KINDS)
        .reads(&[format("INPUT --json OUTPUT")])
        .writes(&["personal --json OUT"]),
    command("distribution compare")
        .makes_other_kinds()
        .reads(&[format("personal INPUT --json OUTPUT")])
        .writes(&["personal unique --json OUT"]),
    command("distribution check").reads(&[format("INPUT")]),
    command("distribution scale")
        .makes_other_kinds()
        .reads(&[format("INPUT --blocks 9 --output OUTPUT")])
        .writes(&["personal --blocks 9 --json OUT", "personal --blocks 9 --output OUT"]),
    command("distribution convert")
        .reads(&[format("INPUT --output OUTPUT")])
        .writes(&["personal --output OUT"]),
    command("distribution fit").writes(&["--unique-share 60 --duplicate-share 30 --output OUT"]),
    command("generate")
        .reads(&[format("--distribution INPUT --bytes 1m OUTPUT")])
        .writes(&["--bytes 16k OUT"]),
    command("trace stat")
        .makes(&[trace::stat::DESCRIBED])
        .reads(&[format("INPUT --json OUTPUT")])
        .writes(&["TRACE --json OUT", "TRACE --job OUT", "TRACE --distribution OUT"]),
    command("trace convert")
        .reads(&[format("INPUT --to fiu --output OUTPUT")])
        .writes(&["TRACE --to fiu --output OUT"]),
    command("trace synthesize")
        .reads(&[format("--distribution INPUT --records 9 --output OUTPUT")])
        .writes(&["--preset web --records 9 --output OUT"]),
    command("pool stat")
        .makes(&[pool::stat::DESCRIBED])
        .reads(&[format("INPUT --json OUTPUT")])
        .on_pools(&["POOL"]),
    command("pool status")
        .makes(&[pool::status::DESCRIBED])
        .reads(&[format("INPUT --json OUTPUT")])
        .on_pools(&["POOL"]),
    // A directory without pools is an answer.
    command("pool ls").makes(&[pool::ls::DESCRIBED]).reads(&[directory("INPUT")]),
    command("pool estimate").makes(&[pool::estimate::DESCRIBED]),
    command("pool check")
        .makes(&[pool::check_findings::DESCRIBED])
        .reads(&[format("INPUT --repair")])
        .on_pools(&["POOL", "POOL --repair --force", "POOL --data"]),
    command("pool create"),
    command("pool get")
        .makes(&[settings::DESCRIBED])
        .reads(&[format("INPUT --json OUTPUT")])
        .on_pools(&["POOL"]),
    command("pool set")
        .reads(&[format("INPUT --finder-delay 1s")])
        .on_pools(&["POOL --finder-delay 1s"]),
    command("pool tick").reads(&[format("INPUT")]).on_pools(&["POOL"]),
    command("pool gc").reads(&[format("INPUT")]).on_pools(&["POOL"]),
    command("pool dedup").reads(&[format("INPUT")]).on_pools(&["POOL"]),
    command("pool scrub").reads(&[format("INPUT")]).on_pools(&["POOL"]),
    command("pool defrag").reads(&[format("INPUT")]).on_pools(&["POOL"]),
    command("pool recompress").reads(&[format("INPUT")]).on_pools(&["POOL"]),
    command("pool grow")
        .reads(&[format("INPUT --capacity 1g")])
        .on_pools(&["POOL --capacity 128m"]),
    command("pool shrink")
        .reads(&[format("INPUT --capacity 1g")])
        .on_pools(&["POOL --capacity 32m --dry-run"]),
    command("pool rm").reads(&[format("INPUT --force")]),
    command("pool unit").reads(&[format("INPUT")]),
    command("pool hand-over").reads(&[format("INPUT")]),
    command("domain stat").makes(&[domain::stat::DESCRIBED]),
    command("domain check").makes(&[domain::check::DESCRIBED]),
    command("domain ls").makes(&[domain::ls::DESCRIBED]),
    command("domain create"),
    command("domain rm"),
    command("volume stat")
        .makes(&[volume::stat::DESCRIBED])
        .reads(&[format("INPUT/a --json OUTPUT")])
        .on_pools(&["POOL/a"]),
    command("volume ls")
        .makes(&[volume::ls::DESCRIBED])
        .reads(&[format("INPUT")])
        .on_pools(&["POOL"]),
    command("volume export")
        .makes(&[volume::export::DESCRIBED])
        .reads(&[format("INPUT/a OUTPUT")])
        .on_pools(&["POOL/a OUT"]),
    command("volume diff")
        .makes(&[volume::diff::DESCRIBED])
        .reads(&[format("INPUT/a INPUT/b --json OUTPUT")]),
    command("volume send").reads(&[format("INPUT/a")]),
    command("volume receive").reads(&[format("INPUT/a")]),
    command("volume copy").reads(&[format("INPUT/a OUTPUT/a")]),
    command("volume prune").reads(&[format("INPUT/a --keep 1")]),
    command("volume verify")
        .makes(&[volume::verify::DESCRIBED])
        .reads(&[format("INPUT/a OUTPUT/a")]),
    command("volume create")
        .reads(&[format("INPUT/a --size 1m")])
        .on_pools(&["POOL/new --size 1m"]),
    command("volume resize").reads(&[format("INPUT/a --size 1m")]).on_pools(&["POOL/a --size 2m"]),
    command("volume rename").reads(&[format("INPUT/a b")]).on_pools(&["POOL/a b"]),
    command("volume rm").reads(&[format("INPUT/a --force")]).on_pools(&["POOL/a --force"]),
    command("volume snapshot").reads(&[format("INPUT/a b")]).on_pools(&["POOL/a b"]),
    command("volume clone").reads(&[format("INPUT/a b")]).on_pools(&["POOL/a b"]),
    command("volume rollback").reads(&[format("INPUT/a b")]).on_pools(&["POOL/a b"]),
    command("volume hold").reads(&[format("INPUT/a")]).on_pools(&["POOL/a"]),
    command("volume release").reads(&[format("INPUT/a")]).on_pools(&["POOL/a"]),
    command("volume set").reads(&[format("INPUT/a --dedup off")]).on_pools(&["POOL/a --dedup off"]),
    command("volume get").makes_other_kinds().reads(&[format("INPUT/a")]).on_pools(&["POOL/a"]),
    // Any data can be imported, but nothing is a mistake.
    command("volume import").reads(&[directory("INPUT OUTPUT/a")]).on_pools(&["FILE POOL/new"]),
    command("serve")
        .reads(&[format("INPUT --listen unix:OUTPUT")])
        .on_pools(&["POOL --listen unix:OUT"]),
    command("attach").reads(&[format("INPUT/a")]),
    command("detach").reads(&[format("INPUT/a")]),
    command("campaign run").makes(&campaign::KINDS),
    command("campaign ls"),
    command("campaign clean"),
    command("campaign report"),
    command("support")
        .makes(&[support::DESCRIBED])
        .reads(&[format("INPUT --json OUTPUT")])
        .on_pools(&["POOL"]),
    command("completions"),
    command("manual"),
    command("schema"),
];
