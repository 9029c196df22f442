//! Names with the placeholders `{host}` and `{index}`, which differ between the hosts of a run.

use gemelo_base::{name_of_text, text_of_name};
use gemelo_target::TargetUri;
use std::path::{Path, PathBuf};

/// Returns whether a name differs between hosts.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{host}") || text.contains("{index}")
}

/// Returns a name with the name and the number of a host filled in.
fn filled(text: &str, host: &str, index: u32) -> String {
    text.replace("{host}", host).replace("{index}", &index.to_string())
}

/// Returns a target with the name and the number of a host filled in.
#[must_use]
pub fn target_of(target: &TargetUri, host: &str, index: u32) -> TargetUri {
    TargetUri::from(filled(&target.to_string(), host, index))
}

/// Returns a path with the name and the number of a host filled in.
pub(crate) fn path_of(path: &Path, host: &str, index: u32) -> PathBuf {
    name_of_text(&filled(&text_of_name(path.as_os_str()), host, index)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn placeholders_are_filled_in_names_that_are_not_utf_8() {
        let path = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
        let filled = path_of(&path(b"caf\xe9-{host}/{index}\\xe9"), "a", 3);
        assert_eq!(filled, path(b"caf\xe9-a/3\\xe9"));
        let target = TargetUri::from(path(b"caf\xe9-{index}").into_os_string());
        assert_eq!(target_of(&target, "a", 3).to_string(), "caf\\xe9-3");
    }
}
