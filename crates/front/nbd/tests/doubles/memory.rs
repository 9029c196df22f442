//! A block device in memory that knows which of its pages are holes, counts its operations, and
//! fails on demand.

use gemelo_device::{BlockDevice, DeviceError, Durability, Extent, Geometry, Operation, Request};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

pub(crate) const PAGE_BYTES: usize = 4096;

type Page = Option<Box<[u8]>>;

/// The way in which a range fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// With an I/O error.
    Io,
    /// With a lack of space.
    NoSpace,
    /// With damaged content.
    Damaged,
    /// With a panic.
    Panic,
}

/// A block device in memory.
pub(crate) struct MemoryDevice {
    pages: Vec<RwLock<Page>>,
    geometry: Geometry,
    size_bytes: AtomicU64,
    faults: Mutex<Vec<(Range<u64>, Fault)>>,
    has_faults: AtomicBool,
    /// Number of flushes and of writes that had to be durable at once.
    pub(crate) flushes: AtomicU64,
    pub(crate) immediate: AtomicU64,
    pub(crate) batches: AtomicU64,
    /// `true` to let flushes fail.
    pub(crate) fails_flushes: AtomicBool,
}

impl MemoryDevice {
    pub(crate) fn new(size_bytes: u64) -> Self {
        let geometry = Geometry {
            size_bytes,
            minimum_block_bytes: 1,
            preferred_block_bytes: 4096,
            maximum_request_bytes: 32 << 20,
            read_only: false,
        };
        Self::with_geometry(geometry)
    }

    pub(crate) fn with_geometry(geometry: Geometry) -> Self {
        let pages = (geometry.size_bytes as usize).div_ceil(PAGE_BYTES);
        Self {
            pages: (0..pages).map(|_| RwLock::new(None)).collect(),
            geometry,
            size_bytes: AtomicU64::new(geometry.size_bytes),
            faults: Mutex::default(),
            has_faults: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            immediate: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            fails_flushes: AtomicBool::new(false),
        }
    }

    /// Makes requests that touch the range fail.
    pub(crate) fn fail(&self, range: Range<u64>, fault: Fault) {
        self.faults.lock().unwrap().push((range, fault));
        self.has_faults.store(true, Ordering::Release);
    }

    /// Sets the size that the device reports. It is at most the size that the device was made with.
    pub(crate) fn resize(&self, size_bytes: u64) {
        assert!(size_bytes <= self.geometry.size_bytes);
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    fn fault(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        if !self.has_faults.load(Ordering::Acquire) {
            return Ok(());
        }
        let touches = |range: &Range<u64>| range.start < offset + length && offset < range.end;
        let faults = self.faults.lock().unwrap();
        let found = faults.iter().find(|(range, _)| touches(range)).map(|(_, fault)| *fault);
        drop(faults);
        match found {
            None => Ok(()),
            Some(Fault::Io) => Err(DeviceError::Io(io::Error::other("injected"))),
            Some(Fault::NoSpace) => Err(DeviceError::NoSpace),
            Some(Fault::Damaged) => Err(DeviceError::Damaged { offset }),
            Some(Fault::Panic) => panic!("injected"),
        }
    }

    /// Calls `visit` for each page that the range touches, with the touched part of the page and
    /// the offset of that part in the range.
    fn each_page(
        &self,
        offset: u64,
        length: u64,
        mut visit: impl FnMut(&RwLock<Page>, Range<usize>, usize),
    ) {
        let mut done = 0;
        while done < length {
            let at = offset + done;
            let start = (at % PAGE_BYTES as u64) as usize;
            let part = (PAGE_BYTES - start).min((length - done) as usize);
            visit(
                &self.pages[(at / PAGE_BYTES as u64) as usize],
                start..start + part,
                done as usize,
            );
            done += part as u64;
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) {
        self.each_page(offset, buffer.len() as u64, |page, part, done| {
            let target = &mut buffer[done..done + part.len()];
            match &*page.read().unwrap() {
                Some(content) => target.copy_from_slice(&content[part]),
                None => target.fill(0),
            }
        });
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.each_page(offset, data.len() as u64, |page, part, done| {
            let source = &data[done..done + part.len()];
            let mut page = page.write().unwrap();
            page.get_or_insert_with(|| vec![0; PAGE_BYTES].into())[part].copy_from_slice(source);
        });
    }

    fn zero(&self, offset: u64, length: u64, may_free: bool) {
        self.each_page(offset, length, |page, part, _| {
            let mut page = page.write().unwrap();
            if may_free && part.len() == PAGE_BYTES {
                *page = None;
            } else if !may_free || page.is_some() {
                page.get_or_insert_with(|| vec![0; PAGE_BYTES].into())[part].fill(0);
            }
        });
    }

    fn one(&self, operation: &mut Operation<'_>) -> Result<(), DeviceError> {
        let count = |durability: Durability| {
            if durability == Durability::Immediate {
                self.immediate.fetch_add(1, Ordering::Relaxed);
            }
        };
        match operation {
            Operation::Read { offset, buffer } => {
                self.fault(*offset, buffer.len() as u64)?;
                self.read(*offset, buffer);
            }
            Operation::Write { offset, data, durability } => {
                self.fault(*offset, data.len() as u64)?;
                count(*durability);
                self.write(*offset, data);
            }
            Operation::WriteZeroes { offset, length, may_free, durability } => {
                self.fault(*offset, *length)?;
                count(*durability);
                self.zero(*offset, *length, *may_free);
            }
            Operation::Trim { offset, length, durability } => {
                self.fault(*offset, *length)?;
                count(*durability);
                self.zero(*offset, *length, true);
            }
            Operation::Flush => {
                self.flushes.fetch_add(1, Ordering::Relaxed);
                if self.fails_flushes.load(Ordering::Relaxed) {
                    return Err(DeviceError::Io(io::Error::other("the disk has gone")));
                }
            }
        }
        Ok(())
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes.load(Ordering::Acquire), ..self.geometry }
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        for request in batch {
            request.outcome = self.one(&mut request.operation);
        }
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.fault(offset, length)?;
        let mut extents: Vec<Extent> = Vec::new();
        self.each_page(offset, length, |page, part, _| {
            let page = page.read().unwrap();
            let zero = page.as_ref().is_none_or(|content| content.iter().all(|byte| *byte == 0));
            let found = Extent { length: part.len() as u64, allocated: page.is_some(), zero };
            match extents.last_mut() {
                Some(last) if (last.allocated, last.zero) == (found.allocated, found.zero) => {
                    last.length += found.length;
                }
                _ => extents.push(found),
            }
        });
        extents.truncate(max_extents);
        Ok(extents)
    }
}
