//! An open pool, and the requests that it performs.

use crate::access::Purpose;
use crate::failure::RequestFailure;
use crate::figures::{damage_at_opening, report_on, volume_reports};
use crate::health::HealthWatch;
use crate::kept_text::KeptText;
use crate::leased_volume::LeasedVolume;
use crate::report::{StatReport, VolumeReport};
use crate::request::{CheckedReport, DomainShare, FoundReport, PoolRequest, Reply};
use crate::schedule::Schedule;
use crate::scrub::Scrubs;
use crate::settings::{self, PoolSettings, Settings, Values};
use crate::space::SpaceCounter;
use gemelo_base::Remedy;
use gemelo_base::background::TaskStat;
use gemelo_base::panics::Panicked;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_device::{BlockDevice, Devices, FrontEndError, Listening};
use gemelo_member::MemberError;
use gemelo_place::{PlaceError, PlacedPool, PoolPlace, Use};
use gemelo_volume::{
    DamagedBlock, Pool, ScrubOptions, ScrubReport, ShrinkOptions, StopReason, Tuning, VolumeError,
    VolumesActivity,
};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Most differences that a check names.
const MAX_DIFFERENCES: usize = 1000;

/// A pool that this process has open.
pub(crate) struct OpenPool {
    placed: Arc<PlacedPool>,
    place: PoolPlace,
    /// The place without links, with which it is the same in each process.
    whole_place: String,
    settings: PoolSettings,
    schedule: Schedule,
    /// `true` if a command opened the pool read-only because it changes nothing. Reports do not
    /// call such a pool read-only.
    is_only_looked_at: bool,
    /// The front ends, once the pool is served.
    pub(crate) front_ends: OnceLock<Vec<Arc<dyn Listening>>>,
    space: SpaceCounter,
    scrubs: Scrubs,
    health: HealthWatch,
}

impl OpenPool {
    /// Opens the pool with its own settings. Those that this process was given go before them.
    pub(crate) fn open(
        place: &PoolPlace,
        used: Use,
        said: Values,
        read_only: bool,
    ) -> Result<Self, OpenError> {
        Self::open_tuned(place, used, said, |tuning| Tuning { read_only, ..tuning })
    }

    fn open_tuned(
        place: &PoolPlace,
        used: Use,
        said: Values,
        tuned: impl FnOnce(Tuning) -> Tuning,
    ) -> Result<Self, OpenError> {
        let settings = Settings::read(place).map_err(OpenError::Settings)?;
        let tuning = tuned(said.over(&settings.pool).tuning());
        let placed = place.open(used, tuning, Arc::new(SystemClock::new()));
        let placed = Arc::new(placed.map_err(OpenError::Pool)?);
        let kept = KeptText::new(place, &placed, settings::FILE);
        let settings = PoolSettings::new(kept, settings, said);
        settings.begin(placed.pool());
        let (is_only_looked_at, front_ends) = (false, OnceLock::new());
        let (space, scrubs) = (SpaceCounter::default(), Scrubs::new(place, &placed));
        let (place, whole_place) = (place.clone(), place.whole());
        let (health, schedule) = (HealthWatch::default(), Schedule::new(&place, &placed));
        Ok(Self {
            placed,
            place,
            whole_place,
            settings,
            schedule,
            is_only_looked_at,
            front_ends,
            space,
            scrubs,
            health,
        })
    }

    /// Opens the pool for a command, with its own settings as far as the purpose allows.
    pub(crate) fn open_as_set(
        place: &PoolPlace,
        used: Use,
        purpose: Purpose,
    ) -> Result<Self, OpenError> {
        let read_only = purpose.is_to_read();
        let tuned = |tuning: Tuning| match purpose.is_copy() {
            true => Tuning { read_only, ..tuning }.for_copy(),
            false => Tuning { read_only, ..tuning },
        };
        Self::open_tuned(place, used, Values::default(), tuned)
            .map(|opened| Self { is_only_looked_at: read_only, ..opened })
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.placed.pool()
    }

    /// Sets the front ends that serve the pool. They are asked for connections and figures.
    pub(crate) fn set_front_ends(&self, front_ends: Vec<Arc<dyn Listening>>) {
        // Only the service calls this, and once.
        let _ = self.front_ends.set(front_ends);
    }

    /// Stops the background work, closes the pool and lets other processes have it.
    pub(crate) fn close(self) -> Result<(), PlaceError> {
        let Self { placed, scrubs, .. } = self;
        drop(scrubs);
        match Arc::try_unwrap(placed) {
            Ok(placed) => placed.close(),
            Err(held) => Ok(held.pool().checkpoint()?),
        }
    }

    /// Writes a checkpoint for callers that do not hold the only reference and cannot close the
    /// pool.
    pub(crate) fn checkpoint(&self) -> Result<(), VolumeError> {
        self.pool().checkpoint()
    }

    /// Ends all changes of the pool, because a thread that works on it panicked.
    pub(crate) fn stop_by_panic(&self, panicked: Panicked) {
        self.pool().stop_by_panic(panicked);
    }

    /// Returns the failure after which the pool takes no changes any more.
    pub(crate) fn stopped(&self) -> Option<StopReason> {
        self.pool().stopped()
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.pool().is_read_only()
    }

    /// Returns the feature that keeps the pool read-only.
    pub(crate) fn unknown_feature(&self) -> Option<&str> {
        self.pool().unknown_feature()
    }

    /// Returns a warning for each damage that was found when the pool was opened.
    pub(crate) fn damage(&self) -> Vec<String> {
        damage_at_opening(self.pool())
    }

    pub(crate) fn volume_names(&self) -> Vec<String> {
        self.pool().volume_names()
    }

    pub(crate) fn device(&self, name: &str) -> Result<Arc<dyn BlockDevice>, VolumeError> {
        let volume = self.pool().volume(name)?;
        Ok(match self.placed.lease_state() {
            None => Arc::new(volume),
            Some(lease_state) => Arc::new(LeasedVolume::new(volume, lease_state)),
        })
    }

    /// Identifies a volume on this host. A copy of a pool has the ids of the pool, so its place
    /// belongs to it.
    pub(crate) fn identity(&self, name: &str) -> Result<String, VolumeError> {
        Ok(format!("{}@{}", self.pool().volume(name)?.identity(), self.whole_place))
    }

    /// Fails if another process may have taken the member by now.
    pub(crate) fn check_lease(&self) -> Result<(), RequestFailure> {
        match self.placed.lease_state().map(|lease_state| lease_state.check()) {
            Some(Err(why)) => Err(RequestFailure::of_error(&MemberError::from(why))),
            _ => Ok(()),
        }
    }

    /// Returns whether this process has the tenure of a member, so that no other one serves it.
    pub(crate) fn is_leased(&self) -> bool {
        self.placed.lease_state().is_some()
    }

    /// Performs a request. A member that another process may have taken by now answers nothing.
    pub(crate) fn perform(
        &self,
        request: &PoolRequest,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Reply, RequestFailure> {
        let reply = self.perform_here(request, monitor, stop);
        self.check_lease()?;
        reply
    }

    fn perform_here(
        &self,
        request: &PoolRequest,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Reply, RequestFailure> {
        let pool = self.pool();
        match request {
            PoolRequest::Stat => return Ok(Reply::Stat(Box::new(self.stat()?))),
            PoolRequest::VolumeSpace { name } => {
                let spaces = self.space.of_volumes(pool, name.as_deref(), monitor, stop)?;
                return Ok(Reply::VolumeSpace(spaces));
            }
            PoolRequest::SnapshotSpace => {
                return Ok(Reply::SnapshotSpace(self.space.of_snapshots(pool, stop)?));
            }
            PoolRequest::DifferingRanges { name, since, from_bytes } => {
                return self.differing_ranges(name, since, *from_bytes, stop);
            }
            PoolRequest::Set { volume, changes } => self.set(volume.as_deref(), changes)?,
            PoolRequest::Settings { volume } => return self.report_settings(volume.as_deref()),
            PoolRequest::Tick => return self.tick().map(Reply::Ticked),
            PoolRequest::PruneCopies { name, keep } => {
                let rule = keep.parse().map_err(RequestFailure::refused)?;
                return Ok(Reply::Ticked(self.prune_copies(name, rule)?));
            }
            PoolRequest::Collect { max_bytes_per_s } => {
                return self.collect(*max_bytes_per_s, monitor, stop);
            }
            PoolRequest::Arrange { max_bytes_per_s } => {
                return Ok(Reply::Arranged(pool.arrange(*max_bytes_per_s, monitor, stop)?));
            }
            PoolRequest::Recompress { max_bytes_per_s } => {
                let report = pool.recompress(*max_bytes_per_s, monitor, stop)?;
                return Ok(Reply::Recompressed(report));
            }
            PoolRequest::Find => return self.find(monitor, stop).map(Reply::Found),
            PoolRequest::EstimateFind { sample_bytes, seed } => {
                let estimate = pool.estimate_find((*sample_bytes, *seed), monitor, stop)?;
                return Ok(Reply::Estimated(estimate));
            }
            PoolRequest::PauseFinder { is_paused } => self.pause_finder(*is_paused)?,
            PoolRequest::Check { data } => {
                return Ok(Reply::Checked(self.check(*data, monitor, stop)?));
            }
            PoolRequest::Scrub { max_bytes_per_s } => {
                let options = ScrubOptions { max_bytes_per_s: *max_bytes_per_s, heals: true };
                return Ok(Reply::Scrubbed(self.scrub(options, monitor, stop)?));
            }
            PoolRequest::Grow { capacity_bytes } => pool.grow(*capacity_bytes)?,
            PoolRequest::Shrink { capacity_bytes, max_bytes_per_s, is_dry } => {
                let (max_bytes_per_s, is_dry) = (*max_bytes_per_s, *is_dry);
                let options = ShrinkOptions { max_bytes_per_s, is_dry };
                let report = pool.shrink(*capacity_bytes, options, (monitor, stop))?;
                return Ok(Reply::Shrunk(report));
            }
            PoolRequest::Attach { name, driver } => return self.attach(name, driver),
            PoolRequest::Detach { name, force } => self.detach(name, *force)?,
            PoolRequest::CreateVolume { .. }
            | PoolRequest::RemoveVolume { .. }
            | PoolRequest::RenameVolume { .. }
            | PoolRequest::ResizeVolume { .. }
            | PoolRequest::SnapshotVolumes { .. }
            | PoolRequest::CloneVolume { .. }
            | PoolRequest::RollBack { .. }
            | PoolRequest::Hold { .. } => self.change_volume(request, monitor)?,
            PoolRequest::Send { .. }
            | PoolRequest::Receive { .. }
            | PoolRequest::HandOver
            | PoolRequest::Connect => return Err(refusal(request)),
        }
        Ok(Reply::Done)
    }

    fn collect(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<Reply, RequestFailure> {
        let collected = self.pool().gc(max_bytes_per_s, monitor, stop)?;
        self.share(stop)?;
        Ok(Reply::Collected(collected))
    }

    /// Makes a device by this driver.
    fn attach(&self, name: &str, driver: &str) -> Result<Reply, RequestFailure> {
        let makers = self.device_makers()?;
        let devices = makers.iter().find(|devices| devices.driver() == driver);
        let devices = devices.ok_or_else(|| {
            RequestFailure::refused(format!("the server makes no devices by {driver}"))
        })?;
        let path = devices.attach(name).map_err(|error| RequestFailure::of_error(&error))?;
        Ok(Reply::Attached { path })
    }

    /// Removes the device of a volume, whichever driver has made it.
    fn detach(&self, name: &str, force: bool) -> Result<(), RequestFailure> {
        let mut failure = None;
        for devices in self.device_makers()? {
            match devices.detach(name, force) {
                Ok(()) => return Ok(()),
                // A driver that has the device says more than one that has not.
                Err(error @ (FrontEndError::InUse(_) | FrontEndError::Failed(_))) => {
                    return Err(RequestFailure::of_error(&error));
                }
                Err(error) => failure = failure.or(Some(RequestFailure::of_error(&error))),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    pub(crate) fn makers_of_devices(&self) -> impl Iterator<Item = &dyn Devices> {
        self.front_ends.get().into_iter().flatten().filter_map(|one| one.devices())
    }

    /// Returns the front ends that make devices of this host. There is at least one.
    fn device_makers(&self) -> Result<Vec<&dyn Devices>, RequestFailure> {
        let makers: Vec<&dyn Devices> = self.makers_of_devices().collect();
        if makers.is_empty() {
            let text = "no process serves the pool, so its volumes can be no devices";
            return Err(RequestFailure::refused(text).with_remedy(Remedy::Serve));
        }
        Ok(makers)
    }

    fn check(
        &self,
        data: bool,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<CheckedReport, RequestFailure> {
        let pool = self.pool();
        let differences = pool.prove_served(MAX_DIFFERENCES)?;
        let options = ScrubOptions::default();
        let contents = data.then(|| pool.scrub(options, monitor, stop)).transpose()?;
        let known = if contents.is_none() { pool.damaged_blocks().len() } else { 0 };
        Ok(CheckedReport { differences, contents, known_damaged: known as u64 })
    }

    /// Searches for duplicates, and shares with the domain what was found.
    fn find(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<FoundReport, RequestFailure> {
        let before = self.domain_share();
        let blocks = self.pool().find(monitor, stop)?;
        self.share(stop)?;
        let domain = self.domain_share().zip(before).map(|(now, before)| DomainShare {
            shared: now.shared - before.shared,
            published: now.published - before.published,
        });
        Ok(FoundReport { blocks, domain })
    }

    /// Figures of the sharing of this member with its domain since it was opened.
    fn domain_share(&self) -> Option<DomainShare> {
        let counts = self.placed.sharing_stat()?.counts;
        Some(DomainShare { shared: counts.shared, published: counts.published })
    }

    /// Shares with the domain what was found, and releases what is not used any more.
    fn share(&self, stop: &StopFlag) -> Result<(), RequestFailure> {
        self.placed.share(stop).map_err(|error| RequestFailure::of_place(&error))
    }

    /// Pauses or resumes the finder. A pool that is not served has none in the background.
    fn pause_finder(&self, is_paused: bool) -> Result<(), RequestFailure> {
        if self.front_ends.get().is_none() {
            let text = "no process serves the pool, so no finder works in the background: start \
                        'gemelo serve' first";
            return Err(RequestFailure::refused(text));
        }
        self.pool().pause_finder(is_paused);
        Ok(())
    }

    /// The figures of the tasks that the background repeats by itself.
    pub(crate) fn tasks(&self) -> Vec<TaskStat> {
        let mut tasks = self.placed.tasks();
        tasks.extend([self.scrubs.task().stat(), self.schedule.task().stat()]);
        tasks.extend(self.makers_of_devices().filter_map(Devices::task));
        tasks
    }

    /// Reports on the pool and its server.
    pub(crate) fn stat(&self) -> Result<StatReport, VolumeError> {
        self.stat_with(self.stat_of_volumes())
    }

    /// Reports on the pool and its server, without figures of each volume.
    pub(crate) fn stat_of_pool(&self) -> Result<StatReport<()>, VolumeError> {
        self.stat_with(())
    }

    fn stat_with<V>(&self, volumes: V) -> Result<StatReport<V>, VolumeError> {
        let of_server = (self.front_ends(), self.tasks());
        let thresholds = self.settings.of_pool().thresholds();
        let report = report_on(self.pool(), &self.place, of_server, &thresholds, volumes)?;
        let read_only = report.read_only && !self.is_only_looked_at;
        let (scrub, sharing) = (self.scrubs.stat(), self.placed.sharing_stat());
        let health = match (report.server.is_some(), SystemClock::new().utc_s()) {
            (true, Some(now_utc_s)) => self.health.note(report.health, now_utc_s),
            _ => report.health,
        };
        Ok(StatReport { read_only, scrub, sharing, health, ..report })
    }

    /// The figures of each volume.
    pub(crate) fn stat_of_volumes(&self) -> Vec<VolumeReport> {
        volume_reports(self.pool(), self.front_ends())
    }

    /// The activity of all volumes together.
    pub(crate) fn volumes_activity(&self) -> VolumesActivity {
        self.pool().volumes_activity()
    }

    fn front_ends(&self) -> Option<&[Arc<dyn Listening>]> {
        self.front_ends.get().map(Vec::as_slice)
    }

    /// Reports on the pool to other processes while this one has it without serving it.
    pub(crate) fn stat_for_others(&self) -> Result<StatReport, VolumeError> {
        Ok(StatReport { holder_process_id: Some(std::process::id()), ..self.stat()? })
    }

    pub(crate) const fn scrubs(&self) -> &Scrubs {
        &self.scrubs
    }

    /// Scrubs the pool and keeps the outcome.
    pub(crate) fn scrub(
        &self,
        options: ScrubOptions,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<ScrubReport, RequestFailure> {
        self.scrubs.run(self.pool(), options, monitor, stop)
    }

    /// Returns the directory of the pool if it is gone: deleted, or moved.
    pub(crate) fn lost_directory(&self) -> Option<&Path> {
        let directory = self.place.directory()?;
        let status = std::fs::metadata(directory);
        status.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound).then_some(directory)
    }

    /// Returns the damaged blocks that were found since the pool was opened and are still in use.
    pub(crate) fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        self.pool().damaged_blocks()
    }

    pub(crate) const fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    pub(crate) const fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}

/// The refusal of a request that only the control socket of a server performs.
fn refusal(request: &PoolRequest) -> RequestFailure {
    RequestFailure::refused(match request {
        PoolRequest::HandOver => {
            "no process of this host serves the member, so there is nothing to hand over"
        }
        PoolRequest::Connect => "only a served pool can be connected to",
        _ => "a stream needs a connection of its own",
    })
}

/// The reason why a pool was not opened with its settings.
pub(crate) enum OpenError {
    Settings(RequestFailure),
    Pool(PlaceError),
}

impl From<OpenError> for RequestFailure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Settings(failure) => failure,
            OpenError::Pool(error) => Self::of_place(&error),
        }
    }
}
