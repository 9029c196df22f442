//! Volumes from and to images in the formats of virtual machines, beside `qemu-img`.

use crate::common::{Ran, gemelo};
use gemelo_tools::{all_there, tool};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const FORMATS: [&str; 5] = ["qcow2", "vmdk", "vhdx", "vpc", "vdi"];

/// A pool, and a raw image of some MiB with holes, whose last block is not whole.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// Returns nothing if QEMU's programs are missing.
    fn new() -> Option<Self> {
        if !all_there(&["qemu-img", "qemu-nbd"]) {
            return None;
        }
        let place = Self { directory: tempfile::tempdir().unwrap() };
        let mut file = fs::File::create(place.path("raw")).unwrap();
        let bytes: Vec<u8> = (0..3_000_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        file.write_all(&bytes).unwrap();
        file.set_len(40_000_512).unwrap();
        rustix::io::pwrite(&file, b"the end", 40_000_500).unwrap();
        let pool = gemelo(&["pool", "create", &place.text("pool"), "--capacity", "128m"]);
        assert_eq!(pool.status, 0, "{}", pool.err);
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn volume(&self, action: &str, words: &[&str]) -> Ran {
        gemelo(&[&["volume", action], words].concat())
    }

    fn convert(&self, words: &[&str]) {
        self.run("qemu-img", words);
    }

    fn run(&self, program: &str, words: &[&str]) {
        let mut command = tool(program).unwrap();
        let output = command.args(words).current_dir(&self.directory).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The bytes of two files, the shorter one with zeros behind it.
fn is_same(one: &Path, other: &Path) -> bool {
    let (mut one, mut other) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    let longest = one.len().max(other.len());
    one.resize(longest, 0);
    other.resize(longest, 0);
    one == other
}

#[test]
fn each_format_is_read_and_written_as_qemu_does() {
    let Some(place) = Place::new() else { return };
    for format in FORMATS {
        let (image, volume) = (place.text(format), place.text(&format!("pool/{format}")));
        place.convert(&["convert", "-f", "raw", "-O", format, "raw", format]);
        let refused = place.volume("import", &[&image, &volume]);
        let advice = format!("use --format {format} if you trust it");
        assert_eq!((refused.status, refused.err.contains(&advice)), (2, true), "{}", refused.err);
        let imported = place.volume("import", &[&image, &volume, "--format", format]);
        assert_eq!(imported.status, 0, "{format}: {}", imported.err);
        let (raw, back) = (place.text("out"), place.text(&format!("out.{format}")));
        let exported = place.volume("export", &[&volume, &raw, "--force"]);
        assert_eq!(exported.status, 0, "{format}: {}", exported.err);
        assert!(is_same(&place.path("raw"), &place.path("out")), "{format}");
        let exported = place.volume("export", &[&volume, &back, "--format", format]);
        assert_eq!(exported.status, 0, "{format}: {}", exported.err);
        place.convert(&["compare", "-f", "raw", "-F", format, "out", &back]);
        assert!(fs::metadata(&back).unwrap().len() < 36 << 20, "{format}: holes stay holes");
    }
}

#[test]
fn compressed_clusters_and_chains_of_backing_files_are_read() {
    let Some(place) = Place::new().filter(|_| all_there(&["qemu-io"])) else { return };
    let compressed = [("qcow2", ["-c", "-q"]), ("vmdk", ["-o", "subformat=streamOptimized"])];
    for (format, options) in compressed {
        let [base, middle, top, out] =
            ["base", "middle", "top", "out"].map(|name| format!("{name}.{format}"));
        let plain = ["convert", "-f", "raw", "-O", format];
        place.convert(&[&plain[..], &options, &["raw", &base]].concat());
        // Each layer of a chain has something of its own.
        for (below, above, change) in
            [(&base, &middle, "write -P 7 1M 192k"), (&middle, &top, "write -P 9 1088k 64k")]
        {
            place.convert(&["create", "-q", "-f", format, "-b", below, "-F", format, above]);
            place.run("qemu-io", &["-f", format, "-c", change, above]);
        }
        place.convert(&["convert", "-f", format, "-O", "raw", &top, &out]);
        let whole = fs::read(place.path(&out)).unwrap();
        assert_eq!((whole[1 << 20], whole[1088 << 10], whole[2 << 20] == 0), (7, 9, false));
        let (image, volume) = (place.text(&top), place.text(&format!("pool/{format}")));
        let imported = place.volume("import", &[&image, &volume, "--format", format]);
        assert_eq!(imported.status, 0, "{}", imported.err);
        let back = place.text("back");
        assert_eq!(place.volume("export", &[&volume, &back, "--force"]).status, 0);
        assert!(is_same(&place.path(&out), &place.path("back")), "{format}");
    }
    // A hole is skipped as a whole, however large it is.
    place.convert(&["create", "-q", "-f", "qcow2", "wide", "4t"]);
    let (image, volume) = (place.text("wide"), place.text("pool/wide"));
    let imported = place.volume("import", &[&image, &volume, "--format", "qcow2"]);
    assert_eq!(imported.status, 0, "{}", imported.err);
    assert!(imported.out.contains("4.00 TiB imported, 0 B of it"), "{}", imported.out);
}

/// The raw disk of a guest that has written the header of an image with a backing file.
#[test]
fn what_a_guest_wrote_names_no_file_of_the_host() {
    let Some(place) = Place::new() else { return };
    fs::write(place.path("secret"), vec![7; 1 << 20]).unwrap();
    place.convert(&["create", "-q", "-f", "qcow2", "-b", "secret", "-F", "raw", "disk"]);
    let (disk, volume) = (place.text("disk"), place.text("pool/v"));
    let refused = place.volume("import", &[&disk, &volume]);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(!gemelo(&["volume", "ls", &place.text("pool")]).out.contains("\nv "));
    assert_eq!(place.volume("import", &[&disk, &volume, "--format", "raw"]).status, 0);
    assert_eq!(place.volume("export", &[&volume, &place.text("out")]).status, 0);
    assert!(is_same(&place.path("disk"), &place.path("out")), "its bytes, and no others");
}

#[test]
fn what_cannot_be_an_image_is_refused_in_words() {
    let Some(place) = Place::new() else { return };
    let (raw, volume) = (place.text("raw"), place.text("pool/v"));
    for (words, why) in [
        (["import", &raw, &volume, "--format", "vmdk"], "qemu-nbd cannot open the image"),
        (["import", "-", &volume, "--format", "qcow2"], "only a raw image can be read from"),
        (["import", "/none", &volume, "--format", "qcow2"], "cannot read /none"),
        (["import", &raw, &volume, "--format", "qcow"], "invalid value 'qcow'"),
    ] {
        let refused = gemelo(&[&["volume"], &words[..]].concat());
        assert_eq!((refused.status, refused.err.contains(why)), (2, true), "{}", refused.err);
    }
    assert_eq!(place.volume("import", &[&raw, &volume]).status, 0);
    let refused = place.volume("export", &[&volume, "-", "--format", "qcow2"]);
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("can only be written to a file"), "{}", refused.err);
}
