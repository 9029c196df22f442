//! Names of volumes that no socket can have.

use crate::common::gemelo;
use crate::served::{TestPool, done, refused};
use std::path::Path;

/// A name of 120 bytes was accepted, and at the next start no volume was served, over NBD either.
#[test]
fn a_name_that_is_too_long_for_a_socket_leaves_out_that_volume_alone() {
    let pool = TestPool::new(&[]);
    let (long, longer) = ("n".repeat(120), "m".repeat(255));
    for name in ["web", long.as_str()] {
        done(&["volume", "create", &pool.volume(name), "--size", "1m"]);
    }
    let directory = pool.file("vhost");
    std::fs::create_dir(&directory).unwrap();
    let served = pool.serve(&["--vhost-user", &directory]);
    let socket = Path::new(&directory).join("web.sock");
    assert!(socket.exists());
    // By another way, and after the start.
    let load = |target: &str| {
        let ran = gemelo(&["bench", "--target", target, "--bytes", "64k"]);
        assert_eq!(ran.status, 0, "{target}: {}", ran.err);
    };
    load(&pool.uri(&long));
    done(&["volume", "create", &pool.volume(&longer), "--size", "1m"]);
    done(&["volume", "create", &pool.volume("later"), "--size", "1m"]);
    let later = Path::new(&directory).join("later.sock");
    gemelo_tools::wait_until("the next volume is served", || later.exists());
    load(&format!("vhost-user:{}", socket.display()));
    let (status, err) = served.stop();
    assert_eq!(status, 0, "{err}");
    for name in [long, longer] {
        let warning = format!("volume '{name}' is not served by vhost-user");
        assert_eq!(err.matches(&warning).count(), 1, "{err}");
    }
    assert!(err.contains("107"), "the limit is named: {err}");
}

#[test]
fn a_directory_that_no_socket_fits_into_is_refused() {
    let pool = TestPool::new(&[]);
    let directory = pool.file(&"d".repeat(110));
    std::fs::create_dir(&directory).unwrap();
    let err = refused(&["serve", &pool.path(), "--vhost-user", &directory]);
    assert!(err.contains("too long for the paths of sockets"), "{err}");
    assert_eq!(gemelo(&["pool", "check", &pool.path()]).status, 0);
}
