//! `gemelo serve` exports the volumes of a pool over NBD and to virtual machines.

mod permissions;

use crate::commands::attach::guard_arguments;
use crate::commands::volume::limits::Rates;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome, refused};
use crate::values::{OnOff, inline_overload_parser, io_mode_parser, pool_place_parser};
use clap::{Args, ValueHint};
use gemelo_base::DailyWindow;
use gemelo_base::ShowPath as _;
use gemelo_base::memory::keep_little;
use gemelo_base::values::{Percent, Size, Span};
use gemelo_device::{FrontEnd, Memory, SocketAccess};
use gemelo_disk::IoMode;
use gemelo_nbd::server::{
    Door, ListenAddress, Listener, NbdFrontEnd, ServerConfig, TlsClient, TlsPolicy, tls_from_files,
};
use gemelo_place::PoolPlace;
use gemelo_serve::{
    Addresses, InheritedSocket, MetricsAddress, ServeOptions, Settings, Thresholds, handed_over,
    unfit_for_events, whole_percent,
};
use gemelo_ublk::{OpenedDriver, UblkFrontEnd, Wanted};
use gemelo_vhost::VhostFrontEnd;
use gemelo_volume::{IndexSampling, InlineOverload, Tuning};
use permissions::{FileMode, GroupId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The shortest lease. It is renewed every second, and the store counts whole seconds.
const MIN_LEASE: Duration = Duration::from_secs(3);

/// Headings of the help. Options without one are those that most users set.
const ACCESS: &str = "Clients";
const ENCRYPTION: &str = "Encryption";
const BACKGROUND: &str = "Background work";
const TUNING: &str = "Tuning";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool: its directory, or rados:POOL/NAMESPACE/MEMBER
    #[arg(value_name = "POOL", value_parser = pool_place_parser(), value_hint = ValueHint::AnyPath)]
    pool: PoolPlace,
    /// Wait until no other process has the pool, and serve it then: the standby of a member of a
    /// domain takes over when the host that serves it dies or hands it over
    #[arg(long)]
    standby: bool,
    /// Time after which another host may take a member of a domain whose server does not renew its
    /// lease; at least 3s [default: 30s]
    #[arg(long, value_name = "DURATION")]
    lease: Option<Span>,
    /// Address to listen at: unix:PATH or tcp:HOST:PORT, where HOST is a name or an address; may be
    /// given several times. ADDRESS,volume=NAME exports this volume there and no other; NAME may
    /// have * and ?, as in unix:/run/web.sock,volume=web-*, and several may follow each other.
    /// ADDRESS,read-only refuses writes there
    #[arg(long, help_heading = ACCESS, value_name = "ADDRESS")]
    listen: Vec<Door>,
    /// Directory for the sockets of virtual machines on this host, which reach a volume by shared
    /// memory (vhost-user-blk): the socket of the volume NAME is DIR/NAME.sock
    #[arg(long, help_heading = ACCESS, value_name = "DIR", value_hint = ValueHint::DirPath)]
    vhost_user: Option<PathBuf>,
    /// Make volumes block devices of this host, /dev/ublkbN and, by the rule of udev,
    /// /dev/gemelo/POOL/VOLUME: these, or without names all, also those created later. As root,
    /// or with CAP_SYS_ADMIN. Requests wait while no server runs
    #[arg(long, help_heading = ACCESS, value_name = "VOLUME", num_args = 0..)]
    ublk: Option<Vec<String>>,
    #[arg(skip)]
    driver: OpenedDriver,
    /// Time after which the requests of a block device fail that no server has taken back; 0s for
    /// never
    #[arg(long, help_heading = ACCESS, value_name = "DURATION", default_value = "0s")]
    ublk_timeout: Span,
    /// Mode of the unix sockets of --listen and --vhost-user: users that may write to a socket may
    /// connect [default: by the umask, or 0660 with --socket-group]
    #[arg(long, help_heading = ACCESS, value_name = "MODE")]
    socket_mode: Option<FileMode>,
    /// Group of the unix sockets of --listen and --vhost-user: its name or number
    #[arg(long, help_heading = ACCESS, value_name = "GROUP")]
    socket_group: Option<GroupId>,
    /// SELinux label of the unix sockets of --listen and --vhost-user, such as
    /// system_u:object_r:svirt_socket_t:s0 for virtual machines of libvirt
    #[arg(long, help_heading = ACCESS, value_name = "LABEL")]
    selinux_label: Option<String>,
    /// Refuse all changes, by clients and by commands
    #[arg(long)]
    read_only: bool,
    /// Export only this volume; may be given several times [default: all, also those created later]
    #[arg(long, value_name = "NAME")]
    volume: Vec<String>,
    #[command(flatten)]
    total: Rates,
    /// Serve metrics for Prometheus at http://HOST:PORT/metrics, and those of each volume at
    /// http://HOST:PORT/metrics/volumes
    #[arg(long, help_heading = ACCESS, value_name = "HOST:PORT")]
    metrics: Option<MetricsAddress>,
    /// Encrypt with this certificate and its chain, a PEM file; clients that do not encrypt are
    /// refused
    #[arg(long, help_heading = ENCRYPTION, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, a PEM file
    #[arg(long, help_heading = ENCRYPTION, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Accept only clients whose certificate one of these authorities has signed, a PEM file
    #[arg(long, help_heading = ENCRYPTION, value_name = "FILE", requires = "tls_certificate")]
    tls_client_authority: Option<PathBuf>,
    /// Let clients whose certificate has the DNS name NAME open these volumes only, as in
    /// web.example,volume=web-*; with ,read-only they may not write. May be given several times;
    /// clients without any of these names open nothing
    #[arg(long, help_heading = ENCRYPTION, value_name = "NAME,volume=VOLUME", requires = "tls_client_authority")]
    tls_client: Vec<TlsClient>,
    /// Also accept clients that do not encrypt
    #[arg(long, help_heading = ENCRYPTION, requires = "tls_certificate")]
    tls_optional: bool,
    /// Listen without encryption at addresses that other machines reach
    #[arg(long, help_heading = ACCESS)]
    insecure: bool,
    /// Most clients at a time at each address
    #[arg(long, help_heading = ACCESS, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_connections: u32,
    /// Most connections at a time at each address that have not selected a volume; a further one
    /// ends the oldest
    #[arg(long, help_heading = TUNING, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    max_handshakes: u32,
    /// Most memory for the requests and replies of all clients of a protocol together [default:
    /// 256m, more for many clients]
    #[arg(long, help_heading = TUNING, value_name = "SIZE")]
    memory: Option<Size>,
    /// End connections that send no request for this time; 0s for never
    #[arg(long, help_heading = ACCESS, value_name = "DURATION", default_value = "0s")]
    idle_timeout: Span,
    /// End connections that send a part of a request and then nothing for this time; 0s for never
    #[arg(long, help_heading = TUNING, value_name = "DURATION", default_value = "1m")]
    receive_timeout: Span,
    /// End connections that accept nothing of their replies for this time; 0s for never
    #[arg(long, help_heading = TUNING, value_name = "DURATION", default_value = "1m")]
    send_timeout: Span,
    /// Acknowledge a write when it is durable, as if every client asked for it: for clients that
    /// connect again by themselves after a crash or a fail-over, and keep a write cache
    #[arg(long)]
    write_through: bool,
    /// Look for the next request for at most this time before sleeping, if requests come that soon:
    /// replies are faster, and the processor is busier; 0s to sleep at once
    #[arg(long, help_heading = TUNING, value_name = "DURATION", default_value = "64us")]
    busy_wait: Span,
    /// Write a line to standard error when a client connects and when it leaves
    #[arg(long, help_heading = ACCESS)]
    log_connections: bool,
    /// Most freed space to give back to the file system a second; 0 for none [default: 64m]
    #[arg(long, help_heading = BACKGROUND, value_name = "SIZE")]
    collect_rate: Option<Size>,
    /// Most data to move a second while the pool is idle, so that neighbouring blocks are stored
    /// side by side; 0 for none [default: as the pool was made, 200m]
    #[arg(long, help_heading = BACKGROUND, value_name = "SIZE")]
    layout_rate: Option<Size>,
    /// Most data of off-line volumes that the finder reads a second [default: no limit]
    #[arg(long, help_heading = BACKGROUND, value_name = "SIZE")]
    finder_rate: Option<Size>,
    /// Least time after a write before the finder looks at the block [default: 5s]
    #[arg(long, help_heading = BACKGROUND, value_name = "DURATION")]
    finder_delay: Option<Span>,
    /// Most time after a write before the finder looks at the block: the delay of a volume grows up
    /// to it while blocks are overwritten soon after the finder looked at them [default: 1m]
    #[arg(long, help_heading = TUNING, value_name = "DURATION")]
    finder_max_delay: Option<Span>,
    /// Time from the beginning of a round of the finder to that of the next one; 0s to work as soon
    /// as blocks are due [default: 0s]
    #[arg(long, help_heading = BACKGROUND, value_name = "DURATION")]
    finder_interval: Option<Span>,
    /// Part of each day, in local time, in which the finder works, such as 01:00-05:00 [default:
    /// the whole day]
    #[arg(long, help_heading = BACKGROUND, value_name = "FROM-TO")]
    finder_window: Option<DailyWindow>,
    /// Most processor time that the finder uses while clients have requests under way, in percent
    /// of a core [default: 20]
    #[arg(long, help_heading = BACKGROUND, value_name = "PERCENT")]
    finder_cpu: Option<Percent>,
    /// Memory for fingerprints that are taken while contents are written, so that the finder need
    /// not read them; 0 for none [default: 16m]
    #[arg(long, help_heading = TUNING, value_name = "SIZE")]
    finder_memory: Option<Size>,
    /// While the write buffer is full: have writers wait, or store blocks of in-line volumes at
    /// once and leave them to the finder [default: wait]
    #[arg(long, help_heading = TUNING, value_name = "wait|defer", value_parser = inline_overload_parser())]
    inline_overload: Option<InlineOverload>,
    /// Scrub the pool when this time has passed since the end of the last scrub; 0s for never
    /// [default: never]
    #[arg(long, help_heading = BACKGROUND, value_name = "DURATION")]
    scrub_interval: Option<Span>,
    /// Most data that such a scrub reads a second [default: 50m]
    #[arg(long, help_heading = BACKGROUND, value_name = "SIZE")]
    scrub_rate: Option<Size>,
    /// Memory for contents that were written lately, once for all volumes that share them, and for
    /// those that a member reads often; 0 for none [default: as the pool was made, 256m; 0 where
    /// the system keeps what was written in memory, as with --io buffered]
    #[arg(long, help_heading = TUNING, value_name = "SIZE")]
    cache: Option<Size>,
    /// Memory for pages and changes of the metadata [default: as the pool was made, what they need,
    /// up to a sixty-fourth of the memory]
    #[arg(long, help_heading = TUNING, value_name = "SIZE")]
    metadata_cache: Option<Size>,
    /// Contents of which one is in an index in memory: a power of two from 1 to 1024.
    /// Others are found if they were written beside one that is [default: as the pool was made, 1]
    #[arg(long, help_heading = TUNING, value_name = "COUNT")]
    index_sample: Option<IndexSampling>,
    /// Memory for contents that were written, until they are on the disk [default: as the pool was
    /// made, 64m]
    #[arg(long, help_heading = TUNING, value_name = "SIZE")]
    write_buffer: Option<Size>,
    /// Most new contents that a flush writes into the journal, so that it syncs one disk and not
    /// two; 0 for none, more than 16m count as 16m [default: as the pool was made, 64k, or 32k
    /// for a member of a domain]
    #[arg(long, help_heading = TUNING, value_name = "SIZE")]
    journal_data: Option<Size>,
    /// Make writes durable after this time at the latest, even if no client flushes [default: as
    /// the pool was made, 5s]
    #[arg(long, help_heading = TUNING, value_name = "DURATION")]
    commit_interval: Option<Span>,
    /// Compare bytes before a block is shared, with every kind of fingerprint
    #[arg(long, help_heading = TUNING)]
    verify_bytes: bool,
    /// Compare contents with their checksums at every read, so that a damaged block is an error
    /// [default: as the pool was made, on]
    #[arg(long, help_heading = TUNING, value_name = "on|off")]
    verify_reads: Option<OnOff>,
    /// Write past the page cache or through it; buffered where the file system has no direct writes
    /// [default: as the pool was made, direct]
    #[arg(long, help_heading = TUNING, value_name = "direct|buffered", value_parser = io_mode_parser())]
    io: Option<IoMode>,
    /// Warn when this percentage of the data store is in use
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "80,90,95")]
    warn_used: Vec<Percent>,
    /// Run this program at each event, with the event and its message as arguments
    ///
    /// Events are read-only, directory-lost, damage-found, healed, full-80 and the other
    /// percentages of --warn-used, task-fails and task-works. Each is also a line of the log. The
    /// program has 10 seconds, and the server does not wait for it. GEMELO_POOL is the pool.
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::FilePath)]
    on_event: Option<PathBuf>,
}

impl Arguments {
    /// Opens the driver of block devices, and gives up the rights that this takes. The caller has
    /// started no threads, which would keep them.
    pub(crate) fn open_driver(&self) {
        // It is opened again, and reported, when it is needed.
        let _ = self.ublk().check();
    }

    fn tls(&self) -> crate::Result<TlsPolicy> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else {
            return Ok(TlsPolicy::Off);
        };
        let config = tls_from_files(certificate, key, self.tls_client_authority.as_deref())
            .or_bad_input()?;
        Ok(if self.tls_optional { TlsPolicy::Offered(config) } else { TlsPolicy::Required(config) })
    }

    /// The place of the pool, with the lease that was asked for.
    fn place(&self) -> crate::Result<PoolPlace> {
        let lease = self.lease.map_or(Ok(None), |lease| match lease.0 {
            span if span < MIN_LEASE => Err(refused!("--lease is too short: give at least 3s")),
            span => Ok(Some(span)),
        })?;
        Ok(match (self.pool.clone(), lease) {
            (PoolPlace::Member(member), Some(lease)) => {
                PoolPlace::Member(Box::new(member.with_lease(lease)))
            }
            (PoolPlace::Directory(path), Some(_)) => {
                let why = "a pool in a directory is locked without a lease";
                return Err(refused!("{}: leave out --lease: {why}", path.shown()));
            }
            (place, None) => place,
        })
    }

    /// The settings of the pool. Options take precedence.
    fn settings(&self, place: &PoolPlace) -> crate::Result<Settings> {
        let of_pool = Settings::read(place)?;
        let milliseconds = |span: Span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX);
        let said = Settings {
            commit_interval_ms: self.commit_interval.map(milliseconds),
            verify_reads: self.verify_reads.map(OnOff::is_on),
            verify_bytes: self.verify_bytes.then_some(true),
            io: self.io,
            finder_delay_ms: self.finder_delay.map(milliseconds),
            finder_max_delay_ms: self.finder_max_delay.map(milliseconds),
            finder_bytes_per_s: self.finder_rate.map(|rate| rate.0),
            finder_interval_ms: self.finder_interval.map(milliseconds),
            finder_window: self.finder_window,
            finder_cpu_percent: self.finder_cpu.map(|percent| whole_percent(percent.0)),
            finder_memory_bytes: self.finder_memory.map(|memory| memory.0),
            inline_overload: self.inline_overload,
            scrub_interval_ms: self.scrub_interval.map(milliseconds),
            scrub_bytes_per_s: self.scrub_rate.map(|rate| rate.0),
            metadata_cache_bytes: self.metadata_cache.map(|cache| cache.0),
            index_sample: self.index_sample,
            cache_bytes: self.cache.map(|cache| cache.0),
            write_buffer_bytes: self.write_buffer.map(|memory| memory.0),
            max_journal_data_bytes: self.journal_data.map(|contents| contents.0),
            collect_bytes_per_s: self.collect_rate.map(|rate| rate.0),
            layout_bytes_per_s: self.layout_rate.map(|rate| rate.0),
        };
        Ok(said.or(of_pool))
    }

    fn options(&self, place: &PoolPlace) -> crate::Result<ServeOptions> {
        if let Some(program) = &self.on_event
            && let Some(why) = unfit_for_events(program)
        {
            return Err(refused!("--on-event {}: {why}", program.shown()));
        }
        let settings = self.settings(place)?;
        settings.fit(gemelo_base::memory::of_process())?;
        Ok(ServeOptions {
            front_ends: self.front_ends()?,
            volumes: self.volume.clone(),
            tuning: Tuning { read_only: self.read_only, ..settings.tuning() },
            total: self.total.limits(),
            metrics: self.metrics.clone(),
            scrub: settings.scrub_schedule(),
            thresholds: Thresholds::new(self.warn_used.iter().map(|percent| percent.0).collect()),
            on_event: self.on_event.clone(),
            standby: self.standby,
        })
    }

    /// The protocols of clients, each with its options.
    fn front_ends(&self) -> crate::Result<Vec<Box<dyn FrontEnd>>> {
        let mut front_ends: Vec<Box<dyn FrontEnd>> = vec![Box::new(self.nbd()?)];
        front_ends.push(Box::new(self.ublk()));
        front_ends.extend(self.vhost().map(|vhost| Box::new(vhost) as Box<dyn FrontEnd>));
        Ok(front_ends)
    }

    fn socket_access(&self) -> SocketAccess {
        SocketAccess {
            mode: self.socket_mode.map(|mode| mode.0),
            group: self.socket_group.map(|group| group.0),
            label: self.selinux_label.clone(),
        }
    }

    fn ublk(&self) -> UblkFrontEnd {
        UblkFrontEnd {
            pool: self.pool.short_name(),
            wanted: match &self.ublk {
                None => Wanted::None,
                Some(names) if names.is_empty() => Wanted::All,
                Some(names) => Wanted::Only(names.clone()),
            },
            write_through: self.write_through,
            timeout: unless_zero(self.ublk_timeout),
            guard: guard_arguments(self.ublk_timeout),
            opened: self.driver.clone(),
        }
    }

    fn vhost(&self) -> Option<VhostFrontEnd> {
        Some(VhostFrontEnd {
            directory: self.vhost_user.clone()?,
            socket_access: self.socket_access(),
            memory: self.memory_of_machines(),
            write_through: self.write_through,
            log_connections: self.log_connections,
        })
    }

    /// The memory of all virtual machines. None of it is reserved: a thread always has a small
    /// buffer.
    fn memory_of_machines(&self) -> Memory {
        let given = self.memory.map(|memory| usize::try_from(memory.0).unwrap_or(usize::MAX));
        Memory::new(given.unwrap_or_else(|| Memory::usual_bytes(0)), 0)
    }

    fn nbd(&self) -> crate::Result<NbdFrontEnd> {
        let has_file = self.listen.iter().any(|at| matches!(at.address, ListenAddress::Unix(_)));
        // The rights may be meant for the sockets of the other protocol.
        let are_rights_for_others = self.vhost_user.is_some() && !has_file;
        let handed_over = handed_over()?.into_iter().map(|socket| match socket {
            InheritedSocket::Unix(listener) => Listener::from_unix(listener),
            InheritedSocket::Tcp(listener) => Listener::from_tcp(listener),
        });
        Ok(NbdFrontEnd {
            handed_over: handed_over.collect::<Result<_, _>>().or_bad_input()?,
            listen: self.listen.clone(),
            socket_access: if are_rights_for_others {
                SocketAccess::default()
            } else {
                self.socket_access()
            },
            config: ServerConfig {
                max_connections: self.max_connections as usize,
                max_handshakes: self.max_handshakes as usize,
                idle_timeout: unless_zero(self.idle_timeout),
                receive_timeout: unless_zero(self.receive_timeout),
                send_timeout: unless_zero(self.send_timeout),
                busy_wait: self.busy_wait.0,
                write_through: self.write_through,
                tls: self.tls()?,
                clients: self.tls_client.clone(),
                allow_insecure: self.insecure,
                log_connections: self.log_connections,
                ..ServerConfig::default()
            },
            memory_bytes: self.memory.map(|memory| memory.0),
        })
    }
}

/// Returns the limit of an option; zero means no limit.
fn unless_zero(span: Span) -> Option<Duration> {
    (!span.0.is_zero()).then_some(span.0)
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    keep_little();
    let place = arguments.place()?;
    let monitor = Arc::clone(&context.monitor);
    gemelo_serve::await_store(&place, &*monitor, &context.stop)?;
    let options = arguments.options(&place)?;
    // The server serves even if nothing reads its output.
    let ready = |addresses: &Addresses| {
        let nbd = addresses.clients.iter().map(|address| format!("listening at {address}\n"));
        let metrics =
            addresses.metrics.map(|address| format!("metrics at http://{address}/metrics\n"));
        let _ = context.print(&nbd.chain(metrics).collect::<String>());
    };
    gemelo_serve::serve(&place, options, monitor, &context.stop, ready)?;
    let _ = context.print("stopped\n");
    Ok(Outcome::Done)
}
