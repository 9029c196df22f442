//! The server's side of the handshake: it answers options until one selects an export ("Fixed
//! newstyle negotiation").

use super::check::NegotiatedOptions;
use super::door::TlsClient;
use super::error::{LONGEST_SKIPPED_BYTES, MAX_OPTIONS, SessionError};
use super::exports::{block_sizes, export_flags};
use super::stream::Stream;
use super::tls::TlsPolicy;
use crate::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, ClientFlags, HandshakeFlags, Info, InfoKind, InfoRequest,
    LONGEST_STRING_BYTES, MetaContextRequest, OPTION_HEADER_BYTES, OptionCode, OptionHeader,
    OptionReplyHeader, OptionReplyKind, SINCE, SINCE_ID, encode_export_name_reply, encode_greeting,
    encode_listed_export, encode_meta_context,
};
use gemelo_device::{AllowedExports, Export, ExportAccess, Exports};

/// Longest data of an option in bytes that is decoded: a name and several queries.
const LONGEST_OPTION_BYTES: u32 = 16 * LONGEST_STRING_BYTES as u32;

/// Number of bytes of an option's data that are read at once.
const PART_BYTES: usize = 4096;

/// The result of a handshake.
pub(crate) struct Chosen {
    pub(crate) export: Export,
    pub(crate) agreed: NegotiatedOptions,
}

/// The exports, and the rules by which clients open them.
#[derive(Clone, Copy)]
pub(crate) struct Doors<'a> {
    pub(crate) exports: &'a dyn Exports,
    /// The rule of the listener.
    pub(crate) access: &'a ExportAccess,
    /// The rules of clients with certificates.
    pub(crate) clients: &'a [TlsClient],
}

impl<'a> Doors<'a> {
    /// The exports that a client may open whose certificate has these names.
    fn allowed(self, names: &[String]) -> AllowedExports<'a> {
        let mut allowed = AllowedExports::new(self.exports, self.access.clone());
        if !self.clients.is_empty() {
            let of_client = self.clients.iter().filter(|client| names.contains(&client.name));
            allowed.also(of_client.map(|client| client.access.clone()).collect());
        }
        allowed
    }
}

/// A handshake in progress.
pub(crate) struct ServerHandshake<'a> {
    stream: Stream,
    doors: Doors<'a>,
    exports: AllowedExports<'a>,
    tls: &'a TlsPolicy,
    /// Called with the name of the export that is about to be selected; returns `false` if there
    /// are too many clients.
    enter: &'a dyn Fn(&str) -> bool,
    /// `true` if both sides omit the zeros after the reply to EXPORT_NAME.
    no_zeroes: bool,
    structured_replies: bool,
    /// The contexts of block status that were agreed on.
    contexts: AgreedContexts,
}

/// The contexts of block status of an export that were agreed on.
#[derive(Default)]
struct AgreedContexts {
    /// Name of the export.
    export: String,
    base_allocation: bool,
    /// Name of the snapshot whose differences are told.
    since: Option<String>,
}

/// The result of looking up an export to select.
enum ExportLookup {
    Export(Export),
    Nothing,
    TooManyClients,
}

/// The next step of the handshake after an option.
enum Step {
    Continue,
    Chosen(Chosen),
    Ended,
}

impl<'a> ServerHandshake<'a> {
    pub(crate) fn new(
        stream: Stream,
        doors: Doors<'a>,
        tls: &'a TlsPolicy,
        enter: &'a dyn Fn(&str) -> bool,
    ) -> Self {
        let (no_zeroes, structured_replies) = (false, false);
        let contexts = AgreedContexts::default();
        let exports = doors.allowed(&[]);
        Self { stream, doors, exports, tls, enter, no_zeroes, structured_replies, contexts }
    }

    /// Runs the handshake to its end. Returns [`None`] if the client ended it without selecting an
    /// export.
    pub(crate) fn run(mut self) -> Result<(Stream, Option<Chosen>), SessionError> {
        self.greet()?;
        for _ in 0..MAX_OPTIONS {
            let mut header = [0; OPTION_HEADER_BYTES];
            self.stream.read_exact(&mut header)?;
            let header = OptionHeader::decode(&header)?;
            let step = if header.option == OptionCode::STARTTLS {
                self = self.start_tls(header)?;
                Step::Continue
            } else {
                self.answer(header)?
            };
            match step {
                Step::Continue => {}
                Step::Chosen(chosen) => return Ok((self.stream, Some(chosen))),
                Step::Ended => return Ok((self.stream, None)),
            }
        }
        Err(SessionError::TooManyOptions)
    }

    fn greet(&mut self) -> Result<(), SessionError> {
        let offered = HandshakeFlags(HandshakeFlags::FIXED_NEWSTYLE | HandshakeFlags::NO_ZEROES);
        self.stream.write_all(&encode_greeting(offered))?;
        let mut flags = [0; 4];
        self.stream.read_exact(&mut flags)?;
        let flags = u32::from_be_bytes(flags);
        if flags & !(ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES) != 0 {
            return Err(SessionError::ClientFlags(flags));
        }
        self.no_zeroes = flags & ClientFlags::NO_ZEROES != 0;
        Ok(())
    }

    fn answer(&mut self, header: OptionHeader) -> Result<Step, SessionError> {
        let OptionHeader { option, length } = header;
        if length > LONGEST_OPTION_BYTES {
            self.skip(length)?;
            return self.reply(option, OptionReplyKind::ERR_TOO_BIG, &[]);
        }
        let mut data = Vec::new();
        while data.len() < length as usize {
            let (part, bytes) = self.read_part(length as usize - data.len())?;
            data.extend_from_slice(part.get(..bytes).unwrap_or_default());
        }
        if option == OptionCode::ABORT {
            // The client may have closed its side already, and then does not read the reply.
            let _ = self.reply(option, OptionReplyKind::ACK, &[]);
            return Ok(Step::Ended);
        }
        if self.tls.is_required() && !self.stream.is_encrypted() {
            if option == OptionCode::EXPORT_NAME {
                return Err(SessionError::NotEncrypted);
            }
            return self.reply(
                option,
                OptionReplyKind::ERR_TLS_REQUIRED,
                b"this server requires TLS: send STARTTLS first",
            );
        }
        match option {
            OptionCode::EXPORT_NAME => self.export_name(&data),
            OptionCode::LIST => self.list(&data),
            OptionCode::INFO | OptionCode::GO => self.info(option, &data),
            OptionCode::STRUCTURED_REPLY if data.is_empty() => {
                self.structured_replies = true;
                self.reply(option, OptionReplyKind::ACK, &[])
            }
            OptionCode::STRUCTURED_REPLY => self.invalid(option, b"this option must have no data"),
            OptionCode::LIST_META_CONTEXT | OptionCode::SET_META_CONTEXT => {
                self.meta_context(option, &data)
            }
            _ => self.reply(option, OptionReplyKind::ERR_UNSUPPORTED, &[]),
        }
    }

    fn skip(&mut self, length: u32) -> Result<(), SessionError> {
        if length > LONGEST_SKIPPED_BYTES {
            return Err(SessionError::OptionTooLong(length));
        }
        let mut left = length as usize;
        while left > 0 {
            left -= self.read_part(left)?.1;
        }
        Ok(())
    }

    /// Reads up to `most` bytes, and returns them with their number. Announced data thus takes no
    /// memory before it arrives.
    fn read_part(&mut self, most: usize) -> Result<([u8; PART_BYTES], usize), SessionError> {
        let mut part = [0; PART_BYTES];
        let bytes = most.min(PART_BYTES);
        self.stream.read_exact(part.get_mut(..bytes).unwrap_or_default())?;
        Ok((part, bytes))
    }

    fn reply(
        &mut self,
        option: OptionCode,
        kind: OptionReplyKind,
        data: &[u8],
    ) -> Result<Step, SessionError> {
        let header = OptionReplyHeader { option, kind, length: data.len() as u32 };
        self.stream.write_all(&[&header.encode(), data].concat())?;
        Ok(Step::Continue)
    }

    fn invalid(&mut self, option: OptionCode, message: &[u8]) -> Result<Step, SessionError> {
        self.reply(option, OptionReplyKind::ERR_INVALID, message)
    }

    fn unknown(&mut self, option: OptionCode) -> Result<Step, SessionError> {
        self.reply(option, OptionReplyKind::ERR_UNKNOWN, b"the server has no export of this name")
    }

    fn start_tls(mut self, header: OptionHeader) -> Result<Self, SessionError> {
        let option = header.option;
        if header.length > 0 {
            self.skip(header.length)?;
            self.invalid(option, b"this option must have no data")?;
            return Ok(self);
        }
        if self.stream.is_encrypted() {
            self.invalid(option, b"the session is encrypted already")?;
            return Ok(self);
        }
        let Some(config) = self.tls.config() else {
            self.reply(option, OptionReplyKind::ERR_POLICY, b"this server does not offer TLS")?;
            return Ok(self);
        };
        self.reply(option, OptionReplyKind::ACK, &[])?;
        // Everything agreed on without encryption is forgotten ("Usage of TLS").
        let stream = self.stream.start_tls(config)?;
        Ok(Self {
            exports: self.doors.allowed(&stream.peer_names()),
            stream,
            structured_replies: false,
            contexts: AgreedContexts::default(),
            ..self
        })
    }

    /// Looks up an export that is about to be selected. It looks twice, before and after the
    /// registration of the name, so that a server that removes an export and then ends its
    /// connections misses none.
    fn find_to_choose(&self, name: &str) -> ExportLookup {
        match self.exports.find(name) {
            None => ExportLookup::Nothing,
            Some(export) if !(self.enter)(&export.name) => ExportLookup::TooManyClients,
            Some(_) => self.exports.find(name).map_or(ExportLookup::Nothing, ExportLookup::Export),
        }
    }

    fn choose(&self, export: Export) -> Chosen {
        let is_of_export = self.contexts.export == export.name;
        let snapshot = self.contexts.since.as_deref().filter(|_| is_of_export);
        let since = snapshot.and_then(|snapshot| self.exports.since(&export.name, snapshot));
        let agreed = NegotiatedOptions {
            structured_replies: self.structured_replies,
            base_allocation: self.contexts.base_allocation && is_of_export,
            since: since.is_some(),
            zeroes_are_fast: export.zeroes_are_fast,
        };
        Chosen { export: since.unwrap_or(export), agreed }
    }

    fn export_name(&mut self, data: &[u8]) -> Result<Step, SessionError> {
        let name = std::str::from_utf8(data).map_err(|_| SessionError::NoSuchExport)?;
        // The reply to this option cannot refuse, so the connection ends.
        let export = match self.find_to_choose(name) {
            ExportLookup::Export(export) => export,
            ExportLookup::Nothing => return Err(SessionError::NoSuchExport),
            ExportLookup::TooManyClients => return Err(SessionError::TooManyClients),
        };
        let geometry = export.geometry();
        let flags = export_flags(&geometry, self.structured_replies);
        self.stream.write_all(&encode_export_name_reply(
            geometry.size_bytes,
            flags,
            !self.no_zeroes,
        ))?;
        Ok(Step::Chosen(self.choose(export)))
    }

    fn list(&mut self, data: &[u8]) -> Result<Step, SessionError> {
        if !data.is_empty() {
            return self.invalid(OptionCode::LIST, b"this option must have no data");
        }
        for name in self.exports.names() {
            // The export may have been removed since the names were taken.
            let Some(export) = self.exports.find(&name) else { continue };
            let listed = encode_listed_export(&name, &export.description);
            self.reply(OptionCode::LIST, OptionReplyKind::SERVER, &listed)?;
        }
        self.reply(OptionCode::LIST, OptionReplyKind::ACK, &[])
    }

    fn info(&mut self, option: OptionCode, data: &[u8]) -> Result<Step, SessionError> {
        let Ok(request) = InfoRequest::decode(data) else {
            return self.invalid(option, b"the data of the option is invalid");
        };
        let found = match option {
            OptionCode::GO => self.find_to_choose(request.name),
            _ => {
                self.exports.find(request.name).map_or(ExportLookup::Nothing, ExportLookup::Export)
            }
        };
        let export = match found {
            ExportLookup::Export(export) => export,
            ExportLookup::Nothing => return self.unknown(option),
            ExportLookup::TooManyClients => {
                self.reply(
                    option,
                    OptionReplyKind::ERR_POLICY,
                    b"the server has too many clients: try again later",
                )?;
                return Err(SessionError::TooManyClients);
            }
        };
        let geometry = export.geometry();
        let flags = export_flags(&geometry, self.structured_replies);
        let mut told = vec![Info::Export { size_bytes: geometry.size_bytes, flags }];
        // Sent even without a request, because requests that ignore these sizes are refused.
        told.push(Info::BlockSize(block_sizes(&geometry)));
        if request.wanted.contains(&InfoKind::NAME) {
            told.push(Info::Name(&export.name));
        }
        if request.wanted.contains(&InfoKind::DESCRIPTION) && !export.description.is_empty() {
            told.push(Info::Description(&export.description));
        }
        for info in told {
            self.reply(option, OptionReplyKind::INFO, &info.encode())?;
        }
        self.reply(option, OptionReplyKind::ACK, &[])?;
        if option == OptionCode::INFO {
            return Ok(Step::Continue);
        }
        Ok(Step::Chosen(self.choose(export)))
    }

    fn meta_context(&mut self, option: OptionCode, data: &[u8]) -> Result<Step, SessionError> {
        let sets = option == OptionCode::SET_META_CONTEXT;
        if sets {
            self.contexts = AgreedContexts::default();
        }
        let Ok(request) = MetaContextRequest::decode(data) else {
            return self.invalid(option, b"the data of the option is invalid");
        };
        if sets && !self.structured_replies {
            return self.invalid(option, b"send STRUCTURED_REPLY first");
        }
        let Some(export) = self.exports.find(request.name) else { return self.unknown(option) };
        for name in self.contexts_of(&export.name, &request.queries, sets) {
            let since = name.strip_prefix(SINCE);
            let id = if since.is_some() { SINCE_ID } else { BASE_ALLOCATION_ID };
            // The id has a meaning only in SET_META_CONTEXT. In LIST_META_CONTEXT it is reserved.
            let data = encode_meta_context(if sets { id } else { 0 }, &name);
            self.reply(option, OptionReplyKind::META_CONTEXT, &data)?;
            if sets {
                self.contexts.export.clone_from(&export.name);
                self.contexts.base_allocation |= since.is_none();
                self.contexts.since = since.map(str::to_owned).or(self.contexts.since.take());
            }
        }
        self.reply(option, OptionReplyKind::ACK, &[])
    }

    /// The contexts of an export that these queries ask for. One of the kind [`SINCE`] can be set.
    fn contexts_of(&self, export: &str, queries: &[&str], sets: bool) -> Vec<String> {
        let has = |name: &str| queries.contains(&name);
        let lists = |namespace: &str| !sets && (queries.is_empty() || has(namespace));
        let mut names = Vec::new();
        if has(BASE_ALLOCATION) || lists("base:") {
            names.push(BASE_ALLOCATION.to_owned());
        }
        let asked = queries.iter().filter_map(|query| query.strip_prefix(SINCE));
        let known = asked.filter(|snapshot| self.exports.since(export, snapshot).is_some());
        let most = if sets { 1 } else { usize::MAX };
        let mut snapshots: Vec<String> = known.take(most).map(str::to_owned).collect();
        if lists("gemelo:") {
            snapshots = self.exports.snapshots();
        }
        names.extend(snapshots.into_iter().map(|snapshot| format!("{SINCE}{snapshot}")));
        names
    }
}
