//! An export of an NBD server as a target, with one connection for each process.

use super::ExportError;
use super::queue::{NbdPlace, NbdQueue};
use gemelo_nbd::client::{Client, ClientError, ExportInfo, NbdUri, Submission};
use gemelo_nbd::wire::{ErrorCode, ExportFlags};
use gemelo_target::{
    AtStart, LABEL_BYTES, PlaceAccess, PlaceLayout, PlannedTarget, Queue, QueueOptions, Storage,
    Target, TargetError,
};
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for connecting to a server and negotiating with it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest request in bytes for servers that state no limit (the protocol's section "Block size
/// constraints").
const USUAL_MAX_BYTES: u32 = 32 << 20;

/// An export of an NBD server.
pub(super) struct ExportStorage {
    pub(super) uri: NbdUri,
}

impl Storage for ExportStorage {
    fn has_engines(&self) -> bool {
        false
    }

    fn capacity(&self) -> Result<Option<u64>, TargetError> {
        Ok(Some(connect(&self.uri, 1)?.export().size_bytes))
    }

    fn plan(&self, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError> {
        let found = FoundExport::check(&self.uri, layout, layout.total_bytes()?)?;
        Ok(Box::new(ExportTarget { found, layout: *layout }))
    }
}

fn connect(uri: &NbdUri, depth: usize) -> Result<Client, ExportError> {
    Client::connect(uri, depth, CONNECT_TIMEOUT).map_err(|source| failed(uri, source))
}

fn failed(uri: &NbdUri, source: ClientError) -> ExportError {
    ExportError::Client { uri: Box::new(uri.clone()), source }
}

/// An export that was checked and can carry the layout.
#[derive(Debug)]
struct FoundExport {
    uri: NbdUri,
    /// `true` if several connections see each other's writes and a flush on one covers all of them.
    allows_many: bool,
    /// Length in bytes of the longest request that is sent.
    max_bytes: usize,
}

impl FoundExport {
    /// Checks that an export can carry the layout.
    fn check(uri: &NbdUri, layout: &PlaceLayout, need_bytes: u64) -> Result<Self, TargetError> {
        let path = || PathBuf::from(uri.to_string());
        if layout.direct {
            return Err(TargetError::NoDirect { path: path() });
        }
        let mut client = connect(uri, 1)?;
        let export = client.export().clone();
        if export.size_bytes < need_bytes {
            return Err(TargetError::TooSmall {
                path: path(),
                have_bytes: export.size_bytes,
                need_bytes,
            });
        }
        if layout.access.writes() && export.flags.has(ExportFlags::READ_ONLY) {
            return Err(TargetError::ReadOnly { path: path() });
        }
        let unit_bytes = unit_bytes(&export);
        for (what, bytes) in
            [("the block size", layout.block_bytes as u64), ("the file size", layout.place_bytes)]
        {
            if bytes % unit_bytes != 0 {
                return Err(TargetError::Unit { what, bytes, unit_bytes, path: path() });
            }
        }
        let allows_many = export.flags.has(ExportFlags::CAN_MULTI_CONN);
        if layout.all_places() > 1 && !allows_many {
            let (uri, wanted) = (Box::new(uri.clone()), layout.all_places());
            return Err(ExportError::Connections { uri, wanted }.into());
        }
        let must_be_blank = layout.access == PlaceAccess::Create && !layout.force;
        if must_be_blank && !is_blank(&mut client, &export).map_err(|source| failed(uri, source))? {
            return Err(TargetError::HoldsData { path: path(), what: "data".to_owned() });
        }
        Ok(Self { uri: uri.clone(), allows_many, max_bytes: max_bytes(&export) })
    }
}

fn unit_bytes(export: &ExportInfo) -> u64 {
    export.block_sizes.map_or(1, |sizes| u64::from(sizes.minimum.max(1)))
}

/// Returns the length in bytes of the longest request that is sent: the server's limit, rounded
/// down to whole blocks.
fn max_bytes(export: &ExportInfo) -> usize {
    let most =
        export.block_sizes.map_or(USUAL_MAX_BYTES, |sizes| sizes.maximum.min(USUAL_MAX_BYTES));
    let unit = unit_bytes(export) as usize;
    (most as usize / unit * unit).max(unit)
}

/// Returns whether the first [`LABEL_BYTES`] of the export are zeros.
fn is_blank(client: &mut Client, export: &ExportInfo) -> Result<bool, ClientError> {
    let unit = unit_bytes(export);
    let end = LABEL_BYTES.min(export.size_bytes) / unit * unit;
    for offset in (0..end).step_by(max_bytes(export)) {
        let length = (end - offset).min(max_bytes(export) as u64) as u32;
        let read = Submission::Read { offset, length };
        match client.run(read, |done| (done.error, gemelo_base::is_zero(done.data)))? {
            (ErrorCode::NONE, true) => {}
            (ErrorCode::NONE, false) => return Ok(false),
            (error, _) => return Err(ClientError::Request(error)),
        }
    }
    Ok(true)
}

/// An export as a target. Each process has a region of it.
#[derive(Debug)]
struct ExportTarget {
    found: FoundExport,
    layout: PlaceLayout,
}

impl PlannedTarget for ExportTarget {
    fn prepare(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        Ok(self)
    }
}

impl Target for ExportTarget {
    fn place(&self, _process: u32) -> String {
        self.found.uri.to_string()
    }

    fn holds_data(&self) -> bool {
        true
    }

    fn at_start(&self) -> AtStart {
        AtStart::Unknown
    }

    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        let FoundExport { uri, allows_many, max_bytes } = &self.found;
        // A request above the server's limit is sent as several requests, which are in flight
        // together.
        let parts = options.buffer_bytes.div_ceil(*max_bytes).max(1);
        let client = connect(uri, options.depth.saturating_mul(parts))?;
        let place = NbdPlace {
            name: uri.to_string(),
            first_byte: self.layout.first_byte(process),
            max_bytes: *max_bytes,
            flushes_at_end: !allows_many,
        };
        Ok(Box::new(NbdQueue::new(client, place, options)))
    }

    fn max_queues(&self) -> usize {
        if self.found.allows_many { usize::MAX } else { 1 }
    }

    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        Ok(())
    }
}
