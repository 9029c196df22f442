//! An HTTP server of the pages of metrics.
//!
//! `hyper` reads and writes HTTP/1.1, on one thread. Clients are limited in number and time. A
//! client beyond the limit ends the oldest one, so that silent connections cannot exclude a
//! scraper.

use super::MetricsAddress;
use gemelo_base::{Classified, StopFlag};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Interval at which the server checks its stop flag.
const STOP_CHECKED_EVERY: Duration = Duration::from_millis(50);
/// Most clients at a time: some dozen scrapers, and others.
const MAX_CLIENTS: usize = 64;
/// Most files that the server has open at a time: the listener, its clients, and the event queue of
/// the runtime.
pub(crate) const MAX_OPEN_FILES: u64 = 8 + MAX_CLIENTS as u64;
/// Longest time that a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time of a connection, from its first byte to the last byte of the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after the system has refused a connection (too many open files), so that the server does
/// not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Longest request with its headers, in bytes: the smallest limit that the library accepts.
const MAX_REQUEST_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// The reason why metrics cannot be served.
#[derive(Debug, Error, Classified)]
#[kind(source, untouched)]
#[error("cannot serve metrics at {address}")]
pub(crate) struct MetricsError {
    address: MetricsAddress,
    source: io::Error,
}

/// A metrics server that listens.
pub(crate) struct MetricsServer {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsServer {
    pub(crate) fn bind(wanted: &MetricsAddress) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError { address: wanted.clone(), source };
        // Making the page may wait for the pool, so it has a thread of its own.
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = runtime.map_err(failed)?;
        let listener = wanted.bind().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { runtime, listener, address })
    }

    /// Returns the address of the server, with the port that was taken.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the pages that `text` makes, until `stop` is raised.
    pub(crate) fn run(
        self,
        stop: &StopFlag,
        text: impl Fn(PageKind) -> String + Send + Sync + 'static,
    ) {
        let figures =
            PageMaker { text: Arc::new(text), one_at_a_time: Arc::new(Semaphore::new(1)) };
        // The runtime can wait for the listener, which `bind` has made non-blocking.
        let _ = self.runtime.block_on(accept_until(self.listener, stop, figures));
        self.runtime.shutdown_timeout(REQUEST_TIMEOUT);
    }
}

/// The pages of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// The pool, its server, and all volumes together.
    Pool,
    /// Each volume.
    Volumes,
}

impl PageKind {
    fn of_path(path: &str) -> Option<Self> {
        match path {
            "/" | "/metrics" => Some(Self::Pool),
            "/metrics/volumes" => Some(Self::Volumes),
            _ => None,
        }
    }
}

/// Makes a page for one client at a time. Others wait, at most for the time of a connection.
#[derive(Clone)]
struct PageMaker {
    text: Arc<dyn Fn(PageKind) -> String + Send + Sync>,
    one_at_a_time: Arc<Semaphore>,
}

impl PageMaker {
    async fn take(&self, kind: PageKind) -> Option<String> {
        let turn = Arc::clone(&self.one_at_a_time).acquire_owned().await.ok()?;
        let text = Arc::clone(&self.text);
        let taken = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            text(kind)
        });
        taken.await.ok()
    }
}

async fn accept_until(
    listener: TcpListener,
    stop: &StopFlag,
    figures: PageMaker,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut clients: VecDeque<AbortHandle> = VecDeque::new();
    while !stop.is_raised() {
        let stream = match timeout(STOP_CHECKED_EVERY, listener.accept()).await {
            Err(_) => continue,
            Ok(Err(_)) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            Ok(Ok((stream, _))) => stream,
        };
        clients.retain(|client| !client.is_finished());
        if clients.len() >= MAX_CLIENTS
            && let Some(oldest) = clients.pop_front()
        {
            oldest.abort();
        }
        let answered = timeout(CLIENT_TIMEOUT, answer(stream, figures.clone()));
        clients.push_back(tokio::spawn(answered).abort_handle());
    }
    Ok(())
}

async fn answer(stream: TcpStream, figures: PageMaker) {
    let service = service_fn(|request| respond(request, figures.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST_TIMEOUT);
    http.max_buf_size(MAX_REQUEST_BYTES).max_headers(MAX_HEADERS);
    // A client may close its side after its request. Each connection has one request.
    http.half_close(true).keep_alive(false);
    // An error means that the client has left.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: Request<Incoming>,
    figures: PageMaker,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_asked = request.method() == Method::GET || request.method() == Method::HEAD;
    let (status, body) = match PageKind::of_path(request.uri().path()) {
        Some(kind) if is_asked => match figures.take(kind).await {
            Some(text) => (StatusCode::OK, text),
            None => (StatusCode::INTERNAL_SERVER_ERROR, "making the metrics failed\n".to_owned()),
        },
        Some(_) => (StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned()),
        None => {
            let places = "the metrics are at /metrics, and those of each volume at \
                          /metrics/volumes\n";
            (StatusCode::NOT_FOUND, places.to_owned())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    fn with_server<T>(
        text: impl Fn(PageKind) -> String + Send + Sync + 'static,
        act: impl FnOnce(SocketAddr) -> T,
    ) -> T {
        let server = MetricsServer::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = server.address();
        let stop = StopFlag::new();
        std::thread::scope(|scope| {
            let flag = &stop;
            scope.spawn(move || server.run(flag, text));
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(address)));
            stop.raise();
            outcome.unwrap()
        })
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    fn figure(kind: PageKind) -> String {
        match kind {
            PageKind::Pool => "figure 1\n".to_owned(),
            PageKind::Volumes => "figure{volume=\"a\"} 1\n".to_owned(),
        }
    }

    #[test]
    fn metrics_are_had_by_get_and_nothing_else() {
        with_server(figure, |address| {
            let answer = ask(address, GET);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nfigure 1\n"), "{answer}");
            assert!(
                answer.contains("content-length: 9\r\n") && answer.contains("version=0.0.4"),
                "{answer}"
            );
            let volumes = ask(address, b"GET /metrics/volumes HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(volumes.ends_with("\r\n\r\nfigure{volume=\"a\"} 1\n"), "{volumes}");
            let head = ask(address, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
            assert!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
            assert!(ask(address, b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
            assert!(ask(address, b"\0\0\0\0\r\n\r\n").starts_with("HTTP/1.1 400 "));
            let long = [b"GET /", &vec![b'x'; MAX_REQUEST_BYTES][..]].concat();
            assert!(ask(address, &long).starts_with("HTTP/1.1 4"));
        });
    }

    #[test]
    fn silent_and_dripping_connections_keep_no_scraper_out() {
        with_server(figure, |address| {
            let connect = |_| {
                let mut stream = TcpStream::connect(address).unwrap();
                // The server may have ended it already.
                let _ = stream.write_all(b"GET /metr");
                stream
            };
            let silent: Vec<TcpStream> = (0..300).map(connect).collect();
            let begun = Instant::now();
            for _ in 0..20 {
                assert!(ask(address, GET).ends_with("figure 1\n"));
            }
            assert!(begun.elapsed() < REQUEST_TIMEOUT, "{:?}", begun.elapsed());
            drop(silent);
        });
    }

    #[test]
    fn a_client_that_takes_no_answer_holds_up_nobody() {
        let long = |_| "x".repeat(64 << 20);
        with_server(long, |address| {
            let mut greedy = TcpStream::connect(address).unwrap();
            greedy.write_all(GET).unwrap();
            let mut first = [0; 100];
            greedy.read_exact(&mut first).unwrap();
            assert!(ask(address, GET).len() > 64 << 20);
        });
    }
}
