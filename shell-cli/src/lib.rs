//! Packtrain's native shell: files, threads and a command line around the core.
//!
//! # Rooms, lowest first
//!
//! | room | holds |
//! |---|---|
//! | [`exit`] | exit codes and failures |
//! | [`blake2b`] | hashing several messages at a time with this machine's vectors |
//! | [`codecs`] | the faster codecs of this machine |
//! | [`target`] | everything that writes the file system |
//! | [`store`] | a source on this machine |
//! | [`secrets`], [`opened`] | keys, passphrases, an opened source |
//! | [`messages`] | warnings, progress, report |
//! | [`line`](mod@line) | worker threads around the ordered machine |
//! | [`extract`], [`stream`], [`prove`], [`check`] | entries to files; content in order; verifying by file, and by chunk |
//! | [`listing`] | archives and entries as text and JSON |
//! | [`args`], [`archives`], [`commands`] | the command line |

pub mod archives;
pub mod args;
#[cfg(target_arch = "x86_64")]
pub mod blake2b;
pub mod check;
pub mod codecs;
pub mod commands;
pub mod exit;
pub mod extract;
pub mod line;
pub mod listing;
pub mod messages;
pub mod opened;
pub mod prove;
pub mod secrets;
pub mod store;
pub mod stream;
pub mod target;
