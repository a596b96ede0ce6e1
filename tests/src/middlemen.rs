//! Stores around another store: they delay, count or damage what passes through.

use packtrain::store::Store;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store that waits before each read: a time between nothing and a bound, chosen by a seed.
pub struct Delaying<S> {
    inner: S,
    longest: Duration,
    state: AtomicU64,
}

impl<S: Store> Delaying<S> {
    /// Delays reads of `inner` by up to `longest`.
    pub const fn new(inner: S, longest: Duration, seed: u64) -> Self {
        Self { inner, longest, state: AtomicU64::new(seed) }
    }

    fn wait(&self) {
        // SplitMix64: any thread takes the next number.
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = ((z ^ (z >> 31)) >> 40) as f64 / f64::from(1 << 24);
        std::thread::sleep(self.longest.mul_f64(share));
    }
}

impl<S: Store> Store for Delaying<S> {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        self.wait();
        self.inner.read_into(name, offset, target)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        self.inner.list(folder)
    }

    fn stat(&self, name: &str) -> Result<Option<u64>, Errno> {
        self.inner.stat(name)
    }
}

/// Reads as they were asked for: offset and length, by object.
pub type Reads = BTreeMap<String, Vec<(u64, u64)>>;

/// A store that notes each read.
pub struct Recording<S> {
    inner: S,
    reads: Arc<Mutex<Reads>>,
}

impl<S: Store> Recording<S> {
    /// Notes reads of `inner`; the notes can be looked at while it is in use.
    pub fn new(inner: S) -> (Self, Arc<Mutex<Reads>>) {
        let reads = Arc::new(Mutex::new(Reads::new()));
        (Self { inner, reads: reads.clone() }, reads)
    }
}

impl<S: Store> Store for Recording<S> {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        let got = self.inner.read_into(name, offset, target)?;
        self.reads.lock().expect("no panic here").entry(name.into()).or_default().push((offset, got as u64));
        Ok(got)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        self.inner.list(folder)
    }

    fn stat(&self, name: &str) -> Result<Option<u64>, Errno> {
        self.inner.stat(name)
    }
}

/// What is wrong with one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The byte at this offset is changed by XOR.
    Flip(u64, u8),
    /// It ends after so many bytes.
    Cut(u64),
    /// It is not there.
    Missing,
    /// Reading at or across this offset gives an I/O error.
    Error(u64),
}

/// A store with one thing wrong.
pub struct Faulty<S> {
    inner: S,
    name: String,
    fault: Fault,
}

impl<S: Store> Faulty<S> {
    /// `inner` with `fault` in the object `name`.
    pub fn new(inner: S, name: &str, fault: Fault) -> Self {
        Self { inner, name: name.into(), fault }
    }
}

impl<S: Store> Store for Faulty<S> {
    fn read_into(&self, name: &str, offset: u64, target: &mut [u8]) -> Result<usize, Errno> {
        if name != self.name {
            return self.inner.read_into(name, offset, target);
        }
        let end = offset + target.len() as u64;
        match self.fault {
            Fault::Missing => Err(Errno::NOENT),
            Fault::Error(at) if (offset..end).contains(&at) => Err(Errno::IO),
            Fault::Error(_) => self.inner.read_into(name, offset, target),
            Fault::Cut(len) => {
                let rest = len.saturating_sub(offset).min(target.len() as u64);
                self.inner.read_into(name, offset, &mut target[..rest as usize])
            }
            Fault::Flip(at, mask) => {
                let got = self.inner.read_into(name, offset, target)?;
                if let Some(byte) = at.checked_sub(offset).and_then(|at| target[..got].get_mut(at as usize)) {
                    *byte ^= mask;
                }
                Ok(got)
            }
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, Errno> {
        let mut names = self.inner.list(folder)?;
        if self.fault == Fault::Missing {
            let lost = self.name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
            names.retain(|name| Some(name.as_str()) != lost);
        }
        Ok(names)
    }

    fn stat(&self, name: &str) -> Result<Option<u64>, Errno> {
        let size = self.inner.stat(name)?;
        match self.fault {
            Fault::Missing if name == self.name => Err(Errno::NOENT),
            Fault::Cut(len) if name == self.name => Ok(size.map(|size| size.min(len))),
            _ => Ok(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Temp;
    use packtrain::store::LocalStore;

    #[test]
    fn faults_are_what_they_say() {
        let temp = Temp::new();
        std::fs::write(temp.path().join("f"), b"abcd").unwrap();
        let faulty = |fault| Faulty::new(LocalStore::open(temp.path()).unwrap(), "f", fault);
        let read = |fault, offset| {
            let mut bytes = [0; 4];
            let got = faulty(fault).read_into("f", offset, &mut bytes)?;
            Ok::<_, Errno>(bytes[..got].to_vec())
        };
        assert_eq!(read(Fault::Flip(2, 1), 0).unwrap(), b"abbd");
        assert_eq!(read(Fault::Flip(2, 1), 3).unwrap(), b"d");
        assert_eq!(read(Fault::Cut(3), 1).unwrap(), b"bc");
        assert_eq!(read(Fault::Error(3), 0), Err(Errno::IO));
        assert_eq!(read(Fault::Missing, 0), Err(Errno::NOENT));
        assert!(faulty(Fault::Missing).list("").unwrap().is_empty() || faulty(Fault::Missing).stat("f").is_err());
    }
}
