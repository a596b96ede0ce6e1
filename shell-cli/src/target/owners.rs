//! From the archived owner, a name and a number, to the number to set here.
//!
//! The archived name wins if this system knows it, as the same person may have another number
//! here. Look-ups go through the system's name services, which may ask a network, so each name
//! is asked once per run.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

/// Asks the system for the number of a name.
type Lookup = fn(&str) -> Option<u32>;

/// The owner's or group's number to set, as far as the archived values say one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// This number, 0 to 2^32-2.
    Id(u32),
    /// The archive names none: what creation gave stays.
    Absent,
    /// The archived number is negative or too large, and no name helps.
    OutOfRange,
}

/// Known names of one kind, with the number each has on this system.
#[derive(Debug)]
struct Names {
    known: RwLock<HashMap<Box<[u8]>, Option<u32>>>,
    lookup: Lookup,
}

impl Names {
    fn new(lookup: Lookup) -> Self {
        Self { known: RwLock::new(HashMap::new()), lookup }
    }

    fn number(&self, name: &[u8]) -> Option<u32> {
        // A poisoned lock still guards a whole map: insertion is the only change ever made.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.get(name) {
            return *number;
        }
        drop(known);
        let number = core::str::from_utf8(name).ok().and_then(self.lookup);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known.entry(name.into()).or_insert(number)
    }
}

/// User and group names with the numbers they have on this system. Shared by all threads.
#[derive(Debug)]
pub struct Owners {
    users: Names,
    groups: Names,
    numeric: bool,
}

impl Owners {
    /// An empty cache. With `numeric`, names are never asked for.
    pub fn new(numeric: bool) -> Self {
        Self {
            users: Names::new(|name| Some(nix::unistd::User::from_name(name).ok()??.uid.as_raw())),
            groups: Names::new(|name| Some(nix::unistd::Group::from_name(name).ok()??.gid.as_raw())),
            numeric,
        }
    }

    /// The user to set for an archived name and number.
    pub fn user(&self, name: Option<&[u8]>, number: Option<i64>) -> Number {
        self.choose(&self.users, name, number)
    }

    /// The group to set for an archived name and number.
    pub fn group(&self, name: Option<&[u8]>, number: Option<i64>) -> Number {
        self.choose(&self.groups, name, number)
    }

    fn choose(&self, names: &Names, name: Option<&[u8]>, number: Option<i64>) -> Number {
        if !self.numeric
            && let Some(name) = name
            && !name.is_empty()
            && let Some(id) = names.number(name)
        {
            return Number::Id(id);
        }
        match number {
            None => Number::Absent,
            // The largest number means "leave it" to the kernel, so it cannot be set either.
            Some(number) => match u32::try_from(number) {
                Ok(id) if id != u32::MAX => Number::Id(id),
                _ => Number::OutOfRange,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_wins_where_it_is_known() {
        let owners = Owners::new(false);
        assert_eq!(owners.user(Some(b"root"), Some(4711)), Number::Id(0));
        assert_eq!(owners.group(Some(b"root"), None), Number::Id(0));
        assert_eq!(owners.user(Some(b"no-such-user-here"), Some(4711)), Number::Id(4711));
        // The second question is answered from the cache.
        assert_eq!(owners.user(Some(b"no-such-user-here"), None), Number::Absent);
        assert_eq!(owners.user(Some(b"\xff\xfe"), Some(7)), Number::Id(7));
        assert_eq!(owners.user(Some(b""), Some(7)), Number::Id(7));
    }

    #[test]
    fn numeric_ids_ignore_names() {
        assert_eq!(Owners::new(true).user(Some(b"root"), Some(4711)), Number::Id(4711));
    }

    #[test]
    fn numbers_that_cannot_be_owners() {
        let owners = Owners::new(false);
        for odd in [-1, i64::MIN, 0xffff_ffff, 1 << 32, i64::MAX] {
            assert_eq!(owners.user(None, Some(odd)), Number::OutOfRange, "{odd}");
        }
        assert_eq!(owners.group(None, Some(0xffff_fffe)), Number::Id(0xffff_fffe));
    }

    #[test]
    fn threads_share_one_cache() {
        let owners = Owners::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        assert_eq!(owners.user(Some(b"root"), None), Number::Id(0));
                    }
                });
            }
        });
    }
}
