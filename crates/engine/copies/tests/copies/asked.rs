//! A receiver that tells nothing, or was not asked to, answers no question.

use super::common::simulated::Simulation;
use super::common::{BLOCK, open, options, tuning};
use super::head;
use gemelo_base::{Silent, StopFlag};
use gemelo_copies::stream::{Head, StreamWriter};
use gemelo_copies::{Answers, Asked, ReceiveOptions, receive};
use gemelo_format::{DedupMode, Fingerprint};
use gemelo_volume::Pool;

/// What a receiver says to a sender that asks whatever it was greeted with.
fn answers(is_exchange: bool, tells: bool) -> (usize, String) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(200)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let head = Head { is_exchange, ..head(BLOCK, 9) };
    let mut stream = Vec::new();
    let mut writer = StreamWriter::begin(&mut stream, &head).unwrap();
    writer.ask(&[Asked { block: 0, fingerprint: Fingerprint::from_bytes([7; 16]) }]).unwrap();
    writer.finish().unwrap();
    let (mut said, options) = (Vec::new(), ReceiveOptions { mode: DedupMode::Inline, tells });
    let received = receive(
        &pool,
        "s",
        &mut &*stream,
        Some(Answers::new(&mut said)),
        options,
        (&Silent, &StopFlag::new()),
    );
    (said.len(), received.map_or_else(|error| error.to_string(), |_| "received".to_owned()))
}

#[test]
fn questions_are_answered_only_by_a_receiver_that_tells_in_a_conversation() {
    let (told, said) = answers(true, true);
    assert_eq!(said, "received");
    let greeting_and_end = told - 6 + 1;
    let refused =
        "the stream is a part of a conversation: only 'gemelo volume copy' can have it".to_owned();
    assert_eq!(answers(true, false), (greeting_and_end, refused.clone()));
    assert_eq!(answers(false, true), (1, refused));
}
