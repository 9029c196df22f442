//! Connections: a cluster, and a pool with a namespace; their locks and listings.

use super::{Code, Handle, Symbols, TimeSpan, outcome};
use crate::{Holder, Instance};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;

/// Renews the lock if this client holds it, and takes it otherwise.
const MAY_RENEW: u8 = 1;
/// Renews the lock only if this client holds it.
const MUST_RENEW: u8 = 2;
/// Bytes for the names of lock holders. An exclusive lock has one holder.
const HOLDER_BYTES: usize = 1024;

/// A connection to a cluster.
#[derive(Debug)]
pub(in super::super) struct Cluster {
    symbols: Arc<Symbols>,
    handle: Handle,
}

/// A pool of a cluster, and a namespace in it.
#[derive(Debug)]
pub(in super::super) struct Pool {
    pub(super) symbols: Arc<Symbols>,
    pub(super) handle: Handle,
    /// The connection must outlive its pools.
    _cluster: Arc<Cluster>,
}

// SAFETY: librados allows any number of threads to use a cluster handle and an I/O context at once.
// The namespace, which is the exception, is set before the context is shared.
unsafe impl Send for Cluster {}
// SAFETY: as above.
unsafe impl Sync for Cluster {}
// SAFETY: as above.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Cluster {
    /// Creates the handle of a connection that is not connected yet.
    pub(in super::super) fn new(symbols: Arc<Symbols>, user: &CStr) -> Result<Self, Code> {
        let mut handle = null_mut();
        // SAFETY: the strings end with zero bytes, and the handle is written before it is read.
        outcome(unsafe {
            (symbols.rados_create2)(&raw mut handle, c"ceph".as_ptr(), user.as_ptr(), 0)
        })?;
        Ok(Self { symbols, handle })
    }

    pub(in super::super) fn read_configuration(&self, path: &CStr) -> Result<(), Code> {
        // SAFETY: the handle is valid until `drop`, and the string ends with a zero byte.
        outcome(unsafe { (self.symbols.rados_conf_read_file)(self.handle, path.as_ptr()) })
    }

    pub(in super::super) fn set(&self, name: &CStr, value: &CStr) -> Result<(), Code> {
        // SAFETY: as above, for both strings.
        outcome(unsafe {
            (self.symbols.rados_conf_set)(self.handle, name.as_ptr(), value.as_ptr())
        })
    }

    pub(in super::super) fn connect(&self) -> Result<(), Code> {
        // SAFETY: the handle is valid until `drop`.
        outcome(unsafe { (self.symbols.rados_connect)(self.handle) })
    }

    /// Returns the address under which the cluster knows this client.
    pub(in super::super) fn instance(&self) -> Result<Instance, Code> {
        let mut address: *mut c_char = null_mut();
        // SAFETY: the handle is valid; librados allocates the string.
        outcome(unsafe { (self.symbols.rados_getaddrs)(self.handle, &raw mut address) })?;
        // SAFETY: on success the string is there and ends with a zero byte. It is copied before it
        // is given back.
        unsafe {
            let text = CStr::from_ptr(address).to_string_lossy().into_owned();
            (self.symbols.rados_buffer_free)(address);
            Ok(instance_of(&text))
        }
    }

    /// Excludes a client, and waits until this client knows the exclusion.
    pub(in super::super) fn exclude(&self, address: &CStr, span: Duration) -> Result<(), Code> {
        let seconds = u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
        assert!(seconds > 0, "for 0 the cluster takes a time of its own");
        // SAFETY: librados only reads the address, which ends with a zero byte.
        outcome(unsafe {
            (self.symbols.rados_blocklist_add)(self.handle, address.as_ptr().cast_mut(), seconds)
        })?;
        // SAFETY: the handle is valid.
        outcome(unsafe { (self.symbols.rados_wait_for_latest_osdmap)(self.handle) })
    }

    /// Ends the exclusion of a client.
    pub(in super::super) fn admit(&self, instance: &Instance) -> Result<(), Code> {
        let address = &instance.0;
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || ".:/[]%-_".contains(sign);
        if !address.chars().all(is_plain) {
            return Err(Code(super::super::INVALID));
        }
        let prefix = "\"prefix\": \"osd blocklist\", \"blocklistop\": \"rm\"";
        let command = c_text(&format!("{{{prefix}, \"addr\": \"{address}\"}}"));
        let commands = [command.as_ptr()];
        // SAFETY: the one command ends with a zero byte, there is no input, and librados returns
        // no output where it is given no place for it.
        outcome(unsafe {
            (self.symbols.rados_mon_command)(
                self.handle,
                commands.as_ptr(),
                commands.len(),
                null(),
                0,
                null_mut(),
                null_mut(),
                null_mut(),
                null_mut(),
            )
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SAFETY: pools keep the cluster alive, so none is left, and the handle is not used again.
        unsafe { (self.symbols.rados_shutdown)(self.handle) }
    }
}

impl Pool {
    pub(in super::super) fn open(
        cluster: &Arc<Cluster>,
        pool: &CStr,
        namespace: &CStr,
    ) -> Result<Self, Code> {
        let symbols = Arc::clone(&cluster.symbols);
        let mut handle = null_mut();
        // SAFETY: the cluster is connected, and the context is written before it is read.
        outcome(unsafe {
            (symbols.rados_ioctx_create)(cluster.handle, pool.as_ptr(), &raw mut handle)
        })?;
        // SAFETY: the context is new and not shared yet.
        unsafe { (symbols.rados_ioctx_set_namespace)(handle, namespace.as_ptr()) };
        // A full cluster refuses what needs space, and does not let the rest wait. It matters for
        // locks, which have no flags of their own: a lease is renewed in a full cluster, too.
        // SAFETY: the context is new and not shared yet.
        unsafe { (symbols.rados_set_pool_full_try)(handle) };
        Ok(Self { symbols, handle, _cluster: Arc::clone(cluster) })
    }

    /// Returns whether objects can only grow by aligned appends: those of an erasure-coded pool
    /// that does not allow overwrites.
    pub(in super::super) fn only_appends(&self) -> Result<bool, Code> {
        let mut requires: c_int = 0;
        // SAFETY: the context is valid, and the number is written before it is read.
        outcome(unsafe {
            (self.symbols.rados_ioctx_pool_requires_alignment2)(self.handle, &raw mut requires)
        })?;
        Ok(requires != 0)
    }

    /// Calls a function with the name of each object.
    pub(in super::super) fn list(&self, mut call: impl FnMut(&[u8])) -> Result<(), Code> {
        let mut list = null_mut();
        // SAFETY: the context is valid, and the list is written before it is read.
        outcome(unsafe { (self.symbols.rados_nobjects_list_open)(self.handle, &raw mut list) })?;
        loop {
            let (mut name, mut length) = (null(), 0);
            let (mut key, mut key_length) = (null(), 0);
            // SAFETY: the name is valid until the next call; a namespace is not asked for.
            let result = unsafe {
                (self.symbols.rados_nobjects_list_next2)(
                    list,
                    &raw mut name,
                    &raw mut key,
                    null_mut(),
                    &raw mut length,
                    &raw mut key_length,
                    null_mut(),
                )
            };
            match outcome(result) {
                // SAFETY: on success the name has this length, and is copied by the caller at once.
                Ok(()) => call(unsafe { std::slice::from_raw_parts(name.cast(), length) }),
                Err(code) => {
                    // SAFETY: the list is not used again.
                    unsafe { (self.symbols.rados_nobjects_list_close)(list) };
                    let is_end = code.0 == super::super::NOT_FOUND;
                    return if is_end { Ok(()) } else { Err(code) };
                }
            }
        }
    }

    pub(in super::super) fn lock(
        &self,
        object: &CStr,
        name: &CStr,
        cookie: &CStr,
        lease: Duration,
        must_renew: bool,
    ) -> Result<(), Code> {
        let seconds = i64::try_from(lease.as_secs()).unwrap_or(i64::MAX);
        let mut span = TimeSpan { seconds, microseconds: i64::from(lease.subsec_micros()) };
        let flags = if must_renew { MUST_RENEW } else { MAY_RENEW };
        // SAFETY: all strings end with zero bytes, and the span is only read.
        outcome(unsafe {
            (self.symbols.rados_lock_exclusive)(
                self.handle,
                object.as_ptr(),
                name.as_ptr(),
                cookie.as_ptr(),
                c"".as_ptr(),
                &raw mut span,
                flags,
            )
        })
    }

    pub(in super::super) fn unlock(
        &self,
        object: &CStr,
        name: &CStr,
        cookie: &CStr,
    ) -> Result<(), Code> {
        let (object, name, cookie) = (object.as_ptr(), name.as_ptr(), cookie.as_ptr());
        // SAFETY: all strings end with zero bytes.
        outcome(unsafe { (self.symbols.rados_unlock)(self.handle, object, name, cookie) })
    }

    /// Returns the first holder of a lock.
    pub(in super::super) fn holder(
        &self,
        object: &CStr,
        name: &CStr,
    ) -> Result<Option<Holder>, Code> {
        let mut exclusive: c_int = 0;
        let mut texts = [[0_u8; HOLDER_BYTES]; 4];
        let mut lengths = [HOLDER_BYTES; 4];
        let [tag, clients, cookies, addresses] = &mut texts;
        let [tag_length, clients_length, cookies_length, addresses_length] = &mut lengths;
        // SAFETY: each buffer has the length that is given for it; librados writes no more, and
        // ends each text with a zero byte.
        let count = unsafe {
            (self.symbols.rados_list_lockers)(
                self.handle,
                object.as_ptr(),
                name.as_ptr(),
                &raw mut exclusive,
                tag.as_mut_ptr().cast(),
                tag_length,
                clients.as_mut_ptr().cast(),
                clients_length,
                cookies.as_mut_ptr().cast(),
                cookies_length,
                addresses.as_mut_ptr().cast(),
                addresses_length,
            )
        };
        outcome(c_int::try_from(count).unwrap_or(c_int::MAX))?;
        let first = |text: &[u8]| {
            let text = CStr::from_bytes_until_nul(text).map(CStr::to_string_lossy);
            text.map(std::borrow::Cow::into_owned).unwrap_or_default()
        };
        Ok((count > 0)
            .then(|| Holder { client: first(clients), instance: instance_of(&first(addresses)) }))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: every operation in flight borrows the pool, so none is left.
        unsafe { (self.symbols.rados_ioctx_destroy)(self.handle) }
    }
}

/// Returns the instance at an address. Ceph writes the same address as `127.0.0.1:0/7`,
/// `v1:127.0.0.1:0/7` and `[v2:127.0.0.1:0/7,v1:127.0.0.1:0/7]`; a fence on one holds for all.
fn instance_of(address: &str) -> Instance {
    let plain = |address: &str| {
        let kinds = ["v1:", "v2:", "any:"];
        kinds.iter().find_map(|kind| address.strip_prefix(kind)).map(str::to_owned)
    };
    let first = address.strip_prefix('[').and_then(|list| plain(list.split(',').next()?));
    let listed = first.map(|first| match first.rsplit_once('/') {
        Some((host, nonce)) => format!("{host}/{}", nonce.trim_end_matches(']')),
        None => first,
    });
    Instance(listed.or_else(|| plain(address)).unwrap_or_else(|| address.to_owned()))
}

/// Returns the text with a zero byte at its end; a text with a zero byte in it becomes empty.
pub(in super::super) fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_an_address_are_one_instance() {
        let forms = ["10.0.0.1:0/7", "v1:10.0.0.1:0/7", "[v2:10.0.0.1:0/7,v1:10.0.0.1:0/7]"];
        for form in forms {
            assert_eq!(instance_of(form), Instance("10.0.0.1:0/7".into()));
        }
        assert_eq!(instance_of("v2:[::1]:0/7").0, "[::1]:0/7");
        assert_eq!(instance_of("[v2:[::1]:0/7]").0, "[::1]:0/7");
    }
}
