//! The one table of the settings of pools and volumes. Options, help, `get`, the schema of its
//! result and the table of the documents are made from it. A new setting is one line.

use super::value::Kind::{
    self, Compression, Count, Interval, Keep, Percent, Percents, Period, Rate, Sample, Size, Span,
    Switch, Window, Word,
};
use Scope::{Both, Pool, Volume};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The things that have a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// A pool as a whole.
    Pool,
    /// Each volume for itself.
    Volume,
    /// A volume for itself, and a pool for its volumes that do not have it.
    Both,
}

/// The time from which a changed value is in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Applies {
    /// At once, also while the pool is served.
    AtOnce,
    /// From the next time on that the pool is opened.
    NextOpening,
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// The name, which is that of the option and of the key in the file.
    pub name: &'static str,
    /// The form of its values.
    pub kind: Kind,
    /// The value without a choice: a value, or a word for what the program chooses.
    pub default: &'static str,
    /// The things that have it.
    pub scope: Scope,
    /// The time from which a change is in effect.
    pub applies: Applies,
    /// What it does, for the help.
    pub about: &'static str,
}

impl Setting {
    /// Returns whether a pool can have the setting.
    #[must_use]
    pub fn is_of_pools(&self) -> bool {
        self.scope != Volume
    }

    /// Returns whether a volume can have the setting.
    #[must_use]
    pub fn is_of_volumes(&self) -> bool {
        self.scope != Pool
    }
}

/// Returns the setting of this name.
#[must_use]
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns the names of all settings.
pub(crate) fn names() -> Vec<&'static str> {
    SETTINGS.iter().map(|setting| setting.name).collect()
}

const fn at_once(
    scope: Scope,
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { name, kind, default, scope, applies: Applies::AtOnce, about }
}

const fn later(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Setting {
    Setting { name, kind, default, scope: Pool, applies: Applies::NextOpening, about }
}

/// All settings.
#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    at_once(Volume, "dedup", Word(&["off", "inline", "offline"]), "inline", "Deduplicate further writes before they are acknowledged (inline), in the background (offline), or not (off)"),
    at_once(Volume, "compression", Compression, "that of the pool", "Compress further writes. The pool must have been created with --compression; 'gemelo pool recompress' does the same for earlier contents"),
    at_once(Volume, "every", Period, "never", "Make a snapshot of the volume by the server or by 'gemelo pool tick' when this time has passed, at whole multiples of it in UTC; at least 1m"),
    at_once(Volume, "keep", Keep, "all", "Keep the last snapshot of each of so many hours, days, weeks, months and years, such as '24h 7d 4w', or 168h for all of a week, of those that the schedule made; a number alone keeps that many of the last ones"),
    at_once(Volume, "iops", Count(1_000_000_000), "no limit", "Most operations of clients a second"),
    at_once(Volume, "bytes-per-second", Rate, "no limit", "Most bytes that clients read and write a second"),
    at_once(Volume, "burst", Span, "1s", "Time for which these rates are saved up while nothing is done"),
    at_once(Volume, "quota", Size, "no limit", "Most data that the volume may hold: every block that is not zeros counts, whether others have the same content or not, and snapshots do not"),
    at_once(Volume, "reserve", Size, "none", "Data for which the pool keeps room, so that others cannot fill it"),
    at_once(Both, "finder-delay", Span, "5s", "Least time after a write before the finder looks at the block"),
    at_once(Both, "finder-max-delay", Span, "1m", "Most time after a write before the finder looks at the block: the delay of a volume grows up to it while blocks are overwritten soon after the finder looked at them"),
    at_once(Both, "finder-remember", Switch, "on", "Take fingerprints while contents of off-line volumes are written, so that the finder need not read them"),
    at_once(Both, "verify-bytes", Switch, "off", "Compare bytes before a block is shared, with every kind of fingerprint"),
    at_once(Pool, "verify-reads", Switch, "on", "Compare contents with their checksums at every read, so that damage is an error and never a wrong content"),
    at_once(Pool, "commit-interval", Span, "5s", "Make writes durable after this time at the latest, even if no client flushes"),
    at_once(Pool, "collect-rate", Rate, "64m", "Most freed space to give back to the file system a second; 0 for none"),
    at_once(Pool, "layout-rate", Rate, "200m", "Most data to move a second while the pool is idle, so that neighbouring blocks are stored side by side; 0 for none"),
    at_once(Pool, "finder-rate", Rate, "no limit", "Most data of off-line volumes that the finder reads a second"),
    at_once(Pool, "finder-interval", Span, "0s", "Time from the beginning of a round of the finder to that of the next one; 0s to work as soon as blocks are due"),
    at_once(Pool, "finder-window", Window, "the whole day", "Part of each day, in local time, in which the finder works, such as 01:00-05:00"),
    at_once(Pool, "finder-cpu", Percent, "20%", "Most processor time that the finder uses while clients have requests under way, in percent of a core"),
    at_once(Pool, "scrub-interval", Interval, "never", "Scrub the pool when this time has passed since the end of the last scrub"),
    at_once(Pool, "scrub-rate", Rate, "50m", "Most data that such a scrub reads a second"),
    at_once(Pool, "exchange", Switch, "on", "Tell 'gemelo volume copy' which contents the pool has, so that only others are sent; it gets the key of the fingerprints"),
    at_once(Pool, "warn-used", Percents, "80%,90%,95%", "Warn when this percentage of the data store is in use"),
    later("finder-memory", Size, "16m", "Memory for fingerprints that are taken while contents are written; 0 for none"),
    later("inline-overload", Word(&["wait", "defer"]), "wait", "While the write buffer is full: have writers wait, or store blocks of in-line volumes at once and leave them to the finder"),
    later("cache", Size, "256m, or 0 where the system keeps what was written", "Memory for contents that were written lately, once for all volumes that share them, and for those that a member reads often; 0 for none"),
    later("metadata-cache", Size, "as needed, up to a sixty-fourth of the memory", "Memory for pages and changes of the metadata"),
    later("index-sample", Sample, "1", "Contents of which one is in an index in memory: a power of two from 1 to 1024. Others are found if they were written beside one that is"),
    later("write-buffer", Size, "64m", "Memory for contents that were written, until they are on the disk"),
    later("journal-data", Size, "64k, or 32k for a member of a domain", "Most new contents that a flush writes into the journal, so that it syncs one disk and not two; 0 for none, more than 16m count as 16m"),
    later("io", Word(&["direct", "buffered"]), "direct", "Write past the page cache or through it; buffered where the file system has no direct writes"),
    later("write-through", Switch, "off", "Acknowledge a write when it is durable, as if every client asked for it: for clients that connect again by themselves after a crash or a fail-over, and keep a write cache"),
    later("max-connections", Count(4096), "256", "Most clients at a time at each address"),
    later("client-memory", Size, "256m, more for many clients", "Most memory for the requests and replies of all clients of a protocol together"),
    later("idle-timeout", Interval, "never", "End connections that send no request for this time"),
    later("busy-wait", Span, "64us", "Look for the next request for at most this time before sleeping, if requests come that soon: replies are faster, and the processor is busier; 0s to sleep at once"),
    later("log-connections", Switch, "off", "Write a line to standard error when a client connects and when it leaves"),
];
