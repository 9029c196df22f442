//! Tests of what the clients of an address, or with a certificate, may open.

use crate::served::{TestPool, done, noise, refused};
use gemelo_nbd::client::{Client, ClientError, Submission};
use gemelo_nbd::wire::ExportFlags;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::fs;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn connect(socket: &str, name: &str) -> Result<Client, ClientError> {
    let uri = format!("nbd+unix:///{name}?socket={socket}");
    Client::connect(&uri.parse().unwrap(), 2, PATIENCE)
}

fn is_read_only(client: &Client) -> bool {
    client.export().flags.0 & ExportFlags::READ_ONLY != 0
}

/// The reply to an option of the handshake, as the kinds and data that a raw client receives.
fn replies(socket: &str, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()];
    stream.write_all(&[&3u32.to_be_bytes()[..], &head.concat(), data].concat()).unwrap();
    let mut all = Vec::new();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).unwrap();
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let mut data = vec![0; number(16) as usize];
        stream.read_exact(&mut data).unwrap();
        let kind = number(12);
        all.push((kind, data));
        // An acknowledgement or an error ends the replies.
        if kind == 1 || kind >> 31 == 1 {
            return all;
        }
    }
}

const LIST: u32 = 3;
const INFO: u32 = 6;

fn info(socket: &str, name: &str) -> Vec<(u32, Vec<u8>)> {
    let length = (name.len() as u32).to_be_bytes();
    replies(socket, INFO, &[&length[..], name.as_bytes(), &[0, 0]].concat())
}

#[test]
fn a_client_of_a_socket_learns_of_no_volume_that_is_not_meant_for_it() {
    let pool = TestPool::new(&[]);
    for (name, size) in [("web-1", "8m"), ("web-2", "9m"), ("db", "10m")] {
        done(&["volume", "create", &pool.volume(name), "--size", size]);
    }
    done(&["volume", "snapshot", &pool.volume("db"), "db-monday"]);
    done(&["volume", "snapshot", &pool.volume("web-1"), "web-1-monday"]);
    let (web, reader) = (pool.file("web.sock"), pool.file("reader.sock"));
    let listen = [format!("unix:{web},volume=web-*"), format!("unix:{reader},volume=db,read-only")];
    let served = pool.serve(&["--listen", &listen[0], "--listen", &listen[1]]);
    assert_eq!(connect(&web, "web-2").unwrap().export().size_bytes, 9 << 20);
    assert!(matches!(connect(&web, "db"), Err(ClientError::NoSuchExport)));
    let listed = replies(&web, LIST, &[]);
    let text = String::from_utf8_lossy(&listed.concat_data()).into_owned();
    assert!(text.contains("web-1") && text.contains("web-2") && !text.contains("db"), "{text}");
    // A volume that is not meant for it answers as one that does not exist.
    let (hidden, absent) = (info(&web, "db"), info(&web, "dx"));
    assert_eq!(hidden, absent);
    // No snapshot of others is named, or can be compared with.
    let length = |text: &str| (text.len() as u32).to_be_bytes();
    let query = |name: &str, query: &str| {
        [&length(name)[..], name.as_bytes(), &1u32.to_be_bytes(), &length(query), query.as_bytes()]
            .concat()
    };
    let contexts = replies(&web, 9, &query("web-1", "gemelo:"));
    let text = String::from_utf8_lossy(&contexts.concat_data()).into_owned();
    assert!(text.contains("web-1-monday") && !text.contains("db"), "{text}");
    let others = replies(&web, 9, &query("web-1", "gemelo:since:db-monday"));
    assert_eq!(others, replies(&web, 9, &query("web-1", "gemelo:since:none")));

    // Reads are allowed where writes are not, and its only volume is the default.
    let mut client = connect(&reader, "").unwrap();
    assert!(is_read_only(&client));
    let write = Submission::Write { offset: 0, data: &noise(1, 4096), durable: false };
    assert!(client.run(write, |done| done.error).is_err_or_refused());
    assert!(!is_read_only(&connect(&pool.file("socket"), "db").unwrap()));
    assert_eq!(served.stop(), (0, String::new()));
}

trait ConcatData {
    fn concat_data(&self) -> Vec<u8>;
}

impl ConcatData for Vec<(u32, Vec<u8>)> {
    fn concat_data(&self) -> Vec<u8> {
        self.iter().flat_map(|(_, data)| data.iter().copied().chain([b' '])).collect()
    }
}

trait IsRefused {
    fn is_err_or_refused(&self) -> bool;
}

impl IsRefused for Result<gemelo_nbd::wire::ErrorCode, ClientError> {
    fn is_err_or_refused(&self) -> bool {
        self.as_ref().map_or(true, |error| !error.is_none())
    }
}

/// The times of both answers are alike: the median of each is between the quartiles of the other.
#[test]
fn the_time_of_an_answer_tells_nothing_of_a_hidden_volume() {
    const ASKED: usize = 400;
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("db"), "--size", "10m"]);
    let web = pool.file("web.sock");
    let served = pool.serve(&["--listen", &format!("unix:{web},volume=web-*")]);
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..2 * ASKED {
        // Each is asked for first as often as the other.
        let which = (turn / 2 + turn) % 2;
        let began = Instant::now();
        info(&web, ["db", "dx"][which]);
        times[which].push(began.elapsed());
    }
    assert_eq!(served.stop(), (0, String::new()));
    times.iter_mut().for_each(|times| times.sort_unstable());
    let at = |which: usize, quarters: usize| times[which][ASKED * quarters / 4];
    for (one, other) in [(0, 1), (1, 0)] {
        let [low, median, high] = [at(other, 1), at(one, 2), at(other, 3)];
        assert!((low..=high).contains(&median), "{median:?}, and {low:?} to {high:?}");
    }
}

/// Makes an authority, and a directory for the server and each client with what they show.
fn make_certificates(pool: &TestPool, clients: &[&str]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    for name in clients.iter().chain(&["localhost"]) {
        let directory = pool.file(name);
        fs::create_dir(&directory).unwrap();
        let write = |file: &str, text: &str| fs::write(format!("{directory}/{file}"), text);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![(*name).to_owned()]).unwrap();
        write("ca-cert.pem", &authority.pem()).unwrap();
        write("client-cert.pem", &params.signed_by(&key, &authority).unwrap().pem()).unwrap();
        write("client-key.pem", &key.serialize_pem()).unwrap();
    }
}

#[test]
fn a_client_opens_the_volumes_that_its_certificate_is_for_and_no_other() {
    let pool = TestPool::new(&[]);
    for name in ["web-1", "db"] {
        done(&["volume", "create", &pool.volume(name), "--size", "8m"]);
    }
    make_certificates(&pool, &["web.example", "reader.example", "stranger.example"]);
    let of_server = |file: &str| format!("{}/{file}", pool.file("localhost"));
    let served = pool.serve(&[
        "--tls-certificate",
        &of_server("client-cert.pem"),
        "--tls-key",
        &of_server("client-key.pem"),
        "--tls-client-authority",
        &of_server("ca-cert.pem"),
        "--tls-client",
        "Web.Example,volume=web-*",
        "--tls-client",
        "reader.example,volume=db,read-only",
        "--tls-optional",
    ]);
    let socket = pool.file("socket");
    let encrypted = |client: &str, name: &str| {
        let certificates = pool.file(client);
        let uri = format!("nbds+unix:///{name}?socket={socket}&tls-certificates={certificates}");
        Client::connect(&uri.parse().unwrap(), 2, PATIENCE)
    };
    assert!(!is_read_only(&encrypted("web.example", "web-1").unwrap()));
    assert!(is_read_only(&encrypted("reader.example", "db").unwrap()));
    for (client, name) in [
        ("web.example", "db"),
        ("web.example", "none"),
        ("reader.example", "web-1"),
        ("stranger.example", "db"),
        ("stranger.example", ""),
    ] {
        let opened = encrypted(client, name);
        assert!(matches!(opened, Err(ClientError::NoSuchExport)), "{client} {name}: {opened:?}");
    }
    // One that does not encrypt has no name.
    assert!(matches!(connect(&socket, "web-1"), Err(ClientError::NoSuchExport)));
    assert_eq!(served.stop(), (0, String::new()));
}

#[test]
fn addresses_and_clients_that_are_wrong_are_refused_in_words() {
    let pool = TestPool::new(&[]);
    let path = pool.path();
    for (address, part) in [
        ("unix:/tmp/x,volumes=web-*", "'volumes=web-*' is unknown"),
        ("unix:/tmp/x,web", "'web' is unknown"),
        ("unix:/tmp/x,volume=", "'volume=' is unknown"),
    ] {
        let said = refused(&["serve", &path, "--listen", address]);
        assert!(said.contains(part), "{said}");
    }
    let listen = format!("unix:{}", pool.file("socket"));
    let said = refused(&["serve", &path, "--listen", &listen, "--tls-client", "a,volume=b"]);
    assert!(said.contains("--tls-client-authority"), "{said}");
    if !fs::exists("/sys/fs/selinux/enforce").unwrap() {
        let label = "system_u:object_r:svirt_socket_t:s0";
        let said = refused(&["serve", &path, "--listen", &listen, "--selinux-label", label]);
        assert!(said.contains("no SELinux"), "{said}");
    }
}
