//! A store in memory, for the tests of this format.

use crate::platform::{Failure, Need, Port, Reply, drive};
use alloc::{collections::BTreeMap, string::String, vec::Vec};

/// Files by name; folders are whatever lies before a slash.
#[derive(Clone, Default)]
pub struct MemoryStore(pub BTreeMap<String, Vec<u8>>);

impl MemoryStore {
    /// Adds or replaces a file.
    pub fn put(&mut self, name: &str, bytes: &[u8]) {
        self.0.insert(name.into(), bytes.to_vec());
    }

    /// Runs what `make` makes with a port, serving its needs.
    pub fn drive<'p, T, F: Future<Output = T> + 'p>(&self, make: impl FnOnce(&'p Port) -> F) -> T {
        // Futures borrow their port; tests are short, so it may live on.
        let port: &'p Port = alloc::boxed::Box::leak(alloc::boxed::Box::new(Port::new()));
        drive(port, make(port), |need| self.serve(need))
    }

    fn serve(&self, need: Need) -> Reply {
        let missing = Reply::Failed(Failure::NotFound);
        match need {
            Need::Read { name, offset, len } => self.0.get(&name).map_or(missing, |bytes| {
                let from = usize::try_from(offset).unwrap().min(bytes.len());
                let len = usize::try_from(len).unwrap().min(bytes.len() - from);
                Reply::Bytes(bytes[from..from + len].to_vec())
            }),
            Need::List { folder } => {
                let below = self.0.keys().filter_map(|name| name.strip_prefix(&folder)?.strip_prefix('/'));
                let mut names: Vec<String> = below.map(|name| name.split('/').next().unwrap().into()).collect();
                names.dedup();
                Reply::Names(names)
            }
            Need::Stat { name } => match self.0.get(&name) {
                Some(bytes) => Reply::Size(Some(bytes.len() as u64)),
                None if self.0.keys().any(|known| known.starts_with(&alloc::format!("{name}/"))) => Reply::Size(None),
                None => missing,
            },
        }
    }
}
