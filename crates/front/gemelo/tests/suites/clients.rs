//! Tests of NBD client programs with `gemelo serve` and pools of every kind. `GEMELO_IMAGE_MIB`
//! sets the size of the images.

use crate::support::{MIB, TestPool, image, kinds, setting};
use gemelo_format::DedupMode;
use gemelo_tools::{fio_with_nbd, run, tool};
use gemelo_volume::PoolOptions;
use std::collections::HashSet;

/// The size of images and volumes in MiB.
const IMAGE_MIB: u64 = 16;

fn image_bytes() -> u64 {
    setting("GEMELO_IMAGE_MIB", IMAGE_MIB).next_multiple_of(8) * MIB
}

/// A served pool of each kind with two volumes, "disk" and "other".
fn for_each_kind(test: impl Fn(&TestPool, &PoolOptions, DedupMode)) {
    for (name, options, mode) in kinds(4 * image_bytes()) {
        eprintln!("{name}");
        let pool = TestPool::new(
            &options,
            &[("disk", image_bytes(), mode), ("other", image_bytes(), mode)],
        );
        test(&pool, &options, mode);
        pool.check();
    }
}

/// Blocks that hold something, and different ones among them.
fn blocks(images: &[&[u8]], options: &PoolOptions) -> (u64, u64) {
    let all = images.iter().flat_map(|image| image.chunks_exact(options.block_bytes as usize));
    let all: Vec<&[u8]> = all.filter(|block| block.iter().any(|byte| *byte != 0)).collect();
    (all.len() as u64, all.iter().collect::<HashSet<_>>().len() as u64)
}

/// Compares the counts of the pool with the blocks of the images.
fn assert_counts(pool: &TestPool, images: &[&[u8]], options: &PoolOptions, mode: DedupMode) {
    let (logical, distinct) = blocks(images, options);
    let expected = if mode == DedupMode::Off { logical } else { distinct };
    pool.change(|open| {
        let stat = open.stat().unwrap();
        assert_eq!(stat.logical_blocks, logical);
        if mode == DedupMode::Offline {
            // How far the finder has come is a question of time.
            assert!((distinct..=logical).contains(&stat.physical_blocks), "{stat:?}");
        } else {
            assert_eq!(stat.physical_blocks, expected);
        }
    });
}

#[test]
fn nbdcopy_copies_in_out_and_between_volumes_and_copies_take_no_space() {
    if tool("nbdcopy").is_none() {
        return;
    }
    for_each_kind(|pool, options, mode| {
        let server = pool.serve();
        let (from, to) = (pool.file("from"), pool.file("to"));
        let data = image(1, image_bytes());
        std::fs::write(&from, &data).unwrap();
        let nbdcopy = || {
            let mut command = tool("nbdcopy").unwrap();
            command.args(["--connections=4", "--threads=4", "--requests=32", "--flush"]);
            command
        };
        run(nbdcopy().arg(&from).arg(pool.uri("disk")));
        run(nbdcopy().arg(pool.uri("disk")).arg(pool.uri("other")));
        run(nbdcopy().arg(pool.uri("other")).arg(&to));
        assert!(std::fs::read(&to).unwrap() == data);
        server.stop();
        assert_counts(pool, &[&data, &data], options, mode);
    });
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if tool("qemu-img").is_none() {
        return;
    }
    let qemu_img = || tool("qemu-img").unwrap();
    for_each_kind(|pool, options, mode| {
        let server = pool.serve();
        let (raw, qcow, back) = (pool.file("raw"), pool.file("qcow2"), pool.file("back"));
        let data = image(2, image_bytes());
        std::fs::write(&raw, &data).unwrap();
        let disk = pool.uri("disk");
        run(qemu_img().args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&raw).arg(&disk));
        run(qemu_img().args(["compare", "-f", "raw", "-F", "raw"]).arg(&raw).arg(&disk));
        run(qemu_img().args(["convert", "-f", "raw", "-O", "qcow2"]).arg(&disk).arg(&qcow));
        run(qemu_img().args(["compare", "-f", "qcow2", "-F", "raw"]).arg(&qcow).arg(&disk));
        run(qemu_img()
            .args(["convert", "-n", "-f", "qcow2", "-O", "raw"])
            .arg(&qcow)
            .arg(pool.uri("other")));
        run(qemu_img()
            .args(["convert", "-f", "raw", "-O", "raw"])
            .arg(pool.uri("other"))
            .arg(&back));
        assert!(std::fs::read(&back).unwrap() == data);
        assert_map_tells_holes(
            &run(qemu_img().args(["map", "--output=json", "-f", "raw"]).arg(&disk)),
            &data,
        );
        server.stop();
        assert_counts(pool, &[&data, &data], options, mode);
    });
}

/// The second eighth of an image is zeros: all of it is a hole, and what is before is not.
fn assert_map_tells_holes(map: &str, data: &[u8]) {
    let extents: Vec<serde_json::Value> = serde_json::from_str(map).unwrap();
    let eighth = data.len() as u64 / 8;
    let field = |extent: &serde_json::Value, name: &str| extent[name].as_u64().unwrap();
    let hole = extents.iter().find(|extent| field(extent, "start") == eighth).unwrap();
    assert_eq!(
        (field(hole, "length"), &hole["zero"], &hole["data"]),
        (eighth, &true.into(), &false.into()),
        "{map}"
    );
    let first = &extents[0];
    assert_eq!(
        (field(first, "start"), &first["zero"], &first["data"]),
        (0, &false.into(), &true.into()),
        "{map}"
    );
    assert_eq!(extents.iter().map(|extent| field(extent, "length")).sum::<u64>(), 8 * eighth);
}

#[test]
fn qemu_io_verifies_patterns_also_after_a_restart() {
    if tool("qemu-io").is_none() {
        return;
    }
    for_each_kind(|pool, options, _| {
        let qemu_io = |steps: &[&str]| {
            let mut command = tool("qemu-io").unwrap();
            command
                .args(["-f", "raw"])
                .args(steps.iter().flat_map(|step| ["-c", step]))
                .arg(pool.uri("disk"));
            let said = run(&mut command);
            assert!(!said.contains("failed") && !said.contains("error"), "{said}");
        };
        let server = pool.serve();
        let sizes = pool.client("disk", 1).export().block_sizes.unwrap();
        assert_eq!(sizes.preferred, options.block_bytes);
        qemu_io(&[
            "write -P 0x55 1000 70000",
            "read -P 0x55 1000 70000",
            "read -P 0 0 1000",
            "write -f -P 0xaa 4096 4096",
            "aio_write -P 0x11 1M 1M",
            "aio_write -P 0x22 2M 1M",
            "aio_write -P 0x11 3M 1M",
            "aio_flush",
            "write -z 1M 512k",
            "write -z -u 1536k 64k",
            "discard 2M 64k",
            "writev -P 0x33 5M 513 4096 7",
            "flush",
        ]);
        let found = [
            "read -P 0 0 1000",
            "read -P 0x55 1000 3096",
            "read -P 0xaa 4096 4096",
            "read -P 0x55 8192 62808",
            "read -P 0 1M 576k",
            "read -P 0x11 1600k 448k",
            "read -P 0 2M 64k",
            "read -P 0x22 2112k 960k",
            "read -P 0x11 3M 1M",
            "read -P 0x33 5M 4616",
        ];
        qemu_io(&found);
        server.stop();
        let server = pool.serve();
        qemu_io(&found);
        server.kill();
        let server = pool.serve();
        qemu_io(&found);
        server.stop();
    });
}

#[test]
fn fio_verifies_what_several_jobs_wrote_at_depth_32() {
    if fio_with_nbd().is_none() {
        return;
    }
    for_each_kind(|pool, _, _| {
        let server = pool.serve();
        let quarter = image_bytes() / 4;
        let fio = |volume: &str, rw: &str, seed: u64| {
            let mut fio = tool("fio").unwrap();
            fio.current_dir(pool.directory.path())
                .args([
                    "--name=verify",
                    "--ioengine=nbd",
                    "--iodepth=32",
                    "--numjobs=4",
                    "--group_reporting",
                ])
                .args(["--bssplit=512/20:4k/50:20k/10:64k/20", "--verify=crc32c", "--do_verify=1"])
                .args(["--dedupe_percentage=50", "--end_fsync=1", "--verify_fatal=1"])
                .arg(format!("--rw={rw}"))
                .arg(format!("--randseed={seed}"))
                .arg(format!("--size={quarter}"))
                .arg(format!("--offset_increment={quarter}"))
                .arg(format!("--uri={}", pool.uri(volume)));
            fio
        };
        // Two volumes at once, of the same contents.
        std::thread::scope(|scope| {
            let disk = scope.spawn(|| run(&mut fio("disk", "randwrite", 1)));
            let other = scope.spawn(|| run(&mut fio("other", "randwrite", 1)));
            for said in [disk.join().unwrap(), other.join().unwrap()] {
                assert!(said.contains("err= 0"), "{said}");
            }
        });
        run(&mut fio("disk", "write", 2));
        run(&mut fio("disk", "randwrite", 3));
        server.stop();
        let server = pool.serve();
        run(fio("disk", "randwrite", 3).arg("--verify_only=1"));
        server.stop();
    });
}
