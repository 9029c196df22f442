//! The commands of the guide for several hosts run as they are printed.

use super::host::Host;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Returns the commands of the code blocks of a page, from the beginning to a heading. Lines that
/// end with a backslash are joined.
fn commands(page: &str, end: &str) -> Vec<String> {
    let (part, _) = page.split_once(end).unwrap();
    let mut found = Vec::new();
    for block in part.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        let text = text.replace("\\\n", " ");
        let lines = text.lines().filter_map(|line| match language {
            "sh" => Some(line),
            _ => line.strip_prefix("$ "),
        });
        found.extend(lines.map(str::to_owned));
    }
    found
}

pub(crate) fn run(host: &Host<'_>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = fs::read_to_string(root.join("docs/guide/domains.md")).unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(host.file("server-cert.pem"), made.cert.pem()).unwrap();
    fs::write(host.file("server-key.pem"), made.signing_key.serialize_pem()).unwrap();
    let mut all = commands(&page, "When the serving process dies");
    let serve = all.pop().unwrap();
    assert!(all.len() >= 8 && serve.starts_with("gemelo serve "), "{all:?}");
    for command in all {
        // The key belongs to this test, and not to the machine.
        let command = command.replace("/etc/ceph/", &format!("{}/", host.file("").display()));
        let output = shell(host, &command).output().unwrap();
        assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut server = shell(host, &format!("exec {}", serve.replace(":10809", ":0")));
    let mut server = server.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening at tcp:0.0.0.0:"), "{line}");
    let process = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
}

/// A shell of the host, whose `gemelo` is the one that is tested.
fn shell(host: &Host<'_>, command: &str) -> Command {
    let directory = Path::new(env!("CARGO_BIN_EXE_gemelo")).parent().unwrap();
    let paths = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(host.file(""));
    shell.env("PATH", format!("{}:{paths}", directory.display()));
    host.set_up(&mut shell);
    shell
}
