//! The kinds of flowops, with their names and their classes in the statistics.

/// The kind of a flowop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the variants are the language's names; see docs/reference/filebench.md"
)]
pub enum Kind {
    Read,
    Write,
    ReadWholeFile,
    WriteWholeFile,
    AppendFile,
    AppendFileRand,
    AioRead,
    AioWrite,
    AioWait,
    CreateFile,
    OpenFile,
    CloseFile,
    DeleteFile,
    StatFile,
    CopyFile,
    Fsync,
    FsyncSet,
    MakeDir,
    RemoveDir,
    ListDir,
    Delay,
    Hog,
    Block,
    Wakeup,
    SemBlock,
    SemPost,
    EventLimit,
    BwLimit,
    IopsLimit,
    OpsLimit,
    FinishOnCount,
    FinishOnBytes,
    TestRandVar,
    Print,
    Composite,
}

/// The class of an operation in the totals of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The operation reads data of files.
    Read,
    /// The operation writes data of files.
    Write,
    /// The operation transfers no data of files.
    Neither,
}

/// Names and kinds of all flowops of the language.
pub(crate) const KINDS: &[(&str, Kind)] = &[
    ("read", Kind::Read),
    ("write", Kind::Write),
    ("readwholefile", Kind::ReadWholeFile),
    ("writewholefile", Kind::WriteWholeFile),
    ("appendfile", Kind::AppendFile),
    ("appendfilerand", Kind::AppendFileRand),
    ("aioread", Kind::AioRead),
    ("aiowrite", Kind::AioWrite),
    ("aiowait", Kind::AioWait),
    ("createfile", Kind::CreateFile),
    ("openfile", Kind::OpenFile),
    ("closefile", Kind::CloseFile),
    ("deletefile", Kind::DeleteFile),
    ("statfile", Kind::StatFile),
    ("copyfile", Kind::CopyFile),
    ("fsync", Kind::Fsync),
    ("fsyncset", Kind::FsyncSet),
    ("makedir", Kind::MakeDir),
    ("removedir", Kind::RemoveDir),
    ("listdir", Kind::ListDir),
    ("delay", Kind::Delay),
    ("hog", Kind::Hog),
    ("block", Kind::Block),
    ("wakeup", Kind::Wakeup),
    ("semblock", Kind::SemBlock),
    ("sempost", Kind::SemPost),
    ("eventlimit", Kind::EventLimit),
    ("bwlimit", Kind::BwLimit),
    ("iopslimit", Kind::IopsLimit),
    ("opslimit", Kind::OpsLimit),
    ("finishoncount", Kind::FinishOnCount),
    ("finishonbytes", Kind::FinishOnBytes),
    ("testrandvar", Kind::TestRandVar),
    ("print", Kind::Print),
];

impl Kind {
    /// Returns whether the summary counts the flowop as an operation on files.
    #[must_use]
    pub const fn is_io(self) -> bool {
        !matches!(
            self,
            Self::Delay
                | Self::Hog
                | Self::Block
                | Self::Wakeup
                | Self::SemBlock
                | Self::SemPost
                | Self::EventLimit
                | Self::BwLimit
                | Self::IopsLimit
                | Self::OpsLimit
                | Self::FinishOnCount
                | Self::FinishOnBytes
                | Self::TestRandVar
                | Self::Print
                | Self::Composite
        )
    }

    /// Returns whether the summary counts the flowop as a read or a write.
    #[must_use]
    pub const fn direction(self) -> Direction {
        match self {
            Self::Read | Self::ReadWholeFile | Self::AioRead => Direction::Read,
            Self::Write
            | Self::WriteWholeFile
            | Self::AppendFile
            | Self::AppendFileRand
            | Self::AioWrite
            | Self::CopyFile => Direction::Write,
            _ => Direction::Neither,
        }
    }

    /// Returns whether the flowop needs a fileset or an open file.
    #[must_use]
    pub const fn needs_fileset(self) -> bool {
        matches!(
            self,
            Self::CreateFile
                | Self::MakeDir
                | Self::RemoveDir
                | Self::ListDir
                | Self::FsyncSet
                | Self::CopyFile
        )
    }
}
