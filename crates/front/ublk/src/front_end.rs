//! Disks as a front end of a server of exports: the table of its devices.

use crate::abi::{DeviceInfo, State};
use crate::configured::{UblkFrontEnd, Wanted};
use crate::device::{ServedDevice, check_unused_as_far_as_seen, queues};
use crate::error::UblkError;
use crate::identity::{Record, Whose, whose};
use crate::missing::MissingDevices;
use gemelo_base::background::TaskStat;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, with_causes};
use gemelo_device::{
    Devices, Export, Exports, FrontEnd, FrontEndError, FrontEndStats, Listening, Transfers,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after which the list of exports, the devices and the stop flag are looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks at the stop flag for one at everything else.
const STOP_LOOKS: u32 = 10;

/// Most devices of a server. Each takes threads and memory.
const MAX_DEVICES: usize = 64;

/// Files that a device has open: its own, the notice of its end, and what it keeps.
const FILES_OF_DEVICE: usize = 3;
/// Files that a queue has open: its two rings, and the notice of the second.
const FILES_OF_QUEUE: usize = 3;

/// Held while a device is added, so that two drivers do not both make one of an export.
static ADDING: Mutex<()> = Mutex::new(());

impl FrontEnd for UblkFrontEnd {
    fn check(&self) -> Result<(), FrontEndError> {
        // Without wishes it may be needed later.
        match self.host() {
            Err(error) if self.wanted != Wanted::None => Err(FrontEndError::refused(error)),
            _ => Ok(()),
        }
    }

    fn listen(
        self: Box<Self>,
        exports: Arc<dyn Exports>,
        monitor: Arc<dyn Monitor>,
    ) -> Result<Arc<dyn Listening>, FrontEndError> {
        let missing = MissingDevices::new(self.driver.task());
        let state = DeviceTable { missing, devices: BTreeMap::new(), left_out: BTreeSet::new() };
        let listening = UblkListening {
            configured: *self,
            exports,
            monitor,
            state: Mutex::new(state),
            accepted: AtomicU64::new(0),
            broken: AtomicU64::new(0),
        };
        listening.begin()?;
        Ok(Arc::new(listening))
    }
}

/// State guarded by one lock.
struct DeviceTable {
    /// By the identity of the export.
    devices: BTreeMap<String, ServedDevice>,
    /// Identities that become no devices by themselves, because they were detached.
    left_out: BTreeSet<String>,
    missing: MissingDevices,
}

struct UblkListening {
    configured: UblkFrontEnd,
    exports: Arc<dyn Exports>,
    monitor: Arc<dyn Monitor>,
    state: Mutex<DeviceTable>,
    accepted: AtomicU64,
    broken: AtomicU64,
}

impl DeviceTable {
    fn of_name(&self, name: &str) -> Option<&ServedDevice> {
        self.devices.values().find(|device| device.name == name)
    }
}

impl UblkListening {
    fn lock(&self) -> MutexGuard<'_, DeviceTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes devices back that an earlier server had, and makes those that are wanted.
    fn begin(&self) -> Result<(), FrontEndError> {
        let wanted = &self.configured.wanted;
        if *wanted == Wanted::None && self.configured.driver.numbers().is_empty() {
            return Ok(());
        }
        if let Wanted::Only(names) = wanted
            && let Some(name) = names.iter().find(|name| self.exports.find(name).is_none())
        {
            return Err(FrontEndError::of(UblkError::NoVolume { name: name.clone() }));
        }
        let mut state = self.lock();
        let (exports, began_ns) = (self.all_exports(), state.missing.now_ns());
        // A disk that cannot be taken back keeps no other one from its server.
        for export in &exports {
            if let Err(error) = self.take_back(&mut state, export) {
                self.miss(&mut state, export, &error);
            }
        }
        for export in exports.into_iter().filter(|export| self.is_wanted(&export.name)) {
            if state.missing.has(&export.identity) {
                continue;
            }
            match self.attach_locked(&mut state, export.clone()) {
                Ok(()) => {}
                Err(error) if *wanted == Wanted::All => self.miss(&mut state, &export, &error),
                Err(error) => return Err(FrontEndError::of(error)),
            }
        }
        state.missing.note_try(began_ns);
        Ok(())
    }

    fn all_exports(&self) -> Vec<Export> {
        self.exports.names().iter().filter_map(|name| self.exports.find(name)).collect()
    }

    fn is_wanted(&self, name: &str) -> bool {
        match &self.configured.wanted {
            Wanted::None => false,
            Wanted::All => true,
            Wanted::Only(names) => names.iter().any(|one| one == name),
        }
    }

    /// Notes that an export is no device. Warns of it once.
    fn miss(&self, state: &mut DeviceTable, export: &Export, error: &UblkError) {
        let why = format!("volume '{}' is no disk: {}", export.name, with_causes(error));
        if state.missing.insert(&export.identity, &why) {
            self.monitor.warn(&why);
        }
    }

    /// Makes a device of an export, or takes the one back that it has.
    fn attach_locked(&self, state: &mut DeviceTable, export: Export) -> Result<(), UblkError> {
        if state.devices.contains_key(&export.identity) {
            return Ok(());
        }
        if state.devices.len() >= MAX_DEVICES {
            return Err(UblkError::TooMany { limit: MAX_DEVICES });
        }
        self.take_back(state, &export)?;
        if state.devices.contains_key(&export.identity) {
            return Ok(());
        }
        let _one_at_a_time = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = self.configured.disk_by_other(&export.identity) {
            return Err(UblkError::Attached { name: export.name, device });
        }
        let host = self.configured.host()?;
        let record = Record::of(&export, &self.configured.pool)?;
        let identity = export.identity.clone();
        let device = ServedDevice::add(&host, export, &record)?;
        self.insert(state, identity, device);
        Ok(())
    }

    fn insert(&self, state: &mut DeviceTable, identity: String, device: ServedDevice) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        state.left_out.remove(&identity);
        state.missing.remove(&identity);
        state.devices.insert(identity, device);
    }

    /// Takes the device of an export back, if it has one.
    fn take_back(&self, state: &mut DeviceTable, export: &Export) -> Result<(), UblkError> {
        let numbers = self.configured.driver.numbers();
        if numbers.is_empty() {
            return Ok(());
        }
        let host = match self.configured.host() {
            Ok(host) => host,
            // The devices of this host are those of others.
            Err(_) if !self.configured.has_record(&export.identity) => return Ok(()),
            Err(error) => return Err(error),
        };
        for number in numbers {
            let Some(info) = host.driver.look(number) else { continue };
            let record = host.records.read(number);
            match whose(&export.identity, info.owner_data, record.as_ref()) {
                Whose::Other => continue,
                Whose::Unclear(claimed) => {
                    let (device, name) = (host.kind.disk_path(number), export.name.clone());
                    return Err(UblkError::Contradiction { device, name, claimed });
                }
                Whose::Ours => {}
            }
            if info.state == State::Dead {
                // Its process died before it became a disk.
                host.remove(number)?;
                continue;
            }
            let record = match record {
                // The disk keeps its name while programs may use it.
                Some(record) => record,
                None => Record::of(export, &self.configured.pool)?,
            };
            let device = ServedDevice::take_over(&host, export.clone(), &info, &record)?;
            self.insert(state, export.identity.clone(), device);
            return Ok(());
        }
        Ok(())
    }

    /// Removes what is left of a device that this server does not have, and tries it no more.
    fn detach_missing(
        &self,
        state: &mut DeviceTable,
        name: &str,
        force: bool,
    ) -> Result<(), UblkError> {
        let removed = self.remove_left(name, force);
        let Some(Export { identity, .. }) = self.exports.find(name) else { return removed };
        let has_none = state.missing.has(&identity)
            && matches!(removed, Err(UblkError::NotAttached { .. }))
            // The one of the other driver is meant.
            && self.configured.disk_by_other(&identity).is_none();
        if removed.is_ok() || has_none {
            state.missing.remove(&identity);
            state.left_out.insert(identity);
            return Ok(());
        }
        removed
    }

    /// Removes a device of an export that this server has not taken back.
    fn remove_left(&self, name: &str, force: bool) -> Result<(), UblkError> {
        let not_attached = || UblkError::NotAttached { name: name.to_owned() };
        let export = self.exports.find(name).ok_or_else(not_attached)?;
        let numbers = self.configured.driver.numbers();
        let host =
            if numbers.is_empty() { return Err(not_attached()) } else { self.configured.host()? };
        let info_of = |number| Some((host.driver.look(number)?, host.records.read(number)));
        let is_ours = |info: &DeviceInfo, record: Option<&Record>| {
            whose(&export.identity, info.owner_data, record) == Whose::Ours
        };
        let left = numbers.into_iter().filter_map(info_of);
        let left = left.into_iter().find(|(info, record)| is_ours(info, record.as_ref()));
        let (info, _) = left.ok_or_else(not_attached)?;
        if info.state == State::Live {
            let (device, process) = (host.kind.disk_path(info.number), info.process);
            return Err(UblkError::Served { device, name: export.name, process });
        }
        if !force && info.state == State::Quiesced {
            check_unused_as_far_as_seen(&host.kind.disk_path(info.number))?;
        }
        host.driver.stop(info.number)?;
        host.remove(info.number)
    }

    /// Follows the exports: devices of removed ones end, and wanted ones become devices.
    fn follow_exports(&self) {
        let mut state = self.lock();
        self.follow_names(&mut state);
        let is_due = state.missing.are_due();
        if self.configured.wanted != Wanted::All && !is_due {
            return;
        }
        let began_ns = state.missing.now_ns();
        let mut tries = 0;
        for export in self.all_exports() {
            let identity = &export.identity;
            let is_missing = state.missing.has(identity);
            let is_new = self.configured.wanted == Wanted::All
                && !state.devices.contains_key(identity)
                && !state.left_out.contains(identity);
            if !(if is_missing { is_due } else { is_new }) {
                continue;
            }
            tries += 1;
            let tried = match self.is_wanted(&export.name) {
                true => self.attach_locked(&mut state, export.clone()),
                // It was attached on request, and is gone if there is nothing to take back.
                false => self.take_back(&mut state, &export),
            };
            match tried {
                Ok(()) => state.missing.remove(&export.identity),
                Err(error) => self.miss(&mut state, &export, &error),
            }
        }
        if tries > 0 {
            state.missing.note_try(began_ns);
        }
    }

    /// Learns new names of exports, and removes the devices of exports that are no more.
    fn follow_names(&self, state: &mut DeviceTable) {
        if !state.missing.is_empty() {
            let exports = self.all_exports().into_iter();
            state.missing.retain(&exports.map(|export| export.identity).collect());
        }
        let is_known = |device: &ServedDevice| {
            let export = self.exports.find(&device.name);
            export.is_some_and(|export| export.identity == device.identity)
        };
        if state.devices.values().all(is_known) {
            return;
        }
        let exports = self.exports.names();
        let exports = exports.iter().filter_map(|name| self.exports.find(name));
        let names: BTreeMap<_, _> = exports.map(|export| (export.identity, export.name)).collect();
        let mut gone = Vec::new();
        for device in state.devices.values_mut() {
            match names.get(&device.identity) {
                Some(name) => device.name.clone_from(name),
                None => gone.push(device.identity.clone()),
            }
        }
        for device in gone.iter().filter_map(|identity| state.devices.remove(identity)) {
            self.remove_of_gone(device);
        }
    }

    /// Has disks show the sizes of their volumes.
    fn follow_sizes(&self) {
        let state = self.lock();
        let notes = state.devices.values().filter_map(ServedDevice::follow_size);
        notes.for_each(|note| self.monitor.warn(&note));
    }

    fn remove_of_gone(&self, device: ServedDevice) {
        let disk = device.disk();
        if let Err(error) = device.remove() {
            self.monitor.warn(&format!("{disk}: {}", with_causes(&error)));
        }
    }

    /// Forgets devices that are not served any more.
    fn forget_ended(&self) {
        let mut state = self.lock();
        let ended = state.devices.values().filter(|device| device.has_ended());
        let ended: Vec<String> = ended.map(|device| device.identity.clone()).collect();
        for identity in ended {
            let Some(device) = state.devices.remove(&identity) else { continue };
            let disk = device.disk();
            let Some(why) = device.failure() else {
                self.monitor.warn(&format!("{disk} of '{}' was removed", device.name));
                state.left_out.insert(identity);
                device.forget();
                continue;
            };
            self.broken.fetch_add(1, Ordering::Relaxed);
            let why = format!("{disk} of '{}' is not served: {why}", device.name);
            self.monitor.warn(&why);
            state.missing.insert(&identity, &why);
            state.missing.note_try(state.missing.now_ns());
            device.leave();
        }
    }
}

impl Listening for UblkListening {
    fn addresses(&self) -> Vec<String> {
        let state = self.lock();
        let address =
            |device: &ServedDevice| format!("{}:{}", self.configured.driver.word(), device.disk());
        let addresses: Vec<String> = state.devices.values().map(address).collect();
        match addresses.is_empty() && self.configured.wanted != Wanted::None {
            true => vec![self.configured.driver.word().to_owned()],
            false => addresses,
        }
    }

    fn run(&self, stop: &StopFlag) -> Result<(), FrontEndError> {
        let mut looks = 0;
        while !stop.is_raised() {
            looks += 1;
            if looks == STOP_LOOKS {
                looks = 0;
                self.forget_ended();
                self.follow_exports();
                self.follow_sizes();
            }
            let clock = SystemClock::new();
            clock.sleep_until_ns(LOOK_EVERY.as_nanos() as u64);
        }
        let devices = std::mem::take(&mut self.lock().devices);
        for device in devices.into_values() {
            match stop.has_successor() {
                true => device.leave(),
                false => device.end(&*self.monitor),
            }
        }
        Ok(())
    }

    fn connections(&self, export: Option<&str>) -> usize {
        let mut state = self.lock();
        match export {
            None => state.devices.len(),
            Some(name) => {
                self.follow_names(&mut state);
                usize::from(state.of_name(name).is_some())
            }
        }
    }

    fn disconnect(&self, _export: &str) {
        // Its device is the one whose export is no more.
        self.follow_names(&mut self.lock());
    }

    fn figures(&self) -> FrontEndStats {
        FrontEndStats {
            accepted: self.accepted.load(Ordering::Relaxed),
            broken: self.broken.load(Ordering::Relaxed),
            ..FrontEndStats::default()
        }
    }

    fn max_open_files(&self) -> u64 {
        (MAX_DEVICES * (FILES_OF_DEVICE + queues() * FILES_OF_QUEUE)) as u64
    }

    /// Requests come from the kernel, and not as a stream of bytes.
    fn transfers(&self, _exports: Arc<dyn Exports>) -> Option<Arc<dyn Transfers>> {
        None
    }

    fn devices(&self) -> Option<&dyn Devices> {
        Some(self)
    }
}

impl Devices for UblkListening {
    fn driver(&self) -> &'static str {
        self.configured.driver.word()
    }

    fn task(&self) -> Option<TaskStat> {
        let stat = self.lock().missing.stat();
        (self.configured.wanted != Wanted::None || stat.outages > 0).then_some(stat)
    }

    fn follow_size(&self, name: &str) -> Option<String> {
        self.lock().of_name(name)?.follow_size()
    }

    fn attach(&self, name: &str) -> Result<String, FrontEndError> {
        let mut state = self.lock();
        self.follow_names(&mut state);
        let no_volume = || UblkError::NoVolume { name: name.to_owned() };
        let export = self.exports.find(name).ok_or_else(no_volume).map_err(FrontEndError::of)?;
        if let Some(device) = state.devices.get(&export.identity) {
            let (name, device) = (name.to_owned(), device.disk());
            return Err(FrontEndError::of(UblkError::Attached { name, device }));
        }
        let identity = export.identity.clone();
        self.attach_locked(&mut state, export).map_err(FrontEndError::of)?;
        let disk = state.devices.get(&identity).map(ServedDevice::disk);
        disk.ok_or_else(|| FrontEndError::of(no_volume()))
    }

    fn detach(&self, name: &str, force: bool) -> Result<(), FrontEndError> {
        let mut state = self.lock();
        self.follow_names(&mut state);
        let Some(device) = state.of_name(name) else {
            return self.detach_missing(&mut state, name, force).map_err(FrontEndError::of);
        };
        if !force {
            check_unused_as_far_as_seen(&device.disk()).map_err(FrontEndError::of)?;
        }
        let identity = device.identity.clone();
        let device = state.devices.remove(&identity);
        state.left_out.insert(identity);
        device.map_or(Ok(()), ServedDevice::remove).map_err(FrontEndError::of)
    }
}
