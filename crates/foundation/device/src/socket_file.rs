//! Socket files: makes them with the mode and group that are wanted before any client can connect,
//! and removes those that a dead program has left.

use gemelo_base::FileIdentity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, chmod, chownat, fstat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Gid;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Mode of a socket file with a group of its own, unless another mode is given: its user and its
/// group may connect.
const GROUP_MODE: u32 = 0o660;

/// The users that may connect to a socket file. A client needs the right to write to the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketAccess {
    /// Permission bits of the file; [`None`] leaves them to the umask, or to the group.
    pub mode: Option<u32>,
    /// Number of the group of the file; [`None`] leaves it to the system.
    pub group: Option<u32>,
    /// SELinux label of the socket; [`None`] leaves it to the policy.
    pub label: Option<String>,
}

impl SocketAccess {
    /// Returns whether mode or group are given.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.mode.is_some() || self.group.is_some() || self.label.is_some()
    }

    /// Sets group and mode of the socket file at `path`. The file is opened once, so that another
    /// file which replaces it keeps its permissions.
    fn apply(&self, path: &Path) -> io::Result<()> {
        if !self.is_given() {
            return Ok(());
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_socket() {
            return Err(io::Error::other("another file has replaced the socket"));
        }
        if let Some(group) = self.group {
            chownat(&file, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH).map_err(
                |error| {
                    let reason = "only root and members of the group may set it";
                    io::Error::new(
                        io::Error::from(error).kind(),
                        format!("cannot set the group of the socket to {group}: {error}; {reason}"),
                    )
                },
            )?;
        }
        if let Some(mode) = self.mode.or(self.group.map(|_| GROUP_MODE)) {
            // A descriptor of this kind has no `fchmod`.
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            chmod(path, Mode::from_raw_mode(mode))?;
        }
        Ok(())
    }
}

/// A socket file that this process made. It is removed when this value is dropped, unless another
/// file has its path by then, as the socket of a later server.
#[derive(Debug)]
pub struct MadeSocket {
    path: PathBuf,
    identity: FileIdentity,
}

impl MadeSocket {
    /// Notes the socket that this process has just bound at `path`.
    ///
    /// # Errors
    /// Fails if the file is gone already.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: FileIdentity::at(path)? })
    }
}

impl Drop for MadeSocket {
    fn drop(&mut self) {
        if self.identity.is_at(&self.path) {
            // A drop cannot report an error.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens at a socket file, with this number of clients that may wait. The file is bound, gets its
/// group and mode, and listens last: until then the system refuses all connections to it.
///
/// # Errors
/// Fails if a program listens at the file, if another file has its path, or if the system refuses.
pub fn listen_at_file(
    path: &Path,
    access: &SocketAccess,
    queue_length: i32,
) -> io::Result<(UnixListener, MadeSocket)> {
    remove_dead_socket(path)?;
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let make = || rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = match &access.label {
        None => make()?,
        Some(label) => {
            require_selinux()?;
            labelled(label, Path::new(LABEL_OF_SOCKETS), make)?
        }
    };
    rustix::net::bind(&socket, &address)?;
    // An error drops this, which removes the file.
    let made = MadeSocket::at(path)?;
    access.apply(path)?;
    rustix::net::listen(&socket, queue_length)?;
    Ok((UnixListener::from(socket), made))
}

/// The file with the label of the sockets that a thread makes; none where it is empty.
const LABEL_OF_SOCKETS: &str = "/proc/thread-self/attr/sockcreate";

fn require_selinux() -> io::Result<()> {
    if Path::new("/sys/fs/selinux/enforce").exists() {
        return Ok(());
    }
    let reason = "this system has no SELinux, so a socket cannot have a label of it";
    Err(io::Error::new(io::ErrorKind::Unsupported, reason))
}

/// Makes a socket with an SELinux label, as `setsockcreatecon` has the kernel do for this thread.
/// `attribute` is the file with the label of the sockets that it makes.
fn labelled(
    label: &str,
    attribute: &Path,
    make: impl FnOnce() -> rustix::io::Result<OwnedFd>,
) -> io::Result<OwnedFd> {
    let failed = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot make a socket with label '{label}': {error}"))
    };
    std::fs::write(attribute, label).map_err(failed)?;
    let made = make();
    // An empty line: the policy decides about later sockets of this thread again. Nothing at all
    // would be no write.
    std::fs::write(attribute, "\n").map_err(failed)?;
    Ok(made?)
}

/// Removes the socket file of a program that has ended: connections to it are refused. Any other
/// file of this name is refused, and stays.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let Some(found) = socket_at(path)? else { return Ok(()) };
    let is_dead = UnixStream::connect(path)
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_dead && found.is_at(path) { std::fs::remove_file(path) } else { Ok(()) }
}

/// Removes the socket file that another process has left where this one alone may have one, as in
/// the directory of a pool that it has locked. Any other file of this name is refused, and stays.
///
/// # Errors
/// Fails if the file is not a socket, or cannot be removed.
pub fn remove_left_socket(path: &Path) -> io::Result<()> {
    socket_at(path)?.map_or(Ok(()), |_| std::fs::remove_file(path))
}

/// Returns the identity of a socket file, if one is there.
fn socket_at(path: &Path) -> io::Result<Option<FileIdentity>> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(None) };
    if !metadata.file_type().is_socket() {
        let reason = "a file that is not a socket has this name: name another one";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
    }
    FileIdentity::at(path).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_made_while_its_thread_has_the_label_and_later_ones_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let attribute = directory.path().join("sockcreate");
        let held = || std::fs::read_to_string(&attribute).unwrap();
        let made = labelled("a:label", &attribute, || {
            assert_eq!(held(), "a:label");
            let flags = SocketFlags::CLOEXEC;
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        });
        assert!(made.is_ok() && held() == "\n");
        assert!(labelled("a:label", &attribute, || Err(rustix::io::Errno::NFILE)).is_err());
        assert_eq!(held(), "\n", "a failure leaves no label to later sockets");
        let refused = labelled("x", &directory.path().join("no/file"), || unreachable!());
        let said = refused.unwrap_err().to_string();
        assert!(said.starts_with("cannot make a socket with label 'x': "), "{said}");
    }
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn permissions(path: &Path) -> (u32, u32) {
        let status = std::fs::metadata(path).unwrap();
        (status.mode() & 0o7777, status.gid())
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        let error = listen_at_file(&path, &SocketAccess::default(), 1).unwrap_err();
        assert!(error.to_string().contains("not a socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_file_is_removed_only_by_its_maker() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listen = || listen_at_file(&path, &SocketAccess::default(), 1).unwrap();
        drop(listen());
        assert!(!path.exists());
        let (first, made_first) = listen();
        drop(first);
        // The first server does not listen any more, and is slow to end; the next one has begun.
        let (_second, made_second) = listen();
        drop(made_first);
        UnixStream::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        drop(made_second);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(remove_left_socket(&path).is_err());
        assert!(path.exists());
    }

    #[test]
    fn mode_and_group_are_those_that_are_given() {
        let directory = tempfile::tempdir().unwrap();
        let own = rustix::process::getegid().as_raw();
        for (name, mode, group, expected) in [
            ("mode", Some(0o606), None, 0o606),
            ("group", None, Some(own), GROUP_MODE),
            ("both", Some(0o600), Some(own), 0o600),
        ] {
            let path = directory.path().join(name);
            let _listener =
                listen_at_file(&path, &SocketAccess { mode, group, label: None }, 1).unwrap();
            assert_eq!(permissions(&path), (expected, own), "{name}");
            UnixStream::connect(&path).unwrap();
        }
    }

    #[test]
    fn a_group_that_cannot_be_set_leaves_no_socket_behind() {
        if rustix::process::geteuid().is_root() {
            // Root may set any group.
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("socket");
            let access = SocketAccess { mode: None, group: Some(12345), label: None };
            let _listener = listen_at_file(&path, &access, 1).unwrap();
            assert_eq!(permissions(&path), (GROUP_MODE, 12345));
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let error =
            listen_at_file(&path, &SocketAccess { mode: None, group: Some(0), label: None }, 1)
                .unwrap_err();
        assert!(error.to_string().contains("members of the group"), "{error}");
        assert!(!path.exists());
    }

    /// A thread tries to connect while each socket is made, and looks at the file as soon as it is
    /// connected.
    #[test]
    fn a_client_cannot_connect_before_the_mode_is_set() {
        const SOCKETS: usize = 300;
        let directory = tempfile::tempdir().unwrap();
        let path = |number: usize| directory.path().join(number.to_string());
        let awaited = AtomicUsize::new(usize::MAX);
        // The sockets listen until the last client is connected.
        let _listeners = std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..SOCKETS {
                    awaited.store(number, Ordering::SeqCst);
                    while UnixStream::connect(path(number)).is_err() {}
                    assert_eq!(permissions(&path(number)).0, 0o640);
                }
            });
            let access = SocketAccess { mode: Some(0o640), group: None, label: None };
            let make = |number| {
                while awaited.load(Ordering::SeqCst) != number {
                    std::thread::yield_now();
                }
                listen_at_file(&path(number), &access, 1).unwrap()
            };
            (0..SOCKETS).map(make).collect::<Vec<_>>()
        });
    }
}
