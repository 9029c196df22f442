//! `gemelo volume export`.

use super::name::VolumeName;
use crate::context::Context;
use crate::exit::{OrBadInput, Outcome, bad_input};
use crate::{files, pools};
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_serve::{Access, Purpose, Sink, Transferred, export};
use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Threads that copy, each with a piece of 4 MiB in flight.
const THREADS: usize = 2;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory and the volume's name
    #[arg(value_name = "POOL/NAME")]
    volume: VolumeName,
    /// Where to write; - for standard output
    #[arg(value_name = "FILE|DEVICE|-")]
    output: PathBuf,
    /// Replace a file that exists, or overwrite a device that holds something
    #[arg(long)]
    force: bool,
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|status| status.file_type().is_block_device())
}

/// Whether it is there and can only be written from front to end: a terminal, a pipe, `/dev/null`.
fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|status| {
        let kind = status.file_type();
        kind.is_char_device() || kind.is_fifo()
    })
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let output = &arguments.output;
    if output.as_os_str() != "-" && !is_stream(output) {
        gemelo_target::check_overwritable(output, arguments.force).or_bad_input()?;
    }
    if !is_device(output) && !is_stream(output) {
        files::check_new(output, arguments.force)?;
    }
    let access = pools::open(&arguments.volume.pool, Purpose::Read, context)?;
    let transferred = arguments.copy(&access, context)?;
    access.close().map_err(pools::error)?;
    if output.as_os_str() != "-" {
        context.print(&format!(
            "{}: {} exported, {} of it not zero\n",
            output.display(),
            format_size(transferred.total_bytes),
            format_size(transferred.copied_bytes)
        ))?;
    }
    Ok(Outcome::Done)
}

impl Arguments {
    fn copy(&self, access: &Access, context: &Context) -> anyhow::Result<Transferred> {
        let name = &self.volume.name;
        let devices = (0..THREADS)
            .map(|_| access.device(name).map_err(pools::error))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let about = || format!("{} to {}", self.volume, self.output.display());
        let run = |sink| export(&devices, sink, &*context.monitor, &context.stop).with_context(about);
        if self.output.as_os_str() == "-" {
            return run(Sink::Stream(Box::new(std::io::stdout())));
        }
        if is_stream(&self.output) {
            let stream = OpenOptions::new().write(true).open(&self.output).with_context(about)?;
            return run(Sink::Stream(Box::new(stream)));
        }
        if is_device(&self.output) {
            let size_bytes = devices.first().map_or(0, |device| device.geometry().size_bytes);
            return run(Sink::Device(self.open_device(size_bytes)?));
        }
        let file = files::temporary_beside(&self.output)?;
        let handle = file.as_file().try_clone().with_context(about)?;
        let transferred = run(Sink::NewFile(handle))?;
        file.persist(&self.output).with_context(|| format!("cannot write {}", self.output.display()))?;
        Ok(transferred)
    }

    /// Opens a device that is large enough.
    fn open_device(&self, size_bytes: u64) -> anyhow::Result<std::fs::File> {
        use std::io::Seek;
        let opened = || -> std::io::Result<(std::fs::File, u64)> {
            let mut device = OpenOptions::new().write(true).open(&self.output)?;
            let length = device.seek(std::io::SeekFrom::End(0))?;
            Ok((device, length))
        };
        let cannot = || format!("cannot write {}", self.output.display());
        let (device, length) = opened().with_context(cannot).or_bad_input()?;
        if length < size_bytes {
            return Err(bad_input(anyhow!(
                "{} has {length} bytes, fewer than the {size_bytes} of the volume",
                self.output.display()
            )));
        }
        Ok(device)
    }
}
