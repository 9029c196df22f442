//! The messages of a virtual machine: features, memory, and its queues, which it starts and stops.

use crate::config::{self, MAX_QUEUE_SIZE, MAX_QUEUES, PROTOCOL_FEATURES};
use crate::guest::Guest;
use crate::inflight::{self, Region};
use crate::queue::{QueueSetting, Ring, RunningQueue};
use crate::request::Breach;
use std::fs::File;
use std::io;
use std::sync::Arc;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use vm_memory::{GuestAddress, GuestAddressSpace, GuestMemoryMmap, GuestRegionMmap};

/// The state that the messages of a virtual machine have made.
pub(crate) struct Session {
    guest: Arc<Guest>,
    /// The features that the driver has accepted.
    features: u64,
    mappings: Vec<Mapping>,
    in_flight: Option<Region>,
    queues: Vec<GuestQueue>,
}

/// A part of the guest's memory in the address space of its virtual machine.
struct Mapping {
    machine_address: u64,
    bytes: u64,
    guest_address: u64,
}

/// A queue, which is served once it has all that it needs.
#[derive(Default)]
struct GuestQueue {
    setting: QueueSetting,
    has_places: bool,
    is_enabled: bool,
    kick: Option<File>,
    call: Option<File>,
    running: Option<RunningQueue>,
}

impl GuestQueue {
    /// Stops the queue if it is served.
    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            (self.setting.next_available, self.call) = running.stop();
        }
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::ReqHandlerError(io::Error::other(error))
}

fn unsupported<T>() -> Result<T> {
    Err(Error::InvalidOperation("not supported"))
}

impl Session {
    pub(crate) fn new(guest: Arc<Guest>) -> Self {
        let queues = (0..MAX_QUEUES).map(|_| GuestQueue::default()).collect();
        Self { guest, features: 0, mappings: Vec::new(), in_flight: None, queues }
    }

    fn queue(&mut self, number: u32) -> Result<&mut GuestQueue> {
        self.queues.get_mut(number as usize).ok_or(Error::InvalidParam)
    }

    /// Changes a queue while it is not served, and serves it again if it has all that it needs.
    fn change(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut GuestQueue) -> Result<()>,
    ) -> Result<()> {
        let queue = self.queue(number)?;
        queue.stop();
        change(queue)?;
        self.start(number)
    }

    /// Starts to serve a queue that has all that it needs.
    fn start(&mut self, number: u32) -> Result<()> {
        let has_event_index = self.features & config::EVENT_INDEX != 0;
        let region = self.in_flight.clone();
        let guest = Arc::clone(&self.guest);
        let queue = self.queue(number)?;
        let is_ready = queue.has_places && queue.is_enabled && queue.setting.size > 0;
        let Some(kick) = queue.kick.as_ref().filter(|_| is_ready) else { return Ok(()) };
        let kick = kick.try_clone().map_err(failed)?;
        queue.setting.has_event_index = has_event_index;
        let tracker = match region {
            None => None,
            Some(region) => Some(
                region
                    .tracker(number as u16, queue.setting.size)
                    .ok_or_else(|| failed(Breach::InFlight("it has no part for a queue")))?,
            ),
        };
        let memory = guest.memory().memory();
        let ring = Ring::open(&memory, &queue.setting, queue.call.take(), tracker);
        let ring = ring.map_err(failed)?;
        queue.running = Some(RunningQueue::start(&guest, ring, kick).map_err(failed)?);
        Ok(())
    }

    /// Stops all queues.
    pub(crate) fn stop(&mut self) {
        self.queues.iter_mut().for_each(GuestQueue::stop);
    }

    fn guest_address(&self, machine_address: u64) -> Result<u64> {
        let place = self.mappings.iter().find_map(|mapping| {
            let within = machine_address.checked_sub(mapping.machine_address)?;
            let address = mapping.guest_address.checked_add(within)?;
            (within < mapping.bytes).then_some(address)
        });
        place.ok_or(Error::InvalidParam)
    }

    fn set_enabled(&mut self, is_enabled: bool) -> Result<()> {
        for number in 0..MAX_QUEUES as u32 {
            self.change(number, |queue| {
                queue.is_enabled = is_enabled;
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset_device()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.features = 0;
        self.set_enabled(false)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(config::features(&self.guest.export.geometry()))
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.get_features()? != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        self.guest.set_driver_flushes(features & config::FLUSH != 0);
        // Without protocol features there is no message that enables queues.
        if features & PROTOCOL_FEATURES == 0 { self.set_enabled(true) } else { Ok(()) }
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        postcopy: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        if postcopy.is_some() {
            return unsupported();
        }
        let mut mapped = Vec::new();
        let mut mappings = Vec::new();
        for (region, file) in regions.iter().zip(files) {
            let (guest_address, bytes) = (region.guest_phys_addr, region.memory_size);
            let end = region.mmap_offset.checked_add(bytes);
            if !end.is_some_and(|end| inflight::holds(&file, end)) {
                return Err(Error::InvalidParam);
            }
            let memory = region.mmap_region(file)?;
            let memory = GuestRegionMmap::new(memory, GuestAddress(guest_address));
            mapped.push(memory.ok_or(Error::InvalidParam)?);
            mappings.push(Mapping { machine_address: region.user_addr, bytes, guest_address });
        }
        let memory = GuestMemoryMmap::from_regions(mapped).map_err(failed)?;
        // Requests in execution keep the memory that they began with.
        let lock = self.guest.memory().lock();
        lock.unwrap_or_else(std::sync::PoisonError::into_inner).replace(memory);
        self.mappings = mappings;
        Ok(None)
    }

    fn set_vring_num(&mut self, number: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size).ok().filter(|size| *size as usize <= MAX_QUEUE_SIZE);
        let size = size.filter(|size| size.is_power_of_two()).ok_or(Error::InvalidParam)?;
        self.change(number, |queue| {
            queue.setting.size = size;
            Ok(())
        })
    }

    fn set_vring_addr(
        &mut self,
        number: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let descriptors = self.guest_address(descriptors)?;
        let available = self.guest_address(available)?;
        let used = self.guest_address(used)?;
        self.change(number, |queue| {
            let QueueSetting { size, next_available, has_event_index, .. } = queue.setting;
            queue.setting = QueueSetting {
                size,
                descriptors,
                available,
                used,
                next_available,
                has_event_index,
            };
            queue.has_places = true;
            Ok(())
        })
    }

    fn set_vring_base(&mut self, number: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.change(number, |queue| {
            queue.setting.next_available = base;
            Ok(())
        })
    }

    fn get_vring_base(&mut self, number: u32) -> Result<VhostUserVringState> {
        let queue = self.queue(number)?;
        queue.stop();
        (queue.kick, queue.call) = (None, None);
        Ok(VhostUserVringState::new(number, queue.setting.next_available.into()))
    }

    fn set_vring_kick(&mut self, number: u8, kick: Option<File>) -> Result<()> {
        self.change(number.into(), |queue| {
            queue.kick = kick;
            Ok(())
        })
    }

    fn set_vring_call(&mut self, number: u8, call: Option<File>) -> Result<()> {
        let queue = self.queue(number.into())?;
        match &queue.running {
            Some(running) => running.set_call(call),
            None => queue.call = call,
        }
        Ok(())
    }

    /// Failures end the connection, so no other notice of them is needed.
    fn set_vring_err(&mut self, number: u8, _error: Option<File>) -> Result<()> {
        self.queue(number.into()).map(|_| ())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(MAX_QUEUES as u64)
    }

    fn set_vring_enable(&mut self, number: u32, is_enabled: bool) -> Result<()> {
        if self.features & PROTOCOL_FEATURES == 0 {
            return Err(Error::InactiveFeature(VhostUserVirtioFeatures::PROTOCOL_FEATURES));
        }
        if self.queue(number)?.is_enabled == is_enabled {
            return Ok(());
        }
        self.change(number, |queue| {
            queue.is_enabled = is_enabled;
            Ok(())
        })
    }

    fn get_config(
        &mut self,
        offset: u32,
        size: u32,
        _flags: VhostUserConfigFlags,
    ) -> Result<Vec<u8>> {
        Ok(config::space(&self.guest.export.geometry(), offset, size))
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        unsupported()
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        inflight::create(wanted).map_err(failed)
    }

    /// The queues that start from now on use the region.
    fn set_inflight_fd(&mut self, given: &VhostUserInflight, file: File) -> Result<()> {
        self.in_flight = Some(Region::map(given, file).map_err(failed)?);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        unsupported()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        unsupported()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        unsupported()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported()
    }
}
