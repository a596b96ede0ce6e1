//! Where a stream goes.

use crate::exit::{ERROR, Failure, Result};
use packtrain_core::objects::{Entry, EntryKind, Refusal};
use std::io::Write;

/// Takes entries and their content in order.
pub trait Sink {
    /// An entry begins.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn begin(&mut self, entry: &Entry) -> Result<()>;

    /// The next bytes of its content.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn data(&mut self, bytes: &[u8]) -> Result<()>;

    /// The next bytes of its content are so many zeros.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn zeros(&mut self, mut count: u64) -> Result<()> {
        static BLOCK: [u8; 64 << 10] = [0; 64 << 10];
        while count > 0 {
            let step = count.min(BLOCK.len() as u64);
            self.data(&BLOCK[..step as usize])?;
            count -= step;
        }
        Ok(())
    }

    /// The entry is complete.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn end(&mut self) -> Result<()>;

    /// Why the output cannot hold entries of this kind, if it cannot.
    fn refusal(&self, _kind: &EntryKind) -> Option<Refusal> {
        None
    }

    /// True if further names of a link group come as [`link`](Self::link), without content.
    fn links(&self) -> bool {
        false
    }

    /// Another name of the entry written as `first`.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn link(&mut self, _entry: &Entry, _first: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Path of the entry that is being written, for messages.
    fn path(&self) -> &[u8];

    /// The stream is complete.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn finish(&mut self) -> Result<()>;
}

/// Nothing but the bytes of regular files, one after the other.
pub struct Concat<W> {
    out: W,
    path: Vec<u8>,
}

impl<W: Write> Concat<W> {
    /// Writes to `out`.
    pub const fn new(out: W) -> Self {
        Self { out, path: Vec::new() }
    }
}

impl<W: Write> Sink for Concat<W> {
    fn begin(&mut self, entry: &Entry) -> Result<()> {
        self.path.clone_from(&entry.path);
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(output_failed)
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(output_failed)
    }
}

/// The failure of an output. A reader that went away, as `head` does, ends the run silently.
pub fn output_failed(error: std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return Failure::new(128 + 13, String::new());
    }
    Failure::new(ERROR, format!("writing the output failed: {error}"))
}
