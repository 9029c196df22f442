//! A process beside the server that outlives it, and removes devices that nobody takes back in
//! time, so that their requests fail instead of waiting for ever.
//!
//! The server tells it on its standard input which devices to watch. The input ends with the
//! server, however that ends, and from then on the time runs.

use crate::abi::{DeviceInfo, State};
use crate::device::Host;
use crate::error::UblkError;
use gemelo_base::units::format_duration_ns;
use gemelo_base::{Clock, Monitor, SystemClock, with_causes};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two looks at the devices.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The server's side.
#[derive(Debug)]
pub(crate) struct Guard {
    input: Mutex<ChildStdin>,
}

impl Guard {
    /// Starts the process by this command.
    pub(crate) fn start(mut command: Command) -> Result<Self, UblkError> {
        // In a group of its own: Ctrl-C in a terminal ends the server and not its guard.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(UblkError::Guard)?;
        let input = child.stdin.take();
        let input = input.ok_or_else(|| UblkError::Guard(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { input: Mutex::new(input) })
    }

    fn tell(&self, line: &str) -> Result<(), UblkError> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.write_all(line.as_bytes()).map_err(UblkError::Guard)
    }

    /// Has a device watched.
    pub(crate) fn watch(&self, number: u32, owner_data: u64) -> Result<(), UblkError> {
        self.tell(&format!("watch {number} {owner_data} {}\n", std::process::id()))
    }

    /// Has a device forgotten that was removed.
    pub(crate) fn forget(&self, number: u32) {
        // Without a guard there is nobody to forget it.
        let _ = self.tell(&format!("forget {number}\n"));
    }
}

/// A device as its server had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    owner_data: u64,
    /// The server.
    process: i32,
}

impl Watched {
    /// Returns whether the device is the one that was watched, and no other process has it.
    fn is_left(self, info: &DeviceInfo) -> bool {
        // The driver knows the death of the server a moment after this process does, and may have
        // no process for a while.
        let is_free = info.state == State::Quiesced
            || info.state == State::Live && (info.process == self.process || info.process <= 0);
        info.owner_data == self.owner_data && is_free
    }
}

/// Reads which devices to watch, until the server ends. Returns them by their numbers.
fn watched(input: impl BufRead) -> BTreeMap<u32, Watched> {
    let mut devices = BTreeMap::new();
    for line in input.lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["watch", number, owner, process] => {
                if let (Ok(number), Ok(owner_data), Ok(process)) =
                    (number.parse(), owner.parse(), process.parse())
                {
                    devices.insert(number, Watched { owner_data, process });
                }
            }
            ["forget", number] => {
                number.parse().ok().and_then(|number: u32| devices.remove(&number));
            }
            _ => {}
        }
    }
    devices
}

/// Watches devices until the server ends, and then for the given time. Removes those that no
/// server has taken back by then.
pub(crate) fn guard(host: &Host, input: impl BufRead, timeout: Duration, monitor: &dyn Monitor) {
    let mut devices = watched(input);
    let clock = SystemClock::new();
    let end_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    loop {
        let is_over = clock.now_ns() >= end_ns;
        devices.retain(|number, watched| {
            let info = host.driver.look(*number).filter(|info| watched.is_left(info));
            if is_over && info.is_some_and(|info| info.state == State::Quiesced) {
                remove(host, *number, timeout, monitor);
            }
            info.is_some()
        });
        if devices.is_empty() || is_over {
            return;
        }
        clock.sleep_until_ns(clock.now_ns() + LOOK_EVERY.as_nanos() as u64);
    }
}

fn remove(host: &Host, number: u32, timeout: Duration, monitor: &dyn Monitor) {
    let disk = host.kind.disk_path(number);
    monitor.warn(&format!(
        "{disk} fails its requests: no server has taken it back for {}",
        format_duration_ns(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    ));
    let removed = host.driver.stop(number).and_then(|()| host.remove(number));
    if let Err(error) = removed {
        monitor.warn(&format!("{disk}: {}", with_causes(&error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_watches_what_it_was_told_and_not_what_was_removed() {
        let told = "watch 3 17 9\nwatch 4 18 9\nforget 3\nnonsense\nwatch x 1 9\nwatch 5 19\n";
        let device = Watched { owner_data: 18, process: 9 };
        assert_eq!(watched(told.as_bytes()), BTreeMap::from([(4, device)]));
        let info = DeviceInfo {
            queues: 1,
            depth: 1,
            state: State::Quiesced,
            max_request_bytes: 4096,
            number: 4,
            process: 9,
            features: 0,
            owner_data: 18,
        };
        assert!(device.is_left(&info));
        assert!(device.is_left(&DeviceInfo { state: State::Live, ..info }), "it dies just now");
        assert!(device.is_left(&DeviceInfo { state: State::Live, process: -1, ..info }));
        let again = DeviceInfo { state: State::Live, process: 10, ..info };
        assert!(!device.is_left(&again), "another server has it");
        assert!(!device.is_left(&DeviceInfo { owner_data: 19, ..info }), "it is another device");
        assert!(!device.is_left(&DeviceInfo { state: State::Dead, ..info }));
    }
}
