//! Metrics of a served pool for Prometheus: their text, and the HTTP server.

mod address;
mod finder;
mod http;
mod page;
mod sharing;
mod text;
mod volumes;

pub use address::{MetricsAddress, UnknownMetricsAddress};
pub(crate) use http::{MAX_OPEN_FILES, MetricsServer, PageKind};
pub(crate) use text::pool_page;
pub(crate) use volumes::volumes_page;
