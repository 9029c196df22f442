//! The places of a pool's disks: the locks, the files that are made, the refusals, and the state
//! after a failure.

use crate::common::collide::sha1_collision;
use crate::common::{read, write};
use gemelo_base::SystemClock;
use gemelo_disk::DiskError;
use gemelo_format::{DedupMode, FingerprintKind, Fingerprinter};
use gemelo_volume::{NewPool, Pool, PoolDirectory, PoolOptions, Tuning, VolumeError};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const SIZE: u64 = 8 << 20;

fn small() -> PoolOptions {
    PoolOptions { capacity_bytes: SIZE, journal_bytes: Some(64 << 10), ..PoolOptions::default() }
}

fn open(path: &Path) -> Result<Pool, VolumeError> {
    Pool::open(path, Tuning::default(), Arc::new(SystemClock::new()))
}

fn look(path: &Path) -> Result<Pool, VolumeError> {
    let tuning = Tuning { read_only: true, ..Tuning::default() };
    Pool::open(path, tuning, Arc::new(SystemClock::new()))
}

fn is_in_use(opened: Result<Pool, VolumeError>) -> bool {
    let own_id = std::process::id().to_string();
    matches!(opened, Err(VolumeError::InUse { holder }) if holder.contains(&own_id))
}

#[test]
fn a_copy_of_the_directory_has_the_same_disks_and_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    for name in ["data", "metadata"] {
        let options = PoolOptions {
            data: (name == "data").then(|| file("disk")),
            metadata: (name == "metadata").then(|| file("disk")),
            ..small()
        };
        let (pool, copy) = (file("pool"), file("copy"));
        Pool::create(&pool, &options).unwrap();
        fs::create_dir(&copy).unwrap();
        symlink(file("disk"), copy.join(name)).unwrap();
        let other = if name == "data" { "metadata" } else { "data" };
        fs::copy(pool.join(other), copy.join(other)).unwrap();
        let held = open(&pool).unwrap();
        assert!(is_in_use(open(&copy)), "one {name}");
        held.close().unwrap();
        let held = open(&copy).unwrap();
        assert!(is_in_use(open(&pool)), "one {name}");
        held.close().unwrap();
        for path in [pool, copy] {
            fs::remove_dir_all(path).unwrap();
        }
        fs::remove_file(file("disk")).unwrap();
    }
}

#[test]
fn readers_share_a_pool_that_nobody_writes_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    Pool::create(&path, &small()).unwrap();
    open(&path).unwrap().close().unwrap();
    let (one, two) = (look(&path).unwrap(), look(&path).unwrap());
    assert!(is_in_use(open(&path)));
    one.close().unwrap();
    two.close().unwrap();
    let writer = open(&path).unwrap();
    assert!(is_in_use(look(&path)));
    writer.close().unwrap();
}

#[test]
fn a_volume_keeps_the_disks_of_its_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    Pool::create(&path, &small()).unwrap();
    let pool = open(&path).unwrap();
    pool.create_volume("a", SIZE, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    pool.close().unwrap();
    assert!(is_in_use(open(&path)), "the volume could still be written to");
    drop(volume);
    open(&path).unwrap().close().unwrap();
}

#[test]
fn data_and_metadata_in_one_place_are_refused_by_all_its_names() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    fs::write(file("disk"), "").unwrap();
    fs::hard_link(file("disk"), file("other-name")).unwrap();
    symlink(file("disk"), file("link")).unwrap();
    symlink(directory.path(), file("directory")).unwrap();
    let pool = file("pool");
    for (data, metadata) in [
        ("disk", "disk"),
        ("disk", "other-name"),
        ("link", "disk"),
        ("directory/disk", "disk"),
        ("new", "new"),
        ("directory/new", "new"),
        ("pool/metadata", "pool/metadata"),
    ] {
        let options =
            PoolOptions { data: Some(file(data)), metadata: Some(file(metadata)), ..small() };
        let made = Pool::create(&pool, &options);
        assert!(matches!(made, Err(VolumeError::OneDisk { .. })), "{data} {metadata}: {made:?}");
        assert!(!pool.exists() && !file("new").exists());
    }
    // A disk may have the default name of its own file.
    let options = PoolOptions { data: Some(pool.join("data")), ..small() };
    Pool::create(&pool, &options).unwrap();
    fs::remove_file(pool.join("data")).unwrap();
    symlink("metadata", pool.join("data")).unwrap();
    assert!(matches!(open(&pool), Err(VolumeError::OneDisk { .. })));
    assert!(matches!(look(&pool), Err(VolumeError::OneDisk { .. })));
    fs::remove_file(pool.join("data")).unwrap();
    symlink("/no/such/disk", pool.join("data")).unwrap();
    let Err(lost @ VolumeError::LostDisk { .. }) = open(&pool) else { panic!("there is no disk") };
    assert!(lost.to_string().contains("'/no/such/disk'"), "{lost}");
}

#[test]
fn what_is_made_is_the_owners_alone_and_a_directory_that_was_there_keeps_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    fs::create_dir(file("old")).unwrap();
    fs::set_permissions(file("old"), fs::Permissions::from_mode(0o750)).unwrap();
    for (name, expected) in [("new", 0o700), ("old", 0o750)] {
        let options = PoolOptions { data: Some(file(&format!("{name}-data"))), ..small() };
        Pool::create(&file(name), &options).unwrap();
        assert_eq!(mode(&file(name)), expected, "{name}");
        assert_eq!(mode(&file(name).join("metadata")), 0o600);
        assert_eq!(mode(&file(&format!("{name}-data"))), 0o600);
    }
}

/// All paths below a directory, with their lengths.
fn contents(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let status = entry.path().symlink_metadata().unwrap();
        if status.is_dir() {
            found.extend(contents(&entry.path()));
        }
        found.push((entry.path(), if status.is_file() { status.len() } else { 0 }));
    }
    found.sort();
    found
}

#[test]
fn what_fails_leaves_everything_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    fs::write(file("precious"), "precious").unwrap();
    fs::write(file("empty"), "").unwrap();
    fs::create_dir(file("there")).unwrap();
    fs::create_dir(file("half")).unwrap();
    fs::write(file("half/metadata"), "").unwrap();
    let before = contents(directory.path());
    let place = |name: &str| (!name.is_empty()).then(|| file(name));
    for (pool, data, metadata) in [
        ("new", "precious", ""),
        ("new", "", "precious"),
        ("there", "empty", "precious"),
        ("there", "new", "no-directory/metadata"),
        ("new", "no-directory/data", ""),
        ("new", "there", ""),
        ("half", "new", ""),
        ("precious", "", ""),
    ] {
        let options = PoolOptions { data: place(data), metadata: place(metadata), ..small() };
        let made = Pool::create(&file(pool), &options);
        assert!(made.is_err(), "{pool} {data} {metadata}");
        assert_eq!(contents(directory.path()), before, "{pool} {data} {metadata}: {made:?}");
    }
    // The new pool is dropped before it is kept, as by a caller that fails.
    let options = PoolOptions { data: place("empty"), ..small() };
    drop(NewPool::make(&file("new"), &options).unwrap());
    assert_eq!(contents(directory.path()), before);
    Pool::create(&file("new"), &options).unwrap();
}

/// A loop device. The test reports that it is skipped if the process may not make one.
struct Loop {
    device: PathBuf,
    directory: tempfile::TempDir,
}

impl Loop {
    fn new(bytes: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let backing = directory.path().join("backing");
        fs::File::create(&backing).unwrap().set_len(bytes).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&backing).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            gemelo_tools::missing("loop devices need losetup and root");
            return None;
        };
        Some(Self { device: String::from_utf8(made.stdout).unwrap().trim().into(), directory })
    }

    fn pool(&self) -> PathBuf {
        self.directory.path().join("pool")
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let device = fs::File::options().write(true).open(&self.device).unwrap();
        device.write_all_at(bytes, offset).unwrap();
        device.sync_all().unwrap();
    }

    fn options(&self) -> PoolOptions {
        PoolOptions { data: Some(self.device.clone()), ..small() }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

#[test]
fn a_device_that_holds_something_is_named_and_taken_by_force_only() {
    let Some(device) = Loop::new(16 << 20) else { return };
    for (offset, bytes, named) in [
        (0, &b"XFSB"[..], "an XFS file system"),
        (0, b"GEMELODS", "the data store of a pool"),
        (3 << 10, b"x", "data"),
        ((16 << 20) - 512, b"EFI PART", "data at its end"),
    ] {
        device.write(offset, bytes);
        let made = Pool::create(&device.pool(), &device.options());
        let Err(VolumeError::Disk(DiskError::HoldsData { what, .. })) = made else {
            panic!("{named}: {made:?}")
        };
        assert!(what.starts_with(named), "{what} for {named}");
        assert!(!device.pool().exists());
        device.write(offset, &vec![0; bytes.len()]);
    }
    device.write((16 << 20) - 512, b"EFI PART");
    let forced = PoolOptions { force: true, ..device.options() };
    Pool::create(&device.pool(), &forced).unwrap();
    let bytes = fs::read(&device.device).unwrap();
    assert!(bytes[bytes.len() - 512..].iter().all(|byte| *byte == 0), "the old label is gone");
    let again = device.directory.path().join("again");
    let Err(VolumeError::Disk(DiskError::HoldsData { what, .. })) =
        Pool::create(&again, &device.options())
    else {
        panic!("over another pool")
    };
    assert_eq!(what, "the data store of a pool");
    open(&device.pool()).unwrap().close().unwrap();
}

#[test]
fn a_device_is_had_by_one_under_all_its_names() {
    let Some(device) = Loop::new(16 << 20) else { return };
    let link = device.directory.path().join("by-id");
    symlink(&device.device, &link).unwrap();
    let options = PoolOptions { data: Some(link.clone()), ..device.options() };
    Pool::create(&device.pool(), &options).unwrap();
    assert_eq!(fs::read_link(device.pool().join("data")).unwrap(), link, "as it was said");
    let held = open(&device.pool()).unwrap();
    assert!(is_in_use(open(&device.pool())) && is_in_use(look(&device.pool())));
    let force = PoolOptions { force: true, ..device.options() };
    let other = device.directory.path().join("other");
    let made = Pool::create(&other, &force);
    assert!(matches!(made, Err(VolumeError::Disk(DiskError::DeviceInUse { .. }))), "{made:?}");
    // Another node of the same device is not locked, but the kernel knows the device behind it.
    let node = device.directory.path().join("node");
    let numbers = fs::metadata(&device.device).unwrap().rdev();
    let kind = rustix::fs::FileType::BlockDevice;
    rustix::fs::mknodat(rustix::fs::CWD, &node, kind, 0o600.into(), numbers).unwrap();
    let made = Pool::create(&other, &PoolOptions { data: Some(node), ..force.clone() });
    assert!(matches!(made, Err(VolumeError::Disk(DiskError::DeviceInUse { .. }))), "{made:?}");
    let one = PoolOptions { metadata: Some(link), ..force };
    assert!(matches!(Pool::create(&other, &one), Err(VolumeError::OneDisk { .. })));
    assert!(!other.exists());
    held.close().unwrap();
    let (one, two) = (look(&device.pool()).unwrap(), look(&device.pool()).unwrap());
    assert!(is_in_use(open(&device.pool())));
    drop((one, two));
    open(&device.pool()).unwrap().close().unwrap();
}

#[test]
fn a_mounted_or_small_device_and_one_that_is_not_there_are_refused() {
    let nowhere = tempfile::tempdir().unwrap();
    let pool = nowhere.path().join("pool");
    for place in ["/dev/no-such-disk", "/dev/disk/by-id/no-such-disk", "/dev/null"] {
        for is_data in [true, false] {
            let there = || Some(PathBuf::from(place));
            let options = PoolOptions {
                data: is_data.then(there).flatten(),
                metadata: (!is_data).then(there).flatten(),
                force: true,
                ..small()
            };
            let made = Pool::create(&pool, &options);
            let is_refused = matches!(
                made,
                Err(VolumeError::Disk(DiskError::NoDevice { .. })
                    | VolumeError::Disk(DiskError::NoDisk { .. }))
            );
            assert!(is_refused, "{place}: {made:?}");
            assert!(!pool.exists() && (place == "/dev/null" || !Path::new(place).exists()));
        }
    }
    let Some(device) = Loop::new(16 << 20) else { return };
    let large = PoolOptions { capacity_bytes: 32 << 20, ..device.options() };
    assert!(matches!(Pool::create(&device.pool(), &large), Err(VolumeError::SmallDevice { .. })));
    let journal = Some(32 << 20);
    let metadata = Some(device.device.clone());
    let large = PoolOptions { data: None, metadata, journal_bytes: journal, ..device.options() };
    assert!(matches!(Pool::create(&device.pool(), &large), Err(VolumeError::SmallDevice { .. })));
    assert!(Command::new("mkfs.ext4").arg("-q").arg(&device.device).status().unwrap().success());
    let mount = device.directory.path().join("mount");
    fs::create_dir(&mount).unwrap();
    assert!(Command::new("mount").arg(&device.device).arg(&mount).status().unwrap().success());
    let made = Pool::create(&device.pool(), &PoolOptions { force: true, ..device.options() });
    // The link of a pool may lead to a device that has another use by now.
    let other = device.directory.path().join("other");
    Pool::create(&other, &small()).unwrap();
    fs::remove_file(other.join("data")).unwrap();
    symlink(&device.device, other.join("data")).unwrap();
    let opened = open(&other).map(drop);
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    let is_mounted = |error: &VolumeError| {
        let VolumeError::Disk(DiskError::DeviceInUse { by, .. }) = error else { return false };
        by.contains("mounted at")
    };
    assert!(is_mounted(&made.unwrap_err()) && is_mounted(&opened.unwrap_err()));
    assert!(!device.pool().exists());
}

#[test]
fn contents_with_one_sha1_are_not_shared() {
    let [one, two] = sha1_collision();
    let sha1 = Fingerprinter::new(FingerprintKind::Sha1, [0; 32]);
    assert!(one != two && sha1.of(&one) == sha1.of(&two), "the contents do not collide");
    for mode in [DedupMode::Inline, DedupMode::Offline] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        Pool::create(&path, &PoolOptions { fingerprint: FingerprintKind::Sha1, ..small() })
            .unwrap();
        let pool = open(&path).unwrap();
        pool.create_volume("a", SIZE, mode).unwrap();
        let volume = pool.volume("a").unwrap();
        for (at, content) in [&one, &two, &one, &two].into_iter().enumerate() {
            write(&volume, at as u64 * 4096, content).unwrap();
        }
        pool.find(&gemelo_base::Silent, &gemelo_base::StopFlag::new()).unwrap();
        for (at, content) in [&one, &two, &one, &two].into_iter().enumerate() {
            assert!(
                read(&volume, at as u64 * 4096, 4096).unwrap() == *content,
                "block {at} with {mode:?}"
            );
        }
        let disks = PoolDirectory::open(&path, gemelo_disk::DiskAccess::Shared);
        assert!(disks.is_err(), "the pool is open");
    }
}
