//! Scripts of Filebench that the original runs.
