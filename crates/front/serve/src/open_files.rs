//! The limit of open files of a serving process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files of the process beside the connections of clients: standard streams, the pool's disks and
/// locks, listeners, and short-lived ones such as `/proc/self/fd`.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of open files to `connections` and what the process needs besides. Returns
/// a warning if the hard limit or the system does not allow it.
pub(crate) fn allow(connections: u64) -> Option<String> {
    let needed = connections.saturating_add(OTHER_FILES);
    let limit = getrlimit(Resource::Nofile);
    let raised = raised(limit, needed)?;
    let outcome = setrlimit(Resource::Nofile, raised);
    let allowed = if outcome.is_ok() { raised.current } else { limit.current };
    let allowed = allowed.filter(|allowed| *allowed < needed)?;
    Some(format!(
        "this process may open {allowed} files, and needs {needed} if as many clients connect as \
         its options allow: raise the limit (`ulimit -n`, LimitNOFILE= of systemd), or lower \
         --max-connections and --max-handshakes"
    ))
}

/// Returns the limits to set, and [`None`] if the present soft limit suffices.
fn raised(limit: Rlimit, needed: u64) -> Option<Rlimit> {
    // A limit that is not there is infinite.
    let current = limit.current.filter(|current| *current < needed)?;
    let most = limit.maximum.map_or(needed, |maximum| needed.min(maximum));
    Some(Rlimit { current: Some(most.max(current)), maximum: limit.maximum })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn the_soft_limit_is_raised_to_what_is_needed_and_never_lowered() {
        let soft = |limit, needed| raised(limit, needed).map(|limit| limit.current.unwrap());
        assert_eq!(soft(limit(Some(1024), Some(4096)), 1024), None);
        assert_eq!(soft(limit(Some(1024), Some(4096)), 2000), Some(2000));
        assert_eq!(soft(limit(Some(1024), None), 2000), Some(2000));
        assert_eq!(soft(limit(Some(1024), Some(1500)), 2000), Some(1500));
        assert_eq!(soft(limit(Some(1500), Some(1500)), 2000), Some(1500));
        assert_eq!(soft(limit(None, None), u64::MAX), None);
    }
}
