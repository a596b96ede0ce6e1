//! The native shell.
pub mod target;
