//! Members as source and destination of copies: compressed to plain and back, idle and served, and
//! from and to a pool in a directory.

use super::host::Host;
use std::fs;

const DOMAIN: &str = "rados:gemelo/copied";
const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

/// Contents of which each half can be compressed, and one is there twice.
fn image(seed: u8) -> Vec<u8> {
    let mut state = u64::from(seed) << 32 | 1;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let mut image: Vec<u8> = (0..4 * MIB).map(|_| noise()).collect();
    image.chunks_mut(BLOCK).for_each(|block| block[BLOCK / 2..].fill(seed));
    image.copy_within(..MIB, 2 * MIB);
    image[3 * MIB..3 * MIB + MIB / 2].fill(0);
    image
}

fn fill(host: &Host<'_>, pool: &str, image: &[u8], snapshot: &str) {
    let raw = host.file("raw");
    fs::write(&raw, image).unwrap();
    let volume = format!("{pool}/disk");
    host.done(&["volume", "import", raw.to_str().unwrap(), &volume, "--force"]);
    host.done(&["volume", "snapshot", &volume, snapshot]);
}

fn assert_holds(host: &Host<'_>, volume: &str, image: &[u8]) {
    let back = host.file("back");
    host.done(&["volume", "export", volume, back.to_str().unwrap(), "--force"]);
    assert!(fs::read(&back).unwrap() == image, "{volume}");
}

pub(crate) fn run(host: &Host<'_>) {
    host.done(&["domain", "create", DOMAIN]);
    let [packed, plain] = ["packed", "plain"].map(|name| format!("{DOMAIN}/{name}"));
    let directory = host.file("pool").to_str().unwrap().to_owned();
    for (pool, compression) in [(&packed, "zstd"), (&plain, "off"), (&directory, "lz4")] {
        let shape = ["--capacity", "1g", "--compression", compression];
        host.done(&[&["pool", "create", pool], &shape[..]].concat());
    }
    let images = [1, 2, 3, 4].map(image);
    fill(host, &packed, &images[0], "one");
    let copied = |from: &str, to: &str, snapshot: &str, image: &[u8]| {
        let there = format!("{to}/{snapshot}");
        host.done(&["volume", "copy", &format!("{from}/{snapshot}"), &there]);
        assert_holds(host, &there, image);
        host.done(&["volume", "verify", &format!("{from}/{snapshot}"), &there]);
    };
    // The domain has the contents already, by whichever member they came.
    copied(&packed, &plain, "one", &images[0]);
    copied(&plain, &directory, "one", &images[0]);
    let servers: Vec<_> = [(&packed, "packed"), (&plain, "plain")]
        .into_iter()
        .map(|(member, socket)| {
            let mut server = host.serve(member, socket, &["--lease", "60s"]);
            server.wait_until_it_serves();
            server
        })
        .collect();
    fill(host, &packed, &images[1], "two");
    copied(&packed, &plain, "two", &images[1]);
    fill(host, &directory, &images[2], "three");
    copied(&directory, &packed, "three", &images[2]);
    copied(&packed, &plain, "three", &images[2]);
    let stream = host.file("stream").to_str().unwrap().to_owned();
    let (from, to) = (format!("{plain}/two"), format!("{directory}/two"));
    let mut command = std::process::Command::new("sh");
    host.set_up(&mut command);
    let own = env!("CARGO_BIN_EXE_gemelo");
    let script = format!(
        "{own} volume send {from} --since {plain}/one >{stream} && \
         {own} volume receive {to} <{stream}"
    );
    let output = command.args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_holds(host, &to, &images[1]);
    fill(host, &directory, &images[3], "four");
    // A shell takes the words as ssh does.
    let (near, far) = (format!("{directory}/four"), format!("host:{plain}/four"));
    for action in ["copy", "verify"] {
        let words = ["volume", action, &near, &far, "--connect", "sh -c", "--program", own];
        host.done(&words);
    }
    assert_holds(host, &format!("{plain}/four"), &images[3]);
    servers.into_iter().for_each(super::host::Server::end);
    [&packed, &plain, &directory].into_iter().for_each(|pool| host.assert_clean(pool));
    host.done(&["domain", "check", DOMAIN]);
}
