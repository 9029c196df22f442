//! A load that verifies what it wrote, over restarts of the server with socket activation.

use crate::served::{Served, TestPool, done, noise};
use gemelo_nbd::client::{Client, ClientError, Submission};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const RESTARTS: usize = 10;
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 512;

/// A server to which the listener is handed over, as a service manager does it.
fn serve(pool: &TestPool, listener: &UnixListener) -> Served {
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_gemelo"), "serve", &pool.path()]);
    let handed: OwnedFd = listener.try_clone().unwrap().into();
    Served::spawn_with(command, handed.into())
}

/// A client that connects again, and repeats the request that got no answer.
struct Reconnecting {
    uri: String,
    client: Option<Client>,
    connections: u64,
}

impl Reconnecting {
    fn run<T>(&mut self, mut request: impl FnMut(&mut Client) -> Result<T, ClientError>) -> T {
        let mut failures = 0;
        loop {
            let done = self.connected().and_then(&mut request);
            match done {
                Ok(done) => return done,
                Err(error) => {
                    self.client = None;
                    failures += 1;
                    assert!(failures < 100, "{error}");
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }

    fn connected(&mut self) -> Result<&mut Client, ClientError> {
        if self.client.is_none() {
            self.connections += 1;
            self.client = Some(Client::connect(&self.uri.parse().unwrap(), 8, PATIENCE)?);
        }
        Ok(self.client.as_mut().unwrap())
    }

    fn write(&mut self, block: u64, content: &[u8]) {
        let offset = block * BLOCK;
        let error = self.run(|client| {
            let write = Submission::Write { offset, data: content, durable: false };
            client.run(write, |done| done.error)
        });
        assert!(error.is_none(), "block {block}: {error:?}");
    }

    fn read(&mut self, block: u64) -> Vec<u8> {
        let (offset, length) = (block * BLOCK, BLOCK as u32);
        let (error, data) = self.run(|client| {
            let read = Submission::Read { offset, length };
            client.run(read, |done| (done.error, done.data.to_vec()))
        });
        assert!(error.is_none(), "block {block}: {error:?}");
        data
    }
}

#[test]
fn a_verifying_load_loses_nothing_over_ten_restarts() {
    let pool = TestPool::new(&[]);
    done(&["volume", "create", &pool.volume("a"), "--size", "2m"]);
    let listener = UnixListener::bind(pool.file("handed")).unwrap();
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let served = std::thread::scope(|scope| {
        let mut served = serve(&pool, &listener);
        let load = scope.spawn(|| {
            let uri = format!("nbd+unix:///a?socket={}", pool.file("handed"));
            let mut client = Reconnecting { uri, client: None, connections: 0 };
            let mut written = vec![0; BLOCKS as usize];
            while !is_over.load(Ordering::Relaxed) {
                let round = rounds.fetch_add(1, Ordering::Relaxed) + 1;
                let block = round * 7 % BLOCKS;
                client.write(block, &noise(round, BLOCK as usize));
                written[block as usize] = round;
                let checked = round * 13 % BLOCKS;
                let expected = match written[checked as usize] {
                    0 => vec![0; BLOCK as usize],
                    round => noise(round, BLOCK as usize),
                };
                assert!(client.read(checked) == expected, "block {checked} in round {round}");
            }
            for (block, round) in written.iter().enumerate().filter(|(_, round)| **round > 0) {
                assert!(client.read(block as u64) == noise(*round, BLOCK as usize), "{block}");
            }
            client.connections
        });
        for _ in 0..RESTARTS {
            let before = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < before + 50 && !load.is_finished() {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(served.stop().0, 0);
            served = serve(&pool, &listener);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(load.join().unwrap() > RESTARTS as u64, "the load was over a restart each time");
        served
    });
    assert_eq!(served.stop().0, 0);
    pool.assert_clean();
}
