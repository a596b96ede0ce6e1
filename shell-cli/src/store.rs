//! Stores: where the bytes of a source are.
//!
//! [`LocalStore`] is a folder on this machine. Everything is opened read-only and nothing is ever
//! locked or written; symbolic links inside the source are not followed, and what is no regular
//! file is not read. Middlemen that delay, count or damage reads implement [`Store`] around it.

use core::ops::Range;
use packtrain_core::base::{Check, Error, Kind, bytes::fit};
use packtrain_core::plan::batch::Batch;
use packtrain_core::platform::{Failure, Need, Opener, Reply};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Serves reads from any thread.
pub trait Store: Send + Sync {
    /// Reads into `target` from `offset` of the object `name`, and returns how many bytes there were:
    /// fewer than wanted only at the object's end.
    ///
    /// # Errors
    /// What the system refused; `ENOENT` if there is no such object.
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno>;

    /// The names of files and folders directly in `folder`.
    ///
    /// # Errors
    /// What the system refused; `ENOENT` if there is no such folder.
    fn list(&self, folder: &str) -> Result<Vec<String>, Errno>;

    /// Size of a regular file in bytes, `None` for a folder.
    ///
    /// # Errors
    /// What the system refused; `ENOENT` if there is nothing.
    fn stat(&self, name: &str) -> Result<Option<u64>, Errno>;

    /// These bytes will be read soon. A store that can do nothing with that does nothing.
    fn announce(&self, _name: &str, _offset: u64, _len: u64) {}
}

/// The bytes of a batch, and per unit the error if it could not be read.
pub struct Fetched {
    stored: Vec<u8>,
    failures: Vec<Option<Error>>,
}

impl dyn Store + '_ {
    /// Serves one need of the core.
    pub fn serve(&self, need: Need) -> Reply {
        let served = match need {
            Need::Read { name, offset, len } => self.read(&name, offset, len).map(Reply::Bytes),
            Need::List { folder } => self.list(&folder).map(Reply::Names),
            Need::Stat { name } => self.stat(&name).map(Reply::Size),
        };
        served.unwrap_or_else(|errno| {
            Reply::Failed(match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Failure::NotFound,
                other => Failure::Code(other.raw_os_error() as u32),
            })
        })
    }

    /// Up to `len` bytes from `offset`.
    fn read(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let size = self.stat(name)?.ok_or(Errno::ISDIR)?;
        let mut bytes = vec![0; len.min(size.saturating_sub(offset)) as usize];
        let got = self.read_into(name, offset, &mut bytes)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    /// Asks for read-ahead of what a batch needs.
    pub fn announce_batch(&self, opener: &dyn Opener, batch: &Batch) {
        for read in &batch.reads {
            self.announce(&opener.object_name(read.object), read.offset, read.len);
        }
    }

    /// Reads a batch ahead of its worker.
    pub fn read_ahead(&self, opener: &dyn Opener, batch: &Batch) -> Fetched {
        let mut stored = Vec::new();
        let failures = self.fetch(opener, batch, &mut stored);
        Fetched { stored, failures }
    }

    /// Brings a batch into `stored`: what was read ahead, or by reading it now. Per unit, the error
    /// if it could not be read.
    pub fn bring(
        &self,
        opener: &dyn Opener,
        batch: &Batch,
        ahead: Option<Fetched>,
        stored: &mut Vec<u8>,
    ) -> Vec<Option<Error>> {
        match ahead {
            Some(fetched) => {
                *stored = fetched.stored;
                fetched.failures
            }
            None => self.fetch(opener, batch, stored),
        }
    }

    /// Reads a batch into `stored`. Per unit, the error if it could not be read.
    ///
    /// Where a read that covers several units fails or comes up short, each of them is read on its
    /// own, so that none pays for what is wrong with its neighbour.
    fn fetch(&self, opener: &dyn Opener, batch: &Batch, stored: &mut Vec<u8>) -> Vec<Option<Error>> {
        fit(stored, batch.stored);
        let mut results = vec![None; batch.units.len()];
        for (number, read) in batch.reads.iter().enumerate() {
            let name = opener.object_name(read.object);
            let mut read_part = |offset: u64, place: Range<usize>| {
                let kind = match stored.get_mut(place) {
                    Some(target) => match self.read_into(&name, offset, target) {
                        Ok(got) if got == target.len() => return None,
                        Ok(_) => Kind::Corrupt(Check::Truncated),
                        Err(Errno::NOENT) => Kind::Missing("the pack"),
                        Err(errno) => Kind::Store(errno.raw_os_error() as u32),
                    },
                    None => Kind::Corrupt(Check::Sizes),
                };
                Some(Error::new(kind).in_object(&name))
            };
            let Some(error) = read_part(read.offset, read.to..read.to + read.len as usize) else { continue };
            let covered: Vec<usize> = (0..results.len()).filter(|at| batch.read_of(*at) == Some(number)).collect();
            for at in &covered {
                let (Some(unit), Some(place), Some(result)) =
                    (batch.units.get(*at), batch.place(*at), results.get_mut(*at))
                else {
                    continue;
                };
                *result = if covered.len() > 1 { read_part(unit.at.offset, place) } else { Some(error.clone()) };
            }
        }
        results
    }
}

/// Files that stay open: consecutive batches mostly stay in a few packs.
const KEPT_OPEN: usize = 32;

/// A folder on this machine.
#[derive(Debug)]
pub struct LocalStore {
    root: PathBuf,
    /// Open files, used last last.
    open: Mutex<Vec<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    name: String,
    fd: Arc<OwnedFd>,
    /// What was announced last, in bytes from the start.
    announced: Range<u64>,
}

/// Bytes announced at a time: batches mostly follow each other, and a call for each costs as
/// much as it saves.
const ANNOUNCED: u64 = 4 << 20;

impl LocalStore {
    /// The source at `root`.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open(root: &Path) -> std::io::Result<Self> {
        std::fs::metadata(root)?;
        Ok(Self { root: root.to_path_buf(), open: Mutex::default() })
    }

    /// The open file `name`, and what `look` makes of its entry.
    fn file<T>(&self, name: &str, look: impl FnOnce(&mut OpenFile) -> T) -> Result<(Arc<OwnedFd>, T), Errno> {
        // The list is whole at every moment, so a thread that panicked left nothing half-done.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().rposition(|file| file.name == name) {
            let mut file = open.remove(at);
            let result = (file.fd.clone(), look(&mut file));
            open.push(file);
            return Ok(result);
        }
        // Opening a pipe that somebody put into the source must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(self.root.join(name), flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
            return Err(Errno::NOENT);
        }
        let fd = Arc::new(fd);
        if open.len() == KEPT_OPEN {
            open.remove(0);
        }
        let mut file = OpenFile { name: name.into(), fd: fd.clone(), announced: 0..0 };
        let result = (fd, look(&mut file));
        open.push(file);
        Ok(result)
    }
}

impl Store for LocalStore {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        let (fd, ()) = self.file(name, |_| ())?;
        let mut got = 0;
        while let Some(rest) = target.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&*fd, rest, offset + got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(got)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.root.join(folder)).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            let kind = entry.file_type().map_err(errno)?;
            if (kind.is_file() || kind.is_dir())
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn stat(&self, name: &str) -> Result<Option<u64>, Errno> {
        let found = std::fs::symlink_metadata(self.root.join(name)).map_err(errno)?;
        match (found.is_file(), found.is_dir()) {
            (true, _) => Ok(Some(found.len())),
            (_, true) => Ok(None),
            _ => Err(Errno::NOENT),
        }
    }

    fn announce(&self, name: &str, offset: u64, len: u64) {
        let fresh = self.file(name, |file| {
            if file.announced.contains(&offset) && offset + len <= file.announced.end {
                return None;
            }
            file.announced = offset..offset + len.max(ANNOUNCED);
            core::num::NonZeroU64::new(file.announced.end - offset)
        });
        if let Ok((fd, Some(len))) = fresh {
            // Advice only: a system that does not take it reads later.
            let _ = rustix::fs::fadvise(&*fd, offset, Some(len), Advice::WillNeed);
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
