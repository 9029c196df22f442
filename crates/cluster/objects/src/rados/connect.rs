//! Connecting to a cluster.

use super::sys::{Cluster, Code, LIBRARY, Pool, Symbols, c_text};
use super::{NOT_FOUND, Rados};
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The configuration that Ceph's own programs read.
const DEFAULT_CONFIGURATION: &str = "/etc/ceph/ceph.conf";

/// The cluster, the user, and the place in the cluster of a connection.
#[derive(Debug, Clone)]
pub struct RadosOptions<'a> {
    /// The configuration file; `None` for the one of the system.
    pub configuration: Option<&'a Path>,
    /// The name of the Ceph user, without `client.`.
    pub user: &'a str,
    /// The name of the pool.
    pub pool: &'a str,
    /// The namespace in the pool.
    pub namespace: &'a str,
    /// The longest time of an operation. Its outcome counts as unknown afterwards.
    pub timeout: Duration,
}

/// The reason why no connection was made.
#[derive(Debug, Error, Classified)]
pub enum ConnectError {
    /// The library is missing, or too old.
    #[kind(BadInput)]
    #[error("cannot load {LIBRARY}: install Ceph's client library (Debian's package librados2)")]
    Library {
        /// The error of the loader.
        source: libloading::Error,
    },
    /// The configuration cannot be used.
    #[kind(BadInput)]
    #[error("cannot use the Ceph configuration '{path}'", path = path.shown())]
    Configuration {
        /// The path of the configuration file.
        path: PathBuf,
        /// The reason that librados gives.
        source: io::Error,
    },
    /// The cluster does not answer, or refuses the user.
    #[kind(Failed)]
    #[error(
        "cannot connect to the Ceph cluster of '{path}' as client.{user}: check that the file names \
         the monitors (mon_host) and that the user has a keyring", path = path.shown())]
    Connect {
        /// The path of the configuration file.
        path: PathBuf,
        /// The name of the Ceph user.
        user: String,
        /// The reason that librados gives.
        source: io::Error,
    },
    /// The pool cannot be opened.
    #[kind(Failed)]
    #[error("cannot open the pool '{pool}' of the Ceph cluster")]
    Pool {
        /// Name of the Ceph pool.
        pool: String,
        /// The reason that librados gives.
        source: io::Error,
    },
    /// The pool does not exist.
    #[kind(BadInput)]
    #[error("the Ceph cluster has no pool '{pool}': create it with 'ceph osd pool create'")]
    NoPool {
        /// The name of the pool.
        pool: String,
    },
}

impl ConnectError {
    /// Returns whether the cluster did not answer in time, so that another attempt may succeed.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect { source, .. } | Self::Pool { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::TimedOut
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::WouldBlock
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::NotConnected
            ),
            _ => false,
        }
    }
}

impl Rados {
    /// Connects to a cluster.
    ///
    /// # Errors
    /// Fails if the library is missing, the cluster does not answer, or the pool does not exist.
    pub fn connect(options: &RadosOptions<'_>) -> Result<Self, ConnectError> {
        let symbols = Symbols::load().map_err(|source| ConnectError::Library { source })?;
        let path = options.configuration.unwrap_or_else(|| Path::new(DEFAULT_CONFIGURATION));
        let io = |code: Code| io::Error::from_raw_os_error(code.0);
        let refused = |code| ConnectError::Connect {
            path: path.into(),
            user: options.user.into(),
            source: io(code),
        };
        let unusable = |code| ConnectError::Configuration { path: path.into(), source: io(code) };
        let user = c_text(&format!("client.{}", options.user));
        let cluster = Cluster::new(symbols, &user).map_err(refused)?;
        let c_path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        cluster.read_configuration(&c_path).map_err(unusable)?;
        let seconds = c_text(&options.timeout.as_secs().max(1).to_string());
        for name in [c"rados_osd_op_timeout", c"rados_mon_op_timeout", c"client_mount_timeout"] {
            cluster.set(name, &seconds).map_err(unusable)?;
        }
        cluster.connect().map_err(refused)?;
        let cluster = Arc::new(cluster);
        let pool = open_pool(&cluster, options.pool, options.namespace)?;
        let instance = cluster.instance().map_err(refused)?;
        Ok(Self { cluster, pool, instance })
    }

    /// Opens another pool over the same connection: a fence on this client holds for both.
    ///
    /// # Errors
    /// Fails if the pool does not exist.
    pub fn open_pool(&self, pool: &str, namespace: &str) -> Result<Self, ConnectError> {
        let cluster = Arc::clone(&self.cluster);
        let pool = open_pool(&cluster, pool, namespace)?;
        Ok(Self { cluster, pool, instance: self.instance.clone() })
    }

    /// Returns whether the pool lets bytes within an object be overwritten. An erasure-coded pool
    /// does so only if it is told to.
    ///
    /// # Errors
    /// Fails if the cluster does not answer.
    pub fn allows_overwrites(&self) -> crate::Result<bool> {
        let only_appends = self.pool.only_appends();
        Ok(!only_appends.map_err(|code| self.error(code, "ask for the kind of", "the pool"))?)
    }
}

fn open_pool(cluster: &Arc<Cluster>, pool: &str, namespace: &str) -> Result<Pool, ConnectError> {
    let opened = Pool::open(cluster, &c_text(pool), &c_text(namespace));
    opened.map_err(|code| match code.0 {
        NOT_FOUND => ConnectError::NoPool { pool: pool.into() },
        number => {
            ConnectError::Pool { pool: pool.into(), source: io::Error::from_raw_os_error(number) }
        }
    })
}
