//! Operations in flight. Their results are written by other threads, so they have fixed places, and
//! an operation that is dropped waits until it is complete.

use super::{Code, Handle, Parts, Pool, Symbols, outcome};
use crate::{KeyPage, Update};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

/// The comparison "equal" of keys.
const EQUAL: c_uchar = 1;
/// Creates an object that must not exist.
const EXCLUSIVE: c_int = 1;
/// Creates an object unless it exists.
const IDEMPOTENT: c_int = 0;
/// Lets a write to a full pool fail instead of waiting for space.
const FULL_TRY: c_int = 64;

/// A change of an object.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum WriteWhat<'a> {
    Parts(&'a [(u64, &'a [u8])]),
    Append(&'a [u8]),
    Zero(u64, u64),
    Truncate(u64),
    Create,
    Remove,
    Keys(&'a Update),
}

/// A question to an object.
#[derive(Debug)]
pub(in super::super) enum ReadWhat<'a> {
    Bytes(u64, &'a mut [u8]),
    Parts(u64, Parts<'a>),
    Length,
    Keys(&'a [String]),
    Range(CString, CString, u64),
}

/// The results of an operation.
#[derive(Debug, Default)]
pub(in super::super) struct Answer {
    /// The bytes read.
    pub(in super::super) filled: usize,
    /// The bytes, if they were not read to their places at once.
    pub(in super::super) bytes: Vec<u8>,
    /// The length of the object.
    pub(in super::super) length: u64,
    /// Keys and values, without keys that are no text.
    pub(in super::super) page: KeyPage,
    /// The last key of the page, also if it is no text.
    pub(in super::super) last_key: Vec<u8>,
    /// The place of the guard that failed.
    pub(in super::super) failed_guard: Option<usize>,
}

/// The places to which librados writes results.
struct Places {
    filled: usize,
    /// Memory for parts that do not lie side by side.
    bytes: Vec<u8>,
    length: u64,
    time: i64,
    keys: Handle,
    has_more: c_uchar,
    result: c_int,
    guards: Vec<c_int>,
}

enum Kind {
    Read,
    Write,
}

/// An operation in flight. It borrows the memory into which it reads.
pub(in super::super) struct InFlight<'a> {
    pool: &'a Pool,
    kind: Kind,
    operation: Handle,
    completion: Handle,
    is_submitted: bool,
    places: Box<Places>,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> InFlight<'a> {
    fn new(pool: &'a Pool, kind: Kind, guards: usize) -> Result<Self, Code> {
        let places = Box::new(Places {
            filled: 0,
            bytes: Vec::new(),
            length: 0,
            time: 0,
            keys: null_mut(),
            has_more: 0,
            result: 0,
            guards: vec![0; guards],
        });
        let symbols = &pool.symbols;
        let mut completion = null_mut();
        // SAFETY: there is no callback, and the completion is written before it is read.
        outcome(unsafe {
            (symbols.rados_aio_create_completion2)(null_mut(), null(), &raw mut completion)
        })?;
        // SAFETY: these functions have no requirements.
        let operation = unsafe {
            match kind {
                Kind::Read => (symbols.rados_create_read_op)(),
                Kind::Write => (symbols.rados_create_write_op)(),
            }
        };
        assert!(!operation.is_null() && !completion.is_null(), "librados made both");
        let memory = PhantomData;
        Ok(Self { pool, kind, operation, completion, is_submitted: false, places, memory })
    }

    /// Submits a change. librados copies what it is given.
    pub(in super::super) fn write(
        pool: &'a Pool,
        object: &CStr,
        what: WriteWhat<'_>,
    ) -> Result<Self, Code> {
        let guards = if let WriteWhat::Keys(update) = what { update.guards.len() } else { 0 };
        let mut this = Self::new(pool, Kind::Write, guards)?;
        this.add_write(what);
        let operate = pool.symbols.rados_aio_write_op_operate;
        // SAFETY: all handles are valid, and the name ends with a zero byte.
        outcome(unsafe {
            operate(
                this.operation,
                pool.handle,
                this.completion,
                object.as_ptr(),
                null_mut(),
                FULL_TRY,
            )
        })?;
        this.is_submitted = true;
        Ok(this)
    }

    /// Submits a question.
    pub(in super::super) fn read(
        pool: &'a Pool,
        object: &CStr,
        what: ReadWhat<'a>,
    ) -> Result<Self, Code> {
        let mut this = Self::new(pool, Kind::Read, 0)?;
        this.add_read(what);
        let operate = pool.symbols.rados_aio_read_op_operate;
        // SAFETY: all handles are valid, the name ends with a zero byte, and the places and the
        // buffer stay where they are until the operation is complete, because `drop` waits.
        outcome(unsafe {
            operate(this.operation, pool.handle, this.completion, object.as_ptr(), 0)
        })?;
        this.is_submitted = true;
        Ok(this)
    }

    fn add_write(&mut self, what: WriteWhat<'_>) {
        let (symbols, operation) = (&self.pool.symbols, self.operation);
        // SAFETY: the operation is not submitted yet. Slices are given with their lengths, and
        // librados copies them.
        unsafe {
            match what {
                WriteWhat::Parts(parts) => {
                    for (offset, bytes) in parts {
                        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
                        (symbols.rados_write_op_write)(operation, start, length, *offset);
                    }
                }
                WriteWhat::Append(bytes) => {
                    (symbols.rados_write_op_append)(operation, bytes.as_ptr().cast(), bytes.len());
                }
                WriteWhat::Zero(offset, length) => {
                    (symbols.rados_write_op_zero)(operation, offset, length);
                }
                WriteWhat::Truncate(length) => (symbols.rados_write_op_truncate)(operation, length),
                WriteWhat::Create => {
                    (symbols.rados_write_op_create)(operation, EXCLUSIVE, null());
                }
                WriteWhat::Remove => (symbols.rados_write_op_remove)(operation),
                WriteWhat::Keys(update) => {
                    add_update(symbols, operation, update, &mut self.places.guards);
                }
            }
        }
    }

    fn add_read(&mut self, what: ReadWhat<'_>) {
        let (symbols, operation) = (&self.pool.symbols, self.operation);
        let places = &mut *self.places;
        // SAFETY: the operation is not submitted yet. The places are in a box, and the buffer is
        // borrowed for as long as this value lives. Keys are copied by librados.
        unsafe {
            match what {
                ReadWhat::Bytes(offset, buffer) => (symbols.rados_read_op_read)(
                    operation,
                    offset,
                    buffer.len(),
                    buffer.as_mut_ptr().cast(),
                    &raw mut places.filled,
                    &raw mut places.result,
                ),
                ReadWhat::Parts(offset, parts) => {
                    let start = parts.joined.unwrap_or_else(|| {
                        places.bytes = vec![0; parts.length];
                        places.bytes.as_mut_ptr()
                    });
                    (symbols.rados_read_op_read)(
                        operation,
                        offset,
                        parts.length,
                        start.cast(),
                        &raw mut places.filled,
                        &raw mut places.result,
                    );
                }
                ReadWhat::Length => (symbols.rados_read_op_stat)(
                    operation,
                    &raw mut places.length,
                    &raw mut places.time,
                    &raw mut places.result,
                ),
                ReadWhat::Keys(keys) => {
                    let (starts, lengths) = starts_and_lengths(keys.iter().map(String::as_bytes));
                    (symbols.rados_read_op_omap_get_vals_by_keys2)(
                        operation,
                        starts.as_ptr(),
                        starts.len(),
                        lengths.as_ptr(),
                        &raw mut places.keys,
                        &raw mut places.result,
                    );
                }
                ReadWhat::Range(after, prefix, limit) => (symbols.rados_read_op_omap_get_vals2)(
                    operation,
                    after.as_ptr(),
                    prefix.as_ptr(),
                    limit,
                    &raw mut places.keys,
                    &raw mut places.has_more,
                    &raw mut places.result,
                ),
            }
        }
    }

    fn wait(&self) -> c_int {
        // SAFETY: the completion belongs to a submitted operation.
        unsafe {
            (self.pool.symbols.rados_aio_wait_for_complete)(self.completion);
            (self.pool.symbols.rados_aio_get_return_value)(self.completion)
        }
    }

    /// Waits for the answer. A failed guard is an error whose answer says which one.
    pub(in super::super) fn finish(mut self) -> (Result<(), Code>, Answer) {
        assert!(self.is_submitted, "only what was submitted is waited for");
        let result = outcome(self.wait());
        let mut bytes = std::mem::take(&mut self.places.bytes);
        bytes.truncate(self.places.filled);
        let places = &self.places;
        let failed_guard = places.guards.iter().position(|result| *result < 0);
        let mut answer = Answer {
            filled: places.filled,
            bytes,
            length: places.length,
            failed_guard,
            ..Answer::default()
        };
        if result.is_ok() && !places.keys.is_null() {
            (answer.page.entries, answer.last_key) = self.entries();
            answer.page.has_more = places.has_more != 0;
        }
        (result, answer)
    }

    /// Returns the entries whose keys are text, and the last key of all.
    fn entries(&self) -> (Vec<(String, Vec<u8>)>, Vec<u8>) {
        let (mut entries, mut last_key) = (Vec::new(), Vec::new());
        loop {
            let (mut key, mut value): (*mut c_char, *mut c_char) = (null_mut(), null_mut());
            let (mut key_length, mut value_length) = (0, 0);
            // SAFETY: the operation is complete, and `drop` ends the iterator.
            let result = unsafe {
                (self.pool.symbols.rados_omap_get_next2)(
                    self.places.keys,
                    &raw mut key,
                    &raw mut value,
                    &raw mut key_length,
                    &raw mut value_length,
                )
            };
            if result < 0 || key.is_null() {
                return (entries, last_key);
            }
            // SAFETY: the key and the value have these lengths until the iterator ends. An empty
            // value may have no place.
            let (key, value) = unsafe {
                let value_length = if value.is_null() { 0 } else { value_length };
                let value = if value.is_null() { std::ptr::dangling_mut() } else { value };
                (
                    std::slice::from_raw_parts(key.cast::<u8>(), key_length),
                    std::slice::from_raw_parts(value.cast::<u8>(), value_length),
                )
            };
            // No key of gemelo is anything but text.
            if let Ok(text) = std::str::from_utf8(key) {
                entries.push((text.to_owned(), value.to_vec()));
            }
            last_key.clear();
            last_key.extend_from_slice(key);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.is_submitted {
            self.wait();
        }
        let symbols = &self.pool.symbols;
        // SAFETY: the operation is complete or was never submitted, and nothing is used again.
        unsafe {
            if !self.places.keys.is_null() {
                (symbols.rados_omap_get_end)(self.places.keys);
            }
            match self.kind {
                Kind::Read => (symbols.rados_release_read_op)(self.operation),
                Kind::Write => (symbols.rados_release_write_op)(self.operation),
            }
            (symbols.rados_aio_release)(self.completion);
        }
    }
}

/// Adds an update to an operation.
///
/// # Safety
/// The operation must not be submitted yet, and the results must stay where they are until it is
/// complete.
unsafe fn add_update(symbols: &Symbols, operation: Handle, update: &Update, results: &mut [c_int]) {
    assert_eq!(results.len(), update.guards.len(), "each guard has a place for its result");
    // SAFETY: slices are given with their lengths, and librados copies them. An absent key compares
    // as an empty value, which no present key has.
    unsafe {
        if update.creates {
            (symbols.rados_write_op_create)(operation, EXCLUSIVE, null());
        } else if update.guards.is_empty() {
            (symbols.rados_write_op_create)(operation, IDEMPOTENT, null());
        }
        for (guard, result) in update.guards.iter().zip(results) {
            let expected = guard.expected.as_deref().unwrap_or_default();
            (symbols.rados_write_op_omap_cmp2)(
                operation,
                guard.key.as_ptr().cast(),
                EQUAL,
                expected.as_ptr().cast(),
                guard.key.len(),
                expected.len(),
                result,
            );
        }
        if !update.remove.is_empty() {
            let (keys, lengths) = starts_and_lengths(update.remove.iter().map(String::as_bytes));
            (symbols.rados_write_op_omap_rm_keys2)(
                operation,
                keys.as_ptr(),
                lengths.as_ptr(),
                keys.len(),
            );
        }
        if !update.set.is_empty() {
            let (keys, key_lengths) =
                starts_and_lengths(update.set.iter().map(|(key, _)| key.as_bytes()));
            let (values, value_lengths) =
                starts_and_lengths(update.set.iter().map(|(_, value)| value.as_slice()));
            (symbols.rados_write_op_omap_set2)(
                operation,
                keys.as_ptr(),
                values.as_ptr(),
                key_lengths.as_ptr(),
                value_lengths.as_ptr(),
                keys.len(),
            );
        }
    }
}

fn starts_and_lengths<'k>(
    texts: impl Iterator<Item = &'k [u8]>,
) -> (Vec<*const c_char>, Vec<usize>) {
    texts.map(|text| (text.as_ptr().cast(), text.len())).unzip()
}
