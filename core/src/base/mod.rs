//! The ground floor: bounded byte reading, identifiers, errors, limits and secrets.
//!
//! Nothing here knows a format, a codec or a shell.

pub mod bytes;
pub mod error;
pub mod id;
pub mod limits;
pub mod secret;

pub use bytes::Cursor;
pub use error::{Check, Denied, Error, Fault, Kind, Place, Result, Stage, Unsupported};
pub use id::Id;
pub use secret::Secret;
