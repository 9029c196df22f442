//! `gemelo volume export`.

use super::image::{self, ImageFormat, ImageServer, ImageUse};
use crate::context::Context;
use crate::exit::{Failures, OrFailure as _, Outcome, refused};
use crate::files::{self, NewFile, Readers};
use crate::json::JsonOption;
use crate::kind::{Described, Kind};
use crate::pipes::Pipe;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_base::units::{format_counted, format_line, format_size};
use gemelo_device::BlockDevice;
use gemelo_format::VolumeRecord;
use gemelo_place::{PoolPlace, VolumePath};
use gemelo_record::ResultFile;
use gemelo_serve::{
    BadRanges, OnBadBlock, PoolAccess, Purpose, Sink, Transferred, export, exported_length,
    mark_damaged,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const KIND: Kind<ResultFile<Input<'static>, Exported>> =
    Kind::new("gemelo.volume-export/1", "Result of gemelo volume export");

pub(crate) const DESCRIBED: Described = KIND.described();

/// Number of threads that copy. Each has a piece of 4 MiB in flight.
const THREADS: usize = 2;

/// Most bad ranges that the text lists. The JSON lists all.
const MAX_LISTED: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The output: a file, a device, or - for standard output
    #[arg(value_name = "FILE|DEVICE|-")]
    output: PathBuf,
    /// Format of the output: a file of another one than raw is made by qemu-img and qemu-nbd
    #[arg(long, value_name = "FORMAT", default_value = "raw")]
    format: ImageFormat,
    /// Write zeros in place of blocks that cannot be read, list those blocks, and end with exit
    /// status 1
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    json: JsonOption,
    /// Replace an existing file, or overwrite a device that holds data
    #[arg(long)]
    force: bool,
}

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// The pool.
    pool: &'a PoolPlace,
    /// The name of the volume.
    volume: &'a str,
    /// The file or the device; `-` is standard output.
    #[serde(serialize_with = "gemelo_base::names::path::serialize")]
    output: &'a Path,
    /// `true` if blocks that cannot be read become zeros.
    salvage: bool,
}

/// The result of an export.
#[derive(JsonSchema, Serialize)]
struct Exported {
    #[serde(flatten)]
    transferred: Transferred,
    /// The blocks that could not be read.
    bad: BadRanges,
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|status| status.file_type().is_block_device())
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let outputs = [Some(arguments.output.as_path()), arguments.json.path()].into_iter().flatten();
    files::check_all_new(outputs, arguments.force)?;
    let access = pools::open(&arguments.volume.pool, Purpose::Read, context)?;
    let copied = arguments.copy(&access, context);
    let damaged = access.unmarked_damage();
    let closed = access.close();
    mark_damaged(&arguments.volume.pool, &damaged, context.monitor.as_ref());
    let (transferred, bad) = copied?;
    closed?;
    let exported = Exported { transferred, bad };
    let (monitor, mut failures) = (context.monitor.as_ref(), Failures::default());
    let text = arguments.text(&exported);
    let to_standard_output = [Some(arguments.output.as_path()), arguments.json.path()];
    if to_standard_output.into_iter().any(files::is_some_standard_output) {
        if exported.bad.total_bytes > 0 {
            text.lines().skip(1).for_each(|line| monitor.warn(line.trim_start()));
        }
    } else {
        failures.note(context.print(&text), monitor);
    }
    let is_whole = exported.bad.total_bytes == 0;
    failures.note(arguments.write_json(exported, context), monitor);
    failures.or(if is_whole { Outcome::Done } else { Outcome::Partial })
}

impl Arguments {
    fn copy(
        &self,
        access: &PoolAccess,
        context: &Context,
    ) -> crate::Result<(Transferred, BadRanges)> {
        let name = &self.volume.name;
        let devices = (0..THREADS)
            .map(|_| access.device(name, gemelo_nbd::client::connect_device))
            .collect::<Result<Vec<Arc<dyn BlockDevice>>, _>>()?;
        let length_bytes = self.length_bytes(access, &devices, context)?;
        let about = || format!("{} to {}", self.volume, self.output.shown());
        let on_bad_block = if self.salvage { OnBadBlock::Zeros } else { OnBadBlock::Fail };
        let run = |sink| {
            export(&devices, length_bytes, sink, on_bad_block, &*context.monitor, &context.stop)
                .with_context(about)
        };
        if self.format != ImageFormat::Raw {
            return self.write_image(length_bytes, context, run);
        }
        if is_device(&self.output) {
            return run(Sink::Device(self.open_device(length_bytes)?));
        }
        let file = NewFile::create_for(Readers::Owner, &self.output, self.force)?;
        match file.file().filter(|_| file.is_regular()) {
            Some(handle) => {
                let exported = run(Sink::NewFile(handle.try_clone().with_context(about)?))?;
                file.finish()?;
                Ok(exported)
            }
            None => run(Sink::Stream(Box::new(Pipe::to(file, &context.stop)))),
        }
    }

    /// The bytes of the volume that are exported.
    fn length_bytes(
        &self,
        access: &PoolAccess,
        devices: &[Arc<dyn BlockDevice>],
        context: &Context,
    ) -> crate::Result<u64> {
        let Some(device) = devices.first() else { return Ok(0) };
        let report = pools::stat_of(access, context)?;
        let mut records = report.volumes.iter().map(|volume| &volume.summary.record);
        let record = records.find(|record| record.name == self.volume.name);
        let length_bytes = record.map_or(u64::MAX, VolumeRecord::length_bytes);
        Ok(exported_length(&**device, length_bytes, &*context.monitor))
    }

    /// Writes an image of another format than raw to a new file.
    fn write_image(
        &self,
        length_bytes: u64,
        context: &Context,
        run: impl FnOnce(Sink) -> crate::Result<(Transferred, BadRanges)>,
    ) -> crate::Result<(Transferred, BadRanges)> {
        let name = self.format.name();
        let file = NewFile::create_for(Readers::Owner, &self.output, self.force)?;
        let Some(path) = file.temporary_path() else {
            return Err(refused!("a {name} image can only be written to a file: name one"));
        };
        image::create(path, self.format, length_bytes)?;
        let (server, image) =
            ImageServer::start(path, self.format, ImageUse::Write, &context.stop)?;
        let exported = run(Sink::Image(image))?;
        server.finish()?;
        file.finish()?;
        Ok(exported)
    }

    /// Opens a device. Refuses it if it is smaller than the volume.
    fn open_device(&self, size_bytes: u64) -> crate::Result<std::fs::File> {
        use std::io::Seek;
        let opened = || -> std::io::Result<(std::fs::File, u64)> {
            let mut device = OpenOptions::new().write(true).open(&self.output)?;
            let length = device.seek(std::io::SeekFrom::End(0))?;
            Ok((device, length))
        };
        let cannot = || format!("cannot write {}", self.output.shown());
        let (device, length) = opened().with_context(cannot).or_bad_input()?;
        if length < size_bytes {
            return Err(refused!(
                "{} has {length} bytes, and the volume has {size_bytes}: name a larger device",
                self.output.shown()
            ));
        }
        Ok(device)
    }

    fn text(&self, exported: &Exported) -> String {
        let Exported { transferred, bad } = exported;
        let mut text = format!(
            "{}: {} exported, {} of it not zero\n",
            format_line(&gemelo_base::text_of_name(self.output.as_os_str())),
            format_size(transferred.total_bytes),
            format_size(transferred.copied_bytes)
        );
        if bad.total_bytes == 0 {
            return text;
        }
        text += &format!(
            "{} of {} cannot be read, in {}; zeros were written in their place:\n",
            format_size(bad.total_bytes),
            self.volume,
            format_counted(bad.ranges.len() as u64, "range")
        );
        for range in bad.ranges.iter().take(MAX_LISTED) {
            let length = format_counted(range.length_bytes, "byte");
            text += &format!("  {length} at byte {}: {}\n", range.offset_bytes, range.error);
        }
        if bad.ranges.len() > MAX_LISTED {
            let more = format_counted((bad.ranges.len() - MAX_LISTED) as u64, "further range");
            text += &format!("  and {more}, which --json lists\n");
        }
        text
    }

    fn write_json(&self, exported: Exported, context: &Context) -> crate::Result<()> {
        let input = Input {
            pool: &self.volume.pool,
            volume: &self.volume.name,
            output: &self.output,
            salvage: self.salvage,
        };
        let made = KIND.made(input, exported, Vec::new());
        self.json.write(self.force, context, made)
    }
}
