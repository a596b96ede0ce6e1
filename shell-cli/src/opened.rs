//! An opened source on this machine: the core's source, its store, and the loop that joins them.

use crate::exit::{Failure, NO_REPOSITORY, Result};
use crate::secrets::Secrets;
use crate::store::{LocalStore, Place, Store};
use packtrain_core::base::{Denied, Error, Fault, Kind, Secret, Stage};
use packtrain_core::formats::{Locked, OpenOptions, Source};
use packtrain_core::objects::{ChunkRef, Extent, Unit};
use packtrain_core::plan::batch::Builder;
use packtrain_core::platform::{Kit, Port, Scratch, drive};
use packtrain_core::session;
use std::cell::RefCell;
use std::sync::Arc;

/// A source that is ready to be read.
pub struct Opened {
    /// Where its bytes are.
    pub store: Arc<dyn Store>,
    /// The mailbox between core and store.
    pub port: Port,
    /// The source.
    pub source: Box<dyn Source>,
    /// The codecs in use.
    pub kit: Kit,
    scratch: RefCell<Scratch>,
}

impl Opened {
    /// Recognises and opens the source at `place`.
    ///
    /// # Errors
    /// 13 if nothing is there, 15 if it is nothing known, 44, 50 or 52 for keys and passphrases,
    /// 90 if it is too damaged to be opened.
    pub fn open(place: &Place, secrets: &Secrets, options: OpenOptions) -> Result<Self> {
        let path = &place.path;
        let at = |failure: Failure| Failure { message: format!("{}: {}", path.display(), failure.message), ..failure };
        let store = LocalStore::at(place.clone()).map_err(|error| {
            Failure::new(NO_REPOSITORY, format!("{}: no repository there: {error}", path.display()))
        })?;
        Self::from_store(Arc::new(store), secrets, options).map_err(at)
    }

    /// Recognises and opens the source in `store`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_store(store: Arc<dyn Store>, secrets: &Secrets, options: OpenOptions) -> Result<Self> {
        Self::recognise(store, options, |port, store, locked| {
            for key in secrets.key_files(&locked.repository())? {
                locked.offer_key(&key);
            }
            unlock(port, store, locked, secrets)
        })
    }

    /// Recognises and opens the source in `store` with this passphrase: nobody is asked, and only
    /// keys in the source are tried.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn with_passphrase(store: Arc<dyn Store>, passphrase: &Secret) -> Result<Self> {
        Self::recognise(store, OpenOptions::default(), |port, store, locked| {
            Ok(drive(port, locked.unlock(port, passphrase), |need| store.serve(need))?)
        })
    }

    /// Recognises the source in `store`, and opens it with what `unlock` knows.
    fn recognise(
        store: Arc<dyn Store>,
        options: OpenOptions,
        unlock: impl FnOnce(&Port, &dyn Store, &mut dyn Locked) -> Result<Box<dyn Source>>,
    ) -> Result<Self> {
        let port = Port::new();
        let kit = crate::codecs::native();
        let mut locked = drive(&port, session::open(&port, kit, options), |need| store.serve(need))?;
        let source = unlock(&port, &*store, &mut *locked)?;
        let scratch = RefCell::new(Scratch::new(kit));
        Ok(Self { store, port, source, kit, scratch })
    }

    /// A builder of batches for this source: large enough for what its opener does best, as long as
    /// that is not more than `share` bytes.
    pub fn builder(&self, share: u64) -> Builder {
        Builder::for_groups(self.source.opener().group(), share)
    }

    /// Runs a future of the core, serving its needs.
    pub fn drive<T>(&self, future: impl Future<Output = T>) -> T {
        drive(&self.port, future, |need| self.store.serve(need))
    }

    /// What an entry has of a chunk, from any copy that is good, without the line.
    ///
    /// # Errors
    /// I/O errors; the first fault comes back inside if no copy is good.
    pub fn decode(&self, chunk: &ChunkRef) -> Result<Result<Vec<u8>, Fault>> {
        self.decode_except(chunk, Vec::new(), None)
    }

    /// What an entry has of a chunk, from another copy than the one that gave `fault`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn other_copy(&self, chunk: &ChunkRef, fault: &Fault) -> Result<Option<Vec<u8>>> {
        let first = self.source.locate(chunk);
        Ok(self.decode_except(chunk, first.into_iter().collect(), Some(fault.clone()))?.ok())
    }

    fn decode_except(
        &self,
        chunk: &ChunkRef,
        mut failed: Vec<Extent>,
        mut first: Option<Fault>,
    ) -> Result<Result<Vec<u8>, Fault>> {
        let opener = self.source.opener();
        while let Some(at) = self.drive(self.source.relocate(&self.port, chunk.id, &failed))? {
            let name = opener.object_name(at.object);
            let unit = Unit::content(chunk, at);
            let fault = match self.drive(self.port.read(&name, at.offset, at.len.into())) {
                Ok(mut stored) => {
                    let mut plain = Vec::new();
                    match opener.open(&unit, &mut stored, &mut plain, &mut self.scratch.borrow_mut()) {
                        Ok(content) => return Ok(Ok(chunk.of(content.bytes(&stored, &plain)).to_vec())),
                        Err(fault) => Fault { error: fault.error.in_object(&name), ..fault },
                    }
                }
                Err(error) => error.of_chunk(chunk.id).during(Stage::Fetch),
            };
            failed.push(at);
            first.get_or_insert(fault);
        }
        Ok(Err(first.unwrap_or_else(|| Fault::nowhere(chunk.id))))
    }
}

/// Lets passphrases be stretched on so many cores: the lanes of Argon2 run on rayon's pool, which
/// is made here, for the whole process, unless there is one. One core means no threads.
pub fn derive_on(cores: usize) {
    // It fails if there is a pool already; then that one serves.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(cores).use_current_thread().build_global();
}

fn unlock(port: &Port, store: &dyn Store, locked: &dyn Locked, secrets: &Secrets) -> Result<Box<dyn Source>> {
    let open = |passphrase: &Secret| drive(port, locked.unlock(port, passphrase), |need| store.serve(need));
    if locked.is_plain() {
        // One that was given all the same tells that a key was expected.
        return Ok(open(&secrets.given()?.unwrap_or_else(|| Secret::new(Vec::new())))?);
    }
    if locked.keys() == 0 {
        return Err(Failure::new(
            crate::exit::NO_REPO_KEY,
            format!(
                "no key for repository {} found, neither in the repository nor in {}; point BORG_KEY_FILE or BORG_KEYS_DIR at it",
                locked.repository(),
                secrets.key_place()
            ),
        ));
    }
    if let Some(passphrase) = secrets.given()? {
        return Ok(open(&passphrase)?);
    }
    // The empty passphrase is valid, and needs no question.
    match open(&Secret::new(Vec::new())) {
        Err(error) if matches!(error.kind(), Kind::Denied(Denied::WrongPassphrase)) => {}
        other => return Ok(other?),
    }
    for _ in 0..3 {
        let passphrase = secrets.ask(&locked.repository())?;
        match open(&passphrase) {
            Err(error) if matches!(error.kind(), Kind::Denied(Denied::WrongPassphrase)) => {
                eprintln!("packtrain: {error}");
            }
            other => return Ok(other?),
        }
    }
    Err(Error::from(Denied::WrongPassphrase).into())
}
