//! The journal of a campaign: everything that exists because of it and has to be given back.
//!
//! Each entry is durable before its resource is made, so a campaign that was killed at any moment
//! leaves nothing that the journal does not name. A directory is made by an operation that fails if
//! something is there; then its entry is withdrawn. Its identity is noted, durably, before anything
//! is put into it, and without this proof a directory with files is never removed. Giving back a
//! resource twice, or one that was never made, has no effect. The end of a run and the cleaning
//! after a crash use the same code.

use crate::error::{CampaignError, StepError};
use crate::process;
use crate::resource::{Fate, Resource};
use gemelo_base::FileIdentity;
use gemelo_base::ShowPath as _;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of the journal in the campaign's directory.
pub(crate) const JOURNAL_FILE: &str = "journal.jsonl";

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum JournalEntry {
    /// A resource is about to be made.
    Makes { id: u64, resource: Resource },
    /// A directory was made, and has nothing in it yet.
    Made { id: u64, identity: FileIdentity },
    /// A resource was given back, or was not made.
    Undone { id: u64 },
}

/// The open journal. The caller holds the campaign's lock.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// The resources that exist, in the order in which they were made.
    live: Live,
    next_id: u64,
    /// Things that are in the place of a resource, and that the campaign did not make.
    kept: Vec<String>,
}

/// A resource that exists, or is about to.
#[derive(Debug, Clone)]
struct LiveResource {
    id: u64,
    resource: Resource,
    /// The identity of a directory that was made.
    made: Option<FileIdentity>,
}

type Live = Vec<LiveResource>;

/// A point in the order of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Journal {
    /// Opens the journal of a campaign, or creates it.
    pub(crate) fn open(directory: &Path) -> Result<Self, CampaignError> {
        let path = directory.join(JOURNAL_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(CampaignError::io("read", &path)(error)),
        };
        let (live, next_id) = replay(&text, &path)?;
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(CampaignError::io("open", &path))?;
        let journal = Self { path, file, live, next_id, kept: Vec::new() };
        // A line that a crash cut off names a resource that was never made.
        let whole = text.rfind('\n').map_or(0, |at| at + 1) as u64;
        journal.file.set_len(whole).map_err(CampaignError::io("write", &journal.path))?;
        Ok(journal)
    }

    /// Appends an entry. One that is lost in a crash must be harmless, or be made durable.
    fn append(&mut self, entry: &JournalEntry, is_durable: bool) -> Result<(), StepError> {
        let cannot = |source| StepError::Io { action: "write", path: self.path.clone(), source };
        let mut line = serde_json::to_string(entry).map_err(|error| cannot(error.into()))?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(cannot)?;
        if is_durable { self.file.sync_data().map_err(cannot) } else { Ok(()) }
    }

    /// Records a resource durably. The caller makes it afterwards.
    pub(crate) fn note(&mut self, resource: Resource) -> Result<(), StepError> {
        let id = self.next_id;
        self.append(&JournalEntry::Makes { id, resource: resource.clone() }, true)?;
        self.next_id += 1;
        self.live.push(LiveResource { id, resource, made: None });
        Ok(())
    }

    /// Makes a directory that did not exist, and returns its path without links, as mounts have it.
    pub(crate) fn directory(&mut self, path: &Path) -> Result<PathBuf, StepError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            let source = std::io::ErrorKind::InvalidInput.into();
            return Err(StepError::Io { action: "create", path: path.to_owned(), source });
        };
        let path = parent.canonicalize().map_err(StepError::io("find", parent))?.join(name);
        let id = self.next_id;
        self.note(Resource::Directory { path: path.clone() })?;
        if let Err(source) = std::fs::create_dir(&path) {
            self.end(id, true)?;
            return Err(StepError::Io { action: "create", path, source });
        }
        let identity = FileIdentity::at(&path).map_err(StepError::io("find", &path))?;
        self.append(&JournalEntry::Made { id, identity }, true)?;
        self.live.iter_mut().filter(|live| live.id == id).for_each(|live| {
            live.made = Some(identity);
        });
        Ok(path)
    }

    /// Ends an entry, because its resource is gone or was not made.
    fn end(&mut self, id: u64, is_durable: bool) -> Result<(), StepError> {
        self.append(&JournalEntry::Undone { id }, is_durable)?;
        self.live.retain(|live| live.id != id);
        Ok(())
    }

    /// Returns what stayed because nothing proves that the campaign made it.
    pub(crate) fn kept(&self) -> &[String] {
        &self.kept
    }

    pub(crate) const fn mark(&self) -> Mark {
        Mark(self.next_id)
    }

    /// Gives back everything that was made since a mark, the latest first. What cannot be given
    /// back is tried again once the rest is gone, and then stays in the journal.
    pub(crate) fn undo_since(&mut self, mark: Mark) -> Vec<StepError> {
        self.try_since(mark);
        self.try_since(mark)
    }

    fn try_since(&mut self, mark: Mark) -> Vec<StepError> {
        let mut errors = Vec::new();
        for LiveResource { id, resource, made } in self.live.clone().into_iter().rev() {
            if id < mark.0 {
                break;
            }
            let ended = resource.undo(made, &self.undo_mark()).and_then(|fate| {
                self.end(id, false)?;
                if let Fate::NotOurs(why) = fate {
                    self.kept.push(why);
                }
                Ok(())
            });
            errors.extend(ended.err());
        }
        errors
    }

    /// Gives back everything, after a crash or at the end. An empty journal is the result of
    /// success.
    pub(crate) fn undo_all(&mut self) -> Result<Vec<StepError>, CampaignError> {
        let mut errors = self.end_steps();
        errors.extend(self.undo_since(Mark(0)));
        if errors.is_empty() {
            self.file.set_len(0).map_err(CampaignError::io("write", &self.path))?;
        }
        Ok(errors)
    }

    /// Returns the mark of the programs that give things back. The lock of the campaign makes it
    /// unique among living processes.
    fn undo_mark(&self) -> String {
        format!("undo:{}", self.path.shown())
    }

    /// Ends the programs that a killed campaign was waiting for.
    fn end_steps(&self) -> Vec<StepError> {
        let known: Vec<_> = self.live().filter_map(Resource::process).collect();
        let undo_mark = self.undo_mark();
        let marks = self.live().filter_map(Resource::mark).chain([undo_mark.as_str()]);
        let ended = marks.map(|mark| process::end_steps(mark, &known));
        let what = || "a program of a killed campaign".to_owned();
        let errors = ended.filter_map(Result::err);
        errors.map(|reason| StepError::Undo { what: what(), reason: reason.to_owned() }).collect()
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Resource> {
        self.live.iter().map(|live| &live.resource)
    }
}

fn replay(text: &str, path: &Path) -> Result<(Live, u64), CampaignError> {
    let mut live = Live::new();
    let mut next_id = 0;
    let whole = text.rfind('\n').and_then(|at| text.get(..at)).unwrap_or_default();
    for (index, line) in whole.lines().enumerate() {
        let entry = serde_json::from_str(line).map_err(|source| CampaignError::Journal {
            path: path.to_owned(),
            line: index + 1,
            source,
        })?;
        match entry {
            JournalEntry::Makes { id, resource } => {
                next_id = next_id.max(id + 1);
                live.push(LiveResource { id, resource, made: None });
            }
            JournalEntry::Made { id, identity } => {
                live.iter_mut().filter(|live| live.id == id).for_each(|live| {
                    live.made = Some(identity);
                });
            }
            JournalEntry::Undone { id } => live.retain(|live| live.id != id),
        }
    }
    Ok((live, next_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn directory_of(path: &Path) -> Resource {
        Resource::Directory { path: path.to_owned() }
    }

    #[test]
    fn what_was_made_is_given_back_after_a_crash_and_a_cut_line_is_ignored() {
        let place = tempfile::tempdir().unwrap();
        let (one, two) = (place.path().join("one"), place.path().join("one/two"));
        let mut journal = Journal::open(place.path()).unwrap();
        for path in [&one, &two] {
            journal.directory(path).unwrap();
            std::fs::write(path.join("file"), "data").unwrap();
        }
        drop(journal);
        let path = place.path().join(JOURNAL_FILE);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"makes\":{\"id\":2,\"resour");
        std::fs::write(&path, text).unwrap();
        let mut journal = Journal::open(place.path()).unwrap();
        assert_eq!(journal.live().count(), 2);
        assert!(journal.undo_all().unwrap().is_empty());
        assert!(!one.exists());
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn what_was_there_before_is_not_in_the_journal() {
        let place = tempfile::tempdir().unwrap();
        let work = place.path().join("work");
        std::fs::create_dir(&work).unwrap();
        std::fs::write(work.join("thesis"), "precious").unwrap();
        let mut journal = Journal::open(place.path()).unwrap();
        let error = journal.directory(&work).unwrap_err();
        assert!(matches!(error, StepError::Io { action: "create", .. }), "{error}");
        assert_eq!(journal.live().count(), 0);
        let mut journal = Journal::open(place.path()).unwrap();
        assert_eq!(journal.live().count(), 0);
        assert!(journal.undo_all().unwrap().is_empty());
        assert!(work.join("thesis").exists());
    }

    /// The user removes what a killed campaign left, and makes a directory of the same name: most
    /// file systems give it the same inode.
    #[test]
    fn what_took_the_place_of_a_directory_stays_and_is_told() {
        let place = tempfile::tempdir().unwrap();
        let work = place.path().join("work");
        let mut journal = Journal::open(place.path()).unwrap();
        journal.directory(&work).unwrap();
        drop(journal);
        let before = FileIdentity::at(&work).unwrap();
        gemelo_tools::wait_until("the new directory is another one", || {
            std::fs::remove_dir(&work).unwrap();
            std::fs::create_dir(&work).unwrap();
            !before.is_at(&work)
        });
        std::fs::write(work.join("thesis"), "precious").unwrap();
        let mut journal = Journal::open(place.path()).unwrap();
        assert!(journal.undo_all().unwrap().is_empty());
        assert!(work.join("thesis").exists());
        let [kept] = journal.kept() else { panic!("{:?}", journal.kept()) };
        assert!(kept.ends_with("work: the campaign did not make what is there now"), "{kept}");
        assert_eq!(Journal::open(place.path()).unwrap().live().count(), 0);
    }

    #[test]
    fn directories_are_noted_without_links() {
        let place = tempfile::tempdir().unwrap();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(place.path(), &link).unwrap();
        let mut journal = Journal::open(place.path()).unwrap();
        let made = journal.directory(&link.join("work")).unwrap();
        assert_eq!(made, place.path().canonicalize().unwrap().join("work"));
    }

    #[test]
    fn a_run_gives_back_only_its_own() {
        let place = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(place.path()).unwrap();
        journal.note(directory_of(&place.path().join("kept"))).unwrap();
        let mark = journal.mark();
        journal.note(directory_of(&place.path().join("of-the-run"))).unwrap();
        assert!(journal.undo_since(mark).is_empty());
        assert_eq!(journal.live().count(), 1);
        let journal = Journal::open(place.path()).unwrap();
        assert_eq!(journal.live().count(), 1);
    }

    #[test]
    fn what_cannot_be_given_back_stays_and_does_not_keep_the_rest() {
        let place = tempfile::tempdir().unwrap();
        let (below, above) = (place.path().join("below"), place.path().join("above"));
        let mut journal = Journal::open(place.path()).unwrap();
        journal.note(directory_of(&below)).unwrap();
        let words = ["sh", "-c", "test -e mended"].map(str::to_owned).into();
        let (environment, directory) = (BTreeMap::new(), place.path().to_owned());
        journal.note(Resource::Command { words, environment, directory }).unwrap();
        journal.note(directory_of(&above)).unwrap();
        for path in [&below, &above] {
            std::fs::create_dir(path).unwrap();
        }
        // Their identities were not noted, as after a kill between both steps.
        assert_eq!(journal.undo_all().unwrap().len(), 1);
        assert!(!below.exists() && !above.exists());
        let mut journal = Journal::open(place.path()).unwrap();
        assert_eq!(journal.live().count(), 1);
        std::fs::write(place.path().join("mended"), "").unwrap();
        assert!(journal.undo_all().unwrap().is_empty());
        assert_eq!(Journal::open(place.path()).unwrap().live().count(), 0);
    }

    #[test]
    fn a_damaged_line_is_an_error_with_its_number() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join(JOURNAL_FILE), "{\"undone\":{\"id\":0}}\nrubbish\n")
            .unwrap();
        let error = Journal::open(place.path()).unwrap_err().to_string();
        assert!(error.starts_with("line 2 of "), "{error}");
    }
}
