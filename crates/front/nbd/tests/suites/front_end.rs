//! NBD as a front end: the addresses and rights that it refuses, and the figures that it gives.

use crate::support::memory::MemoryDevice;
use crate::support::raw::{greeted, read_option_reply, send_option};
use crate::support::{PATIENCE, TestServer};
use gemelo_base::{Recorder, StopFlag};
use gemelo_device::Memory;
use gemelo_device::{
    Export, ExportTable, FrontEnd, FrontEndError, FrontEndStats, Listening, SocketAccess,
};
use gemelo_nbd::client::{Client, NbdUri, ServerAddress};
use gemelo_nbd::server::{ListenAddress, NbdFrontEnd, ServerConfig};
use gemelo_nbd::wire::{InfoKind, InfoRequest, OptionCode, OptionReplyKind};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 10;
const HANDSHAKES: usize = 7;
/// Connections that move volumes for commands.
const TRANSFERS: u64 = 64;

fn exports() -> Arc<ExportTable> {
    let table = ExportTable::new();
    table.insert(Export::new("disk", Arc::new(MemoryDevice::new(1 << 20))));
    Arc::new(table)
}

fn front_end(address: ListenAddress) -> NbdFrontEnd {
    let config = ServerConfig {
        max_connections: CONNECTIONS,
        max_handshakes: HANDSHAKES,
        ..ServerConfig::default()
    };
    NbdFrontEnd { listen: vec![address.into()], config, ..NbdFrontEnd::default() }
}

fn listen(directory: &Path) -> Result<Arc<dyn Listening>, FrontEndError> {
    let front_end = front_end(ListenAddress::Unix(directory.join("socket")));
    Box::new(front_end).listen(exports(), Arc::new(Recorder::new()))
}

#[test]
fn a_socket_that_another_server_has_is_told_from_one_that_cannot_be_made() {
    let directory = tempfile::tempdir().unwrap();
    let _first = listen(directory.path()).unwrap();
    let second = listen(directory.path()).err().unwrap();
    assert!(matches!(second, FrontEndError::InUse(_)), "{second:?}");
    let nowhere = listen(&directory.path().join("none")).err().unwrap();
    assert!(matches!(nowhere, FrontEndError::Refused(_)), "{nowhere:?}");
}

#[test]
fn rights_are_refused_where_no_address_is_a_file() {
    let rights = SocketAccess { mode: Some(0o660), group: None, label: None };
    let check = |address: &str, socket_access: &SocketAccess| {
        NbdFrontEnd { socket_access: socket_access.clone(), ..front_end(address.parse().unwrap()) }
            .check()
    };
    assert!(check("unix:/run/socket", &rights).is_ok());
    assert!(check("unix:/run/socket", &SocketAccess::default()).is_ok());
    assert!(check("tcp:127.0.0.1:0", &SocketAccess::default()).is_ok());
    let refused = check("tcp:127.0.0.1:0", &rights);
    assert!(matches!(refused, Err(FrontEndError::NoSocketFile(_))), "{refused:?}");
}

#[test]
fn the_figures_count_clients_memory_and_files() {
    let directory = tempfile::tempdir().unwrap();
    let listening = listen(directory.path()).unwrap();
    // The listener, its clients, and those that may be about to choose or to leave.
    let files = 1 + CONNECTIONS + 2 * HANDSHAKES;
    let transfers = TRANSFERS + 2 * ServerConfig::default().max_handshakes as u64;
    assert_eq!(listening.max_open_files(), files as u64 + transfers);
    let stop = StopFlag::new();
    // Nothing panics before the server is told to stop, because the scope waits for it.
    let figures = std::thread::scope(|scope| {
        let serving = scope.spawn(|| listening.run(&stop));
        let server = ServerAddress::Unix(directory.path().join("socket"));
        let uri = NbdUri { server, name: "disk".into(), tls: None };
        let connected = Client::connect(&uri, 1, PATIENCE);
        // A client is counted before its connection takes memory.
        let begun = Instant::now();
        let is_counted = |figures: &FrontEndStats| figures.accepted > 0 && figures.memory_bytes > 0;
        while !is_counted(&listening.figures()) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let figures = listening.figures();
        let left = connected.map(Client::disconnect);
        stop.raise();
        serving.join().unwrap().unwrap();
        left.unwrap().unwrap();
        figures
    });
    assert_eq!((figures.accepted, figures.refused, figures.broken), (1, 0, 0), "{figures:?}");
    assert!(figures.memory_bytes > 0, "{figures:?}");
    let limit = Memory::usual_bytes(CONNECTIONS + TRANSFERS as usize);
    assert_eq!(figures.memory_limit_bytes, limit as u64);
}

/// They are neither of the listeners' clients nor without a limit, and share their memory.
#[test]
fn connections_that_move_volumes_have_a_limit_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let mut front_end = front_end(ListenAddress::Unix(directory.path().join("socket")));
    front_end.config.log_connections = true;
    let heard = Arc::new(Recorder::new());
    let listening = Box::new(front_end).listen(exports(), Arc::clone(&heard) as _).unwrap();
    let transfers = listening.transfers(exports()).unwrap();
    let connect = || {
        let (stream, servers) = UnixStream::pair().unwrap();
        transfers.adopt(servers, "a command");
        Client::over(stream, "disk", 1, PATIENCE)
    };
    let clients: Vec<_> = (0..TRANSFERS).map(|_| connect().unwrap()).collect();
    assert!(connect().is_err());
    assert!(listening.figures().memory_bytes > 0);
    assert!(heard.logged().iter().any(|line| line.contains("a command")), "{:?}", heard.logged());
    clients.into_iter().for_each(|client| client.disconnect().unwrap());
    transfers.finish().unwrap();
}

#[test]
fn a_description_is_sent_to_those_who_want_it_where_there_is_one() {
    let device = || Arc::new(MemoryDevice::new(1 << 20));
    let described = Export { description: "a disk".into(), ..Export::new("described", device()) };
    let exports = vec![Export::new("plain", device()), described];
    let server = TestServer::start(exports, ServerConfig::default(), &[]);
    let mut stream = greeted(&server);
    stream.write_all(&3u32.to_be_bytes()).unwrap();
    for (name, wants, is_told) in [
        ("described", true, true),
        ("described", false, false),
        ("plain", true, false),
        ("plain", false, false),
    ] {
        let wanted = if wants { vec![InfoKind::DESCRIPTION] } else { Vec::new() };
        send_option(&mut stream, OptionCode::INFO, &InfoRequest { name, wanted }.encode());
        let mut told = Vec::new();
        loop {
            let (kind, data) = read_option_reply(&mut stream);
            if kind == OptionReplyKind::ACK {
                break;
            }
            assert_eq!(kind, OptionReplyKind::INFO);
            told.push(u16::from_be_bytes([data[0], data[1]]));
        }
        assert_eq!(told.contains(&InfoKind::DESCRIPTION.0), is_told, "{name}, {wants}: {told:?}");
    }
}
