//! An open pool and who works with it: its volumes as NBD exports. Prints nothing.

mod exports;
mod service;

pub use service::{ServeOptions, ServiceError, serve};
