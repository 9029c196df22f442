//! The trace formats and their names.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A format in which traces are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TraceFormat {
    /// FIU IODedup: web-vm, mail and homes. An MD5 for every 4096 or 512 bytes; hashes are not
    /// separated.
    Fiu,
    /// XMU mobile: like FIU, with `-` between the hashes.
    Xmu,
    /// The text that blkparse prints of a blktrace.
    Blkparse,
    /// The iolog of fio, version 2.
    FioV2,
    /// The iolog of fio, version 3.
    FioV3,
    /// Microsoft Research Cambridge, CSV.
    Msr,
    /// Alibaba block traces, CSV.
    Alibaba,
    /// Tencent cloud block storage, CSV.
    Tencent,
    /// SYSTOR '17 virtual desktops, CSV.
    Systor,
    /// CloudPhysics as binary records of VMware's vscsiStats, version 1 or 2.
    CloudPhysics,
    /// CloudPhysics as CSV in the layout of libCacheSim.
    CloudPhysicsCsv,
    /// Storage Performance Council, CSV: the UMass Trace Repository.
    Spc,
    /// Binary records of libCacheSim, which have no kind of operation.
    OracleGeneral,
    /// The ASCII traces of MQSim.
    MqSim,
    /// The ASCII traces of DiskSim.
    DiskSim,
}

impl TraceFormat {
    /// All formats, in the order in which recognition tries them.
    pub const ALL: [Self; 15] = [
        Self::FioV2,
        Self::FioV3,
        Self::CloudPhysics,
        Self::OracleGeneral,
        Self::Fiu,
        Self::Xmu,
        Self::Blkparse,
        Self::Msr,
        Self::Alibaba,
        Self::Systor,
        Self::CloudPhysicsCsv,
        Self::Tencent,
        Self::Spc,
        Self::DiskSim,
        Self::MqSim,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fiu => "fiu",
            Self::Xmu => "xmu",
            Self::Blkparse => "blkparse",
            Self::FioV2 => "fio2",
            Self::FioV3 => "fio3",
            Self::Msr => "msr",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::Systor => "systor",
            Self::CloudPhysics => "cloudphysics",
            Self::CloudPhysicsCsv => "cloudphysics-csv",
            Self::Spc => "spc",
            Self::OracleGeneral => "oracle-general",
            Self::MqSim => "mqsim",
            Self::DiskSim => "disksim",
        }
    }

    /// Returns the names of all formats, for messages.
    #[must_use]
    pub fn known() -> String {
        let names: Vec<&str> = Self::ALL.iter().map(|format| format.name()).collect();
        names.join(", ")
    }

    /// Returns whether records have hashes of the data.
    #[must_use]
    pub const fn carries_hashes(self) -> bool {
        matches!(self, Self::Fiu | Self::Xmu)
    }

    /// Returns whether records say if they read or write.
    #[must_use]
    pub const fn tells_operations(self) -> bool {
        !matches!(self, Self::OracleGeneral)
    }

    /// Returns whether traces of this format can be written. Some formats look into the future.
    #[must_use]
    pub const fn can_be_written(self) -> bool {
        !matches!(self, Self::OracleGeneral)
    }

    /// Returns whether the first line may hold the names of the columns.
    pub(crate) const fn may_have_header(self) -> bool {
        matches!(
            self,
            Self::Msr | Self::Alibaba | Self::Tencent | Self::Systor | Self::CloudPhysicsCsv
        )
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a trace format: use one of {}", Self::known()))
    }
}
