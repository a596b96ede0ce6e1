//! The engine: ordered, bounded, parallel decode, blind to formats and codecs.
//!
//! [`ordered`] is the machine that keeps order and bound; [`work`] is what a worker does with
//! one batch. Neither starts a thread: a shell does, or runs both in one.

pub mod ordered;
pub mod work;

pub use ordered::{Budget, End, Ordered, Output, Refused, Ticket, Wait};
pub use work::Bench;
