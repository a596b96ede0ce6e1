//! Packtrain in a browser tab: the core, built for `wasm32-unknown-unknown`.
//!
//! So far a skeleton: it opens a source through a callback, which proves that the core needs no
//! operating system. Workers, sources and the page come with their own issue; see the README.
//!
//! # The boundary
//!
//! The host page supplies one function, [`ReadFn`]: it answers a need synchronously, as a worker
//! can with `FileReaderSync`. Nothing is imported from `env`; the module is plain WebAssembly.

pub mod codecs;

use packtrain_core::base::{Result, Secret};
use packtrain_core::formats::{Catalog, Listed, OpenOptions, Source, Which};
use packtrain_core::objects::{Archive, ArchiveState};
use packtrain_core::platform::{Need, Port, Reply, drive};
use packtrain_core::session;

/// Answers one need of the core.
pub type ReadFn<'a> = dyn FnMut(Need) -> Reply + 'a;

/// A source opened through a callback.
pub struct Session<'a> {
    port: Port,
    serve: Box<ReadFn<'a>>,
    source: Box<dyn Source>,
}

impl<'a> Session<'a> {
    /// Opens the source behind `serve` with a passphrase.
    ///
    /// # Errors
    /// The core's error: unrecognised, unsupported, denied, or damaged.
    pub fn open(mut serve: Box<ReadFn<'a>>, passphrase: Secret) -> Result<Self> {
        let port = Port::new();
        let locked = drive(&port, session::open(&port, codecs::browser(), OpenOptions::default()), &mut *serve)?;
        let source = drive(&port, locked.unlock(&port, &passphrase), &mut *serve)?;
        Ok(Self { port, serve, source })
    }

    /// The archives in order of time.
    ///
    /// # Errors
    /// Errors of the listing itself; an unreadable archive is part of the list.
    pub fn archives(&mut self) -> Result<Vec<Archive>> {
        drive(&self.port, self.source.archives(&self.port, Which::Live), &mut *self.serve)
    }

    /// Calls `each` with every entry of an archive.
    ///
    /// # Errors
    /// I/O errors; damage comes as [`Listed::Gap`].
    pub fn entries(&mut self, archive: &ArchiveState, mut each: impl FnMut(Listed)) -> Result<()> {
        let mut catalog: Box<dyn Catalog + '_> = self.source.catalog(archive);
        while let Some(listed) = drive(&self.port, catalog.next(&self.port), &mut *self.serve)? {
            each(listed);
        }
        Ok(())
    }
}

/// Version of the interface, for the page to compare with its own.
#[unsafe(no_mangle)]
pub extern "C" fn packtrain_interface_version() -> u32 {
    // Keeps the core in the module: a build without it would prove nothing.
    core::hint::black_box(session_entry as fn() -> bool);
    1
}

/// Opens an empty source, which is nothing known.
fn session_entry() -> bool {
    let absent = |_need| Reply::Failed(packtrain_core::platform::Failure::NotFound);
    Session::open(Box::new(absent), Secret::new(Vec::new())).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use packtrain_core::base::Kind;

    #[test]
    fn an_empty_source_is_nothing_known() {
        let absent = |_need| Reply::Failed(packtrain_core::platform::Failure::NotFound);
        let error = Session::open(Box::new(absent), Secret::new(Vec::new())).err().map(|error| error.kind().clone());
        assert_eq!(error, Some(Kind::Unrecognised));
        assert!(session_entry());
    }
}
