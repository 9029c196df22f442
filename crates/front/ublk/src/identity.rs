//! Whose a device is. A device is known by the identity of its export, never by its number, which
//! the kernel may have given to somebody else.
//!
//! The driver keeps a number for each device: a hash of the identity. A file for each device, in a
//! directory that a boot empties, has the identity itself, and the name that a udev rule gives to
//! the disk. A device is taken over only if neither of both says otherwise.

use crate::error::UblkError;
use gemelo_base::ShowPath as _;
use gemelo_device::Export;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use twox_hash::XxHash64;

/// Seed of the hash, so that no other use of it has the same numbers.
const SEED: u64 = u64::from_le_bytes(*b"gemeloub");

/// Longest file that is read in bytes.
const MAX_FILE_BYTES: usize = 16 << 10;

/// Returns the number by which the driver knows an identity.
pub(crate) fn owner_data(identity: &str) -> u64 {
    // Others use small numbers.
    XxHash64::oneshot(SEED, identity.as_bytes()) | 1 << 63
}

/// What the file of a device says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The identity of the export.
    pub(crate) identity: String,
    /// The name of the disk below /dev/gemelo.
    pub(crate) link: String,
}

impl Record {
    /// Returns the record of an export of this pool.
    pub(crate) fn of(export: &Export, pool: &str) -> Result<Self, UblkError> {
        let identity = export.identity.clone();
        for name in [pool, &export.name] {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+:@=-".contains(c);
            let is_place = name.starts_with('.') || name.contains("..");
            if name.is_empty() || is_place || !name.chars().all(is_plain) {
                let why = format!(
                    "/dev/gemelo/{pool}/{} would have the name '{name}': names of devices have \
                     letters of ASCII, digits and . _ + : @ = -, with no point in front and no two in a row",
                    export.name
                );
                return Err(UblkError::Unservable { name: export.name.clone(), why });
            }
        }
        Ok(Self { identity, link: format!("{pool}/{}", export.name) })
    }

    /// The lines of the file, which udev reads as properties of the disk.
    fn text(&self) -> String {
        format!("GEMELO_IDENTITY={}\nGEMELO_LINK={}\n", self.identity, self.link)
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(key));
            let only = lines.next().filter(|value| !value.is_empty())?;
            lines.next().is_none().then(|| only.to_owned())
        };
        Some(Self { identity: value("GEMELO_IDENTITY=")?, link: value("GEMELO_LINK=")? })
    }
}

/// The files of devices.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    directory: PathBuf,
}

impl Records {
    pub(crate) fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.directory.join(number.to_string())
    }

    /// Returns what the file of a device says, if there is one that can be read.
    pub(crate) fn read(&self, number: u32) -> Option<Record> {
        let bytes = std::fs::read(self.path(number)).ok()?;
        let text = std::str::from_utf8(bytes.get(..bytes.len().min(MAX_FILE_BYTES))?).ok()?;
        Record::parse(text)
    }

    pub(crate) fn write(&self, number: u32, record: &Record) -> Result<(), UblkError> {
        let path = self.path(number);
        replace(&self.directory, &path, record.text().as_bytes())
            .map_err(|source| UblkError::State { path: path.shown().to_string(), source })
    }

    pub(crate) fn remove(&self, number: u32) {
        // Without it nothing is known of the device, as after a boot.
        let _ = std::fs::remove_file(self.path(number));
    }
}

fn replace(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let new = path.with_extension("new");
    // Its user may be another one, who must not lead a server of root elsewhere.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).open(&new)?.write_all(bytes)?;
    std::fs::rename(new, path)
}

/// Whose a device is, for one that looks for the device of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It belongs to the export.
    Ours,
    /// It belongs to something else.
    Other,
    /// The driver and the file contradict each other. The file says this.
    Unclear(String),
}

/// Judges the device with this number of the driver and this file.
pub(crate) fn whose(identity: &str, data: u64, record: Option<&Record>) -> Whose {
    if data != owner_data(identity) {
        return Whose::Other;
    }
    match record {
        Some(record) if record.identity != identity => Whose::Unclear(record.identity.clone()),
        _ => Whose::Ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(identity: &str) -> Record {
        Record { identity: identity.to_owned(), link: "pool/disk".to_owned() }
    }

    #[test]
    fn the_number_of_an_identity_never_changes() {
        assert_eq!(owner_data("0123-7@/pool"), owner_data("0123-7@/pool"));
        assert_ne!(owner_data("0123-7@/pool"), owner_data("0123-8@/pool"));
        assert_eq!(
            owner_data("a"),
            10_305_934_350_670_206_319,
            "devices of an older gemelo are found"
        );
    }

    #[test]
    fn a_device_is_ours_if_neither_the_driver_nor_its_file_denies_it() {
        let data = owner_data("us");
        assert_eq!(whose("us", data, Some(&record("us"))), Whose::Ours);
        assert_eq!(whose("us", data, None), Whose::Ours);
        assert_eq!(whose("us", data ^ 1, Some(&record("us"))), Whose::Other);
        assert_eq!(whose("us", 0, None), Whose::Other);
        assert_eq!(whose("us", data, Some(&record("them"))), Whose::Unclear("them".to_owned()));
    }

    #[test]
    fn a_name_that_udev_would_read_otherwise_is_refused() {
        struct NoDevice;
        impl gemelo_device::BlockDevice for NoDevice {
            fn geometry(&self) -> gemelo_device::Geometry {
                unreachable!()
            }
            fn execute(&self, _: &mut [gemelo_device::Request<'_>]) {}
            fn extents(
                &self,
                _: u64,
                _: u64,
                _: usize,
            ) -> Result<Vec<gemelo_device::Extent>, gemelo_device::DeviceError> {
                Ok(Vec::new())
            }
        }
        let of = |pool: &str, name: &str| {
            Record::of(&Export::new(name, std::sync::Arc::new(NoDevice)), pool)
        };
        assert_eq!(of("vms", "web-1.2").unwrap().link, "vms/web-1.2");
        for name in ["", ".a", "a..b", "a b", "a/b", "a%n", "a$b", "ä", "a\nGEMELO_LINK=x"] {
            assert!(of("vms", name).is_err() && of(name, "web").is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_strange_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::new(directory.path().join("new"));
        records.write(3, &record("us")).unwrap();
        assert_eq!(records.read(3), Some(record("us")));
        assert_eq!(records.read(4), None);
        records.remove(3);
        assert_eq!(records.read(3), None);
        for strange in ["", "GEMELO_IDENTITY=\nGEMELO_LINK=a/b\n", "GEMELO_LINK=a/b\n"] {
            assert_eq!(Record::parse(strange), None, "{strange}");
        }
        let twice = "GEMELO_IDENTITY=a\nGEMELO_IDENTITY=b\nGEMELO_LINK=a/b\n";
        assert_eq!(Record::parse(twice), None);
    }
}
