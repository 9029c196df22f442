//! A virtual machine for the tests: its memory, one driver queue, and its connection.

use gemelo_base::{Recorder, StopFlag};
use gemelo_device::{BlockDevice, Export, ExportTable, FrontEnd, Listening, Memory, SocketAccess};
use gemelo_vhost::VhostFrontEnd;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

pub(crate) const MEMORY_BYTES: u64 = 16 << 20;
/// The place of the guest's memory in the address space of its virtual machine.
const MACHINE_ADDRESS: u64 = 0x7000_0000_0000;
pub(crate) const QUEUE_SIZE: u16 = 256;
pub(crate) const DESCRIPTORS: u64 = 0x1000;
pub(crate) const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;
/// Headers and status bytes, from here on.
const CONTROL: u64 = 0x10000;
/// Data, from here on.
pub(crate) const DATA: u64 = 0x10_0000;
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITABLE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

/// A served device, and the front end that serves it.
pub(crate) struct Served {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) table: Arc<ExportTable>,
    pub(crate) front_end: Arc<dyn Listening>,
    pub(crate) monitor: Arc<Recorder>,
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self::with_export(Export::new("disk", device))
    }

    pub(crate) fn with_export(export: Export) -> Self {
        Self::with(export, false)
    }

    pub(crate) fn with(export: Export, write_through: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let table = Arc::new(ExportTable::new());
        table.insert(export);
        let monitor = Arc::new(Recorder::new());
        let front_end = Box::new(VhostFrontEnd {
            directory: directory.path().to_owned(),
            socket_access: SocketAccess { mode: Some(0o600), group: None, label: None },
            memory: Memory::default(),
            write_through,
            log_connections: true,
        });
        front_end.check().unwrap();
        let front_end = front_end.listen(table.clone(), monitor.clone()).unwrap();
        let stop = StopFlag::new();
        let run = {
            let (front_end, stop) = (Arc::clone(&front_end), stop.clone());
            move || front_end.run(&stop).unwrap()
        };
        let thread = Some(std::thread::spawn(run));
        Self { directory, table, front_end, monitor, stop, thread }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("disk.sock")
    }

    pub(crate) fn stop(&mut self) {
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A place in guest memory, and whether the device may write it.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
    pub(crate) is_writable: bool,
}

pub(crate) struct Vm {
    pub(crate) memory: GuestMemoryMmap,
    file: File,
    in_flight: Option<(VhostUserInflight, File)>,
    pub(crate) frontend: Frontend,
    pub(crate) kick: EventFd,
    call: EventFd,
    queue: usize,
    pub(crate) available: u16,
    pub(crate) used: u16,
    next_descriptor: u16,
}

/// The region for requests in flight of a virtual machine.
enum InFlight {
    None,
    New,
    Kept(VhostUserInflight, File),
}

impl Vm {
    /// Connects, and starts one queue.
    pub(crate) fn connect(socket: &Path, queue: usize, features: u64) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMORY_BYTES).unwrap();
        Self::with_memory(socket, queue, features, file)
    }

    /// Connects with a region for requests in flight.
    pub(crate) fn connect_tracked(socket: &Path, queue: usize, features: u64) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMORY_BYTES).unwrap();
        Self::with(socket, (queue, features), file, InFlight::New)
    }

    /// Connects with the memory of a guest that had started its queue before. Its requests that
    /// have no answer are sent again.
    pub(crate) fn with_memory(socket: &Path, queue: usize, features: u64, file: File) -> Self {
        Self::with(socket, (queue, features), file, InFlight::None)
    }

    /// Connects to another server with the memory and the region of this guest, as if the server
    /// so far had been killed.
    pub(crate) fn connect_again(&self, socket: &Path, features: u64) -> Self {
        let Some((region, file)) = &self.in_flight else { panic!("it has no region") };
        let kept = InFlight::Kept(*region, file.try_clone().unwrap());
        Self::with(socket, (self.queue, features), self.file.try_clone().unwrap(), kept)
    }

    fn with(
        socket: &Path,
        (queue, features): (usize, u64),
        file: File,
        in_flight: InFlight,
    ) -> Self {
        let mapped = FileOffset::new(file.try_clone().unwrap(), 0);
        let range = (GuestAddress(0), MEMORY_BYTES as usize, Some(mapped));
        let memory = GuestMemoryMmap::from_ranges_with_files([range]).unwrap();
        let mut frontend = Frontend::connect(socket, 16).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        let wanted = features | 1 << 30 | 1 << 32;
        assert_eq!(offered & wanted, wanted, "the features are offered");
        frontend.set_features(wanted).unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        let config = VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD;
        assert!(protocol.contains(config));
        frontend.set_protocol_features(config).unwrap();
        let in_flight = match in_flight {
            InFlight::None => None,
            InFlight::New => {
                let wanted = VhostUserInflight::new(0, 0, 16, QUEUE_SIZE);
                Some(frontend.get_inflight_fd(&wanted).unwrap())
            }
            InFlight::Kept(region, file) => Some((region, file)),
        };
        if let Some((region, file)) = &in_flight {
            frontend.set_inflight_fd(region, file.as_raw_fd()).unwrap();
        }
        frontend
            .set_mem_table(&[VhostUserMemoryRegionInfo {
                guest_phys_addr: 0,
                memory_size: MEMORY_BYTES,
                userspace_addr: MACHINE_ADDRESS,
                mmap_offset: 0,
                mmap_handle: file.as_raw_fd(),
            }])
            .unwrap();
        let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
        let used: u16 = memory.read_obj(GuestAddress(USED + 2)).unwrap();
        let available: u16 = memory.read_obj(GuestAddress(AVAILABLE + 2)).unwrap();
        frontend.set_vring_num(queue, QUEUE_SIZE).unwrap();
        frontend.set_vring_base(queue, used).unwrap();
        let rings = VringConfigData {
            queue_max_size: QUEUE_SIZE,
            queue_size: QUEUE_SIZE,
            flags: 0,
            desc_table_addr: MACHINE_ADDRESS + DESCRIPTORS,
            used_ring_addr: MACHINE_ADDRESS + USED,
            avail_ring_addr: MACHINE_ADDRESS + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(queue, &rings).unwrap();
        frontend.set_vring_call(queue, &call).unwrap();
        frontend.set_vring_kick(queue, &kick).unwrap();
        frontend.set_vring_enable(queue, true).unwrap();
        Self {
            memory,
            file,
            in_flight,
            frontend,
            kick,
            call,
            queue,
            available,
            used,
            next_descriptor: 0,
        }
    }

    /// Ends the connection, and keeps the memory.
    pub(crate) fn into_memory(self) -> File {
        self.file
    }

    pub(crate) fn config(&mut self) -> Vec<u8> {
        let wanted = [0; 60];
        let flags = VhostUserConfigFlags::empty();
        self.frontend.get_config(0, 60, flags, &wanted).unwrap().1
    }

    pub(crate) fn put(&self, address: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(address)).unwrap();
    }

    pub(crate) fn get(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(address)).unwrap();
        bytes
    }

    pub(crate) fn put_descriptor(&self, place: u64, segment: Segment, flags: u16, next: u16) {
        let writable = if segment.is_writable { WRITABLE } else { 0 };
        let mut bytes = segment.address.to_le_bytes().to_vec();
        bytes.extend(segment.bytes.to_le_bytes());
        bytes.extend((flags | writable).to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.put(place, &bytes);
    }

    /// Makes a chain available, without a notification. Returns its first descriptor.
    pub(crate) fn offer(&mut self, segments: &[Segment]) -> u16 {
        let first = self.next_descriptor;
        let count = segments.len() as u16;
        for (at, segment) in (0..).zip(segments) {
            let (flags, next) = if at + 1 < count { (NEXT, first + at + 1) } else { (0, 0) };
            let place = DESCRIPTORS + 16 * u64::from(first + at);
            self.put_descriptor(place, *segment, flags, next);
        }
        self.next_descriptor = (first + count) % (QUEUE_SIZE - 8);
        self.offer_head(first);
        first
    }

    pub(crate) fn offer_head(&mut self, head: u16) {
        let slot = AVAILABLE + 4 + 2 * u64::from(self.available % QUEUE_SIZE);
        self.memory.write_obj(head, GuestAddress(slot)).unwrap();
        self.available = self.available.wrapping_add(1);
        let index = GuestAddress(AVAILABLE + 2);
        self.memory.store(self.available, index, std::sync::atomic::Ordering::Release).unwrap();
    }

    /// Writes a header, and returns the segments of it and of a status with this number.
    pub(crate) fn frame(&self, kind: u32, sector: u64, number: u64) -> (Segment, Segment) {
        let header = CONTROL + 32 * number;
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        bytes.push(0xff);
        self.put(header, &bytes);
        (
            Segment { address: header, bytes: 16, is_writable: false },
            Segment { address: header + 16, bytes: 1, is_writable: true },
        )
    }

    /// Offers a request with these segments of data. Returns the place of its status.
    pub(crate) fn request(&mut self, kind: u32, sector: u64, data: &[Segment], number: u64) -> u64 {
        let (header, status) = self.frame(kind, sector, number);
        let mut segments = vec![header];
        segments.extend(data);
        segments.push(status);
        self.offer(&segments);
        status.address
    }

    pub(crate) fn used_index(&self) -> u16 {
        let index = GuestAddress(USED + 2);
        self.memory.load(index, std::sync::atomic::Ordering::Acquire).unwrap()
    }

    /// Notifies the device, and waits until it has answered all requests.
    pub(crate) fn finish(&mut self) {
        self.kick.write(1).unwrap();
        wait_until("requests are answered", || self.used_index() == self.available);
        self.used = self.available;
    }

    /// Executes one request. Returns its status.
    pub(crate) fn execute(&mut self, kind: u32, sector: u64, data: &[Segment]) -> u8 {
        let status = self.request(kind, sector, data, 0);
        self.finish();
        self.get(status, 1)[0]
    }

    pub(crate) fn was_called(&self) -> bool {
        self.call.read().is_ok()
    }

    pub(crate) fn stop_queue(&mut self) -> u32 {
        self.frontend.get_vring_base(self.queue).unwrap()
    }

    /// Returns whether the server has ended the connection.
    pub(crate) fn is_cut_off(&mut self) -> bool {
        self.frontend.get_features().is_err()
    }
}
