//! The audit of objects that are named by the BLAKE3 of their content.

use crate::base::{Check, Id, Result};
use crate::crypto::Blake3;
use crate::formats::Audit;
use alloc::{boxed::Box, string::String};

/// Compares an object's content with the hash that is its name.
pub struct NamedByHash {
    name: Id,
    hasher: Blake3,
}

impl NamedByHash {
    /// An audit of the object of this name.
    pub fn new(name: Id) -> Self {
        Self { name, hasher: Blake3::new() }
    }
}

impl Audit for NamedByHash {
    fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    fn finish(self: Box<Self>) -> Result<Option<String>> {
        if Id(self.hasher.finish()) == self.name { Ok(None) } else { Err(Check::StoreHash.into()) }
    }
}
