//! The interface of the driver (`linux/ublk_cmd.h`): commands, features, and the structures that
//! the kernel and this process exchange, in the byte order of the processor.

use gemelo_device::Geometry;

/// The unit of places and lengths in requests and parameters.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// The commands of the control device. Each is the number of an ioctl; kernels before 6.5 know only
/// its lowest byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    GetDevice,
    Add,
    Remove,
    RemoveLater,
    Start,
    Stop,
    SetParameters,
    BeginRecovery,
    EndRecovery,
    GetFeatures,
    UpdateSize,
}

const READS: u32 = 2;
const WRITES_AND_READS: u32 = 3;

/// Returns the number of an ioctl of this driver.
const fn ioctl(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

impl Command {
    pub(crate) const fn code(self) -> u32 {
        let (direction, number) = match self {
            Self::GetDevice => (READS, 0x02),
            Self::Add => (WRITES_AND_READS, 0x04),
            Self::Remove => (WRITES_AND_READS, 0x05),
            Self::RemoveLater => (READS, 0x14),
            Self::Start => (WRITES_AND_READS, 0x06),
            Self::Stop => (WRITES_AND_READS, 0x07),
            Self::SetParameters => (WRITES_AND_READS, 0x08),
            Self::BeginRecovery => (WRITES_AND_READS, 0x10),
            Self::EndRecovery => (WRITES_AND_READS, 0x11),
            Self::GetFeatures => (READS, 0x13),
            Self::UpdateSize => (WRITES_AND_READS, 0x15),
        };
        ioctl(direction, number, ControlCommand::BYTES as u32)
    }

    /// The name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GetDevice => "look at",
            Self::Add => "add",
            Self::Remove | Self::RemoveLater => "remove",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::SetParameters => "set the parameters of",
            Self::BeginRecovery => "take over",
            Self::EndRecovery => "continue",
            Self::GetFeatures => "ask for the features of",
            Self::UpdateSize => "change the size of",
        }
    }
}

/// The commands of a queue: receive a first request, and answer one and receive the next.
pub(crate) const FETCH: u32 = ioctl(WRITES_AND_READS, 0x20, QUEUE_COMMAND_BYTES as u32);
pub(crate) const COMMIT_AND_FETCH: u32 = ioctl(WRITES_AND_READS, 0x21, QUEUE_COMMAND_BYTES as u32);

/// Features of the driver and of a device.
pub(crate) mod feature {
    /// A device waits for another process when its own one dies.
    pub(crate) const USER_RECOVERY: u64 = 1 << 3;
    /// The requests that the dead process has not answered go to the next one.
    pub(crate) const REISSUE: u64 = 1 << 4;
    /// Commands have numbers of ioctls.
    pub(crate) const IOCTL_NUMBERS: u64 = 1 << 6;
    /// A disk learns a new size (Linux 6.16).
    pub(crate) const UPDATE_SIZE: u64 = 1 << 10;
}

/// The argument of a command of the control device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ControlCommand {
    pub(crate) device: u32,
    pub(crate) address: u64,
    pub(crate) length: u16,
    pub(crate) data: u64,
}

impl ControlCommand {
    pub(crate) const BYTES: usize = 32;
    /// No single queue is meant.
    const NO_QUEUE: u16 = u16::MAX;

    /// Returns the bytes that a submission entry has for its command.
    pub(crate) fn encode(self) -> [u8; 80] {
        let mut bytes = [0; 80];
        put(&mut bytes, 0, &self.device.to_ne_bytes());
        put(&mut bytes, 4, &Self::NO_QUEUE.to_ne_bytes());
        put(&mut bytes, 6, &self.length.to_ne_bytes());
        put(&mut bytes, 8, &self.address.to_ne_bytes());
        put(&mut bytes, 16, &self.data.to_ne_bytes());
        bytes
    }
}

const QUEUE_COMMAND_BYTES: usize = 16;

/// Returns the argument of a command of a queue. `buffer` is the address of the buffer for the data
/// of the next request.
pub(crate) fn queue_command(queue: u16, tag: u16, result: i32, buffer: u64) -> [u8; 16] {
    let mut bytes = [0; QUEUE_COMMAND_BYTES];
    put(&mut bytes, 0, &queue.to_ne_bytes());
    put(&mut bytes, 2, &tag.to_ne_bytes());
    put(&mut bytes, 4, &result.to_ne_bytes());
    put(&mut bytes, 8, &buffer.to_ne_bytes());
    bytes
}

/// What a device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It was added and never started, or its process died without recovery.
    Dead,
    /// A process serves it.
    Live,
    /// Its process has died, and its requests wait for another one.
    Quiesced,
    /// A state that later kernels may have.
    Other(u16),
}

impl State {
    const fn of(number: u16) -> Self {
        match number {
            0 => Self::Dead,
            1 => Self::Live,
            2 => Self::Quiesced,
            other => Self::Other(other),
        }
    }
}

/// A device as the driver knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceInfo {
    pub(crate) queues: u16,
    pub(crate) depth: u16,
    pub(crate) state: State,
    pub(crate) max_request_bytes: u32,
    pub(crate) number: u32,
    /// The process that serves it, or has served it.
    pub(crate) process: i32,
    pub(crate) features: u64,
    /// A number that the driver keeps for the process that added the device.
    pub(crate) owner_data: u64,
}

impl DeviceInfo {
    pub(crate) const BYTES: usize = 64;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &self.queues.to_ne_bytes());
        put(&mut bytes, 2, &self.depth.to_ne_bytes());
        put(&mut bytes, 8, &self.max_request_bytes.to_ne_bytes());
        put(&mut bytes, 12, &self.number.to_ne_bytes());
        put(&mut bytes, 16, &self.process.to_ne_bytes());
        put(&mut bytes, 24, &self.features.to_ne_bytes());
        put(&mut bytes, 32, &self.owner_data.to_ne_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            queues: u16::from_ne_bytes(get(bytes, 0)),
            depth: u16::from_ne_bytes(get(bytes, 2)),
            state: State::of(u16::from_ne_bytes(get(bytes, 4))),
            max_request_bytes: u32::from_ne_bytes(get(bytes, 8)),
            number: u32::from_ne_bytes(get(bytes, 12)),
            process: i32::from_ne_bytes(get(bytes, 16)),
            features: u64::from_ne_bytes(get(bytes, 24)),
            owner_data: u64::from_ne_bytes(get(bytes, 32)),
        }
    }
}

/// Longest discard and zeroing in sectors: 1 GiB.
const MAX_RANGE_SECTORS: u32 = 1 << 21;

/// The parameters of a device: its basic ones and those of discards.
pub(crate) struct Parameters;

impl Parameters {
    pub(crate) const BYTES: usize = 60;
    const READ_ONLY: u32 = 1 << 0;
    const VOLATILE_CACHE: u32 = 1 << 2;
    const FUA: u32 = 1 << 3;
    const BASIC: u32 = 1 << 0;
    const DISCARD: u32 = 1 << 1;

    /// Describes a device of this geometry whose requests have up to `max_request_bytes` bytes.
    pub(crate) fn encode(
        geometry: &Geometry,
        write_through: bool,
        max_request_bytes: u32,
    ) -> [u8; Self::BYTES] {
        let block_bytes = geometry.minimum_block_bytes.clamp(SECTOR_BYTES as u32, 4096);
        let physical_bytes = geometry.preferred_block_bytes.max(block_bytes);
        let read_only = if geometry.read_only { Self::READ_ONLY } else { 0 };
        let cache = if write_through { 0 } else { Self::VOLATILE_CACHE | Self::FUA };
        let types = if geometry.read_only { Self::BASIC } else { Self::BASIC | Self::DISCARD };
        let shift = |bytes: u32| bytes.ilog2() as u8;
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, &(Self::BYTES as u32).to_ne_bytes());
        put(&mut bytes, 4, &types.to_ne_bytes());
        put(&mut bytes, 8, &(read_only | cache).to_ne_bytes());
        let optimal = shift(physical_bytes);
        put(&mut bytes, 12, &[shift(block_bytes), optimal, optimal, optimal]);
        put(&mut bytes, 16, &(max_request_bytes / SECTOR_BYTES as u32).to_ne_bytes());
        put(&mut bytes, 24, &(geometry.size_bytes / SECTOR_BYTES).to_ne_bytes());
        if !geometry.read_only {
            put(&mut bytes, 44, &physical_bytes.to_ne_bytes());
            put(&mut bytes, 48, &MAX_RANGE_SECTORS.to_ne_bytes());
            put(&mut bytes, 52, &MAX_RANGE_SECTORS.to_ne_bytes());
            put(&mut bytes, 56, &1u16.to_ne_bytes());
        }
        bytes
    }
}

/// A request as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) operation: u8,
    pub(crate) flags: u32,
    pub(crate) sectors: u32,
    pub(crate) start_sector: u64,
}

impl Descriptor {
    /// The bytes from one descriptor to the next. The last of them, an address, is not used.
    pub(crate) const STRIDE: usize = 24;
    pub(crate) const BYTES: usize = 16;
    pub(crate) const READ: u8 = 0;
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const FLUSH: u8 = 2;
    pub(crate) const DISCARD: u8 = 3;
    pub(crate) const WRITE_ZEROES: u8 = 5;
    /// The request is to be durable when it is answered.
    pub(crate) const FUA: u32 = 1 << 13;
    /// The zeroed range shall keep its space.
    pub(crate) const KEEP_SPACE: u32 = 1 << 15;

    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let operation_and_flags = u32::from_ne_bytes(get(bytes, 0));
        let [operation, ..] = operation_and_flags.to_le_bytes();
        Self {
            operation,
            flags: operation_and_flags & !0xff,
            sectors: u32::from_ne_bytes(get(bytes, 4)),
            start_sector: u64::from_ne_bytes(get(bytes, 8)),
        }
    }
}

/// Copies a field to its place. All places are within their structures.
fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        size_bytes: 1 << 30,
        minimum_block_bytes: 1,
        preferred_block_bytes: 4096,
        maximum_request_bytes: 1 << 25,
        read_only: false,
    };

    fn number(bytes: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(get(bytes, at))
    }

    #[test]
    fn the_numbers_of_commands_are_those_of_the_kernel() {
        assert_eq!(Command::GetDevice.code(), 0x8020_7502);
        assert_eq!(Command::Add.code(), 0xc020_7504);
        assert_eq!(Command::Start.code(), 0xc020_7506);
        assert_eq!(Command::EndRecovery.code(), 0xc020_7511);
        assert_eq!(Command::GetFeatures.code(), 0x8020_7513);
        assert_eq!(Command::RemoveLater.code(), 0x8020_7514);
        assert_eq!(Command::UpdateSize.code(), 0xc020_7515);
        assert_eq!((FETCH, COMMIT_AND_FETCH), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn a_control_command_means_no_queue() {
        let command = ControlCommand { device: 7, address: 0x1122, length: 64, data: 0x33 };
        let bytes = command.encode();
        assert_eq!(bytes[..4], 7u32.to_ne_bytes());
        assert_eq!(bytes[4..8], [0xff, 0xff, 64, 0]);
        assert_eq!(bytes[8..16], 0x1122u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 0x33u64.to_ne_bytes());
        assert!(bytes[24..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_device_is_read_as_it_was_written() {
        let info = DeviceInfo {
            queues: 2,
            depth: 64,
            state: State::Dead,
            max_request_bytes: 1 << 20,
            number: 3,
            process: 99,
            features: feature::USER_RECOVERY,
            owner_data: u64::MAX - 5,
        };
        let mut bytes = info.encode();
        assert_eq!(DeviceInfo::decode(&bytes), info);
        for (number, state) in [(1, State::Live), (2, State::Quiesced), (9, State::Other(9))] {
            bytes[4] = number;
            assert_eq!(DeviceInfo::decode(&bytes).state, state);
        }
    }

    #[test]
    fn parameters_tell_the_sizes_and_the_cache() {
        let bytes = Parameters::encode(&GEOMETRY, false, 1 << 20);
        assert_eq!((number(&bytes, 0), number(&bytes, 4), number(&bytes, 8)), (60, 3, 12));
        assert_eq!(bytes[12..16], [9, 12, 12, 12]);
        assert_eq!((number(&bytes, 16), number(&bytes, 24)), (2048, 1 << 21));
        assert_eq!((number(&bytes, 44), number(&bytes, 48)), (4096, MAX_RANGE_SECTORS));
        assert_eq!((number(&bytes, 52), bytes[56]), (MAX_RANGE_SECTORS, 1));
        let bytes = Parameters::encode(&GEOMETRY, true, 1 << 20);
        assert_eq!(number(&bytes, 8), 0, "a cache that is written through is none");
        let read_only = Geometry { read_only: true, ..GEOMETRY };
        let bytes = Parameters::encode(&read_only, false, 1 << 20);
        assert_eq!((number(&bytes, 4), number(&bytes, 8)), (1, 13));
        assert!(bytes[40..].iter().all(|byte| *byte == 0), "nothing is discarded");
    }

    #[test]
    fn a_descriptor_has_its_flags_apart_from_its_operation() {
        let mut bytes = [0; Descriptor::BYTES];
        put(&mut bytes, 0, &(1u32 | Descriptor::FUA).to_ne_bytes());
        put(&mut bytes, 4, &8u32.to_ne_bytes());
        put(&mut bytes, 8, &(1u64 << 40).to_ne_bytes());
        let expected = Descriptor {
            operation: Descriptor::WRITE,
            flags: Descriptor::FUA,
            sectors: 8,
            start_sector: 1 << 40,
        };
        assert_eq!(Descriptor::decode(&bytes), expected);
    }
}
