//! Tests of `gemelo serve` and its clients: permission to connect, the log of connections, limits
//! of the process.

use crate::served::{Served, TestPool, done, refused};
use gemelo_nbd::client::{Client, Submission};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn pool_with_volume() -> TestPool {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    pool
}

fn connect(pool: &TestPool) -> Client {
    Client::connect(&pool.uri("a").parse().unwrap(), 8, PATIENCE).unwrap()
}

fn mode_and_group(path: &str) -> (u32, u32) {
    let status = std::fs::metadata(path).unwrap();
    (status.mode() & 0o7777, status.gid())
}

#[test]
fn sockets_have_the_mode_and_group_that_are_asked_for() {
    let pool = pool_with_volume();
    let group = rustix::process::getegid().as_raw();
    for (options, mode) in [
        (&["--socket-mode", "0606"][..], 0o606),
        (&["--socket-group", &group.to_string()], 0o660),
        (&["--socket-group", &group.to_string(), "--socket-mode", "0640"], 0o640),
    ] {
        let served = pool.serve(options);
        assert_eq!(mode_and_group(&pool.file("socket")), (mode, group), "{options:?}");
        // Requests of the control socket remove volumes: it stays its user's alone.
        assert_eq!(mode_and_group(&format!("{}/control", pool.path())).0, 0o600);
        connect(&pool);
        assert_eq!(served.stop(), (0, String::new()));
    }
}

#[test]
fn a_mode_or_group_that_cannot_be_had_is_refused() {
    let pool = pool_with_volume();
    let path = pool.path();
    let unix = format!("unix:{}", pool.file("socket"));
    for (options, part) in [
        (
            ["tcp:127.0.0.1:0", "--socket-mode", "0660"],
            "leave out --socket-mode and --socket-group",
        ),
        (["tcp:127.0.0.1:0", "--socket-group", "0"], "leave out --socket-mode and --socket-group"),
        ([unix.as_str(), "--socket-mode", "rw"], "'rw' is not a mode"),
        ([unix.as_str(), "--socket-group", "no such group"], "no group 'no such group'"),
    ] {
        let message = refused(&[&["serve", &path, "--listen"], &options[..]].concat());
        assert!(message.contains(part), "{message}");
        assert!(!std::fs::exists(pool.file("socket")).unwrap());
    }
}

#[test]
fn connections_are_logged_on_request() {
    let pool = pool_with_volume();
    let served = pool.serve(&["--log-connections", "on"]);
    let mut client = connect(&pool);
    let write = Submission::Write { offset: 0, data: &[7; 8192], durable: true };
    assert!(client.run(write, |done| done.error).unwrap().is_none());
    client.disconnect().unwrap();
    std::fs::write(pool.file("raw"), [1; 4096]).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("b")]);
    let (status, said) = served.stop();
    assert_eq!(status, 0);
    let lines: Vec<&str> = said.lines().collect();
    let user = rustix::process::geteuid().as_raw();
    let peer = format!(
        "gemelo: connection 0: unix:{} (user {user}, process {}) ",
        pool.file("socket"),
        std::process::id()
    );
    assert_eq!(lines[0], format!("{peer}connected to 'a', not encrypted"), "{said}");
    assert!(lines[1].starts_with(&format!("{peer}left 'a' after ")), "{said}");
    let traffic = "1 request, 0 B read, 8.00 KiB written: the client ended the session";
    assert!(lines[1].ends_with(traffic), "{said}");
    // The connections of commands are logged as well.
    assert!(
        lines[2].contains("control socket (user ") && lines[2].contains("'b.importing'"),
        "{said}"
    );

    let served = pool.serve(&[]);
    drop(connect(&pool));
    assert_eq!(served.stop(), (0, String::new()));
}

/// Starts the server with these limits of open files.
fn serve_with_files(pool: &TestPool, limits: &str) -> Served {
    let mut command = Command::new("sh");
    let serve = format!("{limits}; exec \"$@\"");
    command.args(["-c", &serve, "sh", env!("CARGO_BIN_EXE_gemelo"), "serve"]);
    command.args([pool.path(), "--listen".into(), format!("unix:{}", pool.file("socket"))]);
    Served::spawn_with(command, Stdio::null())
}

/// Returns the soft and the hard limit of open files.
fn limits_of(served: &Served) -> [String; 2] {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", served.process_id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    [3, 4].map(|place| line.split_whitespace().nth(place).unwrap().to_owned())
}

#[test]
fn the_limit_of_open_files_is_raised_or_the_lack_is_told() {
    let pool = pool_with_volume();
    let served = serve_with_files(&pool, "ulimit -S -n 128");
    let [soft, hard] = limits_of(&served);
    assert_eq!(soft, hard);
    assert_eq!(served.stop(), (0, String::new()));

    let served = serve_with_files(&pool, "ulimit -n 128");
    assert_eq!(limits_of(&served), ["128", "128"]);
    connect(&pool);
    let (status, said) = served.stop();
    assert_eq!(status, 0);
    for part in ["may open 128 files", "--max-connections", "LimitNOFILE="] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[test]
fn the_memory_of_clients_is_among_the_figures() {
    let pool = pool_with_volume();
    let served = pool.serve(&["--client-memory", "96m"]);
    assert_eq!(pool.stat("/server/memory_limit_bytes"), 96 << 20);
    assert_eq!(pool.stat("/server/memory_bytes"), 0);
    let _client = connect(&pool);
    // Two buffers of 64 KiB are reserved for each connection.
    assert_eq!(pool.stat("/server/memory_bytes"), 128 << 10);
    let text = done(&["pool", "stat", &pool.path()]);
    assert!(
        text.contains("Requests and replies of clients take 128.00 KiB of 96.00 MiB"),
        "{text}"
    );
    drop(_client);
    assert_eq!(served.stop(), (0, String::new()));
}
