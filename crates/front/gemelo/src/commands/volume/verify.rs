//! `gemelo volume verify`: compares two volumes by the hashes of their parts.
//!
//! Programs at both ends read and hash, so that only hashes travel: one of each 256 MiB; where
//! those differ, one of each MiB; and there one of each 4 KiB.

use super::end::{Connection, End};
use super::hashes::{Answer, Greeting, Level, MAX_PARTS, MAX_PARTS_OF_UNITS, Question, add};
use crate::context::Context;
use crate::exit::{Failure, OrFailed as _, OrFailure as _, Outcome, failed, refused};
use crate::json::JsonOutput;
use crate::kind::{Described, Kind};
use crate::pipes::Pipe;
use crate::table::Table;
use clap::Args;
use gemelo_base::units::{format_count, format_counted, format_size};
use gemelo_base::{StopFlag, Unit, pause};
use gemelo_record::ResultFile;
use gemelo_serve::{PART_BYTES, UNIT_BYTES};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

const KIND: Kind<ResultFile<Input<'static>, Verified>> =
    Kind::new("gemelo.volume-verify/1", "Result of gemelo volume verify");

pub(crate) const DESCRIBED: Described = KIND.described();

/// Most ranges that the text lists. The JSON lists all.
const MAX_LISTED: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A snapshot or a volume: POOL/NAME here, or HOST:POOL/NAME on another host
    #[arg(value_name = "[HOST:]POOL/NAME")]
    one: String,
    /// The one that should have the same bytes
    #[arg(value_name = "[HOST:]POOL/NAME")]
    other: String,
    /// Take for equal what both ends have unchanged since this snapshot of the first pool, of which
    /// the second has a copy, and read only the rest
    #[arg(long, value_name = "SNAPSHOT")]
    since: Option<String>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    json: JsonOutput,
}

#[derive(JsonSchema, Serialize)]
struct Input<'a> {
    /// The first volume.
    one: &'a str,
    /// The second volume.
    other: &'a str,
    /// The earlier snapshot, if one was given.
    since: Option<&'a str>,
}

/// A range of bytes in which the volumes differ.
#[derive(JsonSchema, Serialize)]
struct UnequalRange {
    /// First byte.
    offset_bytes: u64,
    /// Bytes of the range.
    length_bytes: u64,
}

/// The result of the comparison.
#[derive(JsonSchema, Serialize)]
struct Verified {
    /// `true` if both have the same length and the same bytes.
    is_equal: bool,
    /// Length of the first volume in bytes.
    one_length_bytes: u64,
    /// Length of the second volume in bytes.
    other_length_bytes: u64,
    /// Bytes that were compared.
    compared_bytes: u64,
    /// Bytes of the ranges that differ.
    unequal_bytes: u64,
    /// The ranges, whole units of 4 KiB, in order.
    ranges: Vec<UnequalRange>,
}

/// Interval at which the end of a program is looked for.
const CHECKED_EVERY: Duration = Duration::from_millis(20);
/// Such intervals that a program has to close its pool.
const MOST_CHECKS: u32 = 500;

/// A program that hashes a volume.
struct Hashing<'e> {
    end: &'e End,
    child: Child,
    answers: BufReader<Pipe<ChildStdout>>,
    stop: StopFlag,
    greeting: Greeting,
}

impl<'e> Hashing<'e> {
    fn start(end: &'e End, since: Option<&str>, stop: &StopFlag) -> crate::Result<Self> {
        let mut words = vec!["volume", "hashes", end.volume(), "--quiet"];
        words.extend(since.iter().flat_map(|since| ["--since", since]));
        let mut child = end.start(&words, Stdio::piped())?;
        let out = child.stdout.take().ok_or_else(|| failed!("the program has no output"))?;
        let greeting = Greeting { size_bytes: 0, length_bytes: 0, since: None, changed: None };
        let answers = BufReader::new(Pipe::new(out, stop));
        let mut hashing = Self { end, child, answers, stop: stop.clone(), greeting };
        hashing.greeting = hashing.hear()?;
        Ok(hashing)
    }

    fn ask(&mut self, question: &Question) -> crate::Result<()> {
        let mut line = serde_json::to_string(question).or_failed().context("cannot ask")?;
        line.push('\n');
        let sent = self.child.stdin.as_mut().map(|input| input.write_all(line.as_bytes()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.lost()),
        }
    }

    fn hear<T: DeserializeOwned>(&mut self) -> crate::Result<T> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).context("cannot read an answer")?;
        if read == 0 {
            return Err(self.lost());
        }
        serde_json::from_str(&line).or_failed().context("an answer makes no sense")
    }

    /// The reason why a program went away.
    fn lost(&mut self) -> Failure {
        drop(self.child.stdin.take());
        let mut said = Vec::new();
        if let Some(errors) = self.child.stderr.as_mut() {
            let _ = std::io::Read::read_to_end(errors, &mut said);
        }
        let status = self.child.wait();
        let output =
            status.map(|status| std::process::Output { status, stdout: Vec::new(), stderr: said });
        match output.map(|output| self.end.check_reader(&output)) {
            Ok(Err(error)) => error,
            _ => failed!("the program that hashes {} ended early", self.end.volume()),
        }
    }
}

impl Drop for Hashing<'_> {
    fn drop(&mut self) {
        // Without questions it ends by itself, and gives a member up, which a killed one does not.
        drop(self.child.stdin.take());
        for _ in 0..MOST_CHECKS {
            match self.child.try_wait() {
                Ok(None) if self.stop.is_raised() => break,
                Ok(None) => pause(CHECKED_EVERY),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    arguments.json.check()?;
    let Arguments { one, other, since, connection, .. } = arguments;
    let ends = [End::of(one, connection)?, End::of(other, connection)?];
    let [first, second] = &ends;
    connection.check(&[first, second])?;
    for end in &ends {
        end.pool()?;
    }
    let first = Hashing::start(first, since.as_deref(), &context.stop)?;
    let identity = first.greeting.since.map(|identity| identity.to_string());
    let second = Hashing::start(second, identity.as_deref(), &context.stop)?;
    let verified = compare([first, second], context)?;
    let outcome = if verified.is_equal { Outcome::Done } else { Outcome::Partial };
    let text = text(&verified);
    let input = Input { one, other, since: since.as_deref() };
    arguments.json.finish(context, KIND.made(input, verified, Vec::new()), &text)?;
    Ok(outcome)
}

/// The parts that may differ.
fn suspected(ends: &[Hashing<'_>; 2]) -> Vec<Range<u64>> {
    let sizes = ends.iter().map(|end| end.greeting.size_bytes);
    let all = 0..sizes.max().unwrap_or(0).div_ceil(PART_BYTES);
    let mut changed: Vec<Range<u64>> = Vec::new();
    for end in ends {
        match &end.greeting.changed {
            Some(parts) => changed.extend(parts.iter().cloned()),
            None => return vec![all],
        }
    }
    changed.sort_by_key(|parts| parts.start);
    let mut suspected = Vec::new();
    changed.into_iter().for_each(|parts| add(&mut suspected, parts));
    suspected
}

fn compare(mut ends: [Hashing<'_>; 2], context: &Context) -> crate::Result<Verified> {
    let suspected = suspected(&ends);
    let parts: u64 = suspected.iter().map(|parts| parts.end - parts.start).sum();
    context.monitor.begin("Comparing", Unit::Bytes, Some(parts * PART_BYTES));
    let [one_length_bytes, other_length_bytes] =
        [0, 1].map(|end: usize| ends.get(end).map_or(0, |end| end.greeting.length_bytes));
    let mut verified = Verified {
        is_equal: true,
        one_length_bytes,
        other_length_bytes,
        compared_bytes: parts * PART_BYTES,
        unequal_bytes: 0,
        ranges: Vec::new(),
    };
    for parts in suspected {
        for some in split(parts, MAX_PARTS) {
            if context.stop.is_raised() {
                return Err(failed!("stopped before the end"));
            }
            let count = some.end - some.start;
            compare_some(&mut ends, some, &mut verified)?;
            context.monitor.advance(count * PART_BYTES);
        }
    }
    context.monitor.finish();
    verified.unequal_bytes = verified.ranges.iter().map(|range| range.length_bytes).sum();
    verified.is_equal = verified.ranges.is_empty() && one_length_bytes == other_length_bytes;
    Ok(verified)
}

/// Splits a list of parts into lists of at most `most`.
fn split(parts: Range<u64>, most: u64) -> impl Iterator<Item = Range<u64>> {
    let step = usize::try_from(most).unwrap_or(usize::MAX);
    let end = parts.end;
    parts.step_by(step).map(move |start| start..(start + most).min(end))
}

/// Compares up to 256 parts.
fn compare_some(
    ends: &mut [Hashing<'_>; 2],
    parts: Range<u64>,
    verified: &mut Verified,
) -> crate::Result<()> {
    if unequal(ends, &parts, Level::Whole)?.is_empty() {
        return Ok(());
    }
    let mut differing = Vec::new();
    for place in unequal(ends, &parts, Level::Parts)? {
        add(&mut differing, parts.start + place..parts.start + place + 1);
    }
    for run in differing {
        for some in split(run, MAX_PARTS_OF_UNITS) {
            for place in unequal(ends, &some, Level::Units)? {
                verified.add(some.start * PART_BYTES + place * UNIT_BYTES);
            }
        }
    }
    Ok(())
}

/// Asks both ends, and returns the places at which their hashes differ.
fn unequal(ends: &mut [Hashing<'_>; 2], parts: &Range<u64>, of: Level) -> crate::Result<Vec<u64>> {
    let count = parts.end - parts.start;
    let expected = match of {
        Level::Whole => 1,
        Level::Parts => count,
        Level::Units => count * (PART_BYTES / UNIT_BYTES),
    };
    let question = Question { parts: parts.clone(), of };
    for end in ends.iter_mut() {
        end.ask(&question)?;
    }
    let mut hashes = Vec::new();
    for end in ends.iter_mut() {
        let Answer { hashes: some } = end.hear()?;
        if some.len() as u64 != expected {
            return Err(failed!("an answer of {} makes no sense", end.end.volume()));
        }
        hashes.push(some);
    }
    let [one, other] = &*hashes else { return Err(refused!("there are two ends")) };
    let pairs = (0..).zip(one.iter().zip(other));
    Ok(pairs.filter(|(_, (one, other))| one != other).map(|(place, _)| place).collect())
}

impl Verified {
    fn add(&mut self, offset_bytes: u64) {
        match self.ranges.last_mut() {
            Some(last) if last.offset_bytes + last.length_bytes == offset_bytes => {
                last.length_bytes += UNIT_BYTES;
            }
            _ => self.ranges.push(UnequalRange { offset_bytes, length_bytes: UNIT_BYTES }),
        }
    }
}

fn text(verified: &Verified) -> String {
    let Verified { one_length_bytes, other_length_bytes, compared_bytes, .. } = verified;
    let mut table = Table::new();
    for range in verified.ranges.iter().take(MAX_LISTED) {
        table.row([format!("byte {}", range.offset_bytes), format_size(range.length_bytes)]);
    }
    let mut text = table.render(0);
    if verified.ranges.len() > MAX_LISTED {
        let more = (verified.ranges.len() - MAX_LISTED) as u64;
        text += &format!("and {}, which --json lists\n", format_counted(more, "further range"));
    }
    if one_length_bytes != other_length_bytes {
        text += &format!(
            "one has {} bytes, the other {}\n",
            format_count(*one_length_bytes),
            format_count(*other_length_bytes)
        );
    }
    let compared = format_size(*compared_bytes);
    text += &match verified.is_equal {
        true => format!("equal: {compared} compared\n"),
        false => format!(
            "not equal: {} differ in {}, {compared} compared\n",
            format_size(verified.unequal_bytes),
            format_counted(verified.ranges.len() as u64, "range")
        ),
    };
    text
}
