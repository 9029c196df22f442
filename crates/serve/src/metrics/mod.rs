//! Metrics of a served pool for Prometheus: their text, and the HTTP server.

mod finder;
mod http;
mod page;
mod sharing;
mod text;

pub(crate) use http::{MOST_OPEN_FILES, MetricsServer};
pub(crate) use text::render;
