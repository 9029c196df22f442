//! Tests of refusals before anything is changed, and of the files that a target makes and removes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test helper fails its test by panicking"
)]

use gemelo_base::{Classified, FailureKind};
use gemelo_target::{
    AtStart, Engine, FileStorage, PlaceAccess, PlaceLayout, PlannedTarget, QueueOptions, Storage,
    Target, TargetError, TargetOperation, TargetRequest, Wait,
};
use std::path::{Path, PathBuf};
use std::process::Command;

fn layout() -> PlaceLayout {
    PlaceLayout {
        others: gemelo_target::OtherPlaces::default(),
        processes: 2,
        place_bytes: 1 << 20,
        block_bytes: 4096,
        direct: false,
        access: PlaceAccess::Create,
        force: false,
        preallocate: true,
    }
}

fn plan(path: &Path, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError> {
    FileStorage::new(path).plan(layout)
}

fn refused(path: &Path, layout: &PlaceLayout) -> TargetError {
    let error = plan(path, layout).unwrap_err();
    assert!(matches!(error.kind(), FailureKind::BadInput | FailureKind::InUse), "{error}");
    error
}

fn prepare(path: &Path, layout: &PlaceLayout) -> Box<dyn Target> {
    plan(path, layout).unwrap().prepare().unwrap()
}

/// Writes a block to every place and reads it back.
fn use_all(target: &dyn Target, engine: Engine, writes: bool) {
    let options = QueueOptions { engine, depth: 1, buffer_bytes: 4096 };
    for process in 0..2 {
        let mut queue = target.open(process, &options).unwrap();
        let mut carry_out = |operation, byte: Option<u8>| {
            if let Some(byte) = byte {
                queue.buffer(0).fill(byte);
            }
            let mut done = Vec::new();
            queue.submit(0, TargetRequest { operation, offset: 8192, bytes: 4096 }).unwrap();
            while done.is_empty() {
                queue.reap(Wait::ForOne, &mut done).unwrap();
            }
            done.remove(0).outcome.unwrap();
            queue.buffer(0)[4095]
        };
        let mark = process as u8 + 7;
        if writes {
            carry_out(TargetOperation::Write, Some(mark));
            carry_out(TargetOperation::Sync, None);
        }
        assert_eq!(carry_out(TargetOperation::Read, Some(0)), mark);
    }
}

#[test]
fn files_are_made_and_removed_unless_kept() {
    for engine in [Engine::Psync, Engine::IoUring] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("one");
        for path in [directory.path(), &file] {
            let mut target = prepare(path, &layout());
            assert_eq!(target.at_start(), AtStart::Zeros);
            use_all(target.as_ref(), engine, true);
            target.finish(false).unwrap();
            assert_eq!(directory.path().read_dir().unwrap().count(), 0);
            drop(prepare(path, &layout()));
            assert_eq!(directory.path().read_dir().unwrap().count(), 0, "dropped without finish");
        }
        let mut target = prepare(&file, &layout());
        use_all(target.as_ref(), engine, true);
        target.finish(true).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 2 << 20);
        let reader = prepare(&file, &PlaceLayout { access: PlaceAccess::Read, ..layout() });
        assert_eq!(reader.at_start(), AtStart::Unknown);
        use_all(reader.as_ref(), engine, false);
    }
}

#[test]
fn a_file_that_took_the_place_of_a_made_one_stays() {
    let directory = tempfile::tempdir().unwrap();
    let (file, other) = (directory.path().join("file"), directory.path().join("other"));
    std::fs::write(&other, "precious").unwrap();
    let mut target = prepare(&file, &layout());
    std::fs::rename(&other, &file).unwrap();
    target.finish(false).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn what_exists_is_overwritten_by_force_only_and_never_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gemelo-0001.data");
    std::fs::write(&file, "mine").unwrap();
    for path in [directory.path(), &file] {
        assert!(matches!(refused(path, &layout()), TargetError::Exists { path } if path == file));
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    }
    let forced = PlaceLayout { force: true, ..layout() };
    let planned = plan(directory.path(), &forced).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"mine", "a plan touches nothing");
    planned.prepare().unwrap().finish(false).unwrap();
    assert!(file.exists() && !directory.path().join("gemelo-0000.data").exists());
}

#[test]
fn what_is_missing_too_small_or_something_else_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let read = PlaceLayout { access: PlaceAccess::Read, ..layout() };
    assert!(matches!(refused(&missing, &read), TargetError::Missing { .. }));
    assert!(matches!(refused(directory.path(), &read), TargetError::Missing { .. }));
    assert!(matches!(refused(&missing.join("x"), &layout()), TargetError::NoDirectory { .. }));
    let with_slash = PathBuf::from(format!("{}/", missing.display()));
    assert!(matches!(refused(&with_slash, &layout()), TargetError::NoDirectory { .. }));
    let small = directory.path().join("small");
    std::fs::write(&small, vec![0; 5000]).unwrap();
    let error = refused(&small, &read);
    assert!(
        matches!(error, TargetError::TooSmall { have_bytes: 5000, need_bytes: 2_097_152, .. }),
        "{error}"
    );
    assert!(matches!(refused(Path::new("/dev/null"), &layout()), TargetError::Kind { .. }));
    for place_bytes in [0, u64::MAX, 1 << 62] {
        let error = refused(directory.path(), &PlaceLayout { place_bytes, ..layout() });
        assert!(matches!(error, TargetError::Size { .. }), "{error}");
    }
}

#[test]
fn space_is_looked_at_where_it_will_be_taken() {
    let directory = tempfile::tempdir().unwrap();
    let huge = PlaceLayout { place_bytes: 1 << 50, ..layout() };
    assert!(matches!(refused(directory.path(), &huge), TargetError::TooSmall { .. }));
    let sparse = PlaceLayout { preallocate: false, place_bytes: 1 << 40, ..layout() };
    drop(prepare(directory.path(), &sparse));
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn direct_io_goes_by_sectors() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let direct = PlaceLayout { direct: true, ..layout() };
    for odd in
        [PlaceLayout { block_bytes: 1000, ..direct }, PlaceLayout { place_bytes: 10_000, ..direct }]
    {
        for path in [directory.path().to_owned(), directory.path().join("file")] {
            let error = refused(&path, &odd);
            assert!(matches!(error, TargetError::Sector { .. }), "{error}");
        }
    }
    let target = prepare(directory.path(), &direct);
    use_all(target.as_ref(), Engine::Psync, true);
    use_all(target.as_ref(), Engine::IoUring, true);
}

/// A loop device over a file of 4 MiB.
struct Loop {
    device: PathBuf,
    backing: PathBuf,
    _directory: tempfile::TempDir,
}

impl Loop {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let backing = directory.path().join("backing");
        std::fs::write(&backing, vec![0; 4 << 20]).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&backing).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            gemelo_tools::missing("losetup and root, for loop devices");
            return None;
        };
        let device = PathBuf::from(String::from_utf8(made.stdout).unwrap().trim());
        Some(Self { device, backing, _directory: directory })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_free_device_has_a_region_for_each_process() {
    let Some(device) = Loop::new() else { return };
    drop(prepare(&device.device, &layout()));
    for (engine, direct) in [(Engine::Psync, false), (Engine::IoUring, true)] {
        let mut target = prepare(&device.device, &PlaceLayout { direct, force: true, ..layout() });
        assert_eq!(target.at_start(), AtStart::Unknown);
        use_all(target.as_ref(), engine, true);
        target.finish(false).unwrap();
        assert!(device.device.exists());
    }
    let error = refused(&device.device, &layout());
    assert!(matches!(error, TargetError::HoldsData { .. }), "{error}");
    let large = PlaceLayout { place_bytes: 3 << 20, force: true, ..layout() };
    assert!(matches!(refused(&device.device, &large), TargetError::TooSmall { .. }));
    let odd = PlaceLayout { block_bytes: 100, direct: true, force: true, ..layout() };
    assert!(matches!(refused(&device.device, &odd), TargetError::Sector { .. }));
}

#[test]
fn a_used_device_is_refused_even_by_force() {
    let Some(device) = Loop::new() else { return };
    let forced = PlaceLayout { force: true, ..layout() };
    let error = refused(&device.backing, &forced);
    assert!(matches!(&error, TargetError::InUse { by, .. } if by.contains("/dev/loop")), "{error}");
    if !succeeds(Command::new("mkfs.ext4").arg("-q").arg(&device.device)) {
        gemelo_tools::skip!("mkfs.ext4");
    }
    assert!(matches!(refused(&device.device, &layout()), TargetError::HoldsData { .. }));
    let directory = tempfile::tempdir().unwrap();
    assert!(succeeds(Command::new("mount").arg(&device.device).arg(directory.path())));
    let mounted = plan(&device.device, &forced);
    let remounted =
        succeeds(Command::new("mount").args(["-o", "remount,ro"]).arg(directory.path()));
    let read_only = plan(directory.path(), &layout());
    assert!(succeeds(Command::new("umount").arg(directory.path())));
    let Err(TargetError::InUse { by, .. }) = mounted else {
        panic!("a mounted device was accepted")
    };
    assert!(by.contains("mounted at"), "{by}");
    assert!(remounted && matches!(read_only, Err(TargetError::ReadOnly { .. })));
}
