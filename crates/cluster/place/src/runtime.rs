//! The directories of this host in which the processes that have a member listen for commands.
//!
//! A member has no directory of its own. All processes of a host must find the same one, so it
//! follows from the name of the member and from the configuration of Ceph.

use crate::error::{PlaceError, Result};
use gemelo_base::ShowPath as _;
use gemelo_member::MemberUri;
use rustix::process::geteuid;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

/// The mode of the directories: a socket in them removes volumes.
const MODE: u32 = 0o700;

/// Returns the directory of a member, which is made if it does not exist.
pub(crate) fn directory_of(uri: &MemberUri) -> Result<PathBuf> {
    let parent = parent();
    let path = parent.join(name_of(uri));
    let made = make(&parent).and_then(|()| make(&path));
    made.map_err(|source| PlaceError::Runtime { path: path.clone(), source })?;
    Ok(path)
}

/// The directory of all members: a chosen one, that of the service manager's unit, that of the
/// system for root, that of the user's session, or else one in the directory for temporary files.
fn parent() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(chosen) = variable("GEMELO_RUNTIME_DIR").or_else(|| variable("RUNTIME_DIRECTORY")) {
        return chosen.into();
    }
    if geteuid().is_root() {
        return "/run/gemelo".into();
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(session) => Path::new(&session).join("gemelo"),
        None => std::env::temp_dir().join(format!("gemelo-{}", geteuid().as_raw())),
    }
}

/// The name has that of the member to be recognised, and a hash of everything that tells members
/// apart.
fn name_of(uri: &MemberUri) -> String {
    let domain = &uri.domain;
    let configuration = domain.configuration().unwrap_or_else(|| "/etc/ceph/ceph.conf".into());
    let configuration = configuration.canonicalize().unwrap_or(configuration);
    let whole =
        format!("{}\0{}\0{}\0{}", configuration.shown(), domain.pool, domain.namespace, uri.name);
    let hash = XxHash3_64::oneshot(whole.as_bytes());
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let shown: String = uri.name.chars().filter(|letter| plain(*letter)).take(40).collect();
    format!("{shown}-{hash:016x}")
}

/// Makes a directory, or checks that one which exists belongs to this user alone.
fn make(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
        // The mask of the process may have taken bits away.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(MODE))?,
    }
    let status = path.symlink_metadata()?;
    let ours = geteuid();
    let is_ours = status.uid() == ours.as_raw() || ours.is_root();
    if !status.is_dir() || !is_ours || status.mode() & 0o022 != 0 {
        let why = "it is no directory of this user, or others can write to it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_names_of_their_own() {
        let name = |text: &str| name_of(&text.parse().unwrap());
        let one = name("rados:vms/prod/one:conf=/etc/ceph/a.conf");
        assert!(one.starts_with("one-"), "{one}");
        for other in ["rados:vms/prod/two", "rados:vms/test/one", "rados:other/prod/one"] {
            assert_ne!(name(&format!("{other}:conf=/etc/ceph/a.conf")), one);
        }
        assert_ne!(name("rados:vms/prod/one:conf=/etc/ceph/b.conf"), one);
        assert_eq!(name("rados:vms/prod/one:conf=/etc/ceph/a.conf:id=joe"), one);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        make(&path).unwrap();
        make(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, MODE);
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(make(&path).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
