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
//! | [`store`] | a source in a local folder |
//! | [`secrets`], [`opened`] | keys, passphrases, an opened source |
//! | [`messages`] | warnings, progress, report |
//! | [`line`](mod@line) | worker threads around the ordered machine |
//! | [`extract`], [`stream`], [`check`] | entries to files; content in order; verifying |
//! | [`listing`] | archives and entries as text and JSON |
//! | [`args`], [`commands`] | the command line |

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
pub mod secrets;
pub mod store;
pub mod stream;
pub mod target;
