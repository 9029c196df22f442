//! Translates a [`DedisbenchJob`] to the options of `gemelo bench`.
//!
//! DEDISbench and gemelo count some things differently; the translation keeps the sums. In a mixed
//! run half of DEDISbench's processes write and the other half read the same files. A process of
//! gemelo does both, so half the number of processes is enough. A rate and the size of a raw device
//! are totals of all processes in DEDISbench, and of each process in gemelo. The bytes to read and
//! write are those of each kind of operation in DEDISbench, and of both kinds in gemelo.

use super::error::DedisbenchError;
use super::parse::{
    DedisbenchJob, DedisbenchLoad, DedisbenchOperation, DedisbenchPattern, DedisbenchPopulate,
    Integrity, Sync,
};
use gemelo_base::random::mix_pair;
use gemelo_content::built_in;

/// Number of processes if neither a flag nor the configuration sets it.
const PROCESSES: u32 = 4;
/// Number of processes in DEDISbench's default configuration, which it reads if none is given.
const DEFAULT_CONFIGURATION_PROCESSES: u32 = 1;
/// Size of files in MB if nothing sets it.
const FILE_MEGABYTES: u64 = 2048;
/// Intervals in which DEDISbench reports throughput and latency with its general results.
const INTERVAL: &str = "30s";
/// Distributions of DEDISbench, and the distributions of gemelo for the same data sets.
const DISTRIBUTIONS: [(&str, Option<&str>); 5] = [
    ("dist_personalfiles", Some("personal")),
    ("dist_highperf", Some("primary")),
    ("dist_archival", None),
    ("dist_kernels", None),
    ("dist_ubuntuamd", None),
];

/// What a translation takes from outside of the command line.
pub struct Surroundings<'a> {
    /// Returns whether a file of this path exists.
    pub is_file: &'a dyn Fn(&str) -> bool,
    /// Seed of a job that states none; DEDISbench takes the time.
    pub seed: u64,
}

impl DedisbenchJob {
    /// Returns the equivalent options of `gemelo bench`.
    ///
    /// # Errors
    /// Fails if the command line lacks a flag that DEDISbench requires, or names a distribution
    /// that only DEDISbench has and whose file is not there.
    pub fn to_bench_arguments(
        &self,
        around: &Surroundings<'_>,
    ) -> Result<Vec<String>, DedisbenchError> {
        let operation = self.operation.ok_or(DedisbenchError::Missing { what: "-w, -r or -m" })?;
        let mut words = Words::default();
        self.target(&mut words, operation);
        words.add(
            "--operation",
            match operation {
                DedisbenchOperation::Write => "write",
                DedisbenchOperation::Read => "read",
                DedisbenchOperation::Mixed => "mixed",
            },
        );
        words.add(
            "--pattern",
            match self.pattern.unwrap_or(DedisbenchPattern::Nurand) {
                DedisbenchPattern::Sequential => "sequential",
                DedisbenchPattern::Uniform => "uniform",
                DedisbenchPattern::Nurand => "nurand",
            },
        );
        self.load(&mut words, operation)?;
        self.ends(&mut words, operation)?;
        words.add("--distribution", self.distribution(around)?);
        // DEDISbench draws contents at random.
        words.add("--content", "sampled");
        words.add_if("--block-size", self.block_bytes);
        // The contents of DEDISbench do not depend on its seed, so --content-seed stays.
        words.add("--seed", self.seed.as_deref().map_or(around.seed, seed_of));
        self.handling(&mut words);
        self.results(&mut words);
        Ok(words.0)
    }

    /// Returns a sentence for each thing that the translation leaves out.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(text) = self.seed.as_deref().filter(|text| text.parse::<u64>().is_err()) {
            notes.push(format!("-v{text}: the seed of this text is {}", seed_of(text)));
        }
        if let Some(file) = &self.distribution_results {
            notes.push(format!(
                "dist_results={file}: the written distribution is part of the result, see --json"
            ));
        }
        if let (Some(megabytes), Some(DedisbenchOperation::Mixed)) =
            (self.megabytes, self.operation)
        {
            notes.push(format!(
                "-s{megabytes} with -m: {megabytes} MB read and {megabytes} MB written; gemelo ends \
                 after the sum of both"
            ));
        }
        if self.keeps_databases == Some(true) {
            notes.push("keep_dbs=1: gemelo needs no databases".to_owned());
        }
        notes
    }

    /// Returns the number of gemelo's processes.
    fn processes_for(&self, operation: DedisbenchOperation) -> u32 {
        let default = if self.configuration.is_some() || self.has_older_flags {
            PROCESSES
        } else {
            DEFAULT_CONFIGURATION_PROCESSES
        };
        let given = self.processes.unwrap_or(default);
        if operation == DedisbenchOperation::Mixed { (given / 2).max(1) } else { given }
    }

    fn target(&self, words: &mut Words, operation: DedisbenchOperation) {
        let processes = self.processes_for(operation);
        let megabytes = self.file_megabytes.unwrap_or(FILE_MEGABYTES);
        words.add(
            "--target",
            self.raw_device.as_deref().or(self.directory.as_deref()).unwrap_or("."),
        );
        words.add("--processes", processes);
        match (&self.raw_device, self.file_megabytes) {
            (None, _) => words.add("--file-size", format!("{megabytes}m")),
            (Some(_), Some(all)) => {
                let kilobytes = all.saturating_mul(1024) / u64::from(processes);
                words.add("--file-size", format!("{kilobytes}k"));
            }
            // Each process gets a share of the device.
            (Some(_), None) => (),
        }
    }

    fn load(
        &self,
        words: &mut Words,
        operation: DedisbenchOperation,
    ) -> Result<(), DedisbenchError> {
        let each = |rate: u64| rate as f64 / f64::from(self.processes_for(operation));
        match self.load.ok_or(DedisbenchError::Missing { what: "-p or -n<OPS>" })? {
            DedisbenchLoad::Peak => words.0.push("--peak".to_owned()),
            DedisbenchLoad::Nominal { rate } => words.add("--rate", each(rate)),
            DedisbenchLoad::NominalMixed { .. } if operation != DedisbenchOperation::Mixed => {
                return Err(DedisbenchError::Missing { what: "-m, which -nr and -nw require" });
            }
            DedisbenchLoad::NominalMixed { reads: Some(reads), writes: Some(writes) } => {
                words.add("--read-rate", each(reads));
                words.add("--write-rate", each(writes));
            }
            DedisbenchLoad::NominalMixed { .. } => {
                return Err(DedisbenchError::Missing { what: "both -nr<OPS> and -nw<OPS>" });
            }
        }
        Ok(())
    }

    fn ends(
        &self,
        words: &mut Words,
        operation: DedisbenchOperation,
    ) -> Result<(), DedisbenchError> {
        if self.minutes.is_none() && self.megabytes.is_none() {
            return Err(DedisbenchError::Missing { what: "-t<MINUTES> or -s<MB>" });
        }
        words.add_if("--time", self.minutes.map(|minutes| format!("{minutes}m")));
        let kinds = if operation == DedisbenchOperation::Mixed { 2 } else { 1 };
        let megabytes = self.megabytes.map(|megabytes| megabytes.saturating_mul(kinds));
        words.add_if("--bytes", megabytes.map(|megabytes| format!("{megabytes}m")));
        Ok(())
    }

    /// A path that exists is that file, whatever its name.
    fn distribution(&self, around: &Surroundings<'_>) -> Result<String, DedisbenchError> {
        let Some(asked) = self.distribution.as_deref() else { return Ok("personal".to_owned()) };
        if (around.is_file)(asked) {
            let is_name = built_in(asked).is_some() || asked == "-";
            return Ok(if is_name { format!("./{asked}") } else { asked.to_owned() });
        }
        let name = asked.strip_prefix("conf/").unwrap_or(asked);
        match DISTRIBUTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, Some(ours))) => Ok((*ours).to_owned()),
            Some((name, None)) => Err(DedisbenchError::UnknownDistribution { name }),
            None => Ok(asked.to_owned()),
        }
    }

    fn handling(&self, words: &mut Words) {
        words.add_if(
            "--populate",
            self.populate.map(|populate| match populate {
                DedisbenchPopulate::None => "none",
                DedisbenchPopulate::Content => "content",
                DedisbenchPopulate::Zero => "zero",
            }),
        );
        words.add_if(
            "--sync",
            self.sync.map(|sync| match sync {
                Sync::None => "none",
                Sync::Direct => "direct",
                Sync::Fsync => "fsync",
                Sync::Both => "both",
            }),
        );
        words.add_if(
            "--verify",
            self.integrity.map(|integrity| match integrity {
                Integrity::None => "none",
                Integrity::Final => "final",
                Integrity::Online => "online",
                Integrity::Both => "both",
            }),
        );
        if self.removes_files == Some(false) {
            words.0.push("--keep".to_owned());
        }
    }

    fn results(&self, words: &mut Words) {
        if let Some(results) = &self.general_results {
            words.add("--ramp-up", format!("{}s", results.ramp_up_s));
            words.add("--cool-down", format!("{}s", results.cool_down_s));
            words.add("--interval", INTERVAL);
            words.add("--json", &results.file);
        }
        words.add_if("--access-log", self.access_results.as_deref());
        if self.logs_operations == Some(true) {
            words.add("--log", "result");
        }
    }
}

/// Returns the seed of a text: its value if it is a number, or else a hash of the text.
fn seed_of(text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| text.bytes().fold(0, |seed, byte| mix_pair(seed, u64::from(byte))))
}

/// Options and their values.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    #[expect(clippy::needless_pass_by_value, reason = "numbers, literals and references alike")]
    fn add(&mut self, option: &str, value: impl ToString) {
        self.0.push(option.to_owned());
        self.0.push(value.to_string());
    }

    fn add_if(&mut self, option: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(option, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobOptions;
    use clap::Parser;
    use proptest::prelude::*;

    /// The options of `gemelo bench`: every translation must be made of them.
    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Bench {
        #[command(flatten)]
        _options: JobOptions,
        #[arg(long = "json")]
        _json: Option<String>,
    }

    fn around(is_file: &dyn Fn(&str) -> bool) -> Surroundings<'_> {
        Surroundings { is_file, seed: 42 }
    }

    fn translated(line: &str, configuration: &str) -> Result<String, DedisbenchError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let job = DedisbenchJob::of_words(&words)?.with_configuration(configuration)?;
        let words = job.to_bench_arguments(&around(&|_| false))?;
        Bench::try_parse_from(&words).unwrap();
        Ok(words.join(" "))
    }

    #[test]
    fn the_examples_of_its_documentation_are_translated() {
        for (line, configuration, expected) in [
            (
                "-p -w -t5",
                "",
                "--target . --processes 1 --file-size 2048m --operation write --pattern nurand --peak --time 5m \
                 --distribution personal --content sampled --seed 42",
            ),
            (
                "-p -w -t5 -fconfig.ini",
                "[execution]\nfilesize=4096\nnprocs=8\npopulate=1\n[results]\nlogging=1\n",
                "--target . --processes 8 --file-size 4096m --operation write --pattern nurand --peak --time 5m \
                 --distribution personal --content sampled --seed 42 --populate content --log result",
            ),
            (
                "-n300 -r -t8 -fconfig.ini",
                "[results]\ntempfilespath=./tempfiles\n",
                "--target ./tempfiles --processes 4 --file-size 2048m --operation read --pattern nurand --rate 75 \
                 --time 8m --distribution personal --content sampled --seed 42",
            ),
            (
                "-m -nr100 -nw50 -t8 -fc",
                "[execution]\nrawdevice=/dev/sdx\nfilesize=4096\n",
                "--target /dev/sdx --processes 2 --file-size 2097152k --operation mixed --pattern nurand \
                 --read-rate 50 --write-rate 25 --time 8m --distribution personal --content sampled --seed 42",
            ),
            (
                "-m -p -s100 -c8",
                "",
                "--target . --processes 4 --file-size 2048m --operation mixed --pattern nurand --peak --bytes 200m \
                 --distribution personal --content sampled --seed 42",
            ),
            (
                "-n300 -w -t1 -fc",
                "[execution]\nnprocs=8\n",
                "--target . --processes 8 --file-size 2048m --operation write --pattern nurand --rate 37.5 --time 1m \
                 --distribution personal --content sampled --seed 42",
            ),
            (
                "-p -w -t1 -b1024 -c1 -v9 -a0",
                "",
                "--target . --processes 1 --file-size 2048m --operation write --pattern sequential --peak --time 1m \
                 --distribution personal --content sampled --block-size 1024 --seed 9",
            ),
        ] {
            assert_eq!(translated(line, configuration).unwrap(), expected);
        }
    }

    #[test]
    fn distributions_have_our_names_or_are_files() {
        let named =
            |name: &str| translated("-p -w -s1 -fc", &format!("[execution]\ndistfile={name}\n"));
        assert!(named("dist_highperf").unwrap().contains("--distribution primary "));
        assert!(named("conf/dist_personalfiles").unwrap().contains("--distribution personal "));
        assert!(named("./dist_archival").unwrap().contains("--distribution ./dist_archival "));
        let error = named("conf/dist_kernels").unwrap_err().to_string();
        assert!(error.contains("distfile=./dist_kernels"), "{error}");
    }

    #[test]
    fn a_file_that_exists_wins_over_a_name() {
        for (name, file) in [
            ("conf/dist_highperf", "conf/dist_highperf"),
            ("conf/dist_kernels", "conf/dist_kernels"),
            ("personal", "./personal"),
        ] {
            let job = DedisbenchJob { distribution: Some(name.to_owned()), ..Default::default() };
            assert_eq!(job.distribution(&around(&|path| path == name)).unwrap(), file);
        }
    }

    #[test]
    fn what_dedisbench_requires_is_missed() {
        for (line, what) in [
            ("-p -t1", "-w, -r or -m"),
            ("-w -t1", "-p or -n"),
            ("-p -w", "-t<MINUTES>"),
            ("-w -nr5 -t1", "-m, which"),
            ("-m -nr5 -t1", "both -nr<OPS> and -nw<OPS>"),
        ] {
            let error = translated(line, "").unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_text_as_seed_is_a_number_of_its_own() {
        let job = DedisbenchJob::of_words(&["-vabc123"]).unwrap();
        assert!(job.notes().concat().contains(&seed_of("abc123").to_string()));
        assert_ne!(seed_of("abc123"), seed_of("abc132"));
        assert_eq!(seed_of("17"), 17);
    }

    proptest! {
        /// Every accepted command line becomes options that `gemelo bench` accepts.
        #[test]
        fn every_translation_is_made_of_options_of_bench(
            load in "-p|-n[1-9]{1,4}|-nr[1-9] -nw[1-9]", operation in "-[wrm]", end in "-t[1-9]{1,3}|-s[1-9]{1,3}",
            values in proptest::collection::vec(0u64..5, 5), seed: u64, results in "[a-z]{1,5}:[0-9]:[0-9]"
        ) {
            let keys = ["access_type", "nprocs", "populate", "sync", "integrity"];
            let lines: String = keys.iter().zip(values).map(|(key, value)| format!("{key}={value}\n")).collect();
            let configuration = format!(
                "[execution]\n{lines}seed={seed}\n[results]\ngeneral_results={results}\n[structural]\ncleantemp=0\n"
            );
            let _ = translated(&format!("{load} {operation} {end} -fc"), &configuration);
        }
    }
}
