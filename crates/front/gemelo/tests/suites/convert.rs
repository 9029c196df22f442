//! Tests of `gemelo pool convert` on idle and on served pools.

use crate::served::{TestPool, done, noise, refused};
use std::fs;

#[test]
fn a_pool_gets_another_backend_and_keeps_its_volumes() {
    for is_served in [false, true] {
        let pool = TestPool::new(&["--backend", "log"]);
        let (volume, raw, back) = (pool.volume("a"), pool.file("raw"), pool.file("back"));
        let contents = noise(1, 1 << 20);
        fs::write(&raw, &contents).unwrap();
        done(&["volume", "import", &raw, &volume]);
        done(&["volume", "snapshot", &volume, "s"]);
        let served = is_served.then(|| pool.serve(&[]));
        for backend in ["compact", "compact", "table", "btree", "ram", "log"] {
            let said = done(&["pool", "convert", &pool.path(), "--backend", backend]);
            assert_eq!(said, format!("backend {backend}\n"));
            assert_eq!(pool.stat("/pool/backend"), backend);
            done(&["volume", "export", &volume, &back, "--force"]);
            assert!(fs::read(&back).unwrap() == contents);
        }
        let said = refused(&["pool", "convert", &pool.path(), "--backend", "tree"]);
        assert!(said.contains("possible values"), "{said}");
        drop(served);
        pool.assert_clean();
    }
}
