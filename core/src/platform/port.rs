//! The port: how code in the core asks for bytes without doing I/O.
//!
//! Code above this room is written as plain `async` functions that await the methods of [`Port`]. The
//! compiler turns them into state machines; [`drive`] polls one, hands each [`Need`] to a
//! closure of the shell and feeds the [`Reply`] back. No executor, no waker, no thread: a future
//! is pending only while its need is unanswered.

use crate::base::{Error, Kind, Result};
use alloc::{string::String, vec::Vec};
use core::{
    cell::RefCell,
    pin::pin,
    task::{Context, Poll, Waker},
};

/// Name of an image, where the source is a file and not a folder.
pub const IMAGE: &str = "image";
/// What the names of an image's further devices start with; their numbers follow, from 1.
pub const DEVICE: &str = "device-";

/// A request to the shell. Names are store names such as `packs/19/1979...`, relative to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Up to `len` bytes of `name` from `offset`; fewer only at its end.
    Read {
        /// The store object.
        name: String,
        /// First byte.
        offset: u64,
        /// Bytes wanted.
        len: u64,
    },
    /// The names directly below a folder, without the folder; regular files and folders only.
    /// A folder that does not exist is empty.
    List {
        /// The folder, without a slash at its end.
        folder: String,
    },
    /// What is at `name`, the empty name being the source itself: answered with [`Reply::Size`], or [`Failure::NotFound`].
    Stat {
        /// The store object.
        name: String,
    },
}

/// A shell's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The bytes read.
    Bytes(Vec<u8>),
    /// The names found, in any order.
    Names(Vec<String>),
    /// Size in bytes of a regular file; `None` for a folder.
    Size(Option<u64>),
    /// It could not be done.
    Failed(Failure),
}

/// Why a need could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such object.
    NotFound,
    /// An I/O error, by a number under which the shell finds it again (an `errno`, a status).
    Code(u32),
}

enum State {
    Idle,
    Asked(Need),
    Serving,
    Answered(Reply),
}

/// A mailbox for one need and its reply.
pub struct Port {
    state: RefCell<State>,
}

impl Default for Port {
    fn default() -> Self {
        Self::new()
    }
}

impl Port {
    /// An idle port.
    pub const fn new() -> Self {
        Self { state: RefCell::new(State::Idle) }
    }

    /// Takes the need that awaits an answer, if there is one.
    pub fn take_need(&self) -> Option<Need> {
        let mut state = self.state.borrow_mut();
        match core::mem::replace(&mut *state, State::Serving) {
            State::Asked(need) => Some(need),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Answers the need taken last.
    pub fn answer(&self, reply: Reply) {
        *self.state.borrow_mut() = State::Answered(reply);
    }

    async fn ask(&self, need: Need) -> Reply {
        *self.state.borrow_mut() = State::Asked(need);
        core::future::poll_fn(|_| {
            let mut state = self.state.borrow_mut();
            match core::mem::replace(&mut *state, State::Idle) {
                State::Answered(reply) => Poll::Ready(reply),
                other => {
                    *state = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Reads up to `len` bytes from `offset`; fewer only at the end of the object.
    ///
    /// # Errors
    /// `Missing` if there is no such object, `Store` for an I/O error.
    pub async fn read(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        match self.ask(Need::Read { name: name.into(), offset, len }).await {
            Reply::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected(other, name)),
        }
    }

    /// Reads a whole object that may be at most `cap` bytes long.
    ///
    /// # Errors
    /// As [`read`](Self::read), and `OverLimit` for a longer object.
    pub async fn load(&self, name: &str, what: &'static str, cap: u64) -> Result<Vec<u8>> {
        // Asked first, so that nothing of a size beyond the cap is ever taken; what a shell knows
        // no size of, or what grows meanwhile, is still read no further than one byte beyond.
        if let Some(Some(size)) = self.stat(name).await? {
            crate::base::limits::within(what, size, cap).map_err(|e| e.in_object(name))?;
        }
        let bytes = self.read(name, 0, cap + 1).await?;
        crate::base::limits::within(what, bytes.len() as u64, cap).map_err(|e| e.in_object(name))?;
        Ok(bytes)
    }

    /// The names directly below `folder`; empty if it does not exist.
    ///
    /// # Errors
    /// `Store` for an I/O error.
    pub async fn list(&self, folder: &str) -> Result<Vec<String>> {
        match self.ask(Need::List { folder: folder.into() }).await {
            Reply::Names(names) => Ok(names),
            Reply::Failed(Failure::NotFound) => Ok(Vec::new()),
            other => Err(unexpected(other, folder)),
        }
    }

    /// What is at `name`: `Some(Some(size))` for a file, `Some(None)` for a folder, `None` for nothing.
    ///
    /// # Errors
    /// `Store` for an I/O error.
    pub async fn stat(&self, name: &str) -> Result<Option<Option<u64>>> {
        match self.ask(Need::Stat { name: name.into() }).await {
            Reply::Size(size) => Ok(Some(size)),
            Reply::Failed(Failure::NotFound) => Ok(None),
            other => Err(unexpected(other, name)),
        }
    }
}

fn unexpected(reply: Reply, name: &str) -> Error {
    match reply {
        Reply::Failed(Failure::NotFound) => Kind::Missing("the object"),
        Reply::Failed(Failure::Code(code)) => Kind::Store(code),
        _ => Kind::Misuse("the shell answered with another kind of reply"),
    }
    .into_error()
    .in_object(name)
}

impl Kind {
    fn into_error(self) -> Error {
        Error::new(self)
    }
}

/// Runs `future` to its end, answering each of its needs with `serve`.
pub fn drive<F: Future>(port: &Port, future: F, mut serve: impl FnMut(Need) -> Reply) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        if let Some(need) = port.take_need() {
            port.answer(serve(need));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_served_in_order() {
        let port = Port::new();
        let mut served = Vec::new();
        let sum = drive(
            &port,
            async {
                let a = port.read("a", 0, 2).await?;
                let b = port.read("b", 5, 1).await?;
                Ok::<_, Error>(a.len() + b.len())
            },
            |need| {
                let Need::Read { name, len, .. } = need else { return Reply::Failed(Failure::Code(1)) };
                served.push(name);
                Reply::Bytes(alloc::vec![0; len as usize])
            },
        );
        assert_eq!(sum, Ok(3));
        assert_eq!(served, ["a", "b"]);
    }

    #[test]
    fn failures_name_the_object() {
        let port = Port::new();
        let error = drive(&port, port.load("config", "config size", 4), |_| Reply::Size(Some(5)));
        assert!(matches!(error.unwrap_err().kind(), Kind::OverLimit { asked: 5, cap: 4, .. }));
        // A size that was not true.
        let error = drive(&port, port.load("config", "config size", 4), |need| match need {
            Need::Stat { .. } => Reply::Size(Some(1)),
            _ => Reply::Bytes(alloc::vec![0; 5]),
        });
        assert!(matches!(error.unwrap_err().kind(), Kind::OverLimit { asked: 5, cap: 4, .. }));
        let error = drive(&port, port.read("x", 0, 1), |_| Reply::Failed(Failure::NotFound)).unwrap_err();
        assert_eq!(error.place().object.as_deref(), Some("x"));
        let missing = drive(&port, port.list("x"), |_| Reply::Failed(Failure::NotFound));
        assert_eq!(missing, Ok(Vec::new()));
    }
}
