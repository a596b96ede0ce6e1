//! Planning: which entries are wanted, and which stored bytes in what batches.
//!
//! A plan is a value that can be counted and tested without a store.

pub mod batch;
pub mod pattern;
pub mod select;
