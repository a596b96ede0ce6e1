//! The whole of a worker's decoding: one batch of units, one after the other.

use crate::base::{Check, Error, Fault, Stage};
use crate::objects::Unit;
use crate::plan::batch::Batch;
use crate::platform::{Content, Opener, Scratch};
use alloc::vec::Vec;

/// What one worker keeps from batch to batch: buffers that grow to the largest unit, and codec state.
pub struct Bench {
    /// The stored bytes of a batch, laid out as [`Batch::place`] says.
    pub stored: Vec<u8>,
    /// The plaintext of the unit opened last.
    pub plain: Vec<u8>,
    /// Codec and cipher state.
    pub scratch: Scratch,
}

impl Bench {
    /// Empty buffers around `scratch`.
    pub const fn new(scratch: Scratch) -> Self {
        Self { stored: Vec::new(), plain: Vec::new(), scratch }
    }

    /// Opens unit number `at` of a batch whose stored bytes are in `self.stored`.
    ///
    /// Units of a batch may be opened in any order, each once: opening decrypts in place.
    ///
    /// # Errors
    /// The unit's [`Fault`]; `failure` is the error of the read that covers it, if that failed.
    pub fn open(
        &mut self,
        batch: &Batch,
        at: usize,
        opener: &dyn Opener,
        failure: Option<&Error>,
    ) -> Result<Content, Fault> {
        let (Some(unit), Some(range)) = (batch.units.get(at), batch.place(at)) else {
            return Err(Error::from(Check::Sizes).during(Stage::Fetch));
        };
        if let Some(error) = failure {
            return Err(blame(error.clone(), unit));
        }
        // A fault names the object, which only whoever knows the opener can do.
        let named = |fault: Fault| Fault { error: fault.error.in_object(&opener.object_name(unit.at.object)), ..fault };
        let stored = self.stored.get_mut(range.clone()).ok_or_else(|| named(blame(Check::Truncated.into(), unit)))?;
        let content = opener.open(unit, stored, &mut self.plain, &mut self.scratch).map_err(named)?;
        Ok(match content {
            Content::Stored(inner) => Content::Stored(range.start + inner.start..range.start + inner.end),
            plain => plain,
        })
    }

    /// The bytes of what `open` returned last.
    pub fn bytes(&self, content: &Content) -> &[u8] {
        content.bytes(&self.stored, &self.plain)
    }

    /// Gives memory back that exceeds `cap` bytes, after an unusually large unit.
    pub fn trim(&mut self, cap: usize) {
        for buffer in [&mut self.stored, &mut self.plain] {
            if buffer.capacity() > cap {
                *buffer = Vec::new();
            }
        }
    }
}

fn blame(error: Error, unit: &Unit) -> Fault {
    error.of_chunk(unit.id).at(unit.at.offset).during(Stage::Fetch)
}
