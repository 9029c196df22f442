//! Tests of `gemelo serve`: clients, signals, crashes, refusals, and reports.

use crate::common::gemelo;
use crate::served::{Served, TestPool, done, in_use, noise, refused};
use gemelo_nbd::client::{Client, ClientError, Submission};
use gemelo_nbd::wire::ErrorCode;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn connect(uri: &str) -> Result<Client, ClientError> {
    Client::connect(&uri.parse().unwrap(), 8, PATIENCE)
}

fn write(client: &mut Client, offset: u64, data: &[u8]) -> ErrorCode {
    client.run(Submission::Write { offset, data, durable: false }, |done| done.error).unwrap()
}

fn read(client: &mut Client, offset: u64, length: u32) -> Vec<u8> {
    client
        .run(Submission::Read { offset, length }, |done| {
            assert!(done.error.is_none());
            done.data.to_vec()
        })
        .unwrap()
}

fn flush(client: &mut Client) {
    assert!(client.run(Submission::Flush, |done| done.error).unwrap().is_none());
}

#[test]
fn volumes_come_and_go_as_exports_while_the_pool_is_served() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    assert!(served.said[0].starts_with("listening at unix:"), "{:?}", served.said);
    assert!(matches!(connect(&pool.uri("a")), Err(ClientError::NoSuchExport)));
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let mut client = connect(&pool.uri("a")).unwrap();
    assert_eq!(client.export().size_bytes, 8 << 20);
    assert!(write(&mut client, 777, &noise(1, 10_000)).is_none());

    // It grows under a client, who sees it when he comes again.
    done(&["volume", "resize", &pool.volume("a"), "--size", "16m"]);
    assert_eq!(connect(&pool.uri("a")).unwrap().export().size_bytes, 16 << 20);
    assert!(write(&mut client, 12 << 20, b"beyond the old end").is_none());

    // Clients stay connected when the volume is renamed, and lose it when it is removed.
    done(&["volume", "rename", &pool.volume("a"), "b"]);
    assert_eq!(read(&mut client, 777, 10_000), noise(1, 10_000));
    let mut other = connect(&pool.uri("b")).unwrap();
    let message = refused(&["volume", "rm", &pool.volume("b")]);
    assert!(message.contains("connected client"), "{message}");
    done(&["volume", "rm", &pool.volume("b"), "--force"]);
    let gone = other.run(Submission::Read { offset: 0, length: 1 }, |done| done.error);
    assert!(gone.is_err() || gone.is_ok_and(|error| !error.is_none()));
    assert!(connect(&pool.uri("b")).is_err());
    assert_eq!(served.stop(), (0, String::new()));
    pool.assert_clean();
}

#[test]
fn a_stop_keeps_what_was_written_and_a_crash_what_was_flushed() {
    let pool = TestPool::new(&["--commit-interval", "1h"]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let served = pool.serve(&[]);
    let mut client = connect(&pool.uri("a")).unwrap();
    write(&mut client, 0, &noise(1, 100_000));
    assert_eq!(served.stop(), (0, String::new()));

    let served = pool.serve(&[]);
    let mut client = connect(&pool.uri("a")).unwrap();
    assert_eq!(read(&mut client, 0, 100_000), noise(1, 100_000));
    write(&mut client, 1 << 20, &noise(2, 50_000));
    flush(&mut client);
    write(&mut client, 2 << 20, &noise(3, 50_000));
    served.kill();

    // The sockets that the dead process left behind are replaced.
    let served = pool.serve(&[]);
    let mut client = connect(&pool.uri("a")).unwrap();
    assert_eq!(read(&mut client, 1 << 20, 50_000), noise(2, 50_000));
    assert_eq!(done(&["volume", "ls", &pool.path()]).lines().count(), 2);
    assert_eq!(served.stop(), (0, String::new()));
    pool.assert_clean();
}

#[test]
fn a_second_server_is_refused_with_who_has_the_pool() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&[]);
    let message =
        in_use(&["serve", &pool.path(), "--listen", &format!("unix:{}", pool.file("other"))]);
    assert!(message.contains(&format!("in use by process {}", served.process_id())), "{message}");
    assert!(!std::fs::exists(pool.file("other")).unwrap());
}

#[test]
fn what_is_chosen_is_exported_and_a_read_only_pool_takes_no_changes() {
    let pool = TestPool::new(&[]);
    for name in ["a", "b"] {
        done(&["volume", "create", &pool.volume(name), "--size", "8m"]);
    }
    let served = pool.serve(&["--volume", "a", "--read-only"]);
    let mut client = connect(&pool.uri("")).unwrap();
    assert_eq!(read(&mut client, 0, 512), vec![0; 512]);
    assert_eq!(write(&mut client, 0, b"x"), ErrorCode::PERM);
    assert!(matches!(connect(&pool.uri("b")), Err(ClientError::NoSuchExport)));
    let said = refused(&["volume", "create", &pool.volume("c"), "--size", "8m"]);
    assert!(said.contains("reading only: 'gemelo pool status' says why"), "{said}");
    let status = done(&["pool", "status", &pool.path()]);
    assert!(status.contains("read-only as its server was told with --read-only"), "{status}");
    done(&["volume", "export", &pool.volume("b"), &pool.file("back")]);
    assert_eq!(served.stop(), (0, String::new()));
    let listen = format!("unix:{}", pool.file("socket"));
    let message = refused(&["serve", &pool.path(), "--listen", &listen, "--volume", "nothing"]);
    assert!(message.contains("there is no volume 'nothing'"), "{message}");
}

#[test]
fn the_network_is_refused_without_encryption() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let path = pool.path();
    let message = refused(&["serve", &path, "--listen", "tcp:0.0.0.0:0"]);
    assert!(message.contains("--tls-certificate") && message.contains("--insecure"), "{message}");
    assert!(refused(&["serve", &path]).contains("--listen"));
    assert!(
        refused(&["serve", &path, "--listen", "http:x"]).contains("'http:x' is not an address")
    );
    drop(Served::start(&["serve", &path, "--listen", "tcp:0.0.0.0:0", "--insecure"]));

    let served = Served::start(&["serve", &path, "--listen", "tcp:127.0.0.1:0"]);
    let address = served.said[0].strip_prefix("listening at tcp:").unwrap();
    assert_eq!(connect(&format!("nbd://{address}/a")).unwrap().export().size_bytes, 8 << 20);
    assert_eq!(served.stop(), (0, String::new()));

    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (pool.file("certificate"), pool.file("key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let tls = ["--listen", "tcp:0.0.0.0:0", "--tls-certificate", &certificate, "--tls-key", &key];
    let served = Served::start(&[&["serve", &path], &tls[..]].concat());
    let port = served.said[0].rsplit(':').next().unwrap();
    let refusal = connect(&format!("nbd://127.0.0.1:{port}/a"));
    assert!(matches!(refusal, Err(ClientError::TlsRequired)), "{refusal:?}");
    // Commands of this machine need no encryption: they come through the control socket.
    std::fs::write(pool.file("raw"), noise(1, 100_000)).unwrap();
    done(&["volume", "import", &pool.file("raw"), &pool.volume("b")]);
    assert_eq!(served.stop(), (0, String::new()));

    std::fs::write(&key, "no key").unwrap();
    let message = refused(&[&["serve", &path], &tls[..]].concat());
    assert!(message.contains(&key), "{message}");
}

/// Returns the metrics page of the server.
pub(crate) fn metrics(served: &Served) -> String {
    let address = served.said[1].strip_prefix("metrics at http://").unwrap();
    let mut stream = TcpStream::connect(address.split('/').next().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

#[test]
fn silent_connections_keep_nobody_from_figures_and_from_commands() {
    let pool = TestPool::new(&[]);
    let served = pool.serve(&["--metrics", "127.0.0.1:0"]);
    let address =
        served.said[1].strip_prefix("metrics at http://").unwrap().trim_end_matches("/metrics");
    let scrapes: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let control = pool.file("pool/control");
    let commands: Vec<UnixStream> =
        (0..200).map(|_| UnixStream::connect(&control).unwrap()).collect();
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(metrics(&served).contains("\ngemelo_pool_volumes 0\n"));
        done(&["volume", "ls", &pool.path()]);
    }
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    drop((scrapes, commands));
    assert_eq!(served.stop(), (0, String::new()));
}

#[test]
fn limits_are_set_and_those_that_do_not_go_together_are_refused() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let (path, listen) = (pool.path(), format!("unix:{}", pool.file("socket")));
    let serve = ["serve", &path, "--listen", &listen];
    let message = refused(&[&serve[..], &["--client-memory", "1m"]].concat());
    for part in [
        "1.00 MiB of memory are too little for 256 clients",
        "--client-memory",
        "at least 80.00 MiB",
        "--max-connections",
    ] {
        assert!(message.contains(part), "{message}");
    }
    for option in ["--cache", "--write-buffer", "--metadata-cache", "--finder-memory"] {
        let message = refused(&[&serve[..], &[option, "10e"]].concat());
        let told = format!("of memory, less than {} 10.00 EiB", option.trim_start_matches('-'));
        assert!(message.contains(&told), "{message}");
    }
    let options = ["--client-memory", "32m", "--max-connections", "2"];
    let times = ["--idle-timeout", "300ms"];
    let served = pool.serve(&[&options[..], &times].concat());
    // What is made while the client is there counts as idle.
    let data = noise(1, 4 << 20);
    let mut client = connect(&pool.uri("a")).unwrap();
    assert!(write(&mut client, 0, &data).is_none());
    assert!(read(&mut client, 0, 4 << 20) == data);
    std::thread::sleep(Duration::from_millis(800));
    assert!(client.run(Submission::Flush, |_| ()).is_err(), "it was idle for too long");
    assert_eq!(served.stop(), (0, String::new()));
}

#[test]
fn a_host_is_listened_at_by_its_name() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let served = Served::start(&["serve", &pool.path(), "--listen", "tcp:localhost:0"]);
    for said in &served.said {
        let address = said.strip_prefix("listening at tcp:").unwrap();
        assert_eq!(connect(&format!("nbd://{address}/a")).unwrap().export().size_bytes, 8 << 20);
    }
    assert_eq!(served.stop(), (0, String::new()));
    let message = refused(&["serve", &pool.path(), "--listen", "tcp:nothing.invalid:0"]);
    assert!(message.contains("cannot listen at tcp:nothing.invalid:0"), "{message}");
}

#[test]
fn a_server_tells_when_space_gets_low() {
    let pool = TestPool::new(&[]);
    std::fs::write(pool.file("raw"), noise(5, 8 << 20)).unwrap();
    let served = pool.serve(&["--warn-used", "10,50", "--metrics", "127.0.0.1:0"]);
    assert!(metrics(&served).contains("\ngemelo_pool_warnings 0\n"));
    done(&["volume", "import", &pool.file("raw"), &pool.volume("a")]);
    assert!(metrics(&served).contains("\ngemelo_pool_warnings 1\n"));
    let (status, said) = served.stop();
    assert_eq!(status, 0);
    assert_eq!(said.matches("more than 10 % of the data store is in use").count(), 1, "{said}");
}

#[test]
fn a_service_manager_hands_over_sockets_and_hears_of_states() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let handed = UnixListener::bind(pool.file("handed")).unwrap();
    let notified = UnixDatagram::bind(pool.file("notify")).unwrap();
    notified.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 99];
        let count = notified.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    // The shell has the socket as its standard input, and gives it to the server as the first one
    // after the usual three.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_gemelo"), "serve", &pool.path()])
        .env("NOTIFY_SOCKET", pool.file("notify"));
    let served = Served::spawn_with(command, std::os::fd::OwnedFd::from(handed).into());
    assert_eq!(served.said, [format!("listening at unix:{}", pool.file("handed"))]);
    assert_eq!(hear(), "READY=1");
    let uri = format!("nbd+unix:///a?socket={}", pool.file("handed"));
    assert_eq!(connect(&uri).unwrap().export().size_bytes, 8 << 20);
    assert_eq!(served.stop(), (0, String::new()));
    assert_eq!(hear(), "STOPPING=1");
    assert!(std::fs::exists(pool.file("handed")).unwrap(), "the socket is the manager's");
}

#[test]
fn commands_work_together_with_clients_and_each_other() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "8m"]);
    let served = pool.serve(&[]);
    let mut client = connect(&pool.uri("a")).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4u64 {
            let pool = &pool;
            scope.spawn(move || {
                let name = format!("w{worker}");
                std::fs::write(pool.file(&name), noise(worker, 3 << 20)).unwrap();
                done(&["volume", "import", &pool.file(&name), &pool.volume(&name)]);
                done(&["volume", "snapshot", &pool.volume(&name), &format!("{name}-before")]);
                done(&["pool", "check", &pool.path(), "--data"]);
                done(&["pool", "gc", &pool.path()]);
            });
        }
        for round in 0..200 {
            assert!(write(&mut client, round % 50 * 5000, &noise(round, 7000)).is_none());
        }
    });
    assert_eq!(pool.stat("/pool/volumes"), 9);
    drop(client);
    assert_eq!(served.stop(), (0, String::new()));
    pool.assert_clean();
}

#[test]
fn another_program_on_the_pool_is_waited_for_or_named() {
    let pool = TestPool::new(&[]);
    // Commands that open the pool themselves wait for each other.
    std::thread::scope(|scope| {
        for number in 0..4 {
            let pool = &pool;
            scope.spawn(move || {
                done(&["volume", "create", &pool.volume(&number.to_string()), "--size", "1m"])
            });
        }
    });
    assert_eq!(pool.stat("/pool/volumes"), 4);
    let data = std::fs::File::open(pool.file("pool/data")).unwrap();
    rustix::fs::flock(&data, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ran = gemelo(&["volume", "ls", &pool.path()]);
    assert_eq!(ran.status, 3, "{}", ran.err);
    let holder = format!("the pool is in use by process {} (", std::process::id());
    assert!(ran.err.contains(&holder), "{}", ran.err);
}

#[test]
fn the_units_are_what_systemd_understands() {
    if !gemelo_tools::has_tool("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let units = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../contrib/systemd");
    // The manual pages are not installed here.
    let mut words = vec!["--man=no".to_owned(), "verify".to_owned()];
    for kind in ["service", "socket"] {
        let text = std::fs::read_to_string(units.join(format!("gemelo@.{kind}"))).unwrap();
        let text = text.replace("/usr/local/bin/gemelo", env!("CARGO_BIN_EXE_gemelo"));
        let path = directory.path().join(format!("gemelo@test.{kind}"));
        std::fs::write(&path, text).unwrap();
        words.push(path.to_str().unwrap().to_owned());
    }
    let ran = Command::new("systemd-analyze").args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success() && said.is_empty(), "{said}");
}

#[test]
fn a_pool_deep_in_the_tree_can_be_asked() {
    let pool = TestPool::new(&[]);
    let deep = pool.file(&"d".repeat(150));
    std::fs::create_dir(&deep).unwrap();
    let path = format!("{deep}/pool");
    std::fs::rename(pool.path(), &path).unwrap();
    // An address of a socket has at most 107 bytes, so only the one for clients is elsewhere.
    let served =
        Served::start(&["serve", &path, "--listen", &format!("unix:{}", pool.file("socket"))]);
    done(&["volume", "create", &format!("{path}/a"), "--size", "1m"]);
    assert_eq!(connect(&pool.uri("a")).unwrap().export().size_bytes, 1 << 20);
    assert_eq!(served.stop(), (0, String::new()));
}
