//! A connection from its handshake to its end. It reports sessions that do not end at the client's
//! wish.

use super::answers::Answers;
use super::connection_log::{LoggedConnection, Traffic};
use super::error::SessionError;
use super::handshake::{Chosen, Doors, ServerHandshake};
use super::shared::Shared;
use super::stream::Stream;
use super::transmission::{End, Transmission};
use crate::socket::Socket;
use gemelo_device::{ExportAccess, Lanes};
use std::io;
use std::mem::{Discriminant, discriminant};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The kinds of reports about clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ClientReport {
    NotAccepted,
    TurnedAway,
    Displaced,
    NoThread,
    Ended(Discriminant<SessionError>),
}

/// The session of a connection in the registry. Dropping it removes the connection from there, also
/// after a panic.
pub(super) struct Session {
    shared: Arc<Shared>,
    id: u64,
    /// The exports that clients of the listener may open.
    access: ExportAccess,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.registry.leave(self.id);
    }
}

impl Session {
    pub(super) fn new(shared: Arc<Shared>, id: u64, access: ExportAccess) -> Self {
        Self { shared, id, access }
    }

    pub(super) fn serve(&self, socket: Socket, peer: &str) {
        let stream = Stream::Plain(socket);
        let log = self.shared.connection_log.as_ref();
        let mut logged = log.map(|log| log.begin(self.id, peer, &stream));
        // A panic of this thread ends this connection and no other: nothing more is sent on it.
        let run = AssertUnwindSafe(|| self.run(stream, &mut logged));
        let (traffic, outcome) =
            catch_unwind(run).unwrap_or_else(|_| (Traffic::default(), Err(SessionError::Panicked)));
        if let Some(logged) = logged {
            match &outcome {
                Ok(end) => logged.left(traffic, &self.reason(*end)),
                Err(error) => logged.left(traffic, &with_cause(error)),
            }
        }
        if let Err(error) = outcome {
            self.report(&error, peer);
        }
    }

    /// Returns the reason of an end without an error, as the log gives it.
    fn reason(&self, end: End) -> &'static str {
        match end {
            End::Asked => "the client ended the session",
            End::Idle => "the client was idle for too long",
            // Draining ends the stream of requests as its client would.
            End::Closed if self.shared.registry.is_drained(self.id) => {
                "the server stops, or the volume was removed"
            }
            End::Closed => "the client closed the connection",
        }
    }

    /// Counts and reports a session that ended against the client's wish.
    fn report(&self, error: &SessionError, peer: &str) {
        let Shared { counters, complaints, monitor, .. } = &*self.shared;
        match error {
            SessionError::TooManyClients => counters.count_turned_away(),
            _ => counters.count_broken(),
        }
        let is_usual = matches!(error, SessionError::Io(error) if matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ));
        if is_usual {
            return;
        }
        let message = format!("{peer}: {}", with_cause(error));
        match error {
            // This is a loss of data, and not caused by a client.
            SessionError::LastFlush(_) => monitor.warn(&message),
            error => complaints.tell(ClientReport::Ended(discriminant(error)), message),
        }
    }

    fn run(
        &self,
        mut stream: Stream,
        logged: &mut Option<LoggedConnection<'_>>,
    ) -> (Traffic, Result<End, SessionError>) {
        let config = &self.shared.config;
        let timeout_ns = u64::try_from(config.handshake_timeout.as_nanos()).unwrap_or(u64::MAX);
        stream.set_deadline_after(Some(timeout_ns));
        let enter = |export: &str| self.shared.registry.establish(self.id, export);
        let doors = Doors {
            exports: &*self.shared.exports,
            access: &self.access,
            clients: &config.clients,
        };
        let handshake = ServerHandshake::new(stream, doors, &config.tls, &enter);
        let without_traffic = |outcome| (Traffic::default(), outcome);
        let (stream, chosen) = match handshake.run() {
            Ok((stream, Some(chosen))) => (stream, chosen),
            Ok((mut stream, None)) => {
                stream.close();
                return without_traffic(Ok(End::Asked));
            }
            Err(error) => return without_traffic(Err(error)),
        };
        if let Some(logged) = logged {
            logged.connected(&chosen.export.name, &stream);
        }
        let lanes = self.lanes(&stream, &chosen);
        match Transmission::new(stream, chosen, config, (&self.shared.counters, lanes)) {
            Ok(transmission) => transmission.run(),
            Err(error) => without_traffic(Err(error.into())),
        }
    }

    /// Makes the lanes of a connection.
    fn lanes(&self, stream: &Stream, chosen: &Chosen) -> Lanes<Answers> {
        let device = &chosen.export.device;
        let Shared { config, counters, helpers, .. } = &*self.shared;
        let answers = Answers::new(
            Arc::clone(device),
            chosen.agreed.structured_replies,
            (config.memory.clone(), Arc::clone(counters)),
            stream.to_send(),
            config.send_timeout,
        );
        Lanes::new(answers, Arc::clone(helpers), device.waiters())
    }
}

/// Returns the text of an error with its cause.
fn with_cause(error: &SessionError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
