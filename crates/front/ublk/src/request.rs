//! Requests of the kernel as operations of a device, and their outcomes as results of the kernel.

use crate::abi::{Descriptor, SECTOR_BYTES};
use gemelo_device::{DeviceError, Durability, Operation};
use rustix::io::Errno;

/// Returns the operation that a request asks for. `buffer` has, or receives, its data.
/// `write_through` makes each change durable.
pub(crate) fn operation<'b>(
    descriptor: &Descriptor,
    buffer: &'b mut [u8],
    write_through: bool,
) -> Result<Operation<'b>, Errno> {
    if descriptor.operation == Descriptor::FLUSH {
        // Its place is undefined.
        return Ok(Operation::Flush);
    }
    let offset = descriptor.start_sector.checked_mul(SECTOR_BYTES).ok_or(Errno::INVAL)?;
    let length = u64::from(descriptor.sectors) * SECTOR_BYTES;
    let is_durable = write_through || descriptor.flags & Descriptor::FUA != 0;
    let durability = if is_durable { Durability::Immediate } else { Durability::Flushed };
    Ok(match descriptor.operation {
        Descriptor::READ => Operation::Read { offset, buffer: data(buffer, length)? },
        Descriptor::WRITE => Operation::Write { offset, data: data(buffer, length)?, durability },
        Descriptor::DISCARD => Operation::Trim { offset, length, durability },
        Descriptor::WRITE_ZEROES => {
            let may_free = descriptor.flags & Descriptor::KEEP_SPACE == 0;
            Operation::WriteZeroes { offset, length, may_free, durability }
        }
        _ => return Err(Errno::OPNOTSUPP),
    })
}

/// Returns the part of a buffer that has, or receives, the data of a request.
fn data(buffer: &mut [u8], length: u64) -> Result<&mut [u8], Errno> {
    let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
    buffer.get_mut(..length).ok_or(Errno::INVAL)
}

/// Returns the result by which the kernel learns of an outcome: the bytes that were moved, or the
/// negative number of an error.
pub(crate) fn result(descriptor: &Descriptor, outcome: &Result<(), DeviceError>) -> i32 {
    match (outcome, descriptor.operation) {
        (Ok(()), Descriptor::READ | Descriptor::WRITE) => {
            let bytes = u64::from(descriptor.sectors) * SECTOR_BYTES;
            i32::try_from(bytes).unwrap_or_else(|_| failed(Errno::INVAL))
        }
        (Ok(()), _) => 0,
        (Err(error), _) => failed(match error {
            full if full.is_full() => Errno::NOSPC,
            // The kernel calls it an error of the medium.
            DeviceError::Damaged { .. } => Errno::NODATA,
            _ => Errno::IO,
        }),
    }
}

/// Returns the result of a request that failed.
pub(crate) const fn failed(error: Errno) -> i32 {
    -error.raw_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(operation: u8, flags: u32) -> Descriptor {
        Descriptor { operation, flags, sectors: 8, start_sector: 16 }
    }

    #[test]
    fn each_request_is_an_operation_of_its_place_and_durability() {
        let mut buffer = [7; 8192];
        let read = operation(&descriptor(Descriptor::READ, 0), &mut buffer, false).unwrap();
        assert!(matches!(read, Operation::Read { offset: 8192, buffer } if buffer.len() == 4096));
        for (flags, write_through, expected) in [
            (0, false, Durability::Flushed),
            (Descriptor::FUA, false, Durability::Immediate),
            (0, true, Durability::Immediate),
        ] {
            let write = descriptor(Descriptor::WRITE, flags);
            let write = operation(&write, &mut buffer, write_through).unwrap();
            let Operation::Write { offset: 8192, data, durability } = write else { panic!() };
            assert_eq!((data, durability), (&[7; 4096][..], expected));
            let trim = descriptor(Descriptor::DISCARD, flags);
            let trim = operation(&trim, &mut buffer, write_through).unwrap();
            let Operation::Trim { offset: 8192, length: 4096, durability } = trim else { panic!() };
            assert_eq!(durability, expected);
        }
        for (flags, expected) in [(0, true), (Descriptor::KEEP_SPACE, false)] {
            let zeroes = descriptor(Descriptor::WRITE_ZEROES, flags);
            let zeroes = operation(&zeroes, &mut buffer, false).unwrap();
            let Operation::WriteZeroes { length: 4096, may_free, .. } = zeroes else { panic!() };
            assert_eq!(may_free, expected);
        }
        let nowhere = Descriptor { start_sector: u64::MAX, ..descriptor(Descriptor::FLUSH, 0) };
        assert!(matches!(operation(&nowhere, &mut buffer, false), Ok(Operation::Flush)));
    }

    #[test]
    fn what_cannot_be_executed_is_refused() {
        let mut buffer = [0; 4095];
        let error = |descriptor: Descriptor, buffer: &mut [u8]| {
            operation(&descriptor, buffer, false).unwrap_err()
        };
        assert_eq!(error(descriptor(Descriptor::READ, 0), &mut buffer), Errno::INVAL);
        assert_eq!(error(descriptor(Descriptor::WRITE, 0), &mut buffer), Errno::INVAL);
        assert_eq!(error(descriptor(18, 0), &mut buffer), Errno::OPNOTSUPP);
        let far = Descriptor { start_sector: u64::MAX, ..descriptor(Descriptor::DISCARD, 0) };
        assert_eq!(error(far, &mut buffer), Errno::INVAL);
    }

    #[test]
    fn an_outcome_is_the_number_of_bytes_or_an_error() {
        let [read, flush] = [Descriptor::READ, Descriptor::FLUSH].map(|kind| descriptor(kind, 0));
        assert_eq!(result(&read, &Ok(())), 4096);
        assert_eq!(result(&flush, &Ok(())), 0);
        let huge = Descriptor { sectors: u32::MAX, ..read };
        assert_eq!(result(&huge, &Ok(())), -Errno::INVAL.raw_os_error());
        for (error, expected) in [
            (DeviceError::NoSpace, Errno::NOSPC),
            (DeviceError::Damaged { offset: 0 }, Errno::NODATA),
            (DeviceError::ReadOnly, Errno::IO),
            (DeviceError::Io(std::io::ErrorKind::QuotaExceeded.into()), Errno::NOSPC),
            (DeviceError::Io(std::io::ErrorKind::TimedOut.into()), Errno::IO),
        ] {
            assert_eq!(result(&read, &Err(error)), -expected.raw_os_error());
        }
    }
}
