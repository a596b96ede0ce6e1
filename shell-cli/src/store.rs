//! A source in a local folder: serves the core's needs, and hands workers the bytes of a batch.
//!
//! Everything is opened read-only and nothing is ever locked or written. Symbolic links inside
//! the source are not followed, and what is no regular file is not read.

use packtrain_core::base::{Check, Error, Kind};
use packtrain_core::engine::Bench;
use packtrain_core::plan::batch::{Batch, ReadRun};
use packtrain_core::platform::{Failure, Need, Opener, Reply};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Largest buffer set aside for one read before the file's own size is known, bytes.
const READ_STEP: u64 = 1 << 20;

/// A folder opened as a source.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The source at `root`.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open(root: &Path) -> std::io::Result<Self> {
        std::fs::metadata(root)?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// Where the source is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Serves one need.
    pub fn serve(&self, need: Need) -> Reply {
        let served = match need {
            Need::Read { name, offset, len } => self.read(&name, offset, len).map(Reply::Bytes),
            Need::List { folder } => self.list(&folder).map(Reply::Names),
            Need::Stat { name } => self.stat(&name).map(Reply::Size),
        };
        served.unwrap_or_else(|errno| Reply::Failed(failure(errno)))
    }

    fn file(&self, name: &str) -> Result<OwnedFd, Errno> {
        // Opening a pipe that somebody put into the source must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(self.root.join(name), flags, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
            FileType::RegularFile => Ok(fd),
            _ => Err(Errno::NOENT),
        }
    }

    fn read(&self, name: &str, offset: u64, len: u64) -> Result<Vec<u8>, Errno> {
        let fd = self.file(name)?;
        let there = (rustix::fs::fstat(&fd)?.st_size as u64).saturating_sub(offset);
        let mut bytes = vec![0; len.min(there.max(if there == 0 { READ_STEP.min(len) } else { 0 })) as usize];
        let got = read_fully(&fd, &mut bytes, offset)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        let entries = std::fs::read_dir(self.root.join(folder)).map_err(errno)?;
        let mut names = Vec::new();
        for entry in entries {
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

    /// Tells the system that these bytes will be read soon: its own read-ahead, without a thread.
    pub fn announce(&self, files: &mut Files, opener: &dyn Opener, reads: &[ReadRun]) {
        for read in reads {
            if let Ok(fd) = files.get(self, opener, read.object) {
                let len = core::num::NonZeroU64::new(read.len);
                // Advice only: a system that does not take it reads later.
                let _ = rustix::fs::fadvise(fd, read.offset, len, Advice::WillNeed);
            }
        }
    }

    /// Reads a batch into `bench.stored`. Per read, the error if it failed or came up short.
    pub fn fetch(&self, files: &mut Files, opener: &dyn Opener, batch: &Batch, stored: &mut Vec<u8>) -> Vec<Option<Error>> {
        packtrain_core::base::bytes::fit(stored, batch.stored);
        let mut results = Vec::with_capacity(batch.reads.len());
        for read in &batch.reads {
            let range = read.to..read.to + read.len as usize;
            let result = match (files.get(self, opener, read.object), stored.get_mut(range)) {
                (Ok(fd), Some(target)) => read_fully(fd, target, read.offset).and_then(|got| {
                    if got == target.len() { Ok(()) } else { Err(Errno::NODATA) }
                }),
                (Err(errno), _) => Err(errno),
                (_, None) => Err(Errno::INVAL),
            };
            results.push(result.err().map(|errno| {
                let kind = match errno {
                    Errno::NODATA => Kind::Corrupt(Check::Truncated),
                    Errno::NOENT => Kind::Missing("the pack"),
                    other => Kind::Store(other.raw_os_error() as u32),
                };
                Error::new(kind).in_object(&opener.object_name(read.object))
            }));
        }
        results
    }

    /// Reads a batch into the buffers of `bench`.
    pub fn fetch_into(&self, files: &mut Files, opener: &dyn Opener, batch: &Batch, bench: &mut Bench) -> Vec<Option<Error>> {
        self.fetch(files, opener, batch, &mut bench.stored)
    }
}

/// Object files that one thread keeps open.
#[derive(Debug, Default)]
pub struct Files(Vec<(u32, OwnedFd)>);

impl Files {
    /// Files kept open at most; consecutive batches mostly stay in one pack.
    const KEPT: usize = 16;

    fn get(&mut self, store: &Store, opener: &dyn Opener, object: u32) -> Result<&OwnedFd, Errno> {
        let at = match self.0.iter().position(|(known, _)| *known == object) {
            Some(at) => at,
            None => {
                let fd = store.file(&opener.object_name(object))?;
                if self.0.len() == Self::KEPT {
                    self.0.remove(0);
                }
                self.0.push((object, fd));
                self.0.len() - 1
            }
        };
        self.0.get(at).map(|(_, fd)| fd).ok_or(Errno::BADF)
    }
}

/// Reads until `target` is full or the file ends.
fn read_fully(fd: &OwnedFd, target: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut got = 0;
    while got < target.len() {
        match rustix::io::pread(fd, &mut target[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(got)
}

fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Failure::NotFound,
        other => Failure::Code(other.raw_os_error() as u32),
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
