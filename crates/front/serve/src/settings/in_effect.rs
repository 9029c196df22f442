//! The settings of an open pool: which value is in effect, why, and how it changes.

use super::table::names;
use super::{Applies, SETTINGS, Scope, Setting, Settings, Value, Values, setting};
use crate::failure::RequestFailure;
use crate::kept_text::KeptText;
use gemelo_format::VolumeRecord;
use gemelo_volume::Pool;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The place from which a value in effect comes. A later one goes before an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingSource {
    /// The program.
    BuiltIn,
    /// The settings of the pool.
    Pool,
    /// The settings of the volume.
    Volume,
    /// An option of the process that has the pool.
    CommandLine,
}

/// A setting, and its value in effect.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SettingReport {
    /// The name.
    #[schemars(extend("enum" = names()))]
    pub name: String,
    /// The value in effect.
    pub value: String,
    /// The place from which it comes.
    pub source: SettingSource,
    /// The value that was set and is in effect from the next opening on, if it is another one.
    pub next: Option<String>,
    /// The value without a choice.
    pub default: String,
    /// The things that have the setting.
    pub scope: Scope,
    /// The time from which a change is in effect.
    pub applies: Applies,
    /// What the setting does.
    pub about: String,
}

impl Setting {
    /// Returns whether the record of a volume has the value, and not the settings.
    pub(crate) fn is_in_record(&self) -> bool {
        matches!(self.name, "dedup" | "compression")
    }

    fn of_record(&self, record: &VolumeRecord) -> Option<String> {
        match self.name {
            "dedup" => Some(record.mode.name().to_owned()),
            "compression" => Some(record.compression.to_string()),
            _ => self.limit_of(record.limits).map(|value| value.to_string()),
        }
    }
}

/// Changes of settings, by name; [`None`] takes a choice back.
pub(crate) type Changes = BTreeMap<String, Option<String>>;

/// Reads changes of the settings of a pool or a volume.
pub(crate) fn read_changes(
    changes: &Changes,
    is_of_volume: bool,
) -> Result<Vec<(&'static Setting, Option<Value>)>, RequestFailure> {
    let fits = |known: &&Setting| match is_of_volume {
        true => known.is_of_volumes(),
        false => known.is_of_pools(),
    };
    let read = |(name, text): (&String, &Option<String>)| {
        let known = setting(name).filter(fits).ok_or_else(|| format!("no setting '{name}'"))?;
        let value = text.as_ref().map(|text| known.kind.parse(text)).transpose();
        Ok((known, value.map_err(|why: String| format!("{name}: {why}"))?))
    };
    changes.iter().map(read).collect::<Result<_, String>>().map_err(RequestFailure::refused)
}

/// The settings of an open pool.
pub(crate) struct PoolSettings {
    kept: KeptText,
    /// Those that this process was given as options.
    said: Values,
    /// Those of the pool when it was opened.
    opened: Values,
    now: Mutex<Settings>,
}

impl PoolSettings {
    pub(crate) fn new(kept: KeptText, settings: Settings, said: Values) -> Self {
        Self { kept, said, opened: settings.pool.clone(), now: Mutex::new(settings) }
    }

    /// Returns the values of the pool in effect. Of what applies at the next opening, they are
    /// those of this one.
    pub(crate) fn of_pool(&self) -> Values {
        let mut values = self.now.lock().pool.clone();
        for setting in SETTINGS.iter().filter(|one| one.applies == Applies::NextOpening) {
            values.set(setting, self.opened.get(setting.name).cloned());
        }
        self.said.over(&values)
    }

    /// Returns the values of a volume in effect.
    pub(crate) fn of_volume(&self, name: &str) -> Values {
        let now = self.now.lock();
        self.said.over(&now.of_volume(name)).over(&now.pool)
    }

    /// Returns the names of the volumes that have settings of their own.
    pub(crate) fn volumes(&self) -> Vec<String> {
        self.now.lock().volumes.keys().cloned().collect()
    }

    /// Gives the volumes of a pool that was just opened what they have for themselves.
    pub(crate) fn begin(&self, pool: &Pool) {
        let now = self.now.lock().clone();
        let pool_values = self.of_pool();
        let volumes = now.volumes.into_iter().map(|(name, own)| (name, self.said.over(&own)));
        Settings { pool: pool_values, volumes: volumes.collect() }.give_to_volumes(pool);
    }

    /// Gives a volume its settings. One that is gone needs none.
    pub(crate) fn apply_to(&self, pool: &Pool, name: &str) {
        let _ = pool.set_volume_tuning(name, self.of_volume(name).volume_tuning());
    }

    /// Changes settings of the pool.
    pub(crate) fn set_pool(&self, pool: &Pool, changes: &Changes) -> Result<(), RequestFailure> {
        let read = read_changes(changes, false)?;
        self.change(|settings| {
            for (setting, value) in read {
                settings.pool.set(setting, value);
            }
            settings.pool.fit(gemelo_base::memory::of_process())
        })?;
        pool.set_tuning(self.of_pool().tuning());
        pool.volume_names().iter().for_each(|name| self.apply_to(pool, name));
        Ok(())
    }

    /// Changes settings of a volume that its record does not have.
    pub(crate) fn set_volume(
        &self,
        pool: &Pool,
        name: &str,
        changes: Vec<(&'static Setting, Option<Value>)>,
    ) -> Result<(), RequestFailure> {
        if changes.is_empty() {
            return Ok(());
        }
        self.change(|settings| {
            let values = settings.volumes.entry(name.to_owned()).or_default();
            for (setting, value) in changes {
                values.set(setting, value);
            }
            Ok(())
        })?;
        self.apply_to(pool, name);
        Ok(())
    }

    /// Forgets the settings of a volume that is gone, or of an earlier one whose name a new volume
    /// is going to have.
    pub(crate) fn forget(&self, name: &str) -> Result<(), RequestFailure> {
        self.change(|settings| {
            settings.volumes.remove(name);
            Ok(())
        })
    }

    /// Gives a volume the settings of another one, before it gets the other's name.
    pub(crate) fn copy(&self, name: &str, new_name: &str) -> Result<(), RequestFailure> {
        self.change(|settings| {
            let values = settings.of_volume(name);
            settings.volumes.insert(new_name.to_owned(), values);
            Ok(())
        })
    }

    /// Makes a change and keeps it; a change that cannot be kept is not made.
    fn change(
        &self,
        change: impl FnOnce(&mut Settings) -> Result<(), RequestFailure>,
    ) -> Result<(), RequestFailure> {
        let mut now = self.now.lock();
        let mut changed = now.clone();
        change(&mut changed)?;
        changed.volumes.retain(|_, values| !values.is_empty());
        if changed != *now {
            self.kept.write(&changed.text())?;
            *now = changed;
        }
        Ok(())
    }

    /// Reports on the settings of the pool, or of the volume of this record.
    pub(crate) fn report(&self, record: Option<&VolumeRecord>) -> Vec<SettingReport> {
        let fits = |setting: &&Setting| match record {
            Some(_) => setting.is_of_volumes(),
            None => setting.is_of_pools(),
        };
        SETTINGS.iter().filter(fits).map(|setting| self.report_on(setting, record)).collect()
    }

    fn report_on(&self, setting: &Setting, record: Option<&VolumeRecord>) -> SettingReport {
        let now = self.now.lock();
        let name = setting.name;
        let in_file = now.pool.get(name);
        let of_pool = match setting.applies {
            Applies::AtOnce => in_file,
            Applies::NextOpening => self.opened.get(name),
        };
        let own = record.and_then(|record| now.volumes.get(&record.name)?.get(name));
        let of_record = record.and_then(|record| setting.of_record(record));
        let chosen = [
            (self.said.get(name), SettingSource::CommandLine),
            (own, SettingSource::Volume),
            (of_pool, SettingSource::Pool),
        ];
        let chosen = chosen.into_iter().find_map(|(value, source)| Some((value?, source)));
        let (value, source) = match (of_record, chosen) {
            (Some(value), _) => (value, SettingSource::Volume),
            (None, Some((value, source))) => (value.to_string(), source),
            (None, None) => (setting.default.to_owned(), SettingSource::BuiltIn),
        };
        let next = (setting.applies == Applies::NextOpening && in_file != of_pool)
            .then(|| in_file.map_or_else(|| setting.default.to_owned(), Value::to_string));
        SettingReport {
            name: name.to_owned(),
            value,
            source,
            next,
            default: setting.default.to_owned(),
            scope: setting.scope,
            applies: setting.applies,
            about: setting.about.to_owned(),
        }
    }
}
