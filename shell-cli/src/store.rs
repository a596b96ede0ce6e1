//! Stores: where the bytes of a source are.
//!
//! [`LocalStore`] is a folder on this machine, or an image with its devices. Everything is opened read-only and nothing is ever
//! locked or written; symbolic links inside the source are not followed, and what is no regular
//! file is not read. Middlemen that delay, count or damage reads implement [`Store`] around it.

use core::ops::Range;
use packtrain_core::base::{Check, Error, Kind, bytes::fit};
use packtrain_core::plan::batch::Batch;
use packtrain_core::platform::{DEVICE, Failure, IMAGE, Need, Opener, Reply};
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

/// Where a source is on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// A folder, or an image: a file or a block device.
    pub path: PathBuf,
    /// Where the image starts in its file, bytes.
    pub offset: u64,
    /// Further devices of an image, in the order of its table.
    pub devices: Vec<PathBuf>,
}

/// A source on this machine.
#[derive(Debug)]
pub struct LocalStore {
    place: Place,
    is_folder: bool,
    /// Open files, used last last.
    open: Mutex<Vec<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    name: String,
    fd: Arc<OwnedFd>,
    /// Where the object starts in the file.
    start: u64,
    /// What was announced last, in bytes from the start.
    announced: Range<u64>,
}

/// Bytes announced at a time: batches mostly follow each other, and a call for each costs as
/// much as it saves.
const ANNOUNCED: u64 = 4 << 20;

impl LocalStore {
    /// The source at `path`.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Self::at(Place { path: path.to_path_buf(), ..Place::default() })
    }

    /// The source at `place`.
    ///
    /// # Errors
    /// What the system refused.
    pub fn at(place: Place) -> std::io::Result<Self> {
        let is_folder = std::fs::metadata(&place.path)?.is_dir();
        Ok(Self { place, is_folder, open: Mutex::default() })
    }

    /// The file that is the object `name`, and where the object starts in it. Only what is inside a
    /// folder can be a link that somebody else made.
    fn path(&self, name: &str) -> Result<(PathBuf, u64), Errno> {
        if self.is_folder {
            return Ok((self.place.path.join(name), 0));
        }
        if name.is_empty() || name == IMAGE {
            return Ok((self.place.path.clone(), self.place.offset));
        }
        let number = name.strip_prefix(DEVICE).and_then(|number| number.parse::<usize>().ok());
        let device = number.and_then(|number| self.place.devices.get(number.checked_sub(1)?));
        Ok((device.ok_or(Errno::NOENT)?.clone(), 0))
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
        let links = if self.is_folder { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | links | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let (path, start) = self.path(name)?;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::RegularFile => {}
            FileType::BlockDevice if !self.is_folder => {}
            _ => return Err(Errno::NOENT),
        }
        let fd = Arc::new(fd);
        if open.len() == KEPT_OPEN {
            open.remove(0);
        }
        let mut file = OpenFile { name: name.into(), fd: fd.clone(), start, announced: 0..0 };
        let result = (fd, look(&mut file));
        open.push(file);
        Ok(result)
    }
}

impl Store for LocalStore {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        let (fd, start) = self.file(name, |file| file.start)?;
        let offset = start.checked_add(offset).ok_or(Errno::OVERFLOW)?;
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
        if !self.is_folder {
            return Err(Errno::NOENT);
        }
        for entry in std::fs::read_dir(self.place.path.join(folder)).map_err(errno)? {
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
        if !self.is_folder {
            let (fd, start) = self.file(name, |file| file.start)?;
            // Of a block device only its end tells the size.
            let end = rustix::fs::seek(&*fd, rustix::fs::SeekFrom::End(0))?;
            return Ok(Some(end.saturating_sub(start)));
        }
        let found = std::fs::symlink_metadata(self.place.path.join(name)).map_err(errno)?;
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
            file.announced = offset..offset.saturating_add(len.max(ANNOUNCED));
            Some((file.start, core::num::NonZeroU64::new(file.announced.end - offset)?))
        });
        if let Ok((fd, Some((start, len)))) = fresh {
            // Advice only: a system that does not take it reads later.
            let _ = rustix::fs::fadvise(&*fd, start.saturating_add(offset), Some(len), Advice::WillNeed);
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
