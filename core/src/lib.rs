//! Packtrain's core: backup formats, codecs and the ordered decode machine, without any I/O.
//!
//! The core never reads, writes, spawns or looks at a clock. It asks for bytes with values
//! ([`platform::Need`]) and is answered with values ([`platform::Reply`]); a shell (the native
//! command, a browser worker, a firmware loop) fetches, spawns and writes.
//!
//! # Rooms, lowest first
//!
//! | room | holds |
//! |---|---|
//! | [`base`] | bounded byte reader, ids, errors, limits, secrets |
//! | [`objects`] | the model all formats share: units, entries, archives |
//! | [`platform`] | what a shell answers and what it may supply: needs, codecs, openers |
//! | [`codecs`] | one file per compression method, decoding into the caller's buffer |
//! | [`crypto`] | AEADs, MACs, hashes, key derivation |
//! | [`formats`] | one folder per format, and the registry that finds the right one |
//! | [`plan`] | which entries, which bytes, in what batches |
//! | [`engine`] | the ordered, bounded decode machine and the work on one batch |
//! | [`session`] | opening a source and walking an archive |
//!
//! A room imports only from rooms above it in this table; `tests/tests/rooms.rs` holds it to that.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, clippy::string_slice))]

extern crate alloc;

pub mod base;
pub mod codecs;
pub mod crypto;
pub mod engine;
pub mod formats;
pub mod objects;
pub mod plan;
pub mod platform;
pub mod session;
