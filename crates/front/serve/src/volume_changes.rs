//! Changes of volumes that concern their settings as well, and the snapshots of the schedule.

use crate::failure::RequestFailure;
use crate::open_pool::OpenPool;
use crate::request::{Reply, TickReport};
use crate::settings::{Setting, Value, read_changes};
use gemelo_base::{Clock, SystemClock};
use gemelo_format::{DedupMode, VolumeRecord};
use gemelo_volume::NewCopy;
use std::collections::BTreeMap;

impl OpenPool {
    /// Makes snapshots, or clones, of one moment.
    pub(crate) fn copy_volumes(
        &self,
        copies: &[NewCopy],
        read_only: bool,
    ) -> Result<(), RequestFailure> {
        for copy in copies {
            self.record_of(&copy.source)?;
            self.forget_earlier(&copy.name)?;
        }
        match (copies, read_only) {
            ([copy], false) => self.pool().clone_volume(&copy.source, &copy.name)?,
            _ => self.pool().snapshot_volumes(copies)?,
        }
        copies.iter().for_each(|copy| self.settings().apply_to(self.pool(), &copy.name));
        Ok(())
    }

    /// Forgets the settings that an earlier volume of this name has left. One that has the name now
    /// keeps its own.
    pub(crate) fn forget_earlier(&self, name: &str) -> Result<(), RequestFailure> {
        match self.record_of(name) {
            Ok(_) => Ok(()),
            Err(_) => self.settings().forget(name),
        }
    }

    /// Renames a volume, which keeps its settings. After a crash in between, both names have them,
    /// and the next volume of a name begins without.
    pub(crate) fn rename(&self, name: &str, new_name: &str) -> Result<(), RequestFailure> {
        self.record_of(name)?;
        let is_free = self.record_of(new_name).is_err();
        if is_free {
            self.settings().copy(name, new_name)?;
        }
        if let Err(error) = self.pool().rename_volume(name, new_name) {
            if is_free {
                self.settings().forget(new_name)?;
            }
            return Err(error.into());
        }
        self.settings().forget(name)
    }

    /// Returns the record of a volume.
    pub(crate) fn record_of(&self, name: &str) -> Result<VolumeRecord, RequestFailure> {
        Ok(self.summary(name)?.record)
    }

    /// Removes a volume that no client uses.
    pub(crate) fn remove_unused(&self, name: &str) -> Result<(), RequestFailure> {
        if self.connections(name) > 0 {
            return Err(RequestFailure::refused("it is in use"));
        }
        self.remove(name, true)
    }

    /// Refuses changes of settings, and of what the schedule makes, in a pool that takes none.
    fn check_writable(&self) -> Result<(), RequestFailure> {
        match self.is_read_only() {
            false => Ok(()),
            true => Err(RequestFailure::refused(
                "the pool is read-only: 'gemelo pool status' says why; its settings stay",
            )),
        }
    }

    /// Changes settings of the pool or of a volume.
    pub(crate) fn set(
        &self,
        volume: Option<&str>,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<(), RequestFailure> {
        self.check_writable()?;
        match volume {
            Some(name) => self.set_volume(name, changes),
            None => self.settings().set_pool(self.pool(), changes),
        }
    }

    /// Changes settings of a volume: all of them, or none if one is refused.
    fn set_volume(
        &self,
        name: &str,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<(), RequestFailure> {
        let record = self.record_of(name)?;
        let read = read_changes(changes, true)?;
        let is_snapshot_schedule = |setting: &Setting| matches!(setting.name, "every" | "keep");
        if record.read_only && read.iter().any(|(setting, _)| is_snapshot_schedule(setting)) {
            let text = format!("'{name}' is a snapshot and does not change: it needs no others");
            return Err(RequestFailure::refused(text));
        }
        let (limits, read): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|(setting, _)| setting.is_limit());
        if limits.is_empty() {
            return self.set_others(name, read);
        }
        let mut changed = record.limits;
        limits.iter().for_each(|(setting, value)| setting.set_limit(&mut changed, value));
        self.pool().set_limits(name, changed)?;
        self.set_others(name, read).inspect_err(|_| {
            // The refusal is the failure to report.
            let _ = self.pool().set_limits(name, record.limits);
        })
    }

    /// Changes settings of a volume that are no limits.
    fn set_others(
        &self,
        name: &str,
        changes: Vec<(&'static Setting, Option<Value>)>,
    ) -> Result<(), RequestFailure> {
        let (in_record, others): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(setting, _)| setting.is_in_record());
        // They are the ones that may be refused, so they come first: compression before dedup.
        for (setting, value) in in_record {
            self.set_in_record(name, setting, value)?;
        }
        self.settings().set_volume(self.pool(), name, others)
    }

    fn set_in_record(
        &self,
        name: &str,
        setting: &Setting,
        value: Option<Value>,
    ) -> Result<(), RequestFailure> {
        match (setting.name, value) {
            ("compression", Some(Value::Compression(kind))) => {
                self.pool().set_compression(name, kind)?;
            }
            ("compression", _) => {
                self.pool().set_compression(name, self.pool().stat()?.compression)?;
            }
            (_, Some(Value::Word(word))) => {
                let mode = DedupMode::from_name(word).unwrap_or(DedupMode::Inline);
                self.pool().set_mode(name, mode)?;
            }
            _ => self.pool().set_mode(name, DedupMode::Inline)?,
        }
        Ok(())
    }

    /// Reports on the settings of the pool or of a volume.
    pub(crate) fn report_settings(&self, volume: Option<&str>) -> Result<Reply, RequestFailure> {
        let record = volume.map(|name| self.record_of(name)).transpose()?;
        Ok(Reply::Settings(self.settings().report(record.as_ref())))
    }

    /// Makes and removes the snapshots of the schedule.
    pub(crate) fn tick(&self) -> Result<TickReport, RequestFailure> {
        self.check_writable()?;
        let now_utc_s = SystemClock::new().utc_s().ok_or_else(|| {
            RequestFailure::refused("the clock of this system has no date, so nothing is due")
        })?;
        self.schedule().tick(self, now_utc_s)
    }
}
