//! The answers of a receiver to a sender: how contents are named, and which of them it has.
//!
//! A stream with the feature `exchange` goes over a connection with a way back. The receiver greets
//! the sender with the kind and the key of its pool's fingerprints, and with the byte before which
//! it has everything, because an earlier copy was broken off there. The sender asks for contents by
//! these, some batches ahead of the records, and sends those that the receiver does not have. What
//! the receiver has, it writes to the copy before it answers, so nothing can be freed in between.

use gemelo_format::{Fingerprint, FingerprintKind, Fingerprinter};
use std::io::{self, Read, Write};

/// The first bytes of a greeting.
const MAGIC: &[u8; 8] = b"GEMELOAN";
/// The version of the answers.
const VERSION: u8 = 1;
/// Instead of the kind of fingerprints: the receiver does not tell what it has.
const TELLS_NOTHING: u8 = 255;
/// An answer to a batch.
const ANSWER: u8 = 1;
/// Nothing comes any more, because the receiver fails.
const OVER: u8 = 2;

/// Batches that are asked for before the records of the first of them are sent. Their contents, of
/// a MiB each, are in memory meanwhile. They fill a link of 6 Gbit/s with 10 ms.
pub(crate) const BATCHES_AHEAD: usize = 8;
/// The same of a stream that is compressed, which takes longer than to send it.
pub(crate) const COMPRESSED_AHEAD: usize = 4;

/// The kind and the key of fingerprints by which a receiver is asked.
pub type Naming = (FingerprintKind, [u8; 32]);

/// The way back to the sender.
pub struct Answers<'w> {
    out: &'w mut (dyn Write + Send),
}

impl<'w> Answers<'w> {
    /// Takes the way back.
    pub fn new(out: &'w mut (dyn Write + Send)) -> Self {
        Self { out }
    }

    pub(crate) fn greet(&mut self, naming: Option<Naming>, received_bytes: u64) -> io::Result<()> {
        let (kind, key) = naming.map_or((TELLS_NOTHING, [0; 32]), |(kind, key)| (kind.byte(), key));
        self.out.write_all(MAGIC)?;
        self.out.write_all(&[VERSION, kind])?;
        self.out.write_all(&key)?;
        self.out.write_all(&received_bytes.to_le_bytes())?;
        self.out.flush()
    }

    pub(crate) fn answer(&mut self, has: &[bool]) -> io::Result<()> {
        let bit = |(at, has): (usize, &bool)| u8::from(*has) << at;
        let bits = has.chunks(8).map(|some| some.iter().enumerate().map(bit).sum::<u8>());
        let count = u32::try_from(has.len()).map_err(io::Error::other)?;
        let mut message = vec![ANSWER];
        message.extend_from_slice(&count.to_le_bytes());
        message.extend(bits);
        self.out.write_all(&message)?;
        self.out.flush()
    }

    /// Tells the sender that it waits for nothing.
    pub(crate) fn give_up(&mut self) {
        // A sender that is gone needs no answer.
        let _ = self.out.write_all(&[OVER]).and_then(|()| self.out.flush());
    }
}

/// Reads what a receiver answers.
pub(crate) struct AnswerReader<'r> {
    input: &'r mut (dyn Read + Send),
    fingerprinter: Option<Fingerprinter>,
    received_bytes: u64,
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<'r> AnswerReader<'r> {
    /// Waits for the greeting.
    pub(crate) fn begin(input: &'r mut (dyn Read + Send)) -> io::Result<Self> {
        let mut reader = Self { input, fingerprinter: None, received_bytes: 0 };
        let mut first = [0];
        reader.input.read_exact(&mut first)?;
        if first == [OVER] {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = [0; MAGIC.len() - 1 + 2 + 32];
        let mut received_bytes = [0; 8];
        reader.input.read_exact(&mut rest)?;
        reader.input.read_exact(&mut received_bytes)?;
        reader.received_bytes = u64::from_le_bytes(received_bytes);
        let greeting = [&first[..], &rest].concat();
        let [version, kind, key @ ..] =
            greeting.strip_prefix(MAGIC).ok_or_else(|| malformed("it is no greeting"))?
        else {
            return Err(malformed("it is no greeting"));
        };
        if *version != VERSION {
            return Err(malformed("the receiver is of another version of gemelo"));
        }
        let key = key.try_into().map_err(io::Error::other)?;
        let named = FingerprintKind::from_byte(*kind).map(|kind| Fingerprinter::new(kind, key));
        reader.fingerprinter = named.filter(|named| !named.must_compare());
        Ok(reader)
    }

    /// The function that names contents; [`None`] if the receiver does not tell what it has.
    pub(crate) const fn fingerprinter(&self) -> Option<&Fingerprinter> {
        self.fingerprinter.as_ref()
    }

    /// The receiver has everything before this byte.
    pub(crate) const fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Waits for the answer to a batch of so many contents.
    pub(crate) fn next(&mut self, count: usize) -> io::Result<Vec<bool>> {
        let mut kind = [0];
        self.input.read_exact(&mut kind)?;
        if kind == [OVER] {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut told = [0; 4];
        self.input.read_exact(&mut told)?;
        if kind != [ANSWER] || u32::from_le_bytes(told) as usize != count {
            return Err(malformed("an answer is not to what was asked"));
        }
        let mut bits = vec![0; count.div_ceil(8)];
        self.input.read_exact(&mut bits)?;
        let has =
            (0..count).map(|at| bits.get(at / 8).is_some_and(|bits| bits >> (at % 8) & 1 == 1));
        Ok(has.collect())
    }
}

/// A content that a sender asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The block of the snapshot that has it.
    pub block: u64,
    /// Its fingerprint by the key of the receiver.
    pub fingerprint: Fingerprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn greeting(naming: Option<Naming>) -> Vec<u8> {
        let mut out = Vec::new();
        Answers::new(&mut out).greet(naming, 7 << 20).unwrap();
        out
    }

    #[test]
    fn greetings_and_answers_come_back() {
        let mut out = greeting(Some((FingerprintKind::Blake3, KEY)));
        let has: Vec<bool> = (0..19).map(|at| at % 3 == 0).collect();
        let mut answers = Answers::new(&mut out);
        answers.answer(&has).unwrap();
        answers.answer(&[]).unwrap();
        answers.give_up();
        let mut input = &*out;
        let mut reader = AnswerReader::begin(&mut input).unwrap();
        let expected = Fingerprinter::new(FingerprintKind::Blake3, KEY).of(b"content");
        assert_eq!(reader.fingerprinter().unwrap().of(b"content"), expected);
        assert_eq!(reader.received_bytes(), 7 << 20);
        assert_eq!(reader.next(19).unwrap(), has);
        assert_eq!(reader.next(0).unwrap(), Vec::<bool>::new());
        assert!(reader.next(1).is_err(), "it gave up");
    }

    #[test]
    fn a_receiver_that_tells_nothing_or_names_contents_by_what_can_be_forged_is_not_asked() {
        let forged = [FingerprintKind::Xxh3Compare, FingerprintKind::Sha1];
        for naming in [None].into_iter().chain(forged.map(|kind| Some((kind, KEY)))) {
            let bytes = greeting(naming);
            let mut input = &*bytes;
            assert!(AnswerReader::begin(&mut input).unwrap().fingerprinter().is_none());
        }
    }

    #[test]
    fn other_bytes_are_no_answers() {
        let good = greeting(None);
        for end in 0..good.len() {
            assert!(AnswerReader::begin(&mut &good[..end]).is_err());
        }
        let mut other = good.clone();
        other[8] = 9;
        let error = AnswerReader::begin(&mut &*other).err().unwrap();
        assert!(error.to_string().contains("another version"));
        let mut other = good.clone();
        other[3] = b'?';
        assert!(AnswerReader::begin(&mut &*other).is_err());
        let bytes = [&good[..], &[ANSWER, 9, 0, 0, 0, 0, 0]].concat();
        let mut input = &*bytes;
        let mut reader = AnswerReader::begin(&mut input).unwrap();
        assert!(reader.next(8).is_err(), "an answer to another question");
    }
}
