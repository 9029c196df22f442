//! Archives that the kernel unpacks at boot (cpio, format `newc`).

/// An archive under construction.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const DEVICE: u32 = 0o020_600;

impl Archive {
    pub(crate) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, [0, 0], &[]);
    }

    pub(crate) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, [0, 0], content);
    }

    pub(crate) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, DEVICE, [major, minor], &[]);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, [0, 0], &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: [u32; 2], content: &[u8]) {
        self.entries += 1;
        let (name_bytes, content_bytes) = (name.len() as u32 + 1, content.len() as u32);
        let [major, minor] = device;
        // Number, mode, user, group, links, time, length, device of the file, device it is, length
        // of the name, checksum.
        let fields =
            [self.entries, mode, 0, 0, 1, 0, content_bytes, 0, 0, major, minor, name_bytes, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
