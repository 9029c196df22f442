//! Resolves flowops: kinds, file handles, targets, and the expansion of composites.

use super::attributes::{Attributes, Evaluate};
use super::definitions::{Composite, ProcessDefinition};
use super::error::Fault;
use super::parse::Parsed;
use super::scope::Scope;
use super::syntax::FlowopUse;
use super::values::Value;
use crate::flowop::{Direction, KINDS, Kind};
use crate::model::{FilesetSpec, Flowop, HandleSlot, ProcessSpec, Quantity, each_flowop};
use std::collections::BTreeMap;

/// Largest number of a file handle in `fd=`.
pub(crate) const MAX_FDS: u64 = 128;
/// Greatest nesting of composites. It also ends the expansion of a composite that uses itself.
const DEEPEST_COMPOSITE: usize = 16;
/// Most flowops of one thread after the expansion of composites.
const MAX_FLOWOPS: usize = 10_000;
/// Most bytes of one operation. A thread has memory for its largest one, and Linux reads and writes
/// less than 2 GiB at once.
pub(crate) const MAX_IO_BYTES: f64 = (1u64 << 30) as f64;

/// Builds the flowops of one thread.
pub(super) struct ThreadBuilder<'a> {
    composites: &'a BTreeMap<String, Composite>,
    filesets: &'a [FilesetSpec],
    /// Names and kinds of the flowops by cell.
    pub(super) cells: Vec<(String, Kind)>,
    /// File handle of each fileset that is used without `fd=`.
    implicit: Vec<(usize, usize)>,
    next_implicit: usize,
    depth: usize,
}

impl<'a> ThreadBuilder<'a> {
    pub(super) fn new(
        composites: &'a BTreeMap<String, Composite>,
        filesets: &'a [FilesetSpec],
    ) -> Self {
        let next_implicit = MAX_FDS as usize + 1;
        Self {
            composites,
            filesets,
            cells: Vec::new(),
            implicit: Vec::new(),
            next_implicit,
            depth: 0,
        }
    }

    /// Returns the number of fixed file handles of the thread.
    pub(super) const fn slots(&self) -> usize {
        self.next_implicit
    }

    pub(super) fn flowops(
        &mut self,
        uses: &[FlowopUse],
        scope: &Scope<'_>,
        prefix: &str,
    ) -> Parsed<Vec<Flowop>> {
        let mut flowops = Vec::with_capacity(uses.len());
        for usage in uses {
            let flowop = self.flowop(usage, scope, prefix)?;
            flowops.push(flowop);
        }
        // Targets may follow the flowops that name them.
        for (flowop, usage) in flowops.iter_mut().zip(uses) {
            self.resolve_cells(flowop, usage)?;
        }
        Ok(flowops)
    }

    fn flowop(&mut self, usage: &FlowopUse, scope: &Scope<'_>, prefix: &str) -> Parsed<Flowop> {
        let at = usage.kind.at;
        let kind = KINDS.iter().find(|(name, _)| *name == usage.kind.value).map(|(_, kind)| *kind);
        let composite = self.composites.get(&usage.kind.value);
        let Some(kind) = kind.or(composite.map(|_| Kind::Composite)) else {
            let known = KINDS
                .iter()
                .map(|(name, _)| *name)
                .chain(self.composites.keys().map(String::as_str));
            return Err(Fault::unknown(at, "flowop", &usage.kind.value, known));
        };
        let attributes = Attributes { list: &usage.attributes, scope, at };
        let own_name = attributes.required_text("name", "a flowop")?;
        let name = if prefix.is_empty() { own_name } else { format!("{prefix}.{own_name}") };
        if self.cells.len() >= MAX_FLOWOPS {
            let message =
                format!("a thread has at most {MAX_FLOWOPS} flowops, those of composites included");
            return Err(Fault::new(at, message));
        }
        let cell = self.cell(&name, kind);
        if let Some(composite) = composite {
            let body = self.composite(composite, usage, scope, &name)?;
            return Ok(Flowop {
                iters: attributes.quantity("iters", 1.0)?,
                body,
                ..blank(name, kind, cell)
            });
        }
        if let Some(local) =
            usage.attributes.iter().find(|attribute| attribute.name.starts_with('$'))
        {
            return Err(Fault::new(
                local.at,
                "only flowops defined by 'define flowop' take local variables",
            ));
        }
        self.plain(kind, &attributes, blank(name, kind, cell))
    }

    fn plain(&mut self, kind: Kind, attributes: &Attributes<'_>, blank: Flowop) -> Parsed<Flowop> {
        let fileset = self.fileset(attributes)?;
        if kind.needs_fileset() && fileset.is_none() && attributes.find("srcfd").is_none() {
            return Err(Fault::new(
                attributes.at,
                format!("{} needs filesetname=NAME", blank.name),
            ));
        }
        let working_set = if attributes.find("wss").is_some() { "wss" } else { "workingset" };
        let rotate =
            attributes.boolean("opennext", false)? || attributes.boolean("rotatefd", false)?;
        let (value, message) = value_of(kind, attributes)?;
        let index =
            attributes.find("indexed").map(|_| attributes.quantity("indexed", 0.0)).transpose()?;
        let flowop = Flowop {
            iters: attributes.quantity("iters", 1.0)?,
            fileset,
            slot: self.slot(attributes, fileset, rotate)?,
            source_slot: fd(attributes, "srcfd")?,
            io_size: attributes.quantity("iosize", 0.0)?,
            working_set: attributes.count(working_set, 0)?,
            value,
            message,
            random: attributes.boolean("random", false)?,
            dsync: attributes.boolean("dsync", false)?,
            direct_io: attributes.boolean("directio", false)?,
            no_read_ahead: attributes.boolean("noreadahead", false)?,
            blocking: attributes.boolean("blocking", false)?,
            index_is_share: matches!(&index, Some(drawn @ Quantity::Drawn(_)) if drawn.mean() <= 1.0),
            index,
            target: attributes.text("target")?.unwrap_or_default(),
            high_water: attributes.number("highwater", 1.0)? as u64,
            ..blank
        };
        self.check(kind, &flowop, attributes)?;
        Ok(flowop)
    }

    /// Refuses flowops that would fail in every run.
    fn check(&self, kind: Kind, flowop: &Flowop, attributes: &Attributes<'_>) -> Parsed<()> {
        let sized = matches!(
            kind,
            Kind::Read
                | Kind::Write
                | Kind::AppendFile
                | Kind::AppendFileRand
                | Kind::AioRead
                | Kind::AioWrite
        );
        let refuse = |text: String| Err(Fault::new(attributes.at, text));
        let name = &flowop.name;
        if sized && flowop.io_size == Quantity::Fixed(0.0) {
            return refuse(format!("{name} needs iosize=SIZE above 0"));
        }
        if sized && matches!(flowop.io_size, Quantity::Fixed(bytes) if bytes > MAX_IO_BYTES) {
            return refuse(format!("{name} has an iosize above 1g, the most of one operation"));
        }
        if matches!(kind, Kind::AioRead | Kind::AioWrite) && !flowop.random {
            return refuse(format!("{name} works at random places: say 'random'"));
        }
        if matches!(kind, Kind::Wakeup | Kind::SemPost) && flowop.target.is_empty() {
            return refuse(format!("{name} needs target=NAME of a flowop"));
        }
        if let Some(fileset) = flowop.fileset.and_then(|index| self.filesets.get(index)) {
            let set = &fileset.name;
            if fileset.read_only && kind.direction() == Direction::Write {
                return refuse(format!("{name} writes to '{set}', which is readonly"));
            }
            if fileset.write_only && kind.direction() == Direction::Read {
                return refuse(format!("{name} reads '{set}', which is writeonly"));
            }
        }
        Ok(())
    }

    fn cell(&mut self, name: &str, kind: Kind) -> usize {
        if let Some(place) = self.cells.iter().position(|cell| cell.0 == name && cell.1 == kind) {
            return place;
        }
        self.cells.push((name.to_owned(), kind));
        self.cells.len() - 1
    }

    fn fileset(&self, attributes: &Attributes<'_>) -> Parsed<Option<usize>> {
        let named = if attributes.find("filename").is_some() { "filename" } else { "filesetname" };
        let Some(name) = attributes.text(named)? else { return Ok(None) };
        match self.filesets.iter().position(|fileset| fileset.name == name) {
            Some(place) => Ok(Some(place)),
            None => {
                let at = attributes
                    .find(named)
                    .and_then(|attribute| attribute.value.as_ref())
                    .map_or(attributes.at, |value| value.at);
                let known = self.filesets.iter().map(|fileset| fileset.name.as_str());
                Err(Fault::unknown(at, "file or fileset", &name, known))
            }
        }
    }

    /// Returns the file handle. Without `fd=` each fileset has its own handle. The first of these
    /// also serves flowops that name no fileset.
    fn slot(
        &mut self,
        attributes: &Attributes<'_>,
        fileset: Option<usize>,
        rotate: bool,
    ) -> Parsed<HandleSlot> {
        let fixed = fd(attributes, "fd")?;
        if fixed > 0 {
            return Ok(HandleSlot::Fixed(fixed));
        }
        if rotate {
            return Ok(HandleSlot::Rotating);
        }
        let Some(fileset) = fileset else { return Ok(HandleSlot::Fixed(0)) };
        if let Some((_, slot)) = self.implicit.iter().find(|(known, _)| *known == fileset) {
            return Ok(HandleSlot::Fixed(*slot));
        }
        let slot = if self.implicit.is_empty() {
            0
        } else {
            self.next_implicit += 1;
            self.next_implicit - 1
        };
        self.implicit.push((fileset, slot));
        Ok(HandleSlot::Fixed(slot))
    }

    fn composite(
        &mut self,
        composite: &Composite,
        usage: &FlowopUse,
        scope: &Scope<'_>,
        name: &str,
    ) -> Parsed<Vec<Flowop>> {
        if self.depth >= DEEPEST_COMPOSITE {
            let message = format!(
                "composite flowops nested more than {DEEPEST_COMPOSITE} deep: does one use itself?"
            );
            return Err(Fault::new(usage.kind.at, message));
        }
        let mut locals = BTreeMap::new();
        for attribute in &composite.attributes {
            if let (Some(local), Some(value)) = (attribute.name.strip_prefix('$'), &attribute.value)
            {
                locals.insert(local.to_owned(), scope.value(value)?);
            }
        }
        let declared =
            || composite.attributes.iter().filter_map(|attribute| attribute.name.strip_prefix('$'));
        for attribute in &usage.attributes {
            let Some(local) = attribute.name.strip_prefix('$') else { continue };
            if !declared().any(|known| known == local) {
                return Err(Fault::unknown(
                    attribute.at,
                    "local variable of this flowop",
                    local,
                    declared(),
                ));
            }
            let Some(value) = &attribute.value else {
                return Err(Fault::new(
                    attribute.at,
                    format!("expected '=' and a value after '${local}'"),
                ));
            };
            locals.insert(local.to_owned(), scope.value(value)?);
        }
        if let Some(missing) = declared().find(|local| !locals.contains_key(*local)) {
            return Err(Fault::new(usage.kind.at, format!("'{name}' needs ${missing}=...")));
        }
        self.depth += 1;
        let inner = Scope { globals: scope.globals, locals: &locals };
        let body = self.flowops(&composite.body, &inner, name);
        self.depth -= 1;
        body
    }

    /// Resolves the targets of limits and finishers, which observe flowops of their own thread.
    fn resolve_cells(&self, flowop: &mut Flowop, usage: &FlowopUse) -> Parsed<()> {
        let looks = matches!(
            flowop.kind,
            Kind::BwLimit
                | Kind::IopsLimit
                | Kind::OpsLimit
                | Kind::FinishOnCount
                | Kind::FinishOnBytes
        );
        if !looks || flowop.target.is_empty() {
            return Ok(());
        }
        let is_target = |name: &str| {
            name == flowop.target
                || name.rsplit_once('.').is_some_and(|(_, last)| last == flowop.target)
        };
        flowop.target_cells =
            (0..self.cells.len()).filter(|cell| is_target(&self.cells[*cell].0)).collect();
        if flowop.target_cells.is_empty() {
            let known = self.cells.iter().map(|(name, _)| name.as_str());
            return Err(Fault::unknown(
                usage.kind.at,
                "flowop of this thread",
                &flowop.target,
                known,
            ));
        }
        Ok(())
    }
}

fn blank(name: String, kind: Kind, cell: usize) -> Flowop {
    Flowop {
        name,
        kind,
        cell,
        iters: Quantity::Fixed(1.0),
        fileset: None,
        slot: HandleSlot::Fixed(0),
        source_slot: 0,
        io_size: Quantity::Fixed(0.0),
        working_set: 0,
        value: Quantity::Fixed(0.0),
        message: String::new(),
        random: false,
        dsync: false,
        direct_io: false,
        no_read_ahead: false,
        blocking: false,
        index: None,
        index_is_share: false,
        target_cells: Vec::new(),
        target: String::new(),
        high_water: 1,
        body: Vec::new(),
    }
}

fn fd(attributes: &Attributes<'_>, name: &str) -> Parsed<usize> {
    let number = attributes.number(name, 0.0)?;
    if number > MAX_FDS as f64 || number.fract() != 0.0 {
        let at = attributes.find(name).map_or(attributes.at, |attribute| attribute.at);
        return Err(Fault::new(at, format!("'{name}' is a whole number from 0 to {MAX_FDS}")));
    }
    Ok(number as usize)
}

/// Returns the value as a number, and as the text that `print` shows.
fn value_of(kind: Kind, attributes: &Attributes<'_>) -> Parsed<(Quantity, String)> {
    if kind == Kind::Print {
        let text = attributes
            .value("value")?
            .map_or_else(String::new, |(value, _)| Value::to_text(&value));
        return Ok((Quantity::Fixed(0.0), text));
    }
    let value = attributes.quantity("value", 0.0)?;
    // The goal of a finisher is one number for the whole run.
    let finishes = matches!(kind, Kind::FinishOnCount | Kind::FinishOnBytes);
    Ok((if finishes { Quantity::Fixed(value.mean()) } else { value }, String::new()))
}

/// Checks the targets of `wakeup` and `sempost`. They act on flowops of any thread, which must
/// exist and have the right kind.
pub(super) fn check_targets(
    processes: &[ProcessSpec],
    definitions: &[ProcessDefinition],
) -> Parsed<()> {
    let all: Vec<&Flowop> = processes.iter().flat_map(flowops_of).collect();
    for (process, definition) in processes.iter().zip(definitions) {
        for flowop in flowops_of(process) {
            let wanted = match flowop.kind {
                Kind::Wakeup => Kind::Block,
                Kind::SemPost => Kind::SemBlock,
                _ => continue,
            };
            let candidates =
                || all.iter().filter(|other| other.kind == wanted).map(|other| other.name.as_str());
            if !candidates().any(|name| name == flowop.target) {
                let what = if wanted == Kind::Block { "block flowop" } else { "semblock flowop" };
                let what = format!("{what} (target of '{}')", flowop.name);
                let known: Vec<&str> = candidates().collect();
                return Err(Fault::unknown(
                    definition.at,
                    &what,
                    &flowop.target,
                    known.into_iter(),
                ));
            }
        }
    }
    Ok(())
}

/// Returns all flowops of a process, those of composites included.
fn flowops_of(process: &ProcessSpec) -> Vec<&Flowop> {
    let mut all = Vec::new();
    for thread in &process.threads {
        each_flowop(&thread.flowops, &mut |flowop| all.push(flowop));
    }
    all
}
