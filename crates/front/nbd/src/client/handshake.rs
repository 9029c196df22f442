//! The client's side of the handshake. It requests structured replies and block status if the
//! server supports them. It then selects the export with GO, or with EXPORT_NAME if the server does
//! not support GO.

use super::channel::Channel;
use super::{ClientError, ExportInfo, NbdUri, tls};
use crate::wire::{
    BASE_ALLOCATION, BlockSizes, ClientFlags, ExportFlags, GREETING_BYTES, HandshakeFlags, Info,
    InfoKind, InfoRequest, MetaContextRequest, NO_ZEROES_PADDING_BYTES, OPTION_REPLY_HEADER_BYTES,
    OptionCode, OptionHeader, OptionReplyHeader, OptionReplyKind, WireError, decode_greeting,
    decode_meta_context,
};
use std::io::{Read, Write};

/// Longest data of an option reply, in bytes, that is accepted.
const LONGEST_REPLY_BYTES: u32 = 64 << 10;

/// Most replies to one option that are accepted.
const MAX_REPLIES: usize = 1024;

/// A handshake in progress.
pub(super) struct ClientHandshake<'a> {
    channel: &'a mut Channel,
    no_zeroes: bool,
}

impl<'a> ClientHandshake<'a> {
    /// Negotiates an export, and starts TLS first if the address demands it.
    pub(super) fn run(
        channel: &'a mut Channel,
        name: &str,
        address: Option<&NbdUri>,
    ) -> Result<ExportInfo, ClientError> {
        let mut greeting = [0; GREETING_BYTES];
        channel.read_exact(&mut greeting)?;
        let offered = decode_greeting(&greeting)?;
        if offered.0 & HandshakeFlags::FIXED_NEWSTYLE == 0 {
            return Err(ClientError::OldServer);
        }
        let no_zeroes = offered.0 & HandshakeFlags::NO_ZEROES != 0;
        let flags =
            ClientFlags::FIXED_NEWSTYLE | if no_zeroes { ClientFlags::NO_ZEROES } else { 0 };
        channel.write_all(&flags.to_be_bytes())?;
        let mut handshake = Self { channel, no_zeroes };
        if let Some(address) = address {
            handshake.start_tls(address)?;
        }
        let structured_replies = handshake.ask(OptionCode::STRUCTURED_REPLY, &[], |_, _| Ok(()))?;
        let allocation_id = if structured_replies { handshake.ask_allocation(name)? } else { None };
        let mut info = handshake.go(name)?;
        info.structured_replies = structured_replies;
        info.allocation_id = allocation_id;
        Ok(info)
    }

    fn start_tls(&mut self, uri: &NbdUri) -> Result<(), ClientError> {
        let Some(wanted) = &uri.tls else { return Ok(()) };
        let config = tls::config(wanted)?;
        let server = tls::server_name(&uri.server, wanted).ok_or(ClientError::NoServerName)?;
        match self.ask(OptionCode::STARTTLS, &[], |_, _| Ok(())) {
            Ok(true) => Ok(self.channel.start_tls(config, server)?),
            Ok(false) => Err(ClientError::NoTls),
            Err(ClientError::Refused { .. }) => Err(ClientError::NoTls),
            Err(error) => Err(error),
        }
    }

    /// Sends an option and passes its replies to `take`. Returns whether the server acknowledged
    /// the option. `false` means that the server does not support it. All other refusals are
    /// errors.
    fn ask(
        &mut self,
        option: OptionCode,
        data: &[u8],
        mut take: impl FnMut(OptionReplyKind, &[u8]) -> Result<(), WireError>,
    ) -> Result<bool, ClientError> {
        let header = OptionHeader { option, length: data.len() as u32 };
        self.channel.write_all(&[&header.encode(), data].concat())?;
        for _ in 0..MAX_REPLIES {
            let mut reply = [0; OPTION_REPLY_HEADER_BYTES];
            self.channel.read_exact(&mut reply)?;
            let reply = OptionReplyHeader::decode(&reply)?;
            if reply.option != option {
                return Err(ClientError::Unexpected("a reply to another option"));
            }
            if reply.length > LONGEST_REPLY_BYTES {
                return Err(ClientError::Unexpected("too long a reply to an option"));
            }
            let mut data = vec![0; reply.length as usize];
            self.channel.read_exact(&mut data)?;
            match reply.kind {
                OptionReplyKind::ACK => return Ok(true),
                OptionReplyKind::ERR_UNSUPPORTED => return Ok(false),
                kind if kind.is_error() => {
                    return Err(ClientError::refused(kind, &String::from_utf8_lossy(&data)));
                }
                kind => take(kind, &data)?,
            }
        }
        Err(ClientError::Unexpected("too many replies to one option"))
    }

    fn ask_allocation(&mut self, name: &str) -> Result<Option<u32>, ClientError> {
        let request = MetaContextRequest { name, queries: vec![BASE_ALLOCATION] };
        let mut id = None;
        self.ask(OptionCode::SET_META_CONTEXT, &request.encode(), |kind, data| {
            if kind == OptionReplyKind::META_CONTEXT {
                let (found, context) = decode_meta_context(data)?;
                if context == BASE_ALLOCATION {
                    id = Some(found);
                }
            }
            Ok(())
        })?;
        Ok(id)
    }

    fn go(&mut self, name: &str) -> Result<ExportInfo, ClientError> {
        let request = InfoRequest { name, wanted: vec![InfoKind::BLOCK_SIZE] };
        let mut export = None;
        let mut block_sizes = None;
        let known = self.ask(OptionCode::GO, &request.encode(), |kind, data| {
            if kind == OptionReplyKind::INFO {
                match Info::decode(data)? {
                    Info::Export { size_bytes, flags } => export = Some((size_bytes, flags)),
                    Info::BlockSize(sizes) => block_sizes = Some(sizes),
                    _ => {}
                }
            }
            Ok(())
        })?;
        if !known {
            return self.export_name(name);
        }
        let (size_bytes, flags) = export.ok_or(ClientError::Unexpected("no size of the export"))?;
        Ok(ExportInfo {
            size_bytes,
            flags,
            block_sizes,
            structured_replies: false,
            allocation_id: None,
        })
    }

    fn export_name(&mut self, name: &str) -> Result<ExportInfo, ClientError> {
        let header = OptionHeader { option: OptionCode::EXPORT_NAME, length: name.len() as u32 };
        self.channel.write_all(&[&header.encode(), name.as_bytes()].concat())?;
        let (mut size, mut flags) = ([0; 8], [0; 2]);
        self.channel.read_exact(&mut size)?;
        self.channel.read_exact(&mut flags)?;
        if !self.no_zeroes {
            self.channel.read_exact(&mut [0; NO_ZEROES_PADDING_BYTES])?;
        }
        Ok(ExportInfo {
            size_bytes: u64::from_be_bytes(size),
            flags: ExportFlags(u16::from_be_bytes(flags)),
            block_sizes: None::<BlockSizes>,
            structured_replies: false,
            allocation_id: None,
        })
    }
}
