//! Processor time and memory of this process, and its identity.

use std::sync::OnceLock;

/// Returns the processor time in nanoseconds that this process has used.
#[must_use]
pub fn cpu_ns() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let part = |number| u64::try_from(number).unwrap_or(0);
    part(used.tv_sec) * 1_000_000_000 + part(used.tv_nsec)
}

/// Returns the bytes of memory that this process has at present; 0 where the system does not say.
#[must_use]
pub fn memory_bytes() -> u64 {
    std::fs::read_to_string("/proc/self/status").map_or(0, |status| resident_bytes(&status))
}

/// The resident memory by the text of `/proc/self/status`, which counts in KiB.
fn resident_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// A process that other processes of the same machine can recognise: the boot of the machine, the
/// namespace of process numbers, the number, and the time at which the process was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    boot: String,
    namespace: String,
    number: u32,
    started: u64,
}

impl ProcessIdentity {
    /// Returns the identity of this process; [`None`] where the system does not say.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        static OWN: OnceLock<Option<ProcessIdentity>> = OnceLock::new();
        OWN.get_or_init(Self::read).clone()
    }

    fn read() -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
        let number = std::process::id();
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let (_, started) = state_and_start(&stat)?;
        let (boot, namespace) = (boot.trim().to_owned(), namespace.to_str()?.to_owned());
        Some(Self { boot, namespace, number, started })
    }

    /// Returns the text from which [`Self::parse`] reads the same identity.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { boot, namespace, number, started } = self;
        format!("{boot} {namespace} {number} {started}")
    }

    /// Reads the text of an identity.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut word = || words.next().filter(|word| !word.is_empty()).map(str::to_owned);
        let (boot, namespace) = (word()?, word()?);
        let (number, started) = (word()?.parse().ok()?, word()?.parse().ok()?);
        words.next().is_none().then_some(Self { boot, namespace, number, started })
    }

    /// Returns whether the process has certainly ended. Nothing is known of processes of another
    /// machine, or of an earlier boot: two machines may have been one before.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let Some(own) = Self::of_this_process() else { return false };
        if own.boot != self.boot || own.namespace != self.namespace {
            return false;
        }
        match std::fs::read_to_string(format!("/proc/{}/stat", self.number)) {
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            Ok(stat) => state_and_start(&stat)
                .is_some_and(|(state, started)| started != self.started || "ZX".contains(state)),
        }
    }
}

/// Returns the state of a process and its start in ticks, by the text of `/proc/<number>/stat`. The
/// name, which is in parentheses, may have any letters.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_to_have_ended_on_its_own_machine_only() {
        let own = ProcessIdentity::of_this_process().unwrap();
        assert_eq!(ProcessIdentity::parse(&own.text()), Some(own.clone()));
        assert!(!own.has_ended());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let (_, started) = state_and_start(&stat).unwrap();
        let other = ProcessIdentity { number: child.id(), started, ..own.clone() };
        assert!(!other.has_ended());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(other.has_ended());
        assert!(ProcessIdentity { started: 1, ..own.clone() }.has_ended(), "a number used again");
        assert!(!ProcessIdentity { boot: "another".into(), ..other }.has_ended());
        for text in ["", "a b", "a b 1 x", "a b 1 2 3"] {
            assert_eq!(ProcessIdentity::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_uses_both() {
        assert!(cpu_ns() > 0);
        assert!(!cfg!(target_os = "linux") || memory_bytes() > 1 << 16);
        assert_eq!(resident_bytes("VmHWM:\t 7 kB\nVmRSS:\t    12 kB\n"), 12 << 10);
        assert_eq!(resident_bytes("Name:\tgemelo\n"), 0);
    }
}
