//! The pool's figures for Prometheus, over HTTP.

mod http;
mod text;

pub(crate) use http::MetricsServer;
pub(crate) use text::render;
