//! Images in the formats of virtual machines, which `qemu-nbd` shows as devices.
//!
//! The format of an image is never guessed: a guest can write the first bytes of its raw disk so
//! that they name another file of the host as a backing file, which a program that guesses would
//! read.

use crate::exit::{Failure, OrFailure as _, failed, refused};
use clap::ValueEnum;
use gemelo_base::{ShowPath as _, StopFlag, pause};
use gemelo_device::BlockDevice;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{Read, Seek as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Longest time until `qemu-nbd` listens.
const START_LIMIT: Duration = Duration::from_secs(60);
const START_PAUSE: Duration = Duration::from_millis(10);

/// Most bytes of its errors that are told.
const SAID_BYTES: u64 = 4096;

/// The format of a file that holds a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImageFormat {
    /// The bytes of the disk
    Raw,
    /// QEMU's format, also with compressed clusters and backing files
    Qcow2,
    /// VMware's format
    Vmdk,
    /// Hyper-V's format
    Vhdx,
    /// The older format of Virtual PC (VHD)
    Vpc,
    /// VirtualBox's format
    Vdi,
}

/// What files of a format begin with: the place, and the bytes there.
const SIGNATURES: [(ImageFormat, usize, &[u8]); 6] = [
    (ImageFormat::Qcow2, 0, b"QFI\xfb"),
    (ImageFormat::Vmdk, 0, b"KDMV"),
    (ImageFormat::Vmdk, 0, b"# Disk DescriptorFile"),
    (ImageFormat::Vhdx, 0, b"vhdxfile"),
    (ImageFormat::Vpc, 0, b"conectix"),
    (ImageFormat::Vdi, 64, b"\x7f\x10\xda\xbe"),
];

/// Bytes that all signatures lie in.
const SIGNED_BYTES: u64 = 68;

impl ImageFormat {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "vmdk",
            Self::Vhdx => "vhdx",
            Self::Vpc => "vpc",
            Self::Vdi => "vdi",
        }
    }

    /// Returns the format that a file seems to have by its first bytes, if that is not raw.
    fn seen(first: &[u8]) -> Option<Self> {
        let is_there =
            |at: usize, bytes: &[u8]| first.get(at..).is_some_and(|rest| rest.starts_with(bytes));
        SIGNATURES
            .into_iter()
            .find(|(_, at, bytes)| is_there(*at, bytes))
            .map(|(format, ..)| format)
    }
}

/// Refuses a file that looks like an image, whose bytes nobody wants as a disk by mistake. The file
/// is read from its beginning again afterwards.
pub(super) fn refuse_image(file: &mut File, path: &Path) -> crate::Result<()> {
    let mut first = Vec::new();
    let read = file.rewind().and_then(|()| file.take(SIGNED_BYTES).read_to_end(&mut first));
    let read = read.and_then(|_| file.rewind());
    read.with_context(|| format!("cannot read {}", path.shown())).or_bad_input()?;
    let Some(format) = ImageFormat::seen(&first) else { return Ok(()) };
    let name = format.name();
    Err(refused!(
        "{} seems to be a {name} image: use --format {name} if you trust it, because it may name other \
         files to read, or --format raw for its bytes as they are",
        path.shown()
    ))
}

/// A running `qemu-nbd`, which ends with the value.
pub(super) struct ImageServer {
    child: Child,
    directory: tempfile::TempDir,
}

/// Whether an image is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageUse {
    Read,
    Write,
}

impl ImageServer {
    /// Starts to serve an image. Returns it as a device as well.
    pub(super) fn start(
        path: &Path,
        format: ImageFormat,
        image_use: ImageUse,
        stop: &StopFlag,
    ) -> crate::Result<(Self, Arc<dyn BlockDevice>)> {
        let directory = tempfile::Builder::new().prefix("gemelo-").tempdir();
        let directory = directory.context("cannot make a directory for a socket")?;
        // A name that begins with a scheme, such as `nbd:`, would not be taken for a file.
        let path = path.canonicalize().with_context(|| format!("cannot read {}", path.shown()));
        let mut command = Command::new("qemu-nbd");
        command.args(["--persistent", "--discard=unmap", "--format", format.name(), "--socket"]);
        command.arg(directory.path().join(SOCKET));
        if image_use == ImageUse::Read {
            command.arg("--read-only");
        }
        command.arg("--").arg(path.or_bad_input()?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| missing("qemu-nbd", &error))?;
        let mut server = Self { child, directory };
        let device = server.wait(stop)?;
        Ok((server, device))
    }

    /// Waits until the image can be reached. The program listens before it has opened the image.
    fn wait(&mut self, stop: &StopFlag) -> crate::Result<Arc<dyn BlockDevice>> {
        let socket = self.directory.path().join(SOCKET);
        let mut waited = Duration::ZERO;
        loop {
            let stream = UnixStream::connect(&socket).ok();
            let connected = stream.map(|stream| gemelo_nbd::client::connect_device(stream, ""));
            if let Some(Ok(device)) = connected {
                return Ok(device);
            } else if let Some(status) =
                self.child.try_wait().context("cannot wait for qemu-nbd")?
            {
                return Err(self.ended(status));
            } else if waited > START_LIMIT {
                return Err(failed!("qemu-nbd does not answer after {START_LIMIT:?}"));
            } else if stop.is_raised() {
                return Err(failed!("stopped before the end"));
            }
            pause(START_PAUSE);
            waited += START_PAUSE;
        }
    }

    /// Returns the error of a program that ended at once, with what it said.
    fn ended(&mut self, status: ExitStatus) -> Failure {
        let mut said = String::new();
        if let Some(errors) = self.child.stderr.take() {
            let _ = errors.take(SAID_BYTES).read_to_string(&mut said);
        }
        refused!("qemu-nbd cannot open the image ({status}): {}", said.trim())
    }
}

impl ImageServer {
    /// Ends the program in order: some formats have a header that says whether it was closed.
    pub(super) fn finish(mut self) -> crate::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Err(failed!("qemu-nbd has no number")) };
        kill_process(pid, Signal::TERM)
            .map_err(std::io::Error::from)
            .context("cannot end qemu-nbd")?;
        let status = self.child.wait().context("cannot wait for qemu-nbd")?;
        if status.success() { Ok(()) } else { Err(failed!("qemu-nbd ended with {status}")) }
    }
}

/// Name of the socket in the directory of a server.
const SOCKET: &str = "s";

impl Drop for ImageServer {
    fn drop(&mut self) {
        // It has written everything that a flush has answered.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes an empty image in a file that is there.
pub(super) fn create(path: &Path, format: ImageFormat, size_bytes: u64) -> crate::Result<()> {
    let mut command = Command::new("qemu-img");
    command.args(["create", "-q", "-f", format.name()]).arg(path).arg(size_bytes.to_string());
    let Output { status, stderr, .. } =
        command.output().map_err(|error| missing("qemu-img", &error))?;
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&stderr);
    Err(failed!("qemu-img cannot make the image ({status}): {}", said.trim()))
}

fn missing(program: &str, error: &std::io::Error) -> Failure {
    refused!("cannot start {program}, which this format needs (package qemu-utils): {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_seen_by_their_first_bytes() {
        assert_eq!(ImageFormat::seen(b"QFI\xfb\0\0\0\x03"), Some(ImageFormat::Qcow2));
        assert_eq!(ImageFormat::seen(b"# Disk DescriptorFile\n"), Some(ImageFormat::Vmdk));
        let mut vdi = vec![b'<'; 64];
        assert_eq!(ImageFormat::seen(&vdi), None);
        vdi.extend(*b"\x7f\x10\xda\xbe");
        assert_eq!(ImageFormat::seen(&vdi), Some(ImageFormat::Vdi));
        assert_eq!(ImageFormat::seen(b"QFI"), None);
        assert_eq!(ImageFormat::seen(b""), None);
    }
}
