//! The origin of a result: program version, command line, machine and time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// The origin of a result: program version, command line, machine and time.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Provenance {
    /// The version of gemelo.
    pub version: String,
    /// The command line, program name included.
    pub command_line: Vec<String>,
    /// The name of the host that made the result.
    pub host: String,
    /// The kernel's name and release, and the machine architecture.
    pub kernel: String,
    /// The model of the first processor; `unknown` if `/proc/cpuinfo` does not name it.
    pub cpu: String,
    /// The number of processors that this process may use.
    pub cpu_count: u64,
    /// The size of the machine's memory, in bytes.
    pub memory_bytes: u64,
    /// The time at which the command began, in UTC, as RFC 3339.
    pub started_at: String,
    /// The target of the load or the source of the data, if the command has one.
    pub target: Option<String>,
    /// The seed of the generated contents and patterns, if the command has one.
    pub seed: Option<u64>,
}

impl Provenance {
    /// Returns the provenance of this process, for a command that began at `started_at`.
    #[must_use]
    pub fn of_this_process(started_at: SystemTime) -> Self {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command_line: std::env::args_os()
                .map(|word| gemelo_base::text_of_name(&word))
                .collect(),
            host: text(uname.nodename()),
            kernel: format!(
                "{} {} {}",
                text(uname.sysname()),
                text(uname.release()),
                text(uname.machine())
            ),
            cpu: cpu_model().unwrap_or_else(|| "unknown".to_owned()),
            cpu_count: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            memory_bytes: gemelo_base::memory::of_machine(),
            started_at: humantime::format_rfc3339_seconds(started_at).to_string(),
            target: None,
            seed: None,
        }
    }
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_host_a_kernel_and_memory() {
        let provenance = Provenance::of_this_process(SystemTime::UNIX_EPOCH);
        assert_eq!(provenance.started_at, "1970-01-01T00:00:00Z");
        assert!(provenance.kernel.starts_with("Linux "));
        assert!(provenance.memory_bytes > 0 && provenance.cpu_count > 0);
        assert!(!provenance.command_line.is_empty());
    }
}
