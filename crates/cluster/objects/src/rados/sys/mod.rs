//! The functions of `librados`, loaded at run time, behind safe functions.
//!
//! All `unsafe` code of the crate is in this module. The declarations follow the public description
//! of the C interface. A handle is an opaque pointer, and results are 0 or a negative error number.

mod cluster;
mod operation;
mod parts;

pub(super) use cluster::{Cluster, Pool, c_text};
pub(super) use operation::{Answer, InFlight, ReadWhat, WriteWhat};
pub(super) use parts::Parts;

use libloading::Library;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::Arc;

/// The file name of the library; the number is the version of its interface.
pub(super) const LIBRARY: &str = "librados.so.2";

/// A handle of the library.
type Handle = *mut c_void;

/// `struct timeval` of the C library.
#[repr(C)]
struct TimeSpan {
    seconds: i64,
    microseconds: i64,
}

macro_rules! symbols {
    ($($name:ident ( $($argument:ty),* ) $(-> $result:ty)?;)*) => {
        /// The functions, and the library that must stay loaded while they are used.
        pub(super) struct Symbols {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Symbols {
            /// Loads the library and looks up all functions.
            pub(super) fn load() -> Result<Arc<Self>, libloading::Error> {
                // SAFETY: the initialisers of librados have no requirements.
                let library = unsafe { Library::new(LIBRARY) }?;
                // SAFETY: the types are those of the C interface of this library version.
                unsafe {
                    Ok(Arc::new(Self {
                        $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    }))
                }
            }
        }
    };
}

symbols! {
    rados_create2(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
    rados_conf_read_file(Handle, *const c_char) -> c_int;
    rados_conf_set(Handle, *const c_char, *const c_char) -> c_int;
    rados_connect(Handle) -> c_int;
    rados_shutdown(Handle);
    rados_getaddrs(Handle, *mut *mut c_char) -> c_int;
    rados_buffer_free(*mut c_char);
    rados_blocklist_add(Handle, *mut c_char, c_uint) -> c_int;
    rados_mon_command(
        Handle, *const *const c_char, usize, *const c_char, usize,
        *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize
    ) -> c_int;
    rados_wait_for_latest_osdmap(Handle) -> c_int;
    rados_ioctx_create(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy(Handle);
    rados_ioctx_pool_requires_alignment2(Handle, *mut c_int) -> c_int;
    rados_ioctx_set_namespace(Handle, *const c_char);
    rados_set_pool_full_try(Handle);
    rados_nobjects_list_open(Handle, *mut Handle) -> c_int;
    rados_nobjects_list_next2(
        Handle, *mut *const c_char, *mut *const c_char, *mut *const c_char,
        *mut usize, *mut usize, *mut usize
    ) -> c_int;
    rados_nobjects_list_close(Handle);
    rados_lock_exclusive(
        Handle, *const c_char, *const c_char, *const c_char, *const c_char, *mut TimeSpan, c_uchar
    ) -> c_int;
    rados_unlock(Handle, *const c_char, *const c_char, *const c_char) -> c_int;
    rados_list_lockers(
        Handle, *const c_char, *const c_char, *mut c_int, *mut c_char, *mut usize,
        *mut c_char, *mut usize, *mut c_char, *mut usize, *mut c_char, *mut usize
    ) -> isize;
    rados_aio_create_completion2(*mut c_void, *const c_void, *mut Handle) -> c_int;
    rados_aio_wait_for_complete(Handle) -> c_int;
    rados_aio_get_return_value(Handle) -> c_int;
    rados_aio_release(Handle);
    rados_aio_write_op_operate(
        Handle, Handle, Handle, *const c_char, *mut i64, c_int
    ) -> c_int;
    rados_aio_read_op_operate(Handle, Handle, Handle, *const c_char, c_int) -> c_int;
    rados_create_write_op() -> Handle;
    rados_release_write_op(Handle);
    rados_write_op_create(Handle, c_int, *const c_char);
    rados_write_op_write(Handle, *const c_char, usize, u64);
    rados_write_op_append(Handle, *const c_char, usize);
    rados_write_op_zero(Handle, u64, u64);
    rados_write_op_truncate(Handle, u64);
    rados_write_op_remove(Handle);
    rados_write_op_omap_cmp2(
        Handle, *const c_char, c_uchar, *const c_char, usize, usize, *mut c_int
    );
    rados_write_op_omap_set2(
        Handle, *const *const c_char, *const *const c_char, *const usize, *const usize, usize
    );
    rados_write_op_omap_rm_keys2(Handle, *const *const c_char, *const usize, usize);
    rados_create_read_op() -> Handle;
    rados_release_read_op(Handle);
    rados_read_op_read(Handle, u64, usize, *mut c_char, *mut usize, *mut c_int);
    rados_read_op_stat(Handle, *mut u64, *mut i64, *mut c_int);
    rados_read_op_omap_get_vals_by_keys2(
        Handle, *const *const c_char, usize, *const usize, *mut Handle, *mut c_int
    );
    rados_read_op_omap_get_vals2(
        Handle, *const c_char, *const c_char, u64, *mut Handle, *mut c_uchar, *mut c_int
    );
    rados_omap_get_next2(
        Handle, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize
    ) -> c_int;
    rados_omap_get_end(Handle);
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(LIBRARY)
    }
}

/// The error number of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(pub(super) i32);

/// Turns a result into an error if it is negative.
const fn outcome(result: c_int) -> Result<(), Code> {
    if result < 0 { Err(Code(-result)) } else { Ok(()) }
}
