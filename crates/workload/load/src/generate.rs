//! Writes a data set to new files at the full speed of the storage: long writes on all cores. Only
//! the total is measured.

use gemelo_base::ShowPath as _;
use gemelo_base::threads::together;
use gemelo_base::{Classified, Monitor, StopFlag, Unit};
use gemelo_content::{Assignment, ContentError, ContentSpec, Generator};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Bytes of one write: long enough to hide the cost of the system call, short enough to stay in the
/// processor's cache.
const CHUNK_BYTES: usize = 256 << 10;
/// Files in one directory of a tree. File systems and people still handle this number well.
const FILES_PER_DIRECTORY: u64 = 1000;

/// The destination of a data set. The caller creates the file or directory and removes it after a
/// failure.
pub enum Output<'a> {
    /// A new, empty file; the path is its name in messages.
    File(&'a File, &'a Path),
    /// Any writer, which gets the bytes in order; the path is its name in messages.
    Stream(&'a mut dyn Write, &'a Path),
    /// A new, empty directory. Its files, 1000 to a subdirectory, hold the blocks of the data set
    /// in order.
    Tree {
        /// Path of the directory.
        directory: &'a Path,
        /// Number of files to create, at least 1 and at most one for each block.
        files: u64,
    },
}

/// Amounts written by [`generate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// Blocks written. There are fewer than requested if the stop flag was raised.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub data_bytes: u64,
    /// Files that were requested: 1 except for a tree.
    pub files: u64,
    /// `true` if every block of the data set was written.
    pub is_complete: bool,
}

/// The reason why a data set was not written.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum GenerateError {
    /// The specification of the contents is invalid.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The number of files is 0, or larger than the number of blocks.
    #[error(
        "the number of files is {files}; it must be from 1 to {blocks}, as each file needs a block"
    )]
    Files {
        /// Blocks of the data set.
        blocks: u64,
        /// Requested number of files.
        files: u64,
    },
    /// A file or directory could not be created or written.
    #[kind(source)]
    #[error("cannot {action} {}", path.shown())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The file or directory it failed on.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Writes a data set of `blocks` blocks. Blocks written before a failure or a stop remain in the
/// output.
///
/// # Errors
/// Fails if the specification or the number of files is invalid, or if writing fails.
pub fn generate(
    spec: &ContentSpec,
    blocks: u64,
    output: Output<'_>,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Generated, GenerateError> {
    let files = if let Output::Tree { files, .. } = output { files } else { 1 };
    if files == 0 || files > blocks {
        return Err(GenerateError::Files { blocks, files });
    }
    let work = GenerateWork {
        assignment: Assignment::new(spec, blocks, 1)?,
        generator: Generator::new(spec)?,
        blocks,
        monitor,
        stop,
        halt: StopFlag::new(),
        next: AtomicU64::new(0),
        written: AtomicU64::new(0),
    };
    monitor.begin("generating", Unit::Bytes, blocks.checked_mul(spec.block_bytes as u64));
    let outcome = match output {
        Output::File(file, path) => work.write_one(&OutputFile { file, path }),
        Output::Stream(stream, path) => work.write_stream(stream, path),
        Output::Tree { directory, files } => work.write_tree(directory, files),
    };
    monitor.finish();
    outcome?;
    let written = work.written.into_inner();
    let data_bytes = written.saturating_mul(spec.block_bytes as u64);
    Ok(Generated { blocks: written, data_bytes, files, is_complete: written == blocks })
}

/// State shared by all worker threads.
struct GenerateWork<'a> {
    assignment: Assignment,
    generator: Generator,
    blocks: u64,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    halt: StopFlag,
    /// The next chunk of the file, or the next file of the tree, to be taken by a worker.
    next: AtomicU64,
    written: AtomicU64,
}

impl GenerateWork<'_> {
    fn write_one(&self, file: &OutputFile<'_>) -> Result<(), GenerateError> {
        let chunk_blocks = self.chunk_blocks();
        self.on_all_cores(self.blocks.div_ceil(chunk_blocks), |chunk, buffer| {
            let first = chunk * chunk_blocks;
            let blocks = chunk_blocks.min(self.blocks - first);
            self.write(file, first, blocks, first, buffer)
        })
    }

    fn write_tree(&self, directory: &Path, files: u64) -> Result<(), GenerateError> {
        for number in 0..files.div_ceil(FILES_PER_DIRECTORY) {
            let part = part_directory(directory, number);
            std::fs::create_dir(&part).map_err(at("create", &part))?;
        }
        self.on_all_cores(files, |number, buffer| self.write_file(directory, files, number, buffer))
    }

    /// Writes everything in order on this thread: one thread makes blocks faster than a pipe takes
    /// them.
    fn write_stream(&self, stream: &mut dyn Write, path: &Path) -> Result<(), GenerateError> {
        let mut buffer = vec![0; self.chunk_blocks() as usize * self.generator.block_bytes()];
        let mut next = 0;
        while next < self.blocks && !self.stop.is_raised() {
            let blocks = self.chunk_blocks().min(self.blocks - next);
            let bytes = self.fill(next, blocks, &mut buffer);
            stream.write_all(bytes).map_err(at("write", path))?;
            self.wrote(blocks, bytes.len());
            next += blocks;
        }
        stream.flush().map_err(at("write", path))
    }

    /// Runs `carry_out` on units 0, 1, ... on every core until all units are done.
    fn on_all_cores(
        &self,
        units: u64,
        carry_out: impl Fn(u64, &mut [u8]) -> Result<(), GenerateError> + Sync,
    ) -> Result<(), GenerateError> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let work = || {
            let mut buffer = vec![0; self.chunk_blocks() as usize * self.generator.block_bytes()];
            loop {
                let unit = self.next.fetch_add(1, Ordering::Relaxed);
                if unit >= units || self.stop.is_raised() || self.halt.is_raised() {
                    return Ok(());
                }
                carry_out(unit, &mut buffer).inspect_err(|_| self.halt.raise())?;
            }
        };
        together(workers, work).into_iter().collect()
    }

    fn chunk_blocks(&self) -> u64 {
        (CHUNK_BYTES / self.generator.block_bytes()).max(1) as u64
    }

    /// Writes one file of a tree. The files hold equal parts of the data set, to within one block.
    fn write_file(
        &self,
        directory: &Path,
        files: u64,
        number: u64,
        buffer: &mut [u8],
    ) -> Result<(), GenerateError> {
        let start =
            |number: u64| (u128::from(self.blocks) * u128::from(number) / u128::from(files)) as u64;
        let (first, end) = (start(number), start(number + 1));
        let path = part_directory(directory, number / FILES_PER_DIRECTORY)
            .join(format!("{number:06}.data"));
        let file = File::create_new(&path).map_err(at("create", &path))?;
        let file = OutputFile { file: &file, path: &path };
        let mut next = first;
        while next < end && !self.stop.is_raised() {
            let blocks = self.chunk_blocks().min(end - next);
            self.write(&file, next, blocks, next - first, buffer)?;
            next += blocks;
        }
        Ok(())
    }

    /// Writes the blocks of the data set from `first` on to the blocks of a file from `to` on.
    fn write(
        &self,
        file: &OutputFile<'_>,
        first: u64,
        blocks: u64,
        to: u64,
        buffer: &mut [u8],
    ) -> Result<(), GenerateError> {
        let bytes = self.fill(first, blocks, buffer);
        let offset = to * self.generator.block_bytes() as u64;
        file.file.write_all_at(bytes, offset).map_err(at("write", file.path))?;
        self.wrote(blocks, bytes.len());
        Ok(())
    }

    /// Fills the buffer with the blocks of the data set from `first` on.
    fn fill<'b>(&self, first: u64, blocks: u64, buffer: &'b mut [u8]) -> &'b [u8] {
        let block_bytes = self.generator.block_bytes();
        let bytes = &mut buffer[..blocks as usize * block_bytes];
        for (sequence, block) in (first..).zip(bytes.chunks_mut(block_bytes)) {
            self.generator.fill(self.assignment.content(0, sequence), block);
        }
        bytes
    }

    fn wrote(&self, blocks: u64, bytes: usize) {
        self.written.fetch_add(blocks, Ordering::Relaxed);
        self.monitor.advance(bytes as u64);
    }
}

fn part_directory(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:03}"))
}

/// A file with its path for messages.
struct OutputFile<'a> {
    file: &'a File,
    path: &'a Path,
}

fn at(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> GenerateError {
    let path = path.to_owned();
    move |source| GenerateError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{FailureKind, Recorder};
    use gemelo_content::Distribution;

    const BLOCKS: u64 = 1000;

    fn spec() -> ContentSpec {
        ContentSpec::new(Distribution::parse("0 700\n2 100\n").unwrap(), 4096, 9)
    }

    fn write(output: Output<'_>) -> Result<Generated, GenerateError> {
        generate(&spec(), BLOCKS, output, &Recorder::new(), &StopFlag::new())
    }

    #[test]
    fn a_file_a_stream_and_a_tree_hold_the_same_data_set() {
        let directory = tempfile::tempdir().unwrap();
        let one = directory.path().join("one");
        let file = File::create_new(&one).unwrap();
        let generated = write(Output::File(&file, &one)).unwrap();
        let whole =
            Generated { blocks: BLOCKS, data_bytes: BLOCKS * 4096, files: 1, is_complete: true };
        assert_eq!(generated, whole);
        let files = 300;
        let tree = Output::Tree { directory: directory.path(), files };
        assert_eq!(write(tree).unwrap(), Generated { files, ..whole });
        let mut paths: Vec<_> = std::fs::read_dir(directory.path().join("000"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort_unstable();
        assert_eq!(paths.len(), 300);
        let parts: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
        let all = std::fs::read(&one).unwrap();
        assert!(parts == all, "the tree is not the file in parts");
        let mut stream = Vec::new();
        assert_eq!(write(Output::Stream(&mut stream, Path::new("-"))).unwrap(), whole);
        assert!(stream == all, "the stream is not the file");
        let distinct: std::collections::HashSet<&[u8]> = all.chunks(4096).collect();
        assert_eq!(distinct.len(), 800);
    }

    #[test]
    fn impossible_outputs_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        for files in [0, BLOCKS + 1] {
            let error = write(Output::Tree { directory: directory.path(), files }).unwrap_err();
            assert!(
                error.kind() == FailureKind::BadInput
                    && matches!(error, GenerateError::Files { .. })
            );
        }
        let error =
            write(Output::Tree { directory: &directory.path().join("no"), files: 1 }).unwrap_err();
        assert!(
            error.kind() == FailureKind::Failed && error.to_string().contains("/no/000"),
            "{error}"
        );
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = write(Output::File(&full, Path::new("/dev/full"))).unwrap_err();
        assert!(
            error.kind() == FailureKind::Exhausted && error.to_string() == "cannot write /dev/full",
            "{error}"
        );
    }

    #[test]
    fn a_raised_flag_stops_it() {
        let stop = StopFlag::new();
        stop.raise();
        let mut stream = Vec::new();
        let output = Output::Stream(&mut stream, Path::new("-"));
        let generated = generate(&spec(), BLOCKS, output, &Recorder::new(), &stop).unwrap();
        assert!(!generated.is_complete && generated.blocks == 0 && stream.is_empty());
    }
}
