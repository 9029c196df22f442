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
