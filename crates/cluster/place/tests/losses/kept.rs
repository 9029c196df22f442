//! A domain of three members whose objects are files is kept in `tests/kept` for ever, and must be
//! read, written, checked and repaired. A change of a format adds another one, and never replaces
//! it: `GEMELO_TEST_KEEP=1 cargo nextest run -p gemelo-place -E 'test(kept::)'` makes one that is
//! missing. Single pools are kept in `crates/front/gemelo/tests/kept`.

use crate::base::{BLOCK, FAULTS, Images, MEMBERS, Process, SHORT_JOURNAL, fill, new_world, share};
use crate::case::run;
use crate::faults::Case;
use crate::snapshot::take;
use gemelo_domain::Client;
use gemelo_format::FingerprintKind;
use gemelo_member::NewDomain;
use gemelo_objects::simulated::World;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn archive() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept/domain.tar.zst")
}

fn files(directory: &Path) -> Arc<dyn Client> {
    Arc::new(World::in_directory(1, FAULTS, directory).unwrap().client())
}

/// Makes the domain: each member has contents of its own, and some of those before.
fn make(connect: &dyn Fn() -> Arc<dyn Client>) -> Images {
    let (depth, fingerprint) = (1, FingerprintKind::Blake3);
    let new = NewDomain { block_bytes: BLOCK as u32, depth, fingerprint, data_pool: None };
    new.create_in(&*connect()).unwrap();
    let process = Process::new(connect()).unwrap();
    let mut images = Images::new();
    for (number, name) in (0..).zip(MEMBERS) {
        process.create(name, None, SHORT_JOURNAL);
        let placed = process.serve(name);
        fill(&mut images, &placed, (name, "vm"), 1 + 8 * number..17 + 8 * number);
        placed.pool().snapshot_volume("vm", "snapshot").unwrap();
        share(&placed);
        placed.close().unwrap();
    }
    images
}

fn tar(words: &[&str], directory: &Path) {
    let mut tar = Command::new("tar");
    tar.args(words).arg("--file").arg(archive()).arg("--directory").arg(directory);
    if words.contains(&"--create") {
        tar.arg(".");
    }
    assert!(tar.status().unwrap().success(), "{words:?}");
}

#[test]
fn a_kept_domain_is_read_written_checked_and_repaired() {
    let world = new_world();
    let images = make(&|| Arc::new(world.client()));
    if std::env::var_os("GEMELO_TEST_KEEP").is_some() && !archive().exists() {
        let directory = tempfile::tempdir().unwrap();
        make(&|| files(directory.path()));
        let owner = ["--sort=name", "--owner=0", "--group=0", "--mtime=@0"];
        let create = ["--create", "--sparse", "--use-compress-program", "zstd -19"];
        tar(&[&create[..], &owner].concat(), directory.path());
    }
    let kept = tempfile::tempdir().unwrap();
    tar(&["--extract", "--no-same-owner", "--use-compress-program", "zstd -d"], kept.path());
    let case = Case { name: "kept".into(), objects: take(&*files(kept.path())) };
    let used = tempfile::tempdir().unwrap();
    let seen = run(&case, &images, &|| files(used.path()), true);
    let nothing = (&seen.said, &seen.failed, &seen.failed_after, &seen.wrong);
    assert_eq!(nothing, (&vec![], &vec![], &vec![], &vec![]));
    assert_eq!((seen.unrepaired, seen.gone), (None, vec![]));
}
