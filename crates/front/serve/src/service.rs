//! A served pool, from its opening to its close.

use crate::access::{self, open_patiently};
use crate::control::{self, Control, HolderKind};
use crate::events::{Event, Events};
use crate::exports::VolumeExports;
use crate::failure::RequestFailure;
use crate::metrics::{self, MetricsAddress, MetricsServer, PageKind, pool_page, volumes_page};
use crate::open_pool::{OpenError, OpenPool};
use crate::report::feature_warning;
use crate::settings::{Settings, Values};
use crate::{open_files, patience, schedule, scrub_thread, systemd, watch};
use gemelo_base::Remedy;
use gemelo_base::ShowPath as _;
use gemelo_base::background::Worker;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock};
use gemelo_device::{FrontEnd, Listening, Transfers};
use gemelo_format::{IndexForm, VolumeLimits};
use gemelo_place::{PoolPlace, Use};
use gemelo_volume::IndexSampling;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Interval between two attempts of a standby to take the pool. It adds to the time of a fail-over.
const STAND_BY_LOOK_NS: u64 = 200_000_000;

/// Makes the protocols by which clients reach the volumes, from the settings of the pool under
/// those of the command line. It may be called twice: a standby serves with the settings that the
/// pool has when it takes over.
pub type MakeFrontEnds<'m> =
    Box<dyn Fn(&Values) -> Result<Vec<Box<dyn FrontEnd>>, RequestFailure> + 'm>;

/// The front ends of a server and its options.
pub struct ServeOptions<'m> {
    /// Makes the front ends.
    pub front_ends: MakeFrontEnds<'m>,
    /// Names of the volumes to export. An empty list exports all volumes, also those created later.
    pub volumes: Vec<String>,
    /// Settings that go before those of the pool.
    pub settings: Values,
    /// `true` to refuse all changes.
    pub read_only: bool,
    /// The rates of all volumes together.
    pub total: VolumeLimits,
    /// Address at which metrics are served over HTTP.
    pub metrics: Option<MetricsAddress>,
    /// The program that is told of events.
    pub on_event: Option<PathBuf>,
    /// `true` to wait until no other process has the pool.
    pub standby: bool,
}

impl Default for ServeOptions<'_> {
    fn default() -> Self {
        Self {
            front_ends: Box::new(|_| Ok(Vec::new())),
            volumes: Vec::new(),
            settings: Values::default(),
            read_only: false,
            total: VolumeLimits::default(),
            metrics: None,
            on_event: None,
            standby: false,
        }
    }
}

/// The addresses at which a service listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// Addresses of the front ends, for clients.
    pub clients: Vec<String>,
    /// Address of the metrics.
    pub metrics: Option<SocketAddr>,
}

/// Serves a pool until `stop` is raised. The service then accepts no more clients, executes and
/// answers the requests that clients have sent, flushes, and closes the pool. `ready` receives the
/// addresses once clients can connect. The service raises `stop` itself if a front end fails. A
/// standby that never got the pool ends when `stop` is raised as well, without an error.
///
/// # Errors
/// Fails if the pool cannot be opened or closed, or if a front end fails.
pub fn serve(
    place: &PoolPlace,
    options: ServeOptions<'_>,
    monitor: Arc<dyn Monitor>,
    stop: &StopFlag,
    ready: impl FnOnce(&Addresses),
) -> Result<(), RequestFailure> {
    let Some((service, addresses)) = Service::start(place, options, monitor, stop)? else {
        return Ok(());
    };
    ready(&addresses);
    systemd::notify("READY=1");
    let served = run_all(&service.front_ends, stop);
    systemd::notify("STOPPING=1");
    let closed = service.close();
    served?;
    closed
}

/// Runs the front ends, a thread for each. If one ends, the others stop as well. Returns the first
/// error.
fn run_all(front_ends: &[Arc<dyn Listening>], stop: &StopFlag) -> Result<(), RequestFailure> {
    std::thread::scope(|scope| {
        let start = |front_end: &Arc<dyn Listening>| {
            let front_end = Arc::clone(front_end);
            let run = move || {
                // The others stop also if it panics.
                let _raised = RaisedAtEnd(stop);
                front_end.run(stop)
            };
            let thread = std::thread::Builder::new().name("gemelo-front-end".into());
            thread.spawn_scoped(scope, run).inspect_err(|_| stop.raise())
        };
        let threads: Vec<_> = front_ends.iter().map(start).collect();
        let mut outcome = Ok(());
        for thread in threads {
            let ended = match thread {
                Ok(thread) => thread
                    .join()
                    .map_err(|_| RequestFailure::midway("a front end panicked"))
                    .and_then(|ended| ended.map_err(|error| RequestFailure::of_error(&error))),
                Err(error) => {
                    let remedy = gemelo_base::threads::REFUSED;
                    let what = format!("cannot start the thread of a front end ({remedy})");
                    Err(RequestFailure::of(&what, &error))
                }
            };
            outcome = outcome.and(ended);
        }
        outcome
    })
}

/// Raises a flag when it is dropped.
struct RaisedAtEnd<'s>(&'s StopFlag);

impl Drop for RaisedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.raise();
    }
}

struct Service {
    pool: Arc<OpenPool>,
    front_ends: Vec<Arc<dyn Listening>>,
    transfers: Option<Arc<dyn Transfers>>,
    /// [`None`] if the pool's directory is read-only, or if another server, which only reads as
    /// well, has the control socket.
    control: Option<Control>,
    helpers: Vec<Worker>,
    events: Arc<Events>,
    closing: StopFlag,
}

impl Service {
    /// Opens the pool and listens. Returns [`None`] if a standby was stopped before it had the
    /// pool.
    fn start(
        place: &PoolPlace,
        options: ServeOptions<'_>,
        monitor: Arc<dyn Monitor>,
        stop: &StopFlag,
    ) -> Result<Option<(Self, Addresses)>, RequestFailure> {
        let about = |failure: RequestFailure| failure.about_place(place);
        let directory = place.host_directory();
        let directory = directory.map_err(|error| about(RequestFailure::of_place(&error)))?;
        let settings = options.settings.over(&Settings::read(place)?.pool);
        let front_ends = (options.front_ends)(&settings)?;
        for front_end in &front_ends {
            front_end.check().map_err(|error| RequestFailure::of_error(&error))?;
        }
        let failed = |error: std::io::Error| RequestFailure::of("cannot start to serve", &error);
        let on_event = options.on_event.clone();
        let events = Events::start(Arc::clone(&monitor), place.to_string(), on_event);
        let events = Arc::new(events.map_err(failed)?);
        let told = (&*monitor, &*events);
        let opened = open((place, &directory), &options, told, stop).map_err(about)?;
        let Some(pool) = opened else { return Ok(None) };
        let read_only = options.read_only;
        // A standby may have waited for long.
        let front_ends = match pool.settings().of_pool() {
            now if now == settings => front_ends,
            now => (options.front_ends)(&now)?,
        };
        let front_ends = listen(front_ends, options.volumes, &pool, &monitor)?;
        pool.set_front_ends(front_ends.clone());
        pool.pool().pace(options.total, stop.clone());
        let all = Arc::new(VolumeExports::all(&pool));
        let transfers = front_ends.iter().find_map(|front_end| front_end.transfers(all.clone()));
        let metrics = options.metrics.as_ref().map(MetricsServer::bind).transpose();
        let metrics = metrics.map_err(|error| RequestFailure::of_error(&error))?;
        let addresses = Addresses {
            clients: addresses(&front_ends)?,
            metrics: metrics.as_ref().map(MetricsServer::address),
        };
        if let Some(warning) = open_files::allow(max_open_files(&front_ends)) {
            monitor.warn(&warning);
        }
        let control = match open_control(&directory, &pool, transfers.clone(), (&monitor, stop)) {
            Ok(control) => Some(control),
            Err(error) if read_only => {
                monitor.warn(&format!(
                    "{}: commands cannot ask this server, and open the pool themselves: cannot \
                     open the control socket: {error}",
                    directory.shown()
                ));
                None
            }
            Err(error) => return Err(about(failed(error))),
        };
        let closing = StopFlag::new();
        let watch = watch::start(Arc::clone(&pool), Arc::clone(&events));
        let mut helpers = vec![watch.map_err(failed)?];
        let scrubs = scrub_thread::start(Arc::clone(&pool), Arc::clone(&monitor), closing.clone());
        helpers.push(scrubs.map_err(failed)?);
        let snapshots = schedule::start(Arc::clone(&pool), monitor, closing.clone());
        helpers.push(snapshots.map_err(failed)?);
        if let Some(metrics) = metrics {
            helpers
                .push(start_metrics(metrics, Arc::clone(&pool), closing.clone()).map_err(failed)?);
        }
        let service = Self { pool, front_ends, transfers, control, helpers, events, closing };
        Ok(Some((service, addresses)))
    }

    /// Closes the pool and all that still uses it. The front ends have ended their connections.
    fn close(self) -> Result<(), RequestFailure> {
        let Self { pool, front_ends, transfers, control, helpers, events, closing } = self;
        if let Some(control) = control {
            control.close();
        }
        closing.raise();
        let finished = transfers.as_ref().map_or(Ok(()), |transfers| transfers.finish());
        drop((helpers, front_ends, transfers));
        let closed = access::close(pool);
        // A command for events that takes its time has the process wait, and not the pool.
        drop(events);
        closed.map_err(|error| RequestFailure::from(error).found_midway())?;
        finished.map_err(|error| RequestFailure::of_error(&error))
    }
}

/// Opens the pool, reports its damage, and checks that the volumes to export exist. Returns
/// [`None`] if a standby was stopped.
fn open(
    (place, directory): (&PoolPlace, &Path),
    options: &ServeOptions<'_>,
    (monitor, events): (&dyn Monitor, &Events),
    stop: &StopFlag,
) -> Result<Option<Arc<OpenPool>>, RequestFailure> {
    let open = || {
        patience::wait_for_store(place, stop, monitor, || {
            OpenPool::open(place, Use::Hold, options.settings.clone(), options.read_only)
        })
    };
    let is_served = || control::is_answering(directory, HolderKind::Server);
    let pool = match options.standby {
        true => match stand_by(place, stop, open, monitor)? {
            Some(pool) => pool,
            None => return Ok(None),
        },
        false => open_patiently(stop, open, is_served)?,
    };
    for damage in pool.damage() {
        events.tell(Event::DamageFound, &damage);
    }
    if let Some(what) = pool.unknown_feature() {
        events.tell(Event::ReadOnly, &feature_warning(what));
    } else if pool.is_read_only() && !options.read_only {
        events.tell(
            Event::ReadOnly,
            "the pool is damaged and served read-only: stop, and repair it with `pool check --repair`",
        );
    }
    let policy = pool.stat_of_pool()?.pool.policy;
    let sampling = pool.settings().of_pool().tuning().index_sampling;
    if sampling != IndexSampling::ALL && policy.index() != IndexForm::Memory {
        monitor.warn(&format!(
            "the policy {} has every content in its index on disk: only one in memory can have a sample",
            policy.name()
        ));
    }
    for name in &options.volumes {
        pool.device(name)?;
    }
    Ok(Some(Arc::new(pool)))
}

/// Opens the pool as soon as no other process has it. Returns [`None`] if it is stopped before.
fn stand_by(
    place: &PoolPlace,
    stop: &StopFlag,
    open: impl Fn() -> Result<OpenPool, OpenError>,
    monitor: &dyn Monitor,
) -> Result<Option<OpenPool>, RequestFailure> {
    let clock = SystemClock::new();
    let mut is_told = false;
    loop {
        match open() {
            Err(OpenError::Pool(error)) if error.is_in_use() => {
                if !std::mem::replace(&mut is_told, true) {
                    let holder = error.holder().unwrap_or_default();
                    monitor.log(&format!("{place}: standing by while {holder} serves"));
                    systemd::notify("READY=1\nSTATUS=standing by");
                }
            }
            // A standby that is told to end while the store does not answer has not failed.
            Err(_) if stop.is_raised() => {}
            other => return Ok(Some(other?)),
        }
        if stop.is_raised() {
            return Ok(None);
        }
        clock.sleep_until_ns(clock.now_ns() + STAND_BY_LOOK_NS);
    }
}

/// Binds the addresses of all front ends.
fn listen(
    front_ends: Vec<Box<dyn FrontEnd>>,
    volumes: Vec<String>,
    pool: &Arc<OpenPool>,
    monitor: &Arc<dyn Monitor>,
) -> Result<Vec<Arc<dyn Listening>>, RequestFailure> {
    let exports = Arc::new(VolumeExports::only(pool, volumes));
    front_ends
        .into_iter()
        .map(|front_end| front_end.listen(exports.clone(), Arc::clone(monitor)))
        .map(|listening| listening.map_err(|error| RequestFailure::of_error(&error)))
        .collect()
}

fn addresses(front_ends: &[Arc<dyn Listening>]) -> Result<Vec<String>, RequestFailure> {
    let addresses: Vec<String> =
        front_ends.iter().flat_map(|front_end| front_end.addresses()).collect();
    if addresses.is_empty() {
        let failure = RequestFailure::refused("there is no address to listen at");
        return Err(failure.with_remedy(Remedy::Listen));
    }
    Ok(addresses)
}

/// Returns the most files that clients of all kinds have open at a time.
fn max_open_files(front_ends: &[Arc<dyn Listening>]) -> u64 {
    let clients: u64 = front_ends.iter().map(|front_end| front_end.max_open_files()).sum();
    clients + control::MAX_OPEN_FILES + metrics::MAX_OPEN_FILES
}

/// Opens the control socket. Fails if another server has it, which shares the pool because both
/// only read. The process with the tenure of a member takes the socket in any case: a predecessor
/// on the same host that is stopped has it still.
fn open_control(
    directory: &Path,
    pool: &Arc<OpenPool>,
    transfers: Option<Arc<dyn Transfers>>,
    (monitor, stop): (&Arc<dyn Monitor>, &StopFlag),
) -> std::io::Result<Control> {
    if !pool.is_leased() && control::is_answering(directory, HolderKind::Server) {
        return Err(std::io::ErrorKind::AddrInUse.into());
    }
    let ends = (Arc::clone(monitor), stop.clone());
    Control::open(directory, Arc::clone(pool), transfers, ends)
}

fn start_metrics(
    metrics: MetricsServer,
    pool: Arc<OpenPool>,
    closing: StopFlag,
) -> std::io::Result<Worker> {
    let text = move |kind| match kind {
        PageKind::Volumes => volumes_page(&pool.stat_of_volumes()),
        PageKind::Pool => pool.stat_of_pool().map_or_else(
            |error| format!("# {error}\n"),
            |report| pool_page(&report, &pool.volumes_activity()),
        ),
    };
    // A pool is served also without metrics. The panic hook reports a panic.
    Worker::start("gemelo-metrics", |_| {}, move |_| metrics.run(&closing, text))
}
