//! `gemelo generate` writes a data set as fast as storage accepts it.

use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use crate::files::{self, NewDirectory, NewFile};
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::units::{
    format_counted, format_duration_ns, format_line, format_percent, format_rate, format_size,
};
use gemelo_base::values::Size;
use gemelo_base::{Clock, SystemClock};
use gemelo_content::{ContentSpec, Generator, ScaledDistribution, Summary};
use gemelo_job::{ContentOptions, contents, small};
use gemelo_load::{Generated, Output};
use std::path::PathBuf;

/// Write a data set with a chosen distribution of duplicates, entropy and compressibility.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The new file, or with --files the new directory; - is standard output
    output: PathBuf,
    /// Size of the data set, a multiple of the block size [default: the size of the distribution]
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Size>,
    /// Write a tree of N files, with a thousand files in each directory
    #[arg(long, value_name = "N")]
    files: Option<u64>,
    /// Overwrite an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    content: ContentOptions,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let spec = contents::resolve(&arguments.content, context.monitor.as_ref()).or_bad_input()?;
    for shortfall in Generator::new(&spec)?.shortfalls() {
        context.monitor.warn(&shortfall);
    }
    let block_bytes = spec.block_bytes as u64;
    let blocks = match arguments.bytes {
        Some(size) if size.0 > 0 && size.0.is_multiple_of(block_bytes) => size.0 / block_bytes,
        Some(size) => {
            return Err(refused!(
                "--bytes is {} bytes, which is not a multiple of the block size, {block_bytes} bytes",
                size.0
            ));
        }
        None => spec.distribution.blocks(),
    };
    let name = contents::distribution_name(&arguments.content);
    if let Some(warning) = small::warning(name, &spec, blocks) {
        context.monitor.warn(&warning);
    }
    let clock = SystemClock::new();
    let generated = match arguments.files {
        Some(files) => write_tree(arguments, files, &spec, blocks, context)?,
        None => write_file(arguments, &spec, blocks, context)?,
    };
    let text = text(arguments, &spec, &generated, clock.now_ns());
    if files::is_standard_output(&arguments.output) {
        context.print_beside(&text)?;
    } else {
        context.print(&text)?;
    }
    Ok(if generated.is_complete { Outcome::Done } else { Outcome::Partial })
}

/// Writes a single file. Nothing is left under its name if the work fails or is interrupted.
fn write_file(
    arguments: &Arguments,
    spec: &ContentSpec,
    blocks: u64,
    context: &Context,
) -> crate::Result<Generated> {
    let path = &arguments.output;
    files::check_new(path, arguments.force)?;
    let mut new = NewFile::create(path, arguments.force)?;
    let handle =
        new.file().filter(|_| new.is_regular()).map(std::fs::File::try_clone).transpose()?;
    let output = match &handle {
        Some(file) => Output::File(file, path),
        None => Output::Stream(&mut new, path),
    };
    let generated = generate(spec, blocks, output, context)?;
    if generated.is_complete {
        new.finish()?;
    }
    Ok(generated)
}

fn write_tree(
    arguments: &Arguments,
    files: u64,
    spec: &ContentSpec,
    blocks: u64,
    context: &Context,
) -> crate::Result<Generated> {
    if files::is_standard_output(&arguments.output) {
        return Err(refused!(
            "--files creates a directory, and standard output cannot be one: name a directory"
        ));
    }
    if arguments.force {
        return Err(refused!(
            "--force overwrites a file only: leave it out, and name a new directory"
        ));
    }
    let new = NewDirectory::create(&arguments.output)?;
    let generated = generate(spec, blocks, Output::Tree { directory: new.path(), files }, context)?;
    if generated.is_complete {
        new.finish()?;
    }
    Ok(generated)
}

fn generate(
    spec: &ContentSpec,
    blocks: u64,
    output: Output<'_>,
    context: &Context,
) -> crate::Result<Generated> {
    Ok(gemelo_load::generate(spec, blocks, output, context.monitor.as_ref(), &context.stop)?)
}

/// Returns the line about duplicates; with zeros, also the figures of a store that keeps them.
fn duplicates(summary: &Summary) -> String {
    let percent = |part: u64| format_percent(part as f64 / summary.blocks as f64);
    let (unique, duplicates) = (percent(summary.unique), percent(summary.duplicates));
    if summary.zero_blocks == 0 {
        let ratio = summary.dedup_ratio();
        return format!(
            "dedup ratio {ratio:.4}: {unique} of blocks unique, {duplicates} duplicates"
        );
    }
    format!(
        "dedup ratio {:.4} without zeros, {:.4} with zeros: {unique} of blocks unique, {duplicates} \
         duplicates, {} zeros",
        summary.dedup_ratio(),
        summary.dedup_ratio_with_zeros(),
        percent(summary.zero_blocks)
    )
}

fn text(
    arguments: &Arguments,
    spec: &ContentSpec,
    generated: &Generated,
    elapsed_ns: u64,
) -> String {
    let files = format_counted(generated.files, "file");
    let mut text = format!(
        "{}: {} of {}, {} in {files}, in {}, {}\n",
        format_line(&gemelo_base::text_of_name(arguments.output.as_os_str())),
        format_counted(generated.blocks, "block"),
        format_size(spec.block_bytes as u64),
        format_size(generated.data_bytes),
        format_duration_ns(elapsed_ns),
        format_rate(generated.data_bytes as f64 * 1e9 / elapsed_ns.max(1) as f64)
    );
    let scaled = ScaledDistribution::new(&spec.distribution, generated.blocks.max(1));
    match scaled.and_then(|scaled| scaled.to_distribution()) {
        Ok(distribution)
            if generated.is_complete && spec.mode == gemelo_content::AssignmentMode::Exact =>
        {
            let summary = distribution.summary();
            text += &format!("{}\n", duplicates(&summary));
        }
        _ if generated.is_complete => (),
        _ if files::is_standard_output(&arguments.output) => text += "stopped before the end\n",
        _ => {
            text += &format!("stopped before the end: {} is not kept\n", arguments.output.shown());
        }
    }
    text +=
        &format!("seed {}, content seed {}, run {}\n", spec.assignment_seed, spec.seed, spec.run);
    text
}
