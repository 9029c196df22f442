//! Resolves the definitions of filesets, processes and threads. `flowops` resolves flowops.

use super::attributes::Attributes;
use super::definitions::{Definitions, FilesetDefinition, ProcessDefinition};
use super::error::Fault;
use super::flowops::{ThreadBuilder, check_targets};
use super::parse::Parsed;
use super::scope::Scope;
use super::syntax::ThreadDefinition;
use super::values::Value;
use crate::chance::{Law, RandomVariable};
use crate::model::{FilesetSpec, ProcessSpec, Quantity, ThreadSpec, WorkloadPlan};
use crate::sources::SourceSpec;
use gemelo_base::name_of_text;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most threads of all processes together. Each is a thread of this program.
const MAX_THREADS: u64 = 16_384;
/// Most files of a fileset. Each takes about 30 bytes of memory.
const MAX_ENTRIES: u64 = 1 << 28;
/// Most bytes of memory for one thread.
const MAX_MEMORY_BYTES: u64 = 1 << 36;
/// Mean width of the directories of a single file.
const FILE_DIR_WIDTH: f64 = 10.0;

/// Mean width of the directories of a fileset without dirwidth: one file each.
const NO_DIR_WIDTH: f64 = 0.0;

pub(super) struct Definer<'a> {
    pub(super) definitions: &'a Definitions,
}

impl Definer<'_> {
    pub(super) fn plan(&self) -> Parsed<WorkloadPlan> {
        let locals = BTreeMap::new();
        let scope = Scope { globals: &self.definitions.globals, locals: &locals };
        let mut filesets: Vec<FilesetSpec> = Vec::new();
        for definition in &self.definitions.filesets {
            let fileset = fileset(definition, &scope)?;
            if filesets.iter().any(|known| known.name == fileset.name) {
                return Err(Fault::new(
                    definition.at,
                    format!("'{}' is defined twice", fileset.name),
                ));
            }
            filesets.push(fileset);
        }
        let mut processes = Vec::new();
        for definition in &self.definitions.processes {
            processes.push(self.process(definition, &filesets, &scope)?);
        }
        let threads: u64 = processes.iter().map(threads_of).fold(0, u64::saturating_add);
        if threads > MAX_THREADS {
            let at = self.definitions.processes.first().map_or(0, |process| process.at);
            let message = format!(
                "{threads} threads in all; at most {MAX_THREADS} are possible: use fewer instances"
            );
            return Err(Fault::new(at, message));
        }
        check_targets(&processes, &self.definitions.processes)?;
        let event_rate = match &self.definitions.event_generator {
            Some((at, attributes)) => Some(
                Attributes { list: attributes, scope: &scope, at: *at }.quantity("rate", 0.0)?,
            ),
            None => None,
        };
        let (quit_mode, histogram) = (self.definitions.quit_mode, self.definitions.histogram);
        Ok(WorkloadPlan { filesets, processes, event_rate, quit_mode, histogram })
    }

    fn process(
        &self,
        definition: &ProcessDefinition,
        filesets: &[FilesetSpec],
        scope: &Scope<'_>,
    ) -> Parsed<ProcessSpec> {
        let attributes = Attributes { list: &definition.attributes, scope, at: definition.at };
        let instances = attributes.count("instances", 1)?;
        let mut threads = Vec::new();
        // Names in a process that never runs need not exist.
        for thread in definition.threads.iter().filter(|_| instances > 0) {
            threads.push(self.thread(thread, filesets, scope)?);
        }
        Ok(ProcessSpec {
            name: attributes.required_text("name", "a process")?,
            instances,
            nice: attributes.number("nice", 0.0)? as i64,
            threads,
        })
    }

    fn thread(
        &self,
        definition: &ThreadDefinition,
        filesets: &[FilesetSpec],
        scope: &Scope<'_>,
    ) -> Parsed<ThreadSpec> {
        let attributes = Attributes { list: &definition.attributes, scope, at: definition.at };
        let memory_bytes = attributes.count("memsize", 0)?;
        if memory_bytes > MAX_MEMORY_BYTES {
            return Err(Fault::new(definition.at, "memsize is at most 64g"));
        }
        let mut builder = ThreadBuilder::new(&self.definitions.composites, filesets);
        let flowops = builder.flowops(&definition.flowops, scope, "")?;
        Ok(ThreadSpec {
            name: attributes.required_text("name", "a thread")?,
            instances: attributes.count("instances", 1)?,
            memory_bytes,
            flowops,
            slots: builder.slots(),
            cells: builder.cells,
        })
    }
}

fn threads_of(process: &ProcessSpec) -> u64 {
    let each = process.threads.iter().map(|thread| thread.instances).fold(0, u64::saturating_add);
    process.instances.saturating_mul(each)
}

fn fileset(definition: &FilesetDefinition, scope: &Scope<'_>) -> Parsed<FilesetSpec> {
    let what = if definition.is_file { "a file" } else { "a fileset" };
    let at = definition.at;
    let attributes = Attributes { list: &definition.attributes, scope, at };
    let name = attributes.required_text("name", what)?;
    if name.contains('/') || name == "." || name == ".." {
        return Err(Fault::new(
            at,
            format!("the name of {what} is the name of one directory; '{name}' is not"),
        ));
    }
    let entries = if definition.is_file { 1 } else { attributes.count("entries", 0)? };
    let leaf_dirs = attributes.count("leafdirs", 0)?;
    if entries == 0 && leaf_dirs == 0 {
        return Err(Fault::new(
            at,
            format!("the fileset '{name}' has no files: give entries=N or leafdirs=N"),
        ));
    }
    if entries > MAX_ENTRIES || leaf_dirs > MAX_ENTRIES {
        let message =
            format!("a fileset has at most {MAX_ENTRIES} files and {MAX_ENTRIES} leafdirs");
        return Err(Fault::new(at, message));
    }
    Ok(FilesetSpec {
        path: name_of_text(&attributes.required_text("path", what)?).into(),
        at,
        is_file: definition.is_file,
        entries,
        leaf_dirs,
        size: size(&attributes)?,
        dir_width: dir_width(&attributes, definition.is_file)?,
        dir_gamma: if definition.is_file {
            0.0
        } else {
            attributes.number("dirgamma", 1500.0)? / 1000.0
        },
        dir_depth: dir_depth(&attributes)?,
        prealloc_percent: prealloc(&attributes)?,
        paralloc: attributes.boolean("paralloc", false)?,
        reuse: attributes.boolean("reuse", false)?,
        trust_tree: attributes.boolean("trusttree", false)?,
        read_only: attributes.boolean("readonly", false)?,
        write_only: attributes.boolean("writeonly", false)?,
        cached: attributes.boolean("cached", true)?,
        source: source(&attributes)?,
        name,
    })
}

/// Reads `size`. With `filesizegamma` (in thousandths) it is the mean of a gamma distribution.
fn size(attributes: &Attributes<'_>) -> Parsed<Quantity> {
    /// Size of a file without a size in bytes.
    const DEFAULT_SIZE: f64 = 1024.0;
    let named = if attributes.find("size").is_some() { "size" } else { "filesize" };
    let size = attributes.quantity(named, DEFAULT_SIZE)?;
    let shape = attributes.number("filesizegamma", 0.0)? / 1000.0;
    Ok(match size {
        Quantity::Fixed(mean) if shape > 0.0 && mean > 0.0 => {
            let law = Law::Gamma { shape, scale: mean / shape, offset: 0.0 };
            Quantity::Drawn(Arc::new(RandomVariable::new(law)))
        }
        size => size,
    })
}

fn dir_width(attributes: &Attributes<'_>, is_file: bool) -> Parsed<Quantity> {
    if is_file {
        return Ok(Quantity::Fixed(FILE_DIR_WIDTH));
    }
    attributes.quantity("dirwidth", NO_DIR_WIDTH)
}

fn dir_depth(attributes: &Attributes<'_>) -> Parsed<Option<Quantity>> {
    match attributes.value("dirdepthrv")? {
        None => Ok(None),
        Some((Value::Drawn(variable), _)) => Ok(Some(Quantity::Drawn(variable))),
        Some((_, at)) => Err(Fault::new(at, "dirdepthrv takes a random variable")),
    }
}

/// Reads a percentage, or `true` for all files.
fn prealloc(attributes: &Attributes<'_>) -> Parsed<f64> {
    match attributes.value("prealloc")? {
        None | Some((Value::Boolean(false), _)) => Ok(0.0),
        Some((Value::Boolean(true), _)) => Ok(100.0),
        Some((value, at)) => match value.number() {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
            _ => Err(Fault::new(at, "prealloc is a percentage from 0 to 100, true or false")),
        },
    }
}

fn source(attributes: &Attributes<'_>) -> Parsed<Option<SourceSpec>> {
    let own = crate::sources::attribute_names();
    let given: Vec<_> =
        attributes.list.iter().filter(|attribute| own.contains(&attribute.name.as_str())).collect();
    let Some((name, at)) = attributes.value("datasource")? else {
        return match given.first() {
            None => Ok(None),
            Some(attribute) => Err(Fault::new(
                attribute.at,
                format!(
                    "'{}' belongs to a data source: say datasource=NAME before it",
                    attribute.name
                ),
            )),
        };
    };
    let mut pairs = Vec::new();
    for attribute in given {
        let value = attributes.value(&attribute.name)?;
        let text = value.map_or_else(String::new, |(value, _)| value.to_text());
        pairs.push((attribute.name.clone(), text, attribute.at));
    }
    let spec = SourceSpec {
        name: name.to_text(),
        attributes: pairs.iter().map(|(name, text, _)| (name.clone(), text.clone())).collect(),
    };
    let Some(registration) = crate::sources::find(&spec.name) else {
        return Err(Fault::unknown(at, "data source", &spec.name, crate::sources::names()));
    };
    for (name, _, at) in &pairs {
        if !registration.attributes.iter().any(|(known, _)| known == name) {
            let known = registration.attributes.iter().map(|(known, _)| *known);
            return Err(Fault::unknown(
                *at,
                &format!("attribute of the data source '{}'", spec.name),
                name,
                known,
            ));
        }
    }
    (registration.check)(&spec).map_err(|error| Fault::new(at, error.to_string()))?;
    Ok(Some(spec))
}
