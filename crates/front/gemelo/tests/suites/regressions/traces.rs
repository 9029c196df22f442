//! Traces as they come from public collections.
