//! `gemelo trace stat` computes the statistics that papers publish of traces, and derives a
//! distribution and a job.

use super::input::for_each;
use super::stat_text;
use crate::context::Context;
use crate::exit::{Failures, OrFailed as _, OrFailure as _, Outcome, refused};
use crate::files;
use crate::json::JsonOption;
use crate::kind::{Described, Kind};
use crate::values::BlockSize;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::values::Size;
use gemelo_content::Profile;
use gemelo_job::{ReadTrace, TraceInput, choice};
use gemelo_record::ResultFile;
use gemelo_trace::{
    AccessProfile, CopyCounting, MemoryLimit, Merged, RecordSource, Statistics, Stats, Window,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

const KIND: Kind<ResultFile<Input, &'static Counted>> =
    Kind::new("gemelo.trace-stat/1", "Result of gemelo trace stat");

pub(crate) const DESCRIBED: Described = KIND.described();

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: TraceInput,
    /// Size of the blocks to count
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    block_size: BlockSize,
    /// Most memory; counting takes 25 to 100 bytes for each distinct place and content, and fails
    /// if that is not enough
    #[arg(long, value_name = "SIZE", default_value = "4g")]
    memory: Size,
    /// Write the distribution of duplicates to this file, as a profile if its name ends in .toml
    #[arg(long, value_name = "FILE")]
    distribution: Option<PathBuf>,
    /// Copies of a content that the distribution counts
    #[arg(long, value_enum, default_value = "writes", requires = "distribution")]
    copies: Copies,
    /// Write a job file for gemelo bench with the share of writes, the pattern, the size and the
    /// distribution of the trace
    #[arg(long, value_name = "FILE")]
    job: Option<PathBuf>,
    #[command(flatten)]
    json: JsonOption,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
}

choice!(
    Copies is CopyCounting {
        /// Every write of the content, as in a load
        Writes,
        /// Every place that holds the content at the end of the trace, as on storage
        AtEnd,
    }
);

#[derive(Debug, JsonSchema, Serialize)]
struct Input {
    #[serde(flatten)]
    trace: ReadTrace,
    /// The most memory of the counting tables, in bytes.
    memory_bytes: u64,
}

/// The figures of a trace.
#[derive(Debug, JsonSchema, Serialize)]
struct Counted {
    #[serde(flatten)]
    figures: Stats,
    /// The shares of accesses that the most accessed places have.
    access_profile: AccessProfile,
    /// `true` if all selected records were counted.
    is_complete: bool,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let outputs =
        [arguments.distribution.as_deref(), arguments.job.as_deref(), arguments.json.path()];
    files::check_all_new(outputs.into_iter().flatten(), arguments.force)?;
    let mut trace = arguments.input.open()?;
    let mut statistics = Statistics::new(arguments.block_size.0, MemoryLimit(arguments.memory.0));
    let is_complete =
        for_each(&mut trace, context, ("counting", arguments.input.limit), |record, _| {
            Ok(statistics.add(record)?)
        })?;
    trace.source().check_devices()?;
    let mut warnings = TraceInput::remarks(trace.source());
    if !is_complete {
        warnings.push(
            "interrupted: the figures cover only the records that were read before".to_owned(),
        );
    }
    let counted = Counted {
        figures: statistics.figures(trace.names()),
        access_profile: statistics.access_profile(),
        is_complete,
    };
    if counted.figures.records == 0 {
        return Err(refused!("the trace has no record that --skip, --limit and --time select"));
    }
    warnings.extend(stat_text::advice(&counted.figures));
    let distribution = arguments
        .distribution
        .as_deref()
        .map(|path| arguments.distribution_text(&statistics, &trace, path));
    let distribution = distribution.transpose()?;
    let (monitor, mut failures) = (context.monitor.as_ref(), Failures::default());
    if !arguments.json.is_standard_output() {
        let text =
            stat_text::text(&counted.figures, &counted.access_profile, trace.source().formats());
        failures.note(context.print(&text), monitor);
    }
    warnings.iter().for_each(|warning| monitor.warn(warning));
    if let (Some(path), Some(text)) = (&arguments.distribution, distribution) {
        failures.note(files::write_whole(path, arguments.force, text.as_bytes()), monitor);
    }
    failures.note(arguments.write_job(&counted), monitor);
    let input =
        Input { trace: arguments.input.as_read(trace.source()), memory_bytes: arguments.memory.0 };
    let made = KIND.made(input, &counted, warnings);
    failures.note(arguments.json.write(arguments.force, context, made), monitor);
    failures.or(if is_complete { Outcome::Done } else { Outcome::Partial })
}

impl Arguments {
    fn write_job(&self, counted: &Counted) -> crate::Result<()> {
        let Some(path) = &self.job else { return Ok(()) };
        files::write_whole(path, self.force, self.job_text(counted)?.as_bytes())
    }

    fn source(&self) -> String {
        let names: Vec<String> = self
            .input
            .traces
            .iter()
            .map(|path| gemelo_base::text_of_name(path.as_os_str()))
            .collect();
        format!("gemelo trace stat {}", names.join(" "))
    }

    fn distribution_text(
        &self,
        statistics: &Statistics,
        trace: &Window<Merged>,
        path: &Path,
    ) -> crate::Result<String> {
        let distribution = statistics.distribution(self.copies.into()).map_err(|_| {
            let formats: Vec<String> =
                trace.source().formats().iter().map(ToString::to_string).collect();
            refused!("{} traces hold no contents: leave out --distribution", formats.join(", "))
        })?;
        if path.extension().is_some_and(|ending| ending == "toml") {
            let name = path.file_stem().map(gemelo_base::text_of_name);
            let name = name.unwrap_or_else(|| "trace".to_owned());
            let profile = Profile::new(&name, &self.source(), self.block_size.0, &distribution);
            return profile.to_toml().or_failed().context("cannot write the profile");
        }
        Ok(distribution.to_text())
    }

    /// Returns the job file. Figures that a job cannot express are in a comment.
    fn job_text(&self, counted: &Counted) -> crate::Result<String> {
        let profile = &counted.access_profile;
        let block_bytes = self.block_size.0;
        let operation = match profile.write_share {
            share if share <= 0.0 => "read",
            share if share >= 1.0 => "write",
            _ => "mixed",
        };
        let mut text = format!(
            "# Access profile by {}.\n# Requests of {:.0} bytes on average; {:.2} reads and {:.2} writes a second.\n\
             # A job's operations are single blocks; name rate, read-rate and write-rate to pace it.\n\
             operation = \"{operation}\"\n",
            self.source(),
            profile.request_bytes,
            profile.reads_per_s,
            profile.writes_per_s,
        );
        if operation == "mixed" {
            text += &format!("write-share = {:.2}\n", profile.write_share * 100.0);
        }
        text += &format!(
            "pattern = \"{}\"\nblock-size = {block_bytes}\nfile-size = {}\n",
            profile.pattern, profile.touched_bytes
        );
        if let Some(path) =
            self.distribution.as_ref().filter(|path| !files::is_standard_output(path))
        {
            let path = std::path::absolute(path).context("cannot find the current directory")?;
            text += &format!("distribution = {}\n", toml::Value::String(path.shown().to_string()));
        }
        Ok(text)
    }
}
