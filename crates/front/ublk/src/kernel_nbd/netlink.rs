//! Messages of generic netlink, as far as the kernel's NBD needs them: a header, a command, and
//! attributes that may hold attributes.

use crate::rights::{COMMAND_FILE, RightsRing};
use io_uring::opcode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, netlink, recv, socket};
use std::io;
use std::os::fd::OwnedFd;

const HEADER_BYTES: usize = 16;
const COMMAND_BYTES: usize = 4;
const ATTRIBUTE_BYTES: usize = 4;
/// The flags of a message that asks for something, and for a receipt.
const REQUEST_AND_RECEIPT: u16 = 1 | 4;
/// The type of a receipt.
const RECEIPT: u16 = 2;
/// The family of the questions about families, its command and its attributes.
const CONTROL_FAMILY: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The bits of an attribute's type that are its number. The others say how it is stored.
const NUMBER_BITS: u16 = 0x3fff;
/// Says that an attribute holds attributes.
const NESTED: u16 = 1 << 15;
/// Longest answer in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// The attributes of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Attributes(Vec<u8>);

impl Attributes {
    fn put(mut self, kind: u16, value: &[u8]) -> Self {
        // The largest that anybody makes here are some sockets.
        let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(super) fn with_u32(self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    pub(super) fn with_u64(self, kind: u16, value: u64) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    pub(super) fn with_text(self, kind: u16, value: &str) -> Self {
        self.put(kind, &[value.as_bytes(), &[0]].concat())
    }

    pub(super) fn with_nested(self, kind: u16, value: &Self) -> Self {
        self.put(kind | NESTED, &value.0)
    }
}

/// Returns the message of a command.
fn message(family: u16, command: u8, version: u8, attributes: &Attributes) -> Vec<u8> {
    let length = HEADER_BYTES + COMMAND_BYTES + attributes.0.len();
    // Attributes are far from this length.
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST_AND_RECEIPT.to_ne_bytes());
    // The kernel counts for itself, and knows the socket.
    bytes.extend([0; 8]);
    bytes.extend([command, version, 0, 0]);
    bytes.extend(&attributes.0);
    bytes
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// A message of the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Answer<'a> {
    /// The command was executed, or not.
    Receipt(Result<(), Errno>),
    /// The attributes of something else.
    Attributes(&'a [u8]),
}

/// Splits what was received into messages. Returns [`None`] if it cannot be one of the kernel.
fn answers(mut bytes: &[u8]) -> Option<Vec<Answer<'_>>> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let length = usize::try_from(u32::from_ne_bytes(number(bytes, 0)?)).ok()?;
        let body = bytes.get(HEADER_BYTES..length)?;
        answers.push(if u16::from_ne_bytes(number(bytes, 4)?) == RECEIPT {
            let error = i32::from_ne_bytes(number(body, 0)?);
            let failed = || Errno::from_raw_os_error(error.saturating_neg());
            Answer::Receipt(if error == 0 { Ok(()) } else { Err(failed()) })
        } else {
            Answer::Attributes(body.get(COMMAND_BYTES..)?)
        });
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(answers)
}

/// Returns the value of an attribute.
fn value(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(number(attributes, 0)?));
        let found = u16::from_ne_bytes(number(attributes, 2)?) & NUMBER_BITS;
        let value = attributes.get(ATTRIBUTE_BYTES..length)?;
        if found == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// A socket to families of the kernel. Its commands have the rights of the process that opened it.
pub(crate) struct FamilySocket {
    socket: OwnedFd,
    ring: RightsRing,
}

impl FamilySocket {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::GENERIC))?;
        let ring = RightsRing::new(&socket, opcode::Send::CODE)?;
        Ok(Self { socket, ring })
    }
}

/// A family of the kernel.
pub(super) struct Family {
    socket: FamilySocket,
    id: u16,
}

impl Family {
    /// Finds a family by its name. Returns [`None`] if the kernel does not have it.
    pub(super) fn find(socket: FamilySocket, name: &str) -> io::Result<Option<Self>> {
        let mut family = Self { socket, id: CONTROL_FAMILY };
        let named = Attributes::default().with_text(FAMILY_NAME, name);
        let attributes = match family.command(GET_FAMILY, &named) {
            Err(Errno::NOENT) => return Ok(None),
            answered => answered?,
        };
        let id = value(&attributes, FAMILY_ID).and_then(|value| number(value, 0));
        family.id = u16::from_ne_bytes(id.ok_or(Errno::PROTO)?);
        Ok(Some(family))
    }

    /// Runs a command. Returns the attributes of the answer, if it has any.
    pub(super) fn command(&self, command: u8, attributes: &Attributes) -> Result<Vec<u8>, Errno> {
        let bytes = message(self.id, command, 1, attributes);
        let length = u32::try_from(bytes.len()).map_err(|_| Errno::MSGSIZE)?;
        let send = opcode::Send::new(COMMAND_FILE, bytes.as_ptr(), length).build();
        // SAFETY: the bytes live until this function returns.
        unsafe { self.socket.ring.run(send.into()) }?;
        let mut said = Vec::new();
        loop {
            let mut buffer = vec![0; MAX_ANSWER_BYTES];
            let (received, _) = recv(&self.socket.socket, &mut buffer[..], RecvFlags::empty())?;
            let answers = buffer.get(..received).and_then(answers).ok_or(Errno::PROTO)?;
            for answer in answers {
                match answer {
                    Answer::Receipt(outcome) => return outcome.map(|()| said),
                    Answer::Attributes(attributes) => said = attributes.to_vec(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_header_a_command_and_padded_attributes() {
        let sockets = Attributes::default().with_u32(1, 7);
        let attributes = Attributes::default().with_text(2, "nbd").with_nested(7, &sockets);
        let bytes = message(0x1b, 3, 1, &attributes);
        let expected: Vec<u8> = [
            &40u32.to_ne_bytes()[..],
            &0x1bu16.to_ne_bytes(),
            &5u16.to_ne_bytes(),
            &[0; 8],
            &[3, 1, 0, 0],
            &8u16.to_ne_bytes(),
            &2u16.to_ne_bytes(),
            b"nbd\0",
            &12u16.to_ne_bytes(),
            &0x8007u16.to_ne_bytes(),
            &8u16.to_ne_bytes(),
            &1u16.to_ne_bytes(),
            &7u32.to_ne_bytes(),
        ]
        .concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn texts_of_every_length_are_padded() {
        for (text, bytes) in [("", 8), ("abc", 8), ("abcd", 12)] {
            assert_eq!(Attributes::default().with_text(1, text).0.len(), bytes, "{text}");
        }
        let after = Attributes::default().with_text(1, "abcd").with_u64(2, 9);
        assert_eq!(value(&after.0, 2), Some(&9u64.to_ne_bytes()[..]));
        assert_eq!(value(&after.0, 3), None);
    }

    fn receipt(error: i32) -> Vec<u8> {
        [&20u32.to_ne_bytes()[..], &2u16.to_ne_bytes(), &[0; 10], &error.to_ne_bytes()].concat()
    }

    #[test]
    fn the_kernel_answers_with_attributes_and_a_receipt() {
        let attributes = Attributes::default().with_u32(1, 5);
        let said = [message(0x1b, 1, 1, &attributes), receipt(0)].concat();
        let expected = [Answer::Attributes(&attributes.0[..]), Answer::Receipt(Ok(()))];
        assert_eq!(answers(&said).unwrap(), expected);
        let busy = receipt(-Errno::BUSY.raw_os_error());
        assert_eq!(answers(&busy).unwrap(), [Answer::Receipt(Err(Errno::BUSY))]);
    }

    #[test]
    fn what_is_cut_is_no_answer() {
        let attributes = Attributes::default().with_u32(1, 5);
        let said = [message(0x1b, 1, 1, &attributes), receipt(0)].concat();
        let first = message(0x1b, 1, 1, &attributes).len();
        for end in (1..said.len()).filter(|end| *end != first) {
            assert_eq!(answers(&said[..end]), None, "{end}");
        }
        let short = [&15u32.to_ne_bytes()[..], &[0; 16]].concat();
        assert_eq!(answers(&short), None);
        assert_eq!(value(&[3, 0, 1, 0], 1), None);
        assert_eq!(value(&[9, 0, 1, 0, 0], 1), None);
    }
}
