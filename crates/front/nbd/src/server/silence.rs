//! Measures the silence of a client and decides its consequence. Any byte that arrives ends the
//! silence, so clients are served no matter how slow they are.

use std::time::Duration;

/// Silence after which a connection releases the memory that its buffers have grown by.
const SHRINK_AFTER: Duration = Duration::from_secs(1);

/// The consequence of a silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    /// Release memory.
    Shrink,
    /// End the connection, because the client sent no request for too long.
    Idle,
    /// End the connection, because the client sent a part of a request and then nothing for this
    /// time.
    HalfSent(Duration),
}

/// The silence of one client, measured in waits of equal length. An idle connection thus wakes
/// rarely, and a busy one reads no clock.
#[derive(Debug)]
pub(super) struct Silence {
    idle_timeout: Option<Duration>,
    receive_timeout: Option<Duration>,
    /// Length of one wait, once it was set.
    tick: Option<Option<Duration>>,
    lasted: Duration,
}

impl Silence {
    pub(super) fn new(idle_timeout: Option<Duration>, receive_timeout: Option<Duration>) -> Self {
        Self { idle_timeout, receive_timeout, tick: None, lasted: Duration::ZERO }
    }

    /// Returns the length of the next waits for the client, if it differs from the present one.
    pub(super) fn new_tick(&mut self, holds_memory: bool) -> Option<Option<Duration>> {
        let shrink_after = holds_memory.then_some(SHRINK_AFTER);
        let tick =
            [self.idle_timeout, self.receive_timeout, shrink_after].into_iter().flatten().min();
        let is_new = self.tick != Some(tick);
        self.tick = Some(tick);
        is_new.then_some(tick)
    }

    /// Ends the silence, because the client has sent something.
    pub(super) fn end(&mut self) {
        self.lasted = Duration::ZERO;
    }

    /// Adds a wait in which nothing arrived, between requests or within one.
    pub(super) fn grow(&mut self, is_idle: bool) -> Verdict {
        self.lasted += self.tick.flatten().unwrap_or_default();
        let is_over = |limit: Option<Duration>| limit.filter(|limit| self.lasted >= *limit);
        match (is_idle, is_over(self.idle_timeout), is_over(self.receive_timeout)) {
            (true, Some(_), _) => Verdict::Idle,
            (false, _, Some(after)) => Verdict::HalfSent(after),
            _ if self.lasted >= SHRINK_AFTER => Verdict::Shrink,
            _ => Verdict::Wait,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn without_limits_and_memory_nothing_is_looked_at() {
        let mut silence = Silence::new(None, None);
        assert_eq!(silence.new_tick(false), Some(None));
        assert_eq!(silence.new_tick(false), None);
        assert_eq!(silence.new_tick(true), Some(Some(SHRINK_AFTER)));
        assert_eq!(silence.grow(true), Verdict::Shrink);
        assert_eq!(silence.new_tick(false), Some(None));
    }

    #[test]
    fn a_half_sent_request_and_an_idle_connection_have_limits_of_their_own() {
        let mut silence = Silence::new(Some(5 * SECOND), Some(2 * SECOND));
        assert_eq!(silence.new_tick(false), Some(Some(2 * SECOND)));
        assert_eq!(silence.grow(false), Verdict::HalfSent(2 * SECOND));
        silence.end();
        assert_eq!(silence.grow(true), Verdict::Shrink);
        assert_eq!(silence.grow(true), Verdict::Shrink);
        assert_eq!(silence.grow(true), Verdict::Idle);
    }

    #[test]
    fn any_byte_ends_a_silence() {
        let mut silence = Silence::new(None, Some(2 * SECOND));
        silence.new_tick(true);
        for _ in 0..100 {
            assert_eq!(silence.grow(false), Verdict::Shrink);
            silence.end();
        }
    }
}
