//! Ceph RADOS through `librados`.
