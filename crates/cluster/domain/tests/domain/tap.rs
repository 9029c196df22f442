//! A client that calls a function before each request, which may keep the request from the store.

use gemelo_objects::simulated::Client;
use gemelo_objects::{ObjectError, Objects, Request, Result};

pub(crate) struct Tap<F> {
    pub(crate) client: Client,
    /// Returns the error to answer with, or `None` to let the request pass.
    pub(crate) before: F,
}

impl<F: Fn(&Request<'_>) -> Option<ObjectError> + Send + Sync> Objects for Tap<F> {
    fn execute(&self, requests: &mut [Request<'_>]) {
        for request in requests {
            match (self.before)(request) {
                Some(error) => request.outcome = Err(error),
                None => self.client.execute(std::slice::from_mut(request)),
            }
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.client.list(prefix)
    }
}
