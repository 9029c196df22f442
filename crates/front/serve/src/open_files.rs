//! The limit of open files of a serving process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the process beside the connections of clients: standard streams, the pool's disks and
/// locks, listeners, and short-lived ones such as `/proc/self/fd`.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files to the hard one: volumes that come later have clients too.
/// Returns a warning if that is less than `connections` and what the process needs besides.
pub(crate) fn allow(connections: u64) -> Option<String> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let allowed = if is_raised { raised.current } else { limit.current };
    // A limit that is not there is infinite.
    let needed = connections.saturating_add(OTHER_FILES);
    let allowed = allowed.filter(|allowed| *allowed < needed)?;
    Some(format!(
        "this process may open {allowed} files, and needs {needed} if as many clients connect as \
         its options allow: raise the limit (`ulimit -n`, LimitNOFILE= of systemd), or lower \
         --max-connections and --max-handshakes"
    ))
}
