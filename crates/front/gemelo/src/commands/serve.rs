//! `gemelo serve` exports the volumes of a pool over NBD and to virtual machines.

mod permissions;

use crate::commands::attach::guard_arguments;
use crate::commands::volume::limits::Rates;
use crate::context::Context;
use crate::exit::{OrFailed as _, OrFailure as _, Outcome, refused};
use crate::setting_options::{OfPoolsHidden, SettingOptions};
use crate::values::pool_place_parser;
use clap::{Args, ValueHint};
use gemelo_base::ShowPath as _;
use gemelo_base::StopFlag;
use gemelo_base::memory::keep_little;
use gemelo_base::values::Span;
use gemelo_device::{FrontEnd, Memory, SocketAccess};
use gemelo_nbd::server::{
    Door, ListenAddress, Listener, NbdFrontEnd, ServerConfig, TlsClient, TlsPolicy, tls_from_files,
};
use gemelo_place::PoolPlace;
use gemelo_serve::{
    Addresses, InheritedSocket, MetricsAddress, RequestFailure, ServeOptions, Settings, Values,
    handed_over, unfit_for_events,
};
use gemelo_ublk::{DriverKind, OpenedDriver, UblkFrontEnd, Wanted, open_drivers};
use gemelo_vhost::VhostFrontEnd;
use nix::sys::signal::{SigSet, Signal};
use permissions::{FileMode, GroupId};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The shortest lease. It is renewed every second, and the store counts whole seconds.
const MIN_LEASE: Duration = Duration::from_secs(3);

/// Headings of the help. Options without one are those that most users set.
const ACCESS: &str = "Clients";
const ENCRYPTION: &str = "Encryption";

/// Settings that several front ends have.
const WRITE_THROUGH: &str = "write-through";
const CLIENT_MEMORY: &str = "client-memory";

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
    ublk_driver: OpenedDriver,
    /// Do the same as --ublk by the kernel's driver for NBD, on a kernel without ublk: /dev/nbdN
    #[arg(long, help_heading = ACCESS, value_name = "VOLUME", num_args = 0..)]
    nbd_device: Option<Vec<String>>,
    #[arg(skip)]
    nbd_driver: OpenedDriver,
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
    /// Run this program at each event, with the event and its message as arguments
    ///
    /// Events are read-only, directory-lost, damage-found, healed, full-80 and the other
    /// percentages of the setting warn-used, task-fails and task-works. Each is also a line of the
    /// log. The program has 10 seconds, and the server does not wait for it. GEMELO_POOL is the
    /// pool.
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::FilePath)]
    on_event: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingOptions<OfPoolsHidden>,
}

impl Arguments {
    /// Opens the drivers of block devices, and gives up the rights that this takes. The caller has
    /// started no threads, which would keep them.
    pub(crate) fn open_driver(&self) {
        // Only `await_restart` takes it. Threads inherit this.
        let _ = restart_signal().thread_block();
        open_drivers(&[DriverKind::Ublk, DriverKind::Nbd].map(|kind| self.disks(kind, false)));
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
    fn settings(&self, place: &PoolPlace) -> crate::Result<Values> {
        Ok(self.settings.values().over(&Settings::read(place)?.pool))
    }

    fn options(&self, place: &PoolPlace) -> crate::Result<ServeOptions<'_>> {
        if let Some(program) = &self.on_event
            && let Some(why) = unfit_for_events(program)
        {
            return Err(refused!("--on-event {}: {why}", program.shown()));
        }
        self.check_disks()?;
        let settings = self.settings(place)?;
        settings.fit(gemelo_base::memory::of_process())?;
        let (tls, sockets) = (self.tls()?, handed_over()?);
        let front_ends = move |settings: &Values| self.front_ends(settings, &tls, &sockets);
        Ok(ServeOptions {
            front_ends: Box::new(front_ends),
            volumes: self.volume.clone(),
            settings: self.settings.values(),
            read_only: self.read_only,
            total: self.total.limits(),
            metrics: self.metrics.clone(),
            on_event: self.on_event.clone(),
            standby: self.standby,
        })
    }

    /// A volume is a disk by one of the two drivers.
    fn check_disks(&self) -> crate::Result<()> {
        let (Some(ublk), Some(nbd)) = (&self.ublk, &self.nbd_device) else { return Ok(()) };
        if ublk.is_empty() || nbd.is_empty() {
            return Err(refused!(
                "--ublk and --nbd-device: each has to name its volumes, because a volume is one \
                 disk, by ublk or by NBD"
            ));
        }
        match ublk.iter().find(|name| nbd.contains(name)) {
            Some(name) => Err(refused!(
                "volume '{name}' is named by --ublk and by --nbd-device: it can be one disk only"
            )),
            None => Ok(()),
        }
    }

    /// The protocols of clients, each with its options.
    fn front_ends(
        &self,
        settings: &Values,
        tls: &TlsPolicy,
        sockets: &[InheritedSocket],
    ) -> Result<Vec<Box<dyn FrontEnd>>, RequestFailure> {
        let handed_over: Result<_, _> = sockets.iter().map(listener_of).collect();
        let handed_over = handed_over.map_err(|error: std::io::Error| {
            RequestFailure::refused(format!(
                "a socket that was handed over cannot be used: {error}"
            ))
        })?;
        let nbd = self.nbd(settings, tls.clone(), handed_over);
        let mut front_ends: Vec<Box<dyn FrontEnd>> = vec![Box::new(nbd)];
        for driver in [DriverKind::Ublk, DriverKind::Nbd] {
            front_ends.push(Box::new(self.disks(driver, settings.is_on(WRITE_THROUGH))));
        }
        front_ends.extend(self.vhost(settings).map(|vhost| Box::new(vhost) as Box<dyn FrontEnd>));
        Ok(front_ends)
    }

    fn socket_access(&self) -> SocketAccess {
        SocketAccess {
            mode: self.socket_mode.map(|mode| mode.0),
            group: self.socket_group.map(|group| group.0),
            label: self.selinux_label.clone(),
        }
    }

    fn disks(&self, driver: DriverKind, write_through: bool) -> UblkFrontEnd {
        let (volumes, opened, other) = match driver {
            DriverKind::Ublk => (&self.ublk, &self.ublk_driver, &self.nbd_driver),
            DriverKind::Nbd => (&self.nbd_device, &self.nbd_driver, &self.ublk_driver),
        };
        UblkFrontEnd {
            driver,
            pool: self.pool.short_name(),
            wanted: match volumes {
                None => Wanted::None,
                Some(names) if names.is_empty() => Wanted::All,
                Some(names) => Wanted::Only(names.clone()),
            },
            write_through,
            timeout: unless_zero(self.ublk_timeout.0),
            guard: guard_arguments(self.ublk_timeout),
            opened: opened.clone(),
            other: other.clone(),
        }
    }

    fn vhost(&self, settings: &Values) -> Option<VhostFrontEnd> {
        Some(VhostFrontEnd {
            directory: self.vhost_user.clone()?,
            socket_access: self.socket_access(),
            memory: memory_of_machines(settings),
            write_through: settings.is_on(WRITE_THROUGH),
            log_connections: settings.is_on("log-connections"),
        })
    }

    fn nbd(&self, settings: &Values, tls: TlsPolicy, handed_over: Vec<Listener>) -> NbdFrontEnd {
        let has_file = self.listen.iter().any(|at| matches!(at.address, ListenAddress::Unix(_)));
        // The rights may be meant for the sockets of the other protocol.
        let are_rights_for_others = self.vhost_user.is_some() && !has_file;
        NbdFrontEnd {
            handed_over,
            listen: self.listen.clone(),
            socket_access: if are_rights_for_others {
                SocketAccess::default()
            } else {
                self.socket_access()
            },
            config: ServerConfig {
                max_connections: settings.count("max-connections"),
                idle_timeout: unless_zero(settings.span("idle-timeout")),
                busy_wait: settings.span("busy-wait"),
                write_through: settings.is_on(WRITE_THROUGH),
                tls,
                clients: self.tls_client.clone(),
                allow_insecure: self.insecure,
                log_connections: settings.is_on("log-connections"),
                ..ServerConfig::default()
            },
            memory_bytes: settings.size(CLIENT_MEMORY),
        }
    }
}

/// Listens at a socket that the service manager has opened, which stays open when this is dropped.
fn listener_of(socket: &InheritedSocket) -> std::io::Result<Listener> {
    match socket {
        InheritedSocket::Unix(listener) => Listener::from_unix(listener.try_clone()?),
        InheritedSocket::Tcp(listener) => Listener::from_tcp(listener.try_clone()?),
    }
}

/// Returns the limit of an option; zero means no limit.
fn unless_zero(span: Duration) -> Option<Duration> {
    (!span.is_zero()).then_some(span)
}

/// The memory of all virtual machines. None of it is reserved: a thread always has a small buffer.
fn memory_of_machines(settings: &Values) -> Memory {
    let given = settings.size(CLIENT_MEMORY);
    let given = given.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    Memory::new(given.unwrap_or_else(|| Memory::usual_bytes(0)), 0)
}

/// The signal by which systemd ends a server that it starts again (`RestartKillSignal=`).
fn restart_signal() -> SigSet {
    SigSet::from(Signal::SIGUSR1)
}

/// Ends the server at that signal, for the next one. Its block devices stay.
fn await_restart(stop: StopFlag) -> crate::Result<()> {
    let wait = move || {
        if restart_signal().wait().is_ok() {
            stop.raise_for_successor();
        }
    };
    std::thread::Builder::new()
        .name("gemelo-restart".into())
        .spawn(wait)
        .map_err(gemelo_base::threads::refused)
        .or_failed()?;
    Ok(())
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    await_restart(context.stop.clone())?;
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
