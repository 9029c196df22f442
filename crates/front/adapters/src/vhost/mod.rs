//! Devices of vhost-user-blk servers: names of the form `vhost-user:SOCKET`.

mod device;
mod error;
mod queue;

pub use error::VhostDeviceError;

use device::DeviceStorage;
use gemelo_base::name_of_text;
use gemelo_target::{Adapter, Storage, TargetError, TargetUri};
use std::sync::Arc;

/// Opens vhost-user-blk devices as targets, as the driver of a guest does.
#[derive(Debug, Default)]
pub struct VhostAdapter;

impl Adapter for VhostAdapter {
    fn schemes(&self) -> &'static [&'static str] {
        &["vhost-user"]
    }

    fn forms(&self) -> &'static [&'static str] {
        &["vhost-user:SOCKET"]
    }

    fn storage(&self, uri: &TargetUri) -> Result<Arc<dyn Storage>, TargetError> {
        let (_, place) = uri.parts();
        if place.is_empty() {
            return Err(VhostDeviceError::NoSocket.into());
        }
        Ok(Arc::new(DeviceStorage { socket: name_of_text(place).into() }))
    }
}
