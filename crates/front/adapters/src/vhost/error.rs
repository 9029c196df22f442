//! Errors of vhost-user-blk devices as targets.

use gemelo_base::Classified;
use gemelo_target::{AdapterError, TargetError};
use gemelo_vhost::DriverError;
use thiserror::Error;

/// The reason why a vhost-user-blk device is refused as a target, or cannot be opened.
#[derive(Debug, Error, Classified)]
pub enum VhostDeviceError {
    /// The name of the target has no socket.
    #[kind(BadInput)]
    #[error("'vhost-user:' names no socket: give vhost-user:SOCKET")]
    NoSocket,
    /// The device cannot be used.
    #[kind(source)]
    #[error("cannot use a vhost-user device")]
    Driver(#[from] DriverError),
    /// The first blocks cannot be read.
    #[kind(source)]
    #[error("cannot see whether the device holds data")]
    First {
        /// The failure.
        source: std::io::Error,
    },
    /// The job needs more queues than the device has.
    #[kind(BadInput)]
    #[error("the device at {socket} has {queues} queues, but the job has {wanted} processes")]
    Queues {
        /// The socket of the device.
        socket: String,
        /// Number of queues of the device.
        queues: usize,
        /// Number of processes of the job; each needs a queue.
        wanted: u32,
    },
    /// The job wants more requests in flight than a queue holds.
    #[kind(BadInput)]
    #[error("a queue of a vhost-user device holds at most {most} requests, not {wanted}")]
    Depth {
        /// Most requests.
        most: usize,
        /// Wanted requests.
        wanted: usize,
    },
}

impl From<VhostDeviceError> for TargetError {
    fn from(error: VhostDeviceError) -> Self {
        AdapterError::new(error).into()
    }
}
