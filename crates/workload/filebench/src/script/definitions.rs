//! The definitions of a script: filesets, processes, composite flowops and variables, before their
//! attributes are evaluated.

use super::syntax::{Attribute, FlowopUse, QuitMode, ThreadDefinition};
use super::values::Value;
use std::collections::BTreeMap;

/// A parsed `define process`.
pub(crate) struct ProcessDefinition {
    pub(crate) at: usize,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) threads: Vec<ThreadDefinition>,
}

/// A parsed `define flowop`.
pub(crate) struct Composite {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) body: Vec<FlowopUse>,
}

/// A parsed `define file` or `define fileset`.
pub(crate) struct FilesetDefinition {
    pub(crate) at: usize,
    pub(crate) is_file: bool,
    pub(crate) attributes: Vec<Attribute>,
}

/// The definitions so far.
#[derive(Default)]
pub(crate) struct Definitions {
    pub(crate) globals: BTreeMap<String, Value>,
    pub(crate) filesets: Vec<FilesetDefinition>,
    pub(crate) processes: Vec<ProcessDefinition>,
    pub(crate) composites: BTreeMap<String, Composite>,
    pub(crate) event_generator: Option<(usize, Vec<Attribute>)>,
    pub(crate) quit_mode: QuitMode,
    pub(crate) histogram: bool,
}
