//! Tests of `gemelo bench`, `suite`, `verify` and `replay` on volumes of a pool, exports of NBD
//! servers and vhost-user-blk devices.

mod devices;
mod directory;
mod exports;
mod volumes;
