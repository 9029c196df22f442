//! An HTTP server that answers one question. One client at a time, each briefly: a scraper comes every few seconds.

use gemelo_base::{Clock, StopFlag, SystemClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use thiserror::Error;

/// How often the server looks whether it is to end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a client gets for its request, and for taking a part of the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
const CLIENT_TIMEOUT_NS: u64 = 2_000_000_000;
/// The longest request with its headers.
const MOST_REQUEST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

/// Why there are no metrics.
#[derive(Debug, Error)]
#[error("cannot serve metrics at {address}")]
pub(crate) struct MetricsError {
    address: SocketAddr,
    source: io::Error,
}

/// A listening server of metrics.
pub(crate) struct MetricsServer {
    listener: TcpListener,
    address: SocketAddr,
}

impl MetricsServer {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, MetricsError> {
        let failed = |source| MetricsError { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port that was taken.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is raised.
    pub(crate) fn run(&self, stop: &StopFlag, text: &dyn Fn() -> String) {
        while !stop.is_raised() {
            let ready = poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&LOOK));
            if matches!(ready, Ok(count) if count > 0)
                && let Ok((client, _)) = self.listener.accept()
            {
                // A client that goes away is its own business.
                let _ = answer(client, text);
            }
        }
    }
}

fn answer(mut client: TcpStream, text: &dyn Fn() -> String) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    client.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let (status, body) = match read_request(&mut client)? {
        Some((method, path)) if path == "/metrics" || path == "/" => match method.as_str() {
            "GET" => ("200 OK", text()),
            "HEAD" => ("200 OK", String::new()),
            _ => ("405 Method Not Allowed", "only GET is answered here\n".to_owned()),
        },
        Some(_) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        None => ("400 Bad Request", "this is no HTTP request\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())
}

/// Method and path of the request; [`None`] if it is none.
fn read_request(client: &mut TcpStream) -> io::Result<Option<(String, String)>> {
    let clock = SystemClock::new();
    let mut received = Vec::new();
    let mut buffer = [0; 1024];
    while received.len() < MOST_REQUEST_BYTES && clock.now_ns() < CLIENT_TIMEOUT_NS {
        let count = client.read(&mut buffer)?;
        received.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&received) {
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.unwrap_or_default();
                let path = path.split('?').next().unwrap_or_default();
                return Ok(Some((request.method.unwrap_or_default().to_owned(), path.to_owned())));
            }
            Ok(httparse::Status::Partial) if count > 0 => {}
            _ => return Ok(None),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &[u8]) -> String {
        let server = MetricsServer::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let stop = StopFlag::new();
        std::thread::scope(|scope| {
            scope.spawn(|| server.run(&stop, &|| "figure 1\n".to_owned()));
            let mut client = TcpStream::connect(server.address()).unwrap();
            client.write_all(request).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            stop.raise();
            answer
        })
    }

    #[test]
    fn metrics_are_had_by_get_and_nothing_else() {
        let answer = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nfigure 1\n"),
            "{answer}"
        );
        assert!(answer.contains("Content-Length: 9\r\n"));
        assert!(ask(b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(b"GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(b"\0\0\0\0\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert!(ask(&vec![b'x'; MOST_REQUEST_BYTES]).starts_with("HTTP/1.1 400 "));
    }
}
