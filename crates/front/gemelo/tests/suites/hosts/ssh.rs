//! Hosts behind a real SSH server: on the loopback, and in a network with delay and loss.

use super::*;
use crate::common::gemelo;
use gemelo_tools::has_tool;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Delay of a relay, in each direction.
const DELAY: Duration = Duration::from_millis(20);
/// A relay loses one of so many segments: its bytes come after a retransmission.
const SEGMENTS_A_LOSS: usize = 50;
/// The time after which Linux sends a lost segment again, at least.
const RETRANSMISSION: Duration = Duration::from_millis(200);

/// A server with a configuration, keys and a port of its own.
struct Server {
    directory: tempfile::TempDir,
    child: Child,
    port: u16,
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    let ran = Command::new(program).args(words).stdin(Stdio::null()).output();
    ran.is_ok_and(|output| output.status.success())
}

impl Server {
    /// Starts a server at an address, by these words before its command.
    fn start(address: &str, before: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("gemelo-ssh").tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        for key in ["host", "user"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &path(key)];
            assert!(succeeds("ssh-keygen", &words));
        }
        std::fs::copy(path("user.pub"), path("allowed")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let lines = [
            format!("ListenAddress {address}:{port}"),
            format!("HostKey {}", path("host")),
            format!("AuthorizedKeysFile {}", path("allowed")),
            "StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes".to_owned(),
            "MaxStartups 100".to_owned(),
            format!("PidFile {}", path("pid")),
        ];
        std::fs::write(path("config"), lines.join("\n") + "\n").unwrap();
        let program = ["/usr/sbin/sshd", "-D", "-e", "-f", &path("config")];
        let all: Vec<&str> = before.iter().copied().chain(program).collect();
        let log = std::fs::File::create(path("log")).unwrap();
        // sshd drops its rights into a directory that must exist.
        let _ = std::fs::create_dir_all("/run/sshd");
        let child = Command::new(all[0]).args(&all[1..]).stderr(log).spawn().unwrap();
        let started = Self { directory, child, port };
        wait_until("the server answers", || {
            started.ssh(address, &["true"]).is_some_and(|words| {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                succeeds("ssh", &words)
            })
        });
        started
    }

    /// The words of an `ssh` command that goes to this server.
    fn ssh(&self, host: &str, command: &[&str]) -> Option<Vec<String>> {
        self.ssh_by(host, self.port, command)
    }

    /// The same through a relay at this port of the loopback.
    fn ssh_by(&self, host: &str, port: u16, command: &[&str]) -> Option<Vec<String>> {
        let key = self.directory.path().join("user");
        let options = [
            "BatchMode=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "IdentitiesOnly=yes",
            "ConnectTimeout=20",
            "LogLevel=ERROR",
        ];
        let mut words: Vec<String> = vec!["-F".to_owned(), "none".to_owned(), "-T".to_owned()];
        words.extend(options.iter().flat_map(|one| ["-o".to_owned(), (*one).to_owned()]));
        words.extend(["-i".to_owned(), key.to_str()?.to_owned()]);
        words.extend(["-p".to_owned(), port.to_string(), host.to_owned()]);
        words.extend(command.iter().map(|word| (*word).to_owned()));
        Some(words)
    }

    /// The value of `--connect`.
    fn connect(&self) -> String {
        self.connect_by(self.port)
    }

    /// The same through a relay.
    fn connect_by(&self, port: u16) -> String {
        format!("ssh {}", self.ssh_by("{host}", port, &[]).unwrap().join(" "))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_ssh() -> bool {
    let is_there = Path::new("/usr/sbin/sshd").exists() || has_tool("sshd");
    is_there && has_tool("ssh") && has_tool("ssh-keygen")
}

/// The far sides that a server has started: they know its port.
fn far_sides(server: &Server) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let port = format!(" {}", server.port);
    let is_far = |process: &u32| {
        let read = |file: &str| std::fs::read(format!("/proc/{process}/{file}"));
        let is_ours = read("environ").is_ok_and(|all| {
            let all = String::from_utf8_lossy(&all).into_owned();
            all.split('\0').any(|one| one.starts_with("SSH_CONNECTION=") && one.ends_with(&port))
        });
        is_ours && read("cmdline").is_ok_and(|line| line.starts_with(PROGRAM.as_bytes()))
    };
    numbers.filter(is_far).collect()
}

#[test]
fn a_real_server_is_reached_and_losing_it_ends_the_run_there() {
    if !has_ssh() {
        return;
    }
    let server = Server::start("127.0.0.1", &[]);
    let place = Place::new();
    let reach = place.reach_by("127.0.0.1,127.0.0.1", &server.connect());
    std::fs::create_dir(place.path("data")).unwrap();
    let (data, json) = (place.text("data"), place.text("result.json"));
    let load = ["bench", "--file-size", "64k", "--target", &data, "--json", &json];
    let ran = gemelo(&words(&load, &reach));
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(read(Path::new(&json))["result"][0]["total"]["writes"]["operations"], 32);

    // Kill -9 of an ssh: the far side ends, because its standard input does.
    let json = place.text("cut.json");
    let long = ["bench", "--time", "1h", "--rate", "100", "--file-size", "64k", "--json", &json];
    let more = ["--target", &data, "--host-timeout", "20s"];
    let run = start(&words(&[&long[..], &more].concat(), &reach));
    wait_until("both hosts have made their files", || {
        std::fs::read_dir(&data).unwrap().count() == 2
    });
    let there = far_sides(&server);
    assert!(there.len() >= 2);
    until_at_work(&there);
    let tasks = format!("/proc/{0}/task", run.id());
    let children: Vec<u32> = std::fs::read_dir(&tasks)
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<u32>>()
        })
        .collect();
    assert_eq!(children.len(), 2);
    signal(children[0], "KILL");
    let (status, err) = ended(run);
    assert_eq!(status, Some(1), "{err}");
    for process in there {
        wait_until("the far sides have ended", || !is_alive(process));
    }
    let file = read(Path::new(&json));
    assert!(file["hosts"][0]["file"].is_null());
    assert_eq!(file["hosts"][1]["file"]["result"][0]["ended"], "stopped");
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);

    let ran = gemelo(&words(&["bench", "--target", "null:", "--file-size", "64k"], &{
        place.reach_by("127.0.0.1", &format!("{} -l nobody-here", server.connect()))
    }));
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("host 127.0.0.1: its connection ended"), "{}", ran.err);
}

/// Starts a relay to an address, which delays and loses segments: not every kernel can do that to a
/// link. Returns its port on the loopback. Its threads end with the connections.
fn relay(to: SocketAddr) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(to) else { continue };
            pass(near.try_clone().unwrap(), far.try_clone().unwrap());
            pass(far, near);
        }
    });
    port
}

/// Passes the bytes of one direction on, each at its time.
fn pass(mut from: TcpStream, mut into: TcpStream) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut segment = vec![0; 16 << 10];
        for number in 1.. {
            let Ok(bytes @ 1..) = from.read(&mut segment) else { return };
            let is_lost = number % SEGMENTS_A_LOSS == 0;
            let delay = if is_lost { DELAY + RETRANSMISSION } else { DELAY };
            if sender.send((Instant::now() + delay, segment[..bytes].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in receiver {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if into.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = into.shutdown(std::net::Shutdown::Write);
    });
}

/// A network of its own with a server in it.
struct Network {
    name: String,
    link: String,
}

impl Network {
    /// `None` if the machine lacks the right or the programs.
    fn new(tag: &str) -> Option<Self> {
        let number = std::process::id() % 10_000;
        let name = format!("gemelo-{tag}{number}");
        let (here, there) = (format!("gm{tag}a{number}"), format!("gm{tag}b{number}"));
        let network = Self { name: name.clone(), link: here.clone() };
        let commands = [
            format!("ip netns add {name}"),
            format!("ip link add {here} type veth peer name {there} netns {name}"),
            format!("ip addr add 10.97.{}.1/24 dev {here}", number % 250),
            format!("ip link set {here} up"),
            format!("ip -netns {name} addr add 10.97.{}.2/24 dev {there}", number % 250),
            format!("ip -netns {name} link set {there} up"),
            format!("ip -netns {name} link set lo up"),
        ];
        for command in commands {
            let mut words = command.split(' ');
            let program = words.next()?;
            if !succeeds(program, &words.collect::<Vec<_>>()) {
                gemelo_tools::missing(&format!("the right to '{command}'"));
                return None;
            }
        }
        Some(network)
    }

    fn address() -> String {
        format!("10.97.{}.2", std::process::id() % 10_000 % 250)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        succeeds("ip", &["netns", "del", &self.name]);
        succeeds("ip", &["link", "del", &self.link]);
    }
}

#[test]
fn hosts_start_together_over_a_network_with_delay_and_loss() {
    if !has_ssh() || !has_tool("ip") {
        return;
    }
    let Some(network) = Network::new("d") else { return };
    let address = Network::address();
    // With "ip netns exec" the server would have mounts of its own, and keep those of other tests.
    let enter = format!("--net=/run/netns/{}", network.name);
    let server = Server::start(&address, &["nsenter", &enter]);
    let place = Place::new();
    let json = place.text("result.json");
    let port = relay(format!("{address}:{}", server.port).parse().unwrap());
    let load = ["bench", "--target", "null:", "--file-size", "1m", "--json", &json];
    let more = ["--time", "2s", "--rate", "500"];
    let reach = place.reach_by("127.0.0.1,127.0.0.1", &server.connect_by(port));
    let ran = gemelo(&words(&[&load[..], &more].concat(), &reach));
    assert_eq!(ran.status, 0, "{}", ran.err);
    for host in read(Path::new(&json))["hosts"].as_array().unwrap() {
        let round_trip_ns = host["round_trip_ns"].as_u64().unwrap();
        assert!(round_trip_ns >= 40_000_000, "the delay is measured: {round_trip_ns}");
        let delay_ns = host["start_delays_ns"][0].as_u64().unwrap();
        assert!(delay_ns < 1_000_000_000, "the start was not missed: {delay_ns}");
        // Both dates are of one machine, so the offset is the error of its measurement.
        let offset_ns = host["date_offset_ns"].as_i64().unwrap().unsigned_abs();
        assert!(offset_ns <= round_trip_ns / 2 + 2_000_000, "{offset_ns} of {round_trip_ns}");
    }

    // A network that carries nothing any more: both sides notice.
    let data = place.text("data");
    std::fs::create_dir(&data).unwrap();
    let long = ["bench", "--time", "1h", "--rate", "100", "--target", &data];
    let more = ["--file-size", "1m", "--host-timeout", "15s"];
    let run = start(&words(&[&long[..], &more].concat(), &reach));
    wait_until("both hosts have made their files", || {
        std::fs::read_dir(&data).unwrap().count() == 2
    });
    let there = far_sides(&server);
    until_at_work(&there);
    assert!(succeeds("ip", &["link", "set", &network.link, "down"]));
    let (status, err) = ended(run);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("it has said nothing for 15 s"), "{err}");
    for process in there {
        wait_until("the far sides have ended", || !is_alive(process));
    }
}
