//! A vhost-user-blk device as a target, with one queue for each process.

use super::VhostDeviceError;
use super::queue::{VhostPlace, VhostQueue};
use gemelo_base::ShowPath as _;
use gemelo_target::{
    AtStart, LABEL_BYTES, PlaceAccess, PlaceLayout, PlannedTarget, Queue, QueueOptions, Storage,
    Target, TargetError,
};
use gemelo_vhost::{Driver, DriverRequest};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The unit of requests in bytes.
const SECTOR_BYTES: u64 = 512;

/// A vhost-user-blk device.
pub(super) struct DeviceStorage {
    pub(super) socket: PathBuf,
}

fn connect(socket: &Path) -> Result<Driver, TargetError> {
    Ok(Driver::connect(socket).map_err(VhostDeviceError::from)?)
}

impl Storage for DeviceStorage {
    fn has_engines(&self) -> bool {
        false
    }

    fn capacity(&self) -> Result<Option<u64>, TargetError> {
        Ok(Some(connect(&self.socket)?.size_bytes()))
    }

    fn plan(&self, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError> {
        let path = || self.socket.clone();
        if layout.direct {
            return Err(TargetError::NoDirect { path: path() });
        }
        let driver = connect(&self.socket)?;
        let (have_bytes, need_bytes) = (driver.size_bytes(), layout.total_bytes()?);
        if have_bytes < need_bytes {
            return Err(TargetError::TooSmall { path: path(), have_bytes, need_bytes });
        }
        if layout.access.writes() && driver.is_read_only() {
            return Err(TargetError::ReadOnly { path: path() });
        }
        for (what, bytes) in
            [("the block size", layout.block_bytes as u64), ("the file size", layout.place_bytes)]
        {
            if bytes % SECTOR_BYTES != 0 {
                let unit_bytes = SECTOR_BYTES;
                return Err(TargetError::Unit { what, bytes, unit_bytes, path: path() });
            }
        }
        let (queues, wanted) = (driver.max_queues(), layout.all_places());
        if wanted as usize > queues {
            let socket = self.socket.shown().to_string();
            return Err(VhostDeviceError::Queues { socket, queues, wanted }.into());
        }
        if layout.access == PlaceAccess::Create && !layout.force {
            refuse_data(&driver, &self.socket)?;
        }
        Ok(Box::new(DeviceTarget {
            socket: self.socket.clone(),
            layout: *layout,
            queues,
            driver: Mutex::default(),
        }))
    }
}

/// Fails if the first [`LABEL_BYTES`] of a device are not zeros.
fn refuse_data(driver: &Driver, socket: &Path) -> Result<(), TargetError> {
    let bytes = (LABEL_BYTES.min(driver.size_bytes()) / SECTOR_BYTES * SECTOR_BYTES) as usize;
    if bytes == 0 {
        return Ok(());
    }
    let mut queue = driver.start(1, bytes).map_err(VhostDeviceError::from)?;
    let mut data = vec![0; bytes];
    let mut read = || {
        queue.submit(0, DriverRequest::Read { offset: 0, bytes })?;
        queue.notify()?;
        let mut is_done = false;
        queue.reap(Some(None), |finished| is_done = finished.is_done)?;
        if !is_done {
            return Err(std::io::Error::other("the device cannot read its first blocks"));
        }
        queue.copy_data(0, &mut data)
    };
    read().map_err(|source| TargetError::from(VhostDeviceError::First { source }))?;
    if gemelo_base::is_zero(&data) {
        Ok(())
    } else {
        Err(TargetError::HoldsData { path: socket.to_owned(), what: "data".to_owned() })
    }
}

/// A device as a target. Each process has a region of it, and a queue.
#[derive(Debug)]
struct DeviceTarget {
    socket: PathBuf,
    layout: PlaceLayout,
    queues: usize,
    /// The connection, as long as it has queues. A device has one at a time.
    driver: Mutex<Weak<Driver>>,
}

impl DeviceTarget {
    /// Returns the connection, or makes it.
    fn connected(&self) -> Result<Arc<Driver>, TargetError> {
        let mut kept = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = kept.upgrade() {
            return Ok(driver);
        }
        let driver = Arc::new(connect(&self.socket)?);
        *kept = Arc::downgrade(&driver);
        Ok(driver)
    }
}

impl PlannedTarget for DeviceTarget {
    fn prepare(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        Ok(self)
    }
}

impl Target for DeviceTarget {
    fn place(&self, _process: u32) -> String {
        format!("vhost-user:{}", self.socket.shown())
    }

    fn holds_data(&self) -> bool {
        true
    }

    fn at_start(&self) -> AtStart {
        AtStart::Unknown
    }

    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        let (most, wanted) = (Driver::max_depth(), options.depth);
        if wanted > most {
            return Err(VhostDeviceError::Depth { most, wanted }.into());
        }
        let driver = self.connected()?;
        let queue = driver.start(options.depth, options.buffer_bytes);
        let queue = queue.map_err(VhostDeviceError::from)?;
        let place =
            VhostPlace { name: self.place(process), first_byte: self.layout.first_byte(process) };
        Ok(Box::new(VhostQueue::new((queue, driver), place, options)))
    }

    fn max_queues(&self) -> usize {
        self.queues
    }

    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        Ok(())
    }
}
