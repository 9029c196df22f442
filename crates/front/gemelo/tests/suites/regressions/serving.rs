//! Servers, sockets and packages that did not do what their documents say.
