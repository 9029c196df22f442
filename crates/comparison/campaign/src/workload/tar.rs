//! Unpacking a source tree: `tar x` of an archive, or of a directory that is packed before.

use super::{Action, ActionResult, ActionSite, Measured};
use crate::error::StepError;
use crate::plan::Reading;
use crate::plan::keys::Keys;
use crate::result;
use crate::system;
use crate::target::{LoadPlace, PlaceKind};
use gemelo_base::ShowPath as _;
use gemelo_record::{Better, Stats};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
enum Source {
    Archive(PathBuf),
    Tree(PathBuf),
}

#[derive(Debug)]
struct Tar {
    source: Source,
}

pub(super) fn read(keys: &Keys<'_>, kind: &'static str, reading: &Reading<'_>) -> ActionResult {
    let table = keys.required_table(kind)?;
    let source = match (table.text("archive")?, table.text("tree")?) {
        (Some(archive), None) => Source::Archive(reading.path(&archive)),
        (None, Some(tree)) => Source::Tree(reading.path(&tree)),
        _ => return Err(table.wrong("archive", "give either 'archive' or 'tree'")),
    };
    table.finish()?;
    Ok(Box::new(Tar { source }))
}

impl Action for Tar {
    fn description(&self) -> String {
        match &self.source {
            Source::Archive(path) => format!("tar x of {}", path.shown()),
            Source::Tree(path) => format!("tar x of the tree {}", path.shown()),
        }
    }

    fn missing(&self) -> Option<String> {
        let (path, exists) = match &self.source {
            Source::Archive(path) => (path, path.is_file()),
            Source::Tree(path) => (path, path.is_dir()),
        };
        let missing = (!exists).then(|| format!("{} is missing", path.shown()));
        missing.or_else(|| system::missing(&["tar"], false, &[]))
    }

    fn accepts(&self, place: PlaceKind) -> bool {
        place == PlaceKind::Directory
    }

    fn main_figure(&self) -> Option<String> {
        Some(result::ELAPSED.to_owned())
    }

    fn run(&self, stage: &mut ActionSite<'_, '_>) -> Result<Measured, StepError> {
        let archive = self.archive(stage)?;
        let LoadPlace::Directory(place) = stage.place.clone() else {
            let (program, output) = ("tar".to_owned(), "the target is no directory".to_owned());
            return Err(StepError::Program { program, status: "no start".to_owned(), output });
        };
        let mut command = Command::new("tar");
        command.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&place);
        let clock = stage.site.clock;
        let start_ns = clock.now_ns();
        let status = stage.site.run_logged(&mut command, &stage.name, stage.limit)?;
        if !status.success() {
            return Err(result::failure(stage, &command, status));
        }
        write_back(&place)?;
        let elapsed_ns = clock.now_ns().saturating_sub(start_ns);
        let bytes = std::fs::metadata(&archive).map_or(0, |status| status.len()) as f64;
        let mut figures = Stats::default();
        figures.push(result::ELAPSED, elapsed_ns as f64, Better::Lower);
        figures.push("tar/archive_bytes", bytes, Better::Neither);
        figures.push("tar/bytes_per_s", bytes / (elapsed_ns as f64 / 1e9), Better::Higher);
        let files = vec![format!("{}.err", stage.name)];
        Ok(Measured { figures, files, ..Measured::default() })
    }
}

impl Tar {
    /// Returns the archive. That of a tree is made before the measurement, in the run's directory,
    /// with files in the order of their names.
    fn archive(&self, stage: &ActionSite<'_, '_>) -> Result<PathBuf, StepError> {
        match &self.source {
            Source::Archive(path) => Ok(path.clone()),
            Source::Tree(path) => {
                let archive = stage.site.work.join(format!("{}.tar", stage.name));
                let mut command = Command::new("tar");
                command.args(["--create", "--sort=name", "--file"]).arg(&archive);
                stage.site.run(command.arg("--directory").arg(path).arg("."))?;
                Ok(archive)
            }
        }
    }
}

/// Writes all changed data of a file system back, which belongs to the time of unpacking.
fn write_back(path: &Path) -> Result<(), StepError> {
    let directory = std::fs::File::open(path).map_err(StepError::io("open", path))?;
    rustix::fs::syncfs(&directory).map_err(|error| StepError::io("write back", path)(error.into()))
}
