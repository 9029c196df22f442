//! Fuzz targets for NBD: the decoders, a server with arbitrary clients, a client with arbitrary
//! servers.

use crate::disk::tuning;
use crate::pool::disks_of_a_pool;
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_device::{Export, ExportTable};
use gemelo_nbd::client::{Client, NbdUri, ServerAddress, Submission};
use gemelo_nbd::server::{ListenAddress, Listener, Server, ServerConfig};
use gemelo_nbd::wire::{
    BASE_ALLOCATION, BlockDescriptor, BlockSizes, ChunkHeader, ChunkKind, ClientFlags, Command,
    ErrorCode, ExportFlags, HandshakeFlags, Info, InfoKind, InfoRequest, MetaContextRequest,
    OptionCode, OptionHeader, OptionReplyHeader, OptionReplyKind, ReplyHead, RequestHeader,
    SimpleReply, decode_block_descriptors, decode_block_status_context, decode_error_chunk,
    decode_greeting, decode_listed_export, decode_meta_context, decode_reply_head,
    encode_block_status_header, encode_error_chunk, encode_greeting, encode_listed_export,
    encode_meta_context, encode_offset_data_header,
};
use gemelo_volume::Pool;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Longest time that an answer may take. A run that takes longer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs all decoders on the same bytes. A decoded message must survive encoding.
pub(crate) fn wire(bytes: &[u8]) {
    if let Ok(flags) = decode_greeting(bytes) {
        assert_eq!(decode_greeting(&encode_greeting(flags)), Ok(flags));
    }
    if let Ok(header) = OptionHeader::decode(bytes) {
        assert_eq!(OptionHeader::decode(&header.encode()), Ok(header));
    }
    if let Ok(header) = OptionReplyHeader::decode(bytes) {
        assert_eq!(OptionReplyHeader::decode(&header.encode()), Ok(header));
    }
    if let Ok(header) = RequestHeader::decode(bytes) {
        assert_eq!(RequestHeader::decode(&header.encode()), Ok(header));
    }
    if let Ok(info) = Info::decode(bytes) {
        assert!(Info::decode(&info.encode()) == Ok(info));
    }
    if let Ok(request) = InfoRequest::decode(bytes) {
        assert!(InfoRequest::decode(&request.encode()) == Ok(request));
    }
    if let Ok(request) = MetaContextRequest::decode(bytes) {
        assert!(MetaContextRequest::decode(&request.encode()) == Ok(request));
    }
    if let Ok((name, description)) = decode_listed_export(bytes) {
        assert_eq!(
            decode_listed_export(&encode_listed_export(name, description)),
            Ok((name, description))
        );
    }
    if let Ok((id, name)) = decode_meta_context(bytes) {
        assert_eq!(decode_meta_context(&encode_meta_context(id, name)), Ok((id, name)));
    }
    if let Ok(descriptors) = decode_block_descriptors(bytes) {
        assert_eq!(descriptors.count(), bytes.len() / 8);
        assert!(decode_block_status_context(bytes).is_ok());
    }
    let _ = decode_error_chunk(bytes);
    if let Ok(Some(ReplyHead::Chunk(header))) = decode_reply_head(bytes) {
        assert_eq!(decode_reply_head(&header.encode()), Ok(Some(ReplyHead::Chunk(header))));
    }
}

/// The directory of the sockets. It exists as long as the program runs.
static DIRECTORY: LazyLock<Option<PathBuf>> =
    LazyLock::new(|| tempfile::tempdir().ok().map(tempfile::TempDir::keep));

/// The socket of a server that exports the volumes of the small pool.
static SERVED: LazyLock<Option<PathBuf>> = LazyLock::new(|| serve().ok());

fn serve() -> anyhow::Result<PathBuf> {
    let disks = disks_of_a_pool().ok_or(ErrorKind::NotFound).map_err(std::io::Error::from)?;
    let pool = Pool::open_disks(disks, tuning(), Arc::new(SystemClock::new()))?;
    let exports = ExportTable::new();
    for name in ["one", "other", "three"] {
        exports.insert(Export::new(name, Arc::new(pool.volume(name)?)));
    }
    let path =
        DIRECTORY.as_ref().ok_or(ErrorKind::NotFound).map_err(std::io::Error::from)?.join("server");
    let listener = Listener::bind(&ListenAddress::Unix(path.clone()))?;
    let config = ServerConfig { handshake_timeout: PATIENCE / 2, ..ServerConfig::default() };
    let server = Server::new(Arc::new(exports), config, Arc::new(Silent));
    std::thread::Builder::new().name("fuzzed".to_owned()).spawn(move || {
        let _pool = pool;
        server.serve(vec![listener], &StopFlag::new())
    })?;
    Ok(path)
}

/// Sends the bytes to the server as a client. The server must answer or end the connection in time,
/// and must accept the next client.
pub(crate) fn server(bytes: &[u8]) {
    let Some(path) = &*SERVED else { return };
    let connected = UnixStream::connect(path);
    assert!(connected.is_ok(), "the server does not accept a connection: {connected:?}");
    let Ok(mut stream) = connected else { return };
    let _ = (stream.set_read_timeout(Some(PATIENCE)), stream.set_write_timeout(Some(PATIENCE)));
    // The server may end the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    let is_slow = ended
        .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    assert!(!is_slow, "the server keeps the connection of a client that has closed its side");
}

/// The socket to which the fuzzed client connects.
static PRETENDER: LazyLock<Option<(UnixListener, PathBuf)>> = LazyLock::new(|| {
    let path = DIRECTORY.as_ref()?.join("client");
    Some((UnixListener::bind(&path).ok()?, path))
});

/// Sends the bytes to the client as a server. The client must accept them, or end the connection
/// with an error.
pub(crate) fn client(bytes: &[u8]) {
    let Some((listener, path)) = &*PRETENDER else { return };
    let uri =
        NbdUri { server: ServerAddress::Unix(path.clone()), name: "one".to_owned(), tls: None };
    std::thread::scope(|scope| {
        let server = || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        };
        if std::thread::Builder::new().spawn_scoped(scope, server).is_err() {
            return;
        }
        let Ok(mut client) = Client::connect(&uri, 4, PATIENCE) else { return };
        let read = Submission::Read { offset: 0, length: 512 };
        let seen = client
            .run(read, |completion| completion.error.is_none().then_some(completion.data.len()));
        assert!(
            !matches!(seen, Ok(Some(length)) if length != 512),
            "a read returned a wrong length: {seen:?}"
        );
        let _ = client.run(Submission::BlockStatus { offset: 0, length: 4096, one: false }, |_| ());
    });
}

/// Returns messages of every kind.
pub(crate) fn wire_seeds() -> Vec<Vec<u8>> {
    let sizes = BlockSizes { minimum: 1, preferred: 4096, maximum: 1 << 25 };
    let info = Info::Export { size_bytes: 1 << 20, flags: ExportFlags(0xffff) };
    let mut status = vec![0, 0, 0, 1];
    status.extend_from_slice(&BlockDescriptor { length: 4096, state: 3 }.encode());
    vec![
        encode_greeting(HandshakeFlags(3)).to_vec(),
        OptionHeader { option: OptionCode::GO, length: 10 }.encode().to_vec(),
        OptionReplyHeader { option: OptionCode::GO, kind: OptionReplyKind::ACK, length: 0 }
            .encode()
            .to_vec(),
        request(Command::WRITE_ZEROES, 3, 512, 512),
        info.encode(),
        Info::BlockSize(sizes).encode(),
        Info::Description("of what").encode(),
        InfoRequest { name: "one", wanted: vec![InfoKind::BLOCK_SIZE] }.encode(),
        MetaContextRequest { name: "one", queries: vec![BASE_ALLOCATION, "x:"] }.encode(),
        encode_listed_export("one", "of two"),
        encode_meta_context(1, BASE_ALLOCATION),
        SimpleReply { error: ErrorCode::NONE, cookie: 7 }.encode().to_vec(),
        encode_error_chunk(7, ErrorCode::IO).to_vec(),
        status,
    ]
}

fn request(command: Command, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    RequestHeader { flags, command, cookie: 3, offset, length }.encode().to_vec()
}

fn option(option: OptionCode, data: &[u8]) -> Vec<u8> {
    [&OptionHeader { option, length: data.len() as u32 }.encode(), data].concat()
}

/// Returns the client's part of whole conversations.
pub(crate) fn server_seeds() -> Vec<Vec<u8>> {
    let hello = (ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES).to_be_bytes().to_vec();
    let go =
        option(OptionCode::GO, &InfoRequest { name: "one", wanted: vec![InfoKind::NAME] }.encode());
    let contexts = MetaContextRequest { name: "one", queries: vec![BASE_ALLOCATION] }.encode();
    let structured = [
        option(OptionCode::STRUCTURED_REPLY, &[]),
        option(OptionCode::SET_META_CONTEXT, &contexts),
    ]
    .concat();
    let requests = [
        request(Command::WRITE, 1, 100, 600),
        vec![7; 600],
        request(Command::READ, 0, 0, 4096),
        request(Command::TRIM, 0, 512, 1024),
        request(Command::WRITE_ZEROES, 2, 0, 512),
        request(Command::CACHE, 0, 0, 512),
        request(Command::FLUSH, 0, 0, 0),
        request(Command::BLOCK_STATUS, 8, 0, 65536),
        request(Command::DISCONNECT, 0, 0, 0),
    ]
    .concat();
    vec![
        [hello.clone(), structured, go.clone(), requests.clone()].concat(),
        [hello.clone(), go, requests.clone()].concat(),
        [hello.clone(), option(OptionCode::EXPORT_NAME, b"second"), requests].concat(),
        [hello, option(OptionCode::LIST, &[]), option(OptionCode::ABORT, &[])].concat(),
    ]
}

/// Returns the server's part of a whole conversation.
pub(crate) fn client_seeds() -> Vec<Vec<u8>> {
    let reply = |option, kind, data: &[u8]| {
        [&OptionReplyHeader { option, kind, length: data.len() as u32 }.encode(), data].concat()
    };
    let flags =
        ExportFlags(ExportFlags::HAS_FLAGS | ExportFlags::SEND_FLUSH | ExportFlags::SEND_DF);
    let info = Info::Export { size_bytes: 1 << 20, flags }.encode();
    let greeting = encode_greeting(HandshakeFlags(3)).to_vec();
    let negotiation = [
        reply(OptionCode::STRUCTURED_REPLY, OptionReplyKind::ACK, &[]),
        reply(
            OptionCode::SET_META_CONTEXT,
            OptionReplyKind::META_CONTEXT,
            &encode_meta_context(1, BASE_ALLOCATION),
        ),
        reply(OptionCode::SET_META_CONTEXT, OptionReplyKind::ACK, &[]),
        reply(OptionCode::GO, OptionReplyKind::INFO, &info),
        reply(OptionCode::GO, OptionReplyKind::ACK, &[]),
    ]
    .concat();
    let half = |flags, kind, extra: &[u8]| {
        let length = 8 + extra.len() as u32;
        let header = ChunkHeader { flags, kind, cookie: 0, length }.encode();
        [&header[..], &(if flags == 0 { 0u64 } else { 256 }).to_be_bytes(), extra].concat()
    };
    let status = [
        &encode_block_status_header(0, 1, 1, 1)[..],
        &BlockDescriptor { length: 4096, state: 3 }.encode(),
    ]
    .concat();
    let whole = [&encode_offset_data_header(0, 0, 512)[..], &[5; 512], &status].concat();
    let halves = [
        half(0, ChunkKind::OFFSET_DATA, &[1; 256]),
        half(1, ChunkKind::OFFSET_HOLE, &256u32.to_be_bytes()),
        status,
    ]
    .concat();
    let error = encode_error_chunk(0, ErrorCode::IO).to_vec();
    [whole, halves, error]
        .into_iter()
        .map(|replies| [greeting.clone(), negotiation.clone(), replies].concat())
        .collect()
}
