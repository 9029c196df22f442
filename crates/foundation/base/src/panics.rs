//! Panics: which thread panicked, where and with which message.
//!
//! A panic is a defect of this program. It must not go unnoticed in a thread that others wait for,
//! so background threads are started by [`start`], which reports the panic that ends them.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::thread::{Builder, JoinHandle};

thread_local! {
    static LAST: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// A panic: its thread, its message and its place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Panicked {
    /// The name of the thread, or "unnamed".
    pub thread: String,
    /// The message of the panic, or a text that says that it has none.
    pub message: String,
    /// File, line and column, or "an unknown place".
    pub place: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, message, place } = self;
        write!(formatter, "thread '{thread}' panicked at {place}: {message}")
    }
}

/// Has the place of every later panic of this process noted, and leaves everything else to the hook
/// that was set before. Further calls do nothing.
pub fn note_places() {
    static ONCE: Once = Once::new();
    // A panicking thread must not touch the hook.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            note(info);
            before(info);
        }));
    });
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let panicked = Panicked { thread: thread_name(), message: message(info.payload()), place };
    // The thread may be ending.
    let _ = LAST.try_with(|last| last.replace(Some(panicked)));
}

fn thread_name() -> String {
    std::thread::current().name().unwrap_or("unnamed").to_owned()
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}

/// Returns the last panic of this thread. Without [`note_places`] only the thread is known.
#[must_use]
pub fn last_of_thread() -> Panicked {
    let noted = LAST.try_with(|last| last.borrow().clone()).ok().flatten();
    noted.unwrap_or_else(|| Panicked {
        thread: thread_name(),
        message: "a panic without a message".to_owned(),
        place: "an unknown place".to_owned(),
    })
}

/// Starts a thread. If it ends by a panic, it calls `told` with the panic first.
///
/// # Errors
/// Fails if the thread cannot be started.
pub fn start(
    name: &str,
    told: impl FnOnce(Panicked) + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    note_places();
    let work = move || {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            told(last_of_thread());
        }
    };
    Builder::new().name(name.to_owned()).spawn(work).map_err(crate::threads::refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_thread_that_panics_tells_its_name_the_message_and_the_place() {
        let (tell, told) = mpsc::channel();
        let tell = move |panicked| tell.send(panicked).unwrap();
        let line = line!() + 1;
        start("gemelo-test", tell, || panic!("defect {}", 7)).unwrap().join().unwrap();
        let panicked = told.recv().unwrap();
        assert_eq!(panicked.thread, "gemelo-test");
        assert_eq!(panicked.message, "defect 7");
        assert!(panicked.place.contains(&format!("panics.rs:{line}:")), "{panicked}");
    }

    #[test]
    fn a_thread_that_ends_tells_nothing() {
        let (tell, told) = mpsc::channel::<Panicked>();
        let tell = move |panicked| tell.send(panicked).unwrap();
        start("gemelo-test", tell, || {}).unwrap().join().unwrap();
        assert!(told.recv().is_err());
    }
}
