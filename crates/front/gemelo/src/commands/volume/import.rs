//! `gemelo volume import`.

use super::image::{self, ImageFormat, ImageServer, ImageUse};
use super::mode::Mode;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use crate::pipes::Pipe;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_base::{ShowPath as _, StopFlag};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::{DedupMode, MAX_NAME_BYTES, VolumeRecord};
use gemelo_place::VolumePath;
use gemelo_serve::{
    PoolAccess, PoolRequest, Purpose, Source, StatReport, Transferred, connected, import,
};
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of threads that copy. Each has a piece of 4 MiB in flight.
const THREADS: usize = 2;
/// Size in bytes of a volume that is filled from a stream, until the length of the stream is known.
/// The size takes no space.
const STREAM_BYTES: u64 = 16 << 40;

/// Bytes of a stream that are read before anything is changed.
const FIRST_BYTES: u64 = 1;

/// Suffix of a volume's name until its import is complete. A killed import thus leaves no volume
/// that looks complete.
const UNFINISHED: &str = ".importing";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The input: a file, a device, or - for standard input
    #[arg(value_name = "FILE|DEVICE|-")]
    input: PathBuf,
    /// The pool and the new volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Format of the input [default: raw; a file that looks like an image is refused]
    ///
    /// An image may name other files to read: give its format only if you trust it.
    #[arg(long, value_name = "FORMAT")]
    format: Option<ImageFormat>,
    /// Size of the volume [default: the length of the input, rounded up to whole blocks; an export
    /// has the length of the input]
    #[arg(long, value_name = "SIZE")]
    size: Option<Size>,
    /// Mode of deduplication while the volume is filled [default: inline for a new volume, its own
    /// for an existing one]
    #[arg(long, value_name = "MODE")]
    dedup: Option<Mode>,
    /// Mode of the volume after the import: with --dedup inline, an off-line volume shares while it
    /// is filled [default: --dedup for a new volume, its own for an existing one]
    #[arg(long, value_name = "MODE")]
    dedup_after: Option<Mode>,
    /// Replace the content of an existing volume, also while clients are connected; the volume
    /// keeps its size
    #[arg(long)]
    force: bool,
}

/// Makes a source of a stream. Waits for its first bytes: a stream without any is refused before a
/// volume is made or cleared, because the program that should have written to it has failed.
fn stream(
    stream: impl AsFd + Send + 'static,
    name: &str,
    stop: &StopFlag,
) -> crate::Result<Source> {
    let mut stream = Pipe::new(stream, stop);
    let mut first = Vec::new();
    let read = stream.by_ref().take(FIRST_BYTES).read_to_end(&mut first);
    let read = read.with_context(|| format!("cannot read {name}"));
    match stop.is_raised() {
        true => read?,
        false => read.or_bad_input()?,
    };
    if first.is_empty() {
        return Err(refused!("{name} is empty: there is nothing to import"));
    }
    Ok(Source::Stream(Box::new(Cursor::new(first).chain(stream))))
}

/// The opened input.
struct Input {
    source: Source,
    /// The length in bytes, if it is known.
    length: Option<u64>,
    /// The program that shows an image, which ends with the input.
    _server: Option<ImageServer>,
}

impl Arguments {
    fn open_input(&self, context: &Context) -> crate::Result<Input> {
        let path = &self.input;
        let Some(format) = self.format.filter(|format| *format != ImageFormat::Raw) else {
            let (source, length) = source(path, self.format.is_none(), &context.stop)?;
            return Ok(Input { source, length, _server: None });
        };
        if path.as_os_str() == "-" {
            return Err(refused!("only a raw image can be read from standard input: name a file"));
        }
        let (server, image) = ImageServer::start(path, format, ImageUse::Read, &context.stop)?;
        let length = image.geometry().size_bytes;
        if length == 0 {
            return Err(refused!("{} is empty: there is nothing to import", path.shown()));
        }
        let source = Source::Image(image);
        Ok(Input { source, length: Some(length), _server: Some(server) })
    }
}

/// Opens a raw input. Also returns its length in bytes, if it is known. If no format was given, an
/// image of another one is refused.
fn source(
    path: &Path,
    refuses_images: bool,
    stop: &StopFlag,
) -> crate::Result<(Source, Option<u64>)> {
    if path.as_os_str() == "-" {
        return Ok((stream(std::io::stdin(), "standard input", stop)?, None));
    }
    let opened = || -> std::io::Result<(File, Option<u64>)> {
        let mut file = File::open(path)?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        if kind.is_fifo() || kind.is_char_device() {
            return Ok((file, None));
        }
        // The metadata of a device do not state its length.
        let length = file.seek(std::io::SeekFrom::End(0))?;
        Ok((file, Some(length)))
    };
    match opened().with_context(|| format!("cannot read {}", path.shown())).or_bad_input()? {
        (file, None) => Ok((stream(file, &path.shown().to_string(), stop)?, None)),
        (_, Some(0)) => Err(refused!("{} is empty: there is nothing to import", path.shown())),
        (mut file, Some(length)) => {
            if refuses_images {
                image::refuse_image(&mut file, path)?;
            }
            Ok((Source::File(file, length), Some(length)))
        }
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Input { source, length, _server } = arguments.open_input(context)?;
    let access = pools::open(&arguments.volume.pool, Purpose::Change, context)?;
    let copied = arguments.copy(&access, source, length, context);
    let closed = access.close();
    let transferred = copied?;
    closed?;
    context.print(&format!(
        "{}: {} imported, {} of it not zero\n",
        arguments.volume,
        format_size(transferred.total_bytes),
        format_size(transferred.copied_bytes)
    ))?;
    Ok(Outcome::Done)
}

/// Returns the number of clients of a volume; [`None`] unless the pool is served and has the
/// volume.
fn clients_of(report: &StatReport, name: &str) -> Option<u64> {
    report.volumes.iter().find(|volume| volume.summary.record.name == name)?.connections
}

impl Arguments {
    fn copy(
        &self,
        access: &PoolAccess,
        source: Source,
        length: Option<u64>,
        context: &Context,
    ) -> crate::Result<Transferred> {
        let report = pools::stat_of(access, context)?;
        if let Some(own) = self.existing_mode(&report, length)? {
            if let Some(clients) = clients_of(&report, &self.volume.name).and_then(connected) {
                context.monitor.warn(&format!("{}: replaced under {clients}", self.volume));
            }
            return self.replace_in_mode(own, access, source, context);
        }
        let name = self.unfinished_name()?;
        self.clear_leftover(&name, &report, access, context)?;
        let block_bytes = u64::from(report.pool.block_bytes);
        let whole = |bytes: u64| bytes.next_multiple_of(block_bytes);
        let wanted = self.size.map(|size| size.0);
        let size_bytes = wanted.or(length.map(whole)).unwrap_or(STREAM_BYTES);
        let mode = self.dedup.map_or(DedupMode::Inline, DedupMode::from);
        pools::ask(
            access,
            &PoolRequest::CreateVolume { name: name.clone(), size_bytes, mode, is_imported: true },
            context,
        )?;
        let finished = self.fill(access, &name, source, context).and_then(|transferred| {
            if self.size.is_none() {
                let length_bytes = transferred.total_bytes;
                set_length((&name, whole(length_bytes)), length_bytes, access, context)?;
            }
            set_mode((&name, mode), self.dedup_after.map_or(mode, Into::into), access, context)?;
            let new_name = self.volume.name.clone();
            pools::ask(
                access,
                &PoolRequest::RenameVolume { name: name.clone(), new_name },
                context,
            )?;
            Ok(transferred)
        });
        if finished.is_err() {
            // An incomplete volume is removed. The user gets the error of the import, which is the
            // cause.
            let _ = pools::ask(access, &PoolRequest::RemoveVolume { name, force: true }, context);
        }
        finished
    }

    /// Returns the name of the volume until the import is complete.
    fn unfinished_name(&self) -> crate::Result<String> {
        let name = &self.volume.name;
        let most = MAX_NAME_BYTES - UNFINISHED.len();
        if name.len() > most {
            let bytes = name.len();
            return Err(refused!(
                "the name of the volume has {bytes} bytes, an import takes {most}: the volume is called \
                 NAME{UNFINISHED} until it is complete"
            ));
        }
        Ok(format!("{name}{UNFINISHED}"))
    }

    /// Removes the volume that a killed import left. On a served pool it is refused, because the
    /// volume may belong to an import that is under way.
    fn clear_leftover(
        &self,
        name: &str,
        report: &StatReport,
        access: &PoolAccess,
        context: &Context,
    ) -> crate::Result<()> {
        if !report.volumes.iter().any(|volume| volume.summary.record.name == name) {
            return Ok(());
        }
        let leftover =
            VolumePath { pool: self.volume.pool.clone(), name: name.to_owned() }.to_string();
        if access.is_served() {
            return Err(refused!(
                "{leftover} exists: an import is under way, or was killed; if none is under way, remove \
                 the volume: gemelo volume rm --force {leftover}"
            ));
        }
        pools::ask(
            access,
            &PoolRequest::RemoveVolume { name: name.to_owned(), force: true },
            context,
        )?;
        context
            .monitor
            .warn(&format!("{leftover} was left by an import that was killed, and is removed"));
        Ok(())
    }

    /// Returns the mode of the volume if it exists. Refuses options that do not fit an existing
    /// volume, and an input that is too long.
    fn existing_mode(
        &self,
        report: &StatReport,
        length: Option<u64>,
    ) -> crate::Result<Option<DedupMode>> {
        let volume = &self.volume;
        let there = report.volumes.iter().find(|one| one.summary.record.name == volume.name);
        if there.is_some() && !self.force {
            return Err(refused!(
                "{volume} exists: name another volume, or use --force to replace its content"
            ));
        }
        if there.is_some_and(|one| one.summary.record.read_only) {
            return Err(refused!(
                "{volume} is a snapshot, which takes no writes: clone it and import to the clone"
            ));
        }
        if there.is_some() && self.size.is_some() {
            return Err(refused!("{volume} exists and keeps its size: leave out --size"));
        }
        let size = there.map(|one| one.summary.record.size_bytes).or(self.size.map(|size| size.0));
        match (size, length) {
            (Some(size), Some(length)) if size < length => Err(refused!(
                "{} has {length} bytes, more than the {size} of the volume",
                self.input.shown()
            )),
            _ => Ok(there.map(|one| one.summary.record.mode)),
        }
    }

    /// Replaces the content of a volume of this mode, which it keeps unless the options say
    /// otherwise.
    fn replace_in_mode(
        &self,
        own: DedupMode,
        access: &PoolAccess,
        source: Source,
        context: &Context,
    ) -> crate::Result<Transferred> {
        let name = &self.volume.name;
        let filling = self.dedup.map_or(own, Into::into);
        set_mode((name, own), filling, access, context)?;
        let replaced = self.replace(access, source, context);
        let after = self.dedup_after.map_or(own, Into::into);
        let restored = set_mode((name, filling), after, access, context);
        replaced.and_then(|transferred| restored.map(|()| transferred))
    }

    /// Clears an existing volume and fills it. Until the import is complete, the volume holds a
    /// part of the input.
    fn replace(
        &self,
        access: &PoolAccess,
        source: Source,
        context: &Context,
    ) -> crate::Result<Transferred> {
        let name = &self.volume.name;
        let device = access.device(name, gemelo_nbd::client::connect_device)?;
        let length = device.geometry().size_bytes;
        let operation = Operation::Trim { offset: 0, length, durability: Durability::Flushed };
        let mut batch = [Request { operation, outcome: Ok(()) }];
        device.execute(&mut batch);
        let [Request { outcome, .. }] = batch;
        outcome.with_context(|| format!("cannot clear {}", self.volume))?;
        // The connection is closed first, because a server limits the number of connections.
        drop(device);
        let volume = &self.volume;
        let transferred = self.fill(access, name, source, context).with_context(|| {
            format!("{volume} was cleared, and holds a part of the input: import it again")
        })?;
        set_length((name, length), transferred.total_bytes, access, context)?;
        Ok(transferred)
    }

    fn fill(
        &self,
        access: &PoolAccess,
        name: &str,
        source: Source,
        context: &Context,
    ) -> crate::Result<Transferred> {
        let devices = (0..THREADS)
            .map(|_| access.device(name, gemelo_nbd::client::connect_device))
            .collect::<Result<Vec<Arc<dyn BlockDevice>>, _>>()?;
        import(source, &devices, &*context.monitor, &context.stop)
            .with_context(|| format!("{} to {}", self.input.shown(), self.volume))
    }
}

/// Gives a volume a size, and remembers the length that was imported if it ends in the last block.
fn set_length(
    (name, size_bytes): (&str, u64),
    length_bytes: u64,
    access: &PoolAccess,
    context: &Context,
) -> crate::Result<()> {
    let report = pools::stat_of(access, context)?;
    let padding = size_bytes.saturating_sub(length_bytes);
    let padding = Some(padding).filter(|padding| *padding < u64::from(report.pool.block_bytes));
    let padding_bytes = padding.and_then(|padding| u32::try_from(padding).ok()).unwrap_or(0);
    let there = report.volumes.iter().map(|volume| &volume.summary.record);
    let is_set = |record: &VolumeRecord| {
        record.size_bytes == size_bytes && record.padding_bytes == padding_bytes
    };
    if there.into_iter().any(|record| record.name == name && is_set(record)) {
        return Ok(());
    }
    let name = name.to_owned();
    let request = PoolRequest::ResizeVolume { name, size_bytes, padding_bytes, force: true };
    pools::ask(access, &request, context)?;
    Ok(())
}

/// Gives a volume a mode, unless it has it.
fn set_mode(
    (name, own): (&str, DedupMode),
    mode: DedupMode,
    access: &PoolAccess,
    context: &Context,
) -> crate::Result<()> {
    if mode != own {
        let changes = [("dedup".to_owned(), Some(mode.name().to_owned()))].into();
        let request = PoolRequest::Set { volume: Some(name.to_owned()), changes };
        pools::ask(access, &request, context)?;
    }
    Ok(())
}
