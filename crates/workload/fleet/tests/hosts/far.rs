//! The program over there.

use crate::VERSION;
use gemelo_base::{FailureKind, Monitor as _, StartLine as _, StopFlag, pause};
use gemelo_fleet::{Done, Refusal, Session, serve};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Set in the processes of hosts.
const IS_FAR: &str = "GEMELO_TEST_IS_FAR";

/// The command of a shell that becomes a host. The harness of tests writes to the standard output,
/// so the connection is kept beside it.
pub(crate) fn command() -> String {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    format!("exec 3>&1 >/dev/null; exec env {IS_FAR}=1 {program} --exact far::far_side")
}

/// A host of the other tests; nothing where it is called as a test.
#[test]
fn far_side() {
    if std::env::var_os(IS_FAR).is_none() {
        return;
    }
    let connection = fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
    rustix::stdio::dup2_stdout(&connection).unwrap();
    let stop = StopFlag::new();
    let is_told =
        serve(VERSION, "here".to_owned(), &stop, |task, session| work(&task, session, &stop));
    std::process::exit(i32::from(!is_told));
}

/// Leaves a file for as long as the task lasts.
fn work(task: &Value, session: &Session, stop: &StopFlag) -> Result<Done, Refusal> {
    if let Some(message) = task["refusal"].as_str() {
        return Err(Refusal { message: message.to_owned(), kind: FailureKind::BadInput });
    }
    session.checked(task["plan"].clone())?;
    let path = |name: &str| task[name].as_str().map(Path::new);
    let file = path("file").unwrap();
    let begun = file.with_extension("begun");
    fs::write(&begun, std::process::id().to_string()).unwrap();
    (0..task["runs"].as_u64().unwrap_or(1)).for_each(|_| session.wait());
    fs::rename(begun, file).unwrap();
    if let Some(sent) = path("sends") {
        session.monitor().warn("it sends");
        session.send(fs::File::open(sent).unwrap()).unwrap();
    }
    let is_over = || path("until").is_none_or(Path::exists);
    let is_deaf = task["deaf"] == true;
    while is_deaf || !(is_over() || stop.is_raised()) {
        pause(Duration::from_millis(5));
    }
    fs::remove_file(file).unwrap();
    Ok(Done { result: json!({ "of": task["file"] }), is_complete: is_over() })
}
