//! A pool that becomes smaller, by the command.

use crate::served::{TestPool, done, noise, refused};
use std::fs;

#[test]
fn a_pool_becomes_smaller_while_it_is_served_and_says_before_what_that_takes() {
    let pool = TestPool::new(&[]);
    fs::write(pool.file("first"), noise(4, 20 << 20)).unwrap();
    fs::write(pool.file("kept"), noise(5, 10 << 20)).unwrap();
    done(&["volume", "import", &pool.file("first"), &pool.volume("first")]);
    done(&["volume", "import", &pool.file("kept"), &pool.volume("kept")]);
    done(&["volume", "snapshot", &pool.volume("kept"), "then"]);
    done(&["volume", "rm", &pool.volume("first"), "--force"]);
    let path = pool.path();
    let words =
        |more: &[&'static str]| -> Vec<&str> { [&["pool", "shrink", &*path], more].concat() };
    assert!(refused(&words(&["--capacity", "96m"])).contains("'gemelo pool grow'"));
    assert!(refused(&words(&["--capacity", "8m"])).contains("are in use"));
    let dry = done(&words(&["--capacity", "16m", "--dry-run", "--rate", "1m"]));
    assert!(dry.contains("blocks in use beyond 16.00 MiB, which takes about"), "{dry}");
    let served = pool.serve(&[]);
    let said = done(&words(&["--capacity", "16m"]));
    assert!(
        said.contains("a capacity of 16.00 MiB, ") && said.contains(" contents moved"),
        "{said}"
    );
    assert_eq!(fs::metadata(pool.file("pool/data")).unwrap().len(), 16 << 20);
    assert_eq!(served.stop().0, 0);
    for name in ["kept", "then"] {
        done(&["volume", "export", &pool.volume(name), &pool.file(name), "--force"]);
        assert!(fs::read(pool.file(name)).unwrap() == noise(5, 10 << 20), "{name}");
    }
    pool.assert_clean();
    done(&["pool", "grow", &pool.path(), "--capacity", "64m"]);
    pool.assert_clean();
}
