//! Tests of encrypted sessions with programs that speak TLS. The certificates are made here.

use crate::support::gated::Gated;
use crate::support::memory::MemoryDevice;
use crate::support::raw::{greeted, read_chunks, request};
use crate::support::{PATIENCE, TestServer, all_of, bytes, python_with_libnbd, run, tool};
use gemelo_device::Export;
use gemelo_nbd::client::{Client, ClientError, NbdUri, ReplyWait, Submission};
use gemelo_nbd::server::{ServerConfig, TlsError, TlsPolicy, tls_from_files};
use gemelo_nbd::wire::{
    BASE_ALLOCATION, Command, ErrorCode, InfoRequest, MetaContextRequest,
    OPTION_REPLY_HEADER_BYTES, OptionCode, OptionHeader, OptionReplyHeader, OptionReplyKind,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Makes an authority and the certificates of a server and a client in a directory, under the names
/// that libnbd expects.
fn make_certificates(directory: &Path) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(directory.join("ca-cert.pem"), authority.pem()).unwrap();
    for (name, host) in [("server", "localhost"), ("client", "client")] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, host);
        let certificate = params.signed_by(&key, &authority).unwrap();
        std::fs::write(directory.join(format!("{name}-cert.pem")), certificate.pem()).unwrap();
        std::fs::write(directory.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
    }
}

fn policy(directory: &Path, with_clients: bool) -> TlsPolicy {
    let authority = directory.join("ca-cert.pem");
    let authority = with_clients.then_some(&*authority);
    let config = tls_from_files(
        &directory.join("server-cert.pem"),
        &directory.join("server-key.pem"),
        authority,
    );
    TlsPolicy::Required(config.unwrap())
}

fn serve(tls: TlsPolicy) -> (TestServer, String) {
    let config = ServerConfig { tls, log_connections: true, ..ServerConfig::default() };
    let disk = Export::new("disk", Arc::new(MemoryDevice::new(8 << 20)));
    let server = TestServer::start(vec![disk], config, &["tcp:127.0.0.1:0".parse().unwrap()]);
    let port = server.addresses[1].to_string().rsplit(':').next().unwrap().to_owned();
    (server, format!("nbds://localhost:{port}/disk"))
}

const PYTHON: &str = r#"
import nbd, os, sys
uri, directory, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
h = nbd.NBD()
h.set_tls(nbd.TLS_REQUIRE)
h.set_tls_certificates(directory)
h.connect_uri(uri)
assert h.get_tls_negotiated()
assert h.get_structured_replies_negotiated()
data = os.urandom(size)
for round in range(4):
    h.pwrite(data, 0)
    assert h.pread(size, 0) == data
h.shutdown()
"#;

/// Runs the Python program above. Returns whether it succeeded, and its output.
fn libnbd(uri: &str, directory: &Path) -> Option<(bool, String)> {
    let output = python_with_libnbd()?
        .args(["-c", PYTHON, uri])
        .arg(directory)
        .arg("2000000")
        .output()
        .unwrap();
    Some((output.status.success(), all_of(&output)))
}

#[test]
fn libnbd_reads_and_writes_encrypted() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let (_server, uri) = serve(policy(directory.path(), false));
    let Some((is_success, said)) = libnbd(&uri, directory.path()) else { return };
    assert!(is_success, "{said}");
}

#[test]
fn only_clients_with_a_certificate_are_served_when_that_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let (server, uri) = serve(policy(directory.path(), true));
    let Some((is_success, said)) = libnbd(&uri, directory.path()) else { return };
    assert!(is_success, "{said}");

    let stranger = tempfile::tempdir().unwrap();
    std::fs::copy(directory.path().join("ca-cert.pem"), stranger.path().join("ca-cert.pem"))
        .unwrap();
    let (is_success, said) = libnbd(&uri, stranger.path()).unwrap();
    assert!(!is_success, "{said}");
    assert!(server.server.counts().broken >= 1);
}

#[test]
fn qemu_img_copies_encrypted() {
    let Some(mut qemu_img) = tool("qemu-img") else { return };
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let (server, uri) = serve(policy(directory.path(), true));
    let port = uri.trim_end_matches("/disk").rsplit(':').next().unwrap();
    let raw = server.directory.path().join("raw");
    std::fs::write(&raw, bytes(1, 8 << 20)).unwrap();
    let object =
        format!("tls-creds-x509,id=tls,dir={},endpoint=client", directory.path().display());
    let image = format!(
        "driver=nbd,server.type=inet,server.host=localhost,server.port={port},export=disk,tls-creds=tls"
    );
    run(qemu_img
        .args(["convert", "-n", "--object", &object, "--target-image-opts", "-f", "raw"])
        .arg(&raw)
        .arg(&image));
    run(tool("qemu-img")
        .unwrap()
        .args(["convert", "--object", &object, "--image-opts", "-O", "raw", &image])
        .arg(directory.path().join("back")));
    assert!(std::fs::read(directory.path().join("back")).unwrap() == std::fs::read(&raw).unwrap());
}

#[test]
fn who_does_not_encrypt_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let (server, _) = serve(policy(directory.path(), false));
    let plain = Client::connect(&server.uri_of("disk"), 1, PATIENCE);
    assert!(matches!(plain, Err(ClientError::TlsRequired)), "{plain:?}");
}

#[test]
fn certificates_that_cannot_be_used_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    let (certificate, key) = (path("server-cert.pem"), path("server-key.pem"));
    let missing = tls_from_files(&path("nothing"), &key, None);
    assert!(
        matches!(&missing, Err(TlsError::File { path, .. }) if path.ends_with("nothing")),
        "{missing:?}"
    );
    assert!(matches!(tls_from_files(&path("empty"), &key, None), Err(TlsError::Empty(_))));
    assert!(matches!(tls_from_files(&certificate, &certificate, None), Err(TlsError::File { .. })));
    assert!(matches!(
        tls_from_files(&certificate, &path("client-key.pem"), None),
        Err(TlsError::Unusable(_))
    ));
    assert!(matches!(
        tls_from_files(&certificate, &key, Some(&path("empty"))),
        Err(TlsError::Empty(_))
    ));
}

#[test]
fn a_server_that_offers_encryption_serves_both_ways() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let TlsPolicy::Required(config) = policy(directory.path(), false) else {
        panic!("it is required")
    };
    let (server, uri) = serve(TlsPolicy::Offered(config));
    assert!(Client::connect(&server.uri_of("disk"), 1, PATIENCE).is_ok());
    let Some((is_success, said)) = libnbd(&uri, directory.path()) else { return };
    assert!(is_success, "{said}");
    let logged = server.heard.logged();
    assert!(logged[0].ends_with("connected to 'disk', not encrypted"), "{logged:?}");
    let is_encrypted =
        |line: &String| line.ends_with("connected to 'disk', encrypted with TLS 1.3");
    assert!(logged.iter().any(is_encrypted), "{logged:?}");
}

#[test]
fn nbdinfo_sees_an_encrypted_session() {
    let Some(mut nbdinfo) = tool("nbdinfo") else { return };
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let (_server, uri) = serve(policy(directory.path(), true));
    let told = run(nbdinfo.arg(format!("{uri}?tls-certificates={}", directory.path().display())));
    assert!(told.contains("newstyle-fixed with TLS"), "{told}");
}

/// Keeps long and short requests in flight at once, with more data than sockets hold.
fn use_encrypted(client: &mut Client) {
    let data = bytes(9, 1 << 20);
    for round in 0..3 {
        for handle in 0..8 {
            let write = Submission::Write { offset: handle << 20, data: &data, durable: false };
            client.submit(handle, write).unwrap();
        }
        let mut completed = 0;
        while completed < 8 {
            completed += client
                .reap(ReplyWait::AtMost(PATIENCE), |done| assert!(done.error.is_none()))
                .unwrap();
        }
        for handle in 0..8 {
            client
                .submit(handle, Submission::Read { offset: handle << 20, length: 1 << 20 })
                .unwrap();
            client
                .submit(
                    handle + 8,
                    Submission::Read { offset: (handle << 20) + round, length: 512 },
                )
                .unwrap();
        }
        while completed < 24 {
            let taken = client.reap(ReplyWait::AtMost(PATIENCE), |done| {
                let expected = if done.handle < 8 { &data } else { &data[round as usize..][..512] };
                assert!(done.data == expected, "handle {}", done.handle);
            });
            completed += taken.unwrap();
        }
    }
}

fn with_certificates(uri: &str, directory: &Path) -> NbdUri {
    let mark = if uri.contains('?') { '&' } else { '?' };
    format!("{uri}{mark}tls-certificates={}", directory.display()).parse().unwrap()
}

#[test]
fn this_client_shows_its_certificate_and_checks_the_servers() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let (server, uri) = serve(policy(directory.path(), true));
    let mut client =
        Client::connect(&with_certificates(&uri, directory.path()), 16, PATIENCE).unwrap();
    use_encrypted(&mut client);
    client.disconnect().unwrap();
    let over_unix = server.uri().replace("nbd+unix", "nbds+unix");
    use_encrypted(
        &mut Client::connect(&with_certificates(&over_unix, directory.path()), 16, PATIENCE)
            .unwrap(),
    );

    let stranger = tempfile::tempdir().unwrap();
    std::fs::copy(directory.path().join("ca-cert.pem"), stranger.path().join("ca-cert.pem"))
        .unwrap();
    let refused = Client::connect(&with_certificates(&uri, stranger.path()), 1, PATIENCE);
    assert!(matches!(refused, Err(ClientError::Io(_) | ClientError::Closed)), "{refused:?}");

    let others = tempfile::tempdir().unwrap();
    make_certificates(others.path());
    let impostor = Client::connect(&with_certificates(&uri, others.path()), 1, PATIENCE);
    assert!(
        matches!(&impostor, Err(ClientError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData)
    );
    let renamed = format!("{uri}?tls-hostname=elsewhere");
    let renamed = Client::connect(&with_certificates(&renamed, directory.path()), 1, PATIENCE);
    assert!(
        matches!(&renamed, Err(ClientError::Io(error)) if error.kind() == std::io::ErrorKind::InvalidData)
    );
    let nowhere =
        Client::connect(&with_certificates(&uri, &directory.path().join("none")), 1, PATIENCE);
    assert!(
        matches!(nowhere, Err(ClientError::Certificates(TlsError::File { .. }))),
        "{nowhere:?}"
    );
}

#[test]
fn a_server_that_does_not_encrypt_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let server = TestServer::of(Arc::new(MemoryDevice::new(1 << 20)));
    let uri = with_certificates(&server.uri().replace("nbd+unix", "nbds+unix"), directory.path());
    let outcome = Client::connect(&uri, 1, PATIENCE);
    assert!(matches!(outcome, Err(ClientError::NoTls)), "{outcome:?}");
}

#[test]
fn this_client_uses_an_encrypted_nbdkit() {
    let Some(mut nbdkit) = tool("nbdkit") else { return };
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let socket = directory.path().join("socket");
    let certificates = format!("--tls-certificates={}", directory.path().display());
    let mut server = nbdkit
        .args(["-f", "--tls=require", "--tls-verify-peer", &certificates, "-U"])
        .arg(&socket)
        .args(["memory", "8M"])
        .spawn()
        .unwrap();
    let uri =
        with_certificates(&format!("nbds+unix:///?socket={}", socket.display()), directory.path());
    crate::support::eventually("nbdkit listens", || socket.exists());
    let outcome = Client::connect(&uri, 16, PATIENCE);
    if let Ok(mut client) = outcome {
        use_encrypted(&mut client);
        server.kill().unwrap();
        server.wait().unwrap();
    } else {
        let _ = server.kill();
        let _ = server.wait();
        panic!("{outcome:?}");
    }
}

#[test]
fn an_rsa_key_of_a_size_that_is_not_supported_is_refused_with_those_that_are() {
    if tool("openssl").is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("certificate"), directory.path().join("key"));
    let configure = |bits: &str| {
        run(tool("openssl")
            .unwrap()
            .args(["req", "-x509", "-nodes", "-subj", "/CN=localhost", "-newkey", bits])
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&certificate));
        tls_from_files(&certificate, &key, None)
    };
    assert!(configure("rsa:2048").is_ok());
    assert!(configure("rsa:3072").is_ok());
    let refused = configure("rsa:2432").unwrap_err();
    let message = refused.to_string();
    assert!(matches!(refused, TlsError::Key(_)), "{message}");
    for part in [key.to_str().unwrap(), "2048, 3072 or 4096 bits", "openssl genpkey"] {
        assert!(message.contains(part), "{message}");
    }
}

/// Sends an option, and returns the kind and the data of each reply up to the last.
fn ask(
    stream: &mut (impl Read + Write),
    option: OptionCode,
    data: &[u8],
) -> Vec<(OptionReplyKind, Vec<u8>)> {
    let header = OptionHeader { option, length: data.len() as u32 };
    stream.write_all(&[&header.encode(), data].concat()).unwrap();
    let mut replies = Vec::new();
    loop {
        let mut header = [0; OPTION_REPLY_HEADER_BYTES];
        stream.read_exact(&mut header).unwrap();
        let header = OptionReplyHeader::decode(&header).unwrap();
        let mut data = vec![0; header.length as usize];
        stream.read_exact(&mut data).unwrap();
        replies.push((header.kind, data));
        if ![OptionReplyKind::INFO, OptionReplyKind::META_CONTEXT].contains(&header.kind) {
            return replies;
        }
    }
}

/// "Usage of TLS" of the protocol: an attacker could have agreed on it in the client's place.
#[test]
fn what_was_agreed_on_without_encryption_is_forgotten() {
    const SEND_DF: u16 = 1 << 7;
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    let TlsPolicy::Required(config) = policy(directory.path(), false) else { panic!("no policy") };
    let (server, _) = serve(TlsPolicy::Offered(config));
    let mut plain = greeted(&server);
    plain.write_all(&3u32.to_be_bytes()).unwrap();
    let acknowledged = vec![(OptionReplyKind::ACK, Vec::new())];
    assert_eq!(ask(&mut plain, OptionCode::STRUCTURED_REPLY, &[]), acknowledged);
    let context = MetaContextRequest { name: "disk", queries: vec![BASE_ALLOCATION] }.encode();
    let replies = ask(&mut plain, OptionCode::SET_META_CONTEXT, &context);
    assert_eq!(replies[0].0, OptionReplyKind::META_CONTEXT);
    assert_eq!(ask(&mut plain, OptionCode::STARTTLS, &[]), acknowledged);

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(directory.path().join("ca-cert.pem")).unwrap())
        .unwrap();
    let client = rustls::ClientConfig::builder().with_root_certificates(roots);
    let client = Arc::new(client.with_no_client_auth());
    let name = "localhost".try_into().unwrap();
    let session = rustls::ClientConnection::new(client, name).unwrap();
    let mut encrypted = rustls::StreamOwned::new(session, plain);
    let asked = InfoRequest { name: "disk", wanted: vec![] }.encode();
    for (agrees, expected) in [(false, 0), (true, SEND_DF)] {
        if agrees {
            assert_eq!(ask(&mut encrypted, OptionCode::STRUCTURED_REPLY, &[]), acknowledged);
        }
        let replies = ask(&mut encrypted, OptionCode::INFO, &asked);
        let (_, export) = replies.iter().find(|(_, data)| data.starts_with(&[0, 0])).unwrap();
        assert_eq!(u16::from_be_bytes([export[10], export[11]]) & SEND_DF, expected);
    }
    assert_eq!(ask(&mut encrypted, OptionCode::GO, &asked).last(), acknowledged.last());
    encrypted.write_all(&request(Command::BLOCK_STATUS, 0, 0, 4096)).unwrap();
    assert_eq!(read_chunks(&mut encrypted, 0).1, ErrorCode::INVALID);
}

/// The lanes of an encrypted connection and its thread send on one stream.
#[test]
fn requests_complete_later_on_an_encrypted_connection_as_well() {
    const READS: u64 = 64;
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    for is_remote in [false, true] {
        let device = Arc::new(match is_remote {
            false => Gated::over_medium(8 << 20),
            true => Gated::new(8 << 20, true),
        });
        let tls = policy(directory.path(), false);
        let export = Export::new("disk", Arc::clone(&device) as _);
        let config = ServerConfig { tls, ..ServerConfig::default() };
        let server = TestServer::start(vec![export], config, &[]);
        let uri = server.uri().replace("nbd+unix", "nbds+unix");
        let uri = with_certificates(&format!("{uri}&tls-hostname=localhost"), directory.path());
        let mut client = Client::connect(&uri, READS as usize, PATIENCE).unwrap();
        let data = bytes(7, READS as usize * 4096);
        let write = Submission::Write { offset: 0, data: &data, durable: false };
        assert!(client.run(write, |done| done.error.is_none()).unwrap());
        let held = 8;
        device.hold_reads(0..held * 4096);
        for round in 0..20 {
            for block in 0..READS {
                let read = Submission::Read { offset: block * 4096, length: 4096 };
                client.submit(block, read).unwrap();
            }
            let mut answered = 0;
            let mut take = |done: gemelo_nbd::client::CompletedRequest<'_>| {
                let expected = &data[done.handle as usize * 4096..][..4096];
                assert!(done.error.is_none() && done.data == expected, "block {}", done.handle);
                answered += 1;
            };
            // A remote device has 16 lanes, of which two wait.
            let first = READS - held;
            let mut received = 0;
            while received < first {
                let some = client.reap(ReplyWait::AtMost(PATIENCE), &mut take).unwrap() as u64;
                assert!(some > 0, "no reply in time");
                received += some;
            }
            device.open();
            while received < READS {
                received += client.reap(ReplyWait::AtMost(PATIENCE), &mut take).unwrap() as u64;
            }
            assert_eq!(answered, READS, "round {round}");
            device.hold_reads(0..held * 4096);
        }
        device.open();
        assert!(server.server.counts().overlapping >= 20);
        client.disconnect().unwrap();
    }
}

#[test]
fn a_client_opens_what_its_certificate_is_for_and_learns_of_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    make_certificates(directory.path());
    for (rule, opens) in [("client,volume=d*", true), ("Client", true), ("other,volume=d*", false)]
    {
        let config = ServerConfig {
            tls: policy(directory.path(), true),
            clients: vec![rule.parse().unwrap()],
            ..ServerConfig::default()
        };
        let disk = Export::new("disk", Arc::new(MemoryDevice::new(8 << 20)));
        let server = TestServer::start(vec![disk], config, &[]);
        let uri = server.uri().replace("nbd+unix", "nbds+unix");
        let outcome = Client::connect(&with_certificates(&uri, directory.path()), 1, PATIENCE);
        assert_eq!(outcome.is_ok(), opens, "{rule}: {outcome:?}");
        assert!(opens || matches!(outcome, Err(ClientError::NoSuchExport)), "{outcome:?}");
    }
}
