//! The entries of an archive: a stream of item maps cut into chunks anywhere (borg1.md 12.1,
//! borg2.md 11.3). Damage costs the items it touches; the next whole item is found again.

use super::item::{self, Dialect, Item, Link};
use super::msgpack::Flaw;
use crate::base::{Check, Error, Id, Kind, Result, limits};
use crate::formats::{Catalog, Listed};
use crate::objects::{Entry, Refusal};
use crate::platform::{Pending, Port};
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

/// Where a stream comes from: a repository that opens metadata by id.
pub trait StreamStore {
    /// The dialect of its items.
    fn dialect(&self) -> Dialect;

    /// The ids of stream chunks that the list `id` holds, in order.
    ///
    /// # Errors
    /// Damage of the list, or I/O errors.
    fn list<'a>(&'a self, port: &'a Port, id: Id) -> Pending<'a, Result<Vec<Id>>>;

    /// The plaintext of one stream chunk.
    ///
    /// # Errors
    /// Damage of the chunk, or I/O errors.
    fn chunk<'a>(&'a self, port: &'a Port, id: Id) -> Pending<'a, Result<Vec<u8>>>;
}

/// What comes next in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An entry, and how it is linked.
    Entry(Box<Entry>, Link),
    /// An item that must not be restored, with the raw path and the reason.
    Refused {
        /// Raw path as stored.
        path: Vec<u8>,
        /// Why.
        why: Refusal,
    },
    /// Items are lost here; more may follow.
    Gap(Error),
}

/// Walks the item stream of one archive. Holds one list of chunk ids and the bytes of one item
/// more than a chunk, whatever the size of the archive. A clone walks on from the same place.
#[derive(Clone)]
pub struct ItemStream<'a> {
    store: &'a dyn StreamStore,
    /// Lists of stream chunk ids, still to be fetched.
    lists: VecDeque<Id>,
    /// Stream chunks of the current list, still to be fetched.
    chunks: VecDeque<Id>,
    /// Stream bytes; those before `at` are spent.
    buffer: Vec<u8>,
    at: usize,
    /// Unspent bytes needed before another attempt at an item that was cut short.
    enough: usize,
    /// After lost bytes: an item may start anywhere.
    searching: bool,
    /// Bytes are lost after those in the buffer.
    lost: Option<Error>,
    /// Nothing comes after the bytes in the buffer.
    ended: bool,
}

/// Bytes of a candidate that a search looks at first...
const GLANCE: usize = 64 << 10;
/// ...and how many candidates per buffer it looks at in full: without a bound, bytes in which an
/// item could start anywhere would cost the square of their number.
const FULL_LOOKS: usize = 16;

impl<'a> ItemStream<'a> {
    /// The stream behind an archive's top-level lists.
    pub fn new(store: &'a dyn StreamStore, roots: &[Id]) -> Self {
        Self {
            store,
            lists: roots.iter().copied().collect(),
            chunks: VecDeque::new(),
            buffer: Vec::new(),
            at: 0,
            enough: 1,
            searching: false,
            lost: None,
            ended: false,
        }
    }

    /// What comes next, or `None` at the end.
    ///
    /// # Errors
    /// Only I/O errors; damage is a [`Step::Gap`].
    pub async fn step(&mut self, port: &Port) -> Result<Option<Step>> {
        loop {
            if self.rest().len() >= self.enough {
                let known = self.searching;
                match self.parse() {
                    Some(Item::Entry(entry, link)) => return Ok(Some(Step::Entry(entry, link))),
                    Some(Item::Refused { path, why }) => return Ok(Some(Step::Refused { path, why })),
                    Some(Item::Part) => continue,
                    None if self.searching && !known => return Ok(Some(Step::Gap(Check::Item.into()))),
                    None => {}
                }
            }
            if let Some(error) = self.lost.take() {
                self.drop_partial();
                return Ok(Some(Step::Gap(error)));
            }
            match self.refill(port).await? {
                Refill::More => {}
                // The buffer may hold whole items that were not tried yet.
                Refill::Lost(error) => {
                    self.lost = Some(error);
                    self.enough = 1;
                }
                Refill::End if self.rest().is_empty() => return Ok(None),
                // Everything is there: one last attempt, whatever it was to wait for.
                Refill::End if !self.ended => {
                    self.ended = true;
                    self.enough = 1;
                }
                Refill::End if self.searching => return Ok(None),
                Refill::End => {
                    self.drop_partial();
                    return Ok(Some(Step::Gap(Check::ItemTail.into())));
                }
            }
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or(&[])
    }

    /// The next item in the buffer. `None` if it is cut short, or just became unreadable: then
    /// `searching` is newly set.
    fn parse(&mut self) -> Option<Item> {
        if self.searching {
            return self.search();
        }
        match item::parse(self.rest(), self.store.dialect()) {
            Ok((item, used)) => {
                self.at += used;
                self.enough = 1;
                Some(item)
            }
            // A long item is tried again only when twice its bytes are there, so that the work
            // stays linear in its length.
            Err(Flaw::Short) if self.rest().len() < limits::ITEM_MAX => {
                self.enough = self.rest().len().saturating_mul(2).max(1);
                None
            }
            Err(_) => {
                self.searching = true;
                self.at += 1;
                None
            }
        }
    }

    /// The first position from here on where a whole item parses. Where none does, an item that
    /// may be cut short by the end of the buffer stays in it.
    fn search(&mut self) -> Option<Item> {
        let dialect = self.store.dialect();
        let mut looks = FULL_LOOKS;
        let mut cut = None;
        while !self.rest().is_empty() {
            let rest = self.rest();
            if item::may_start(rest) {
                let glance = rest.get(..GLANCE).unwrap_or(rest);
                let mut found = item::parse(glance, dialect);
                if found == Err(Flaw::Short) && glance.len() < rest.len() && looks > 0 {
                    looks -= 1;
                    found = item::parse(rest, dialect);
                }
                match found {
                    Ok((item, used)) => {
                        self.at += used;
                        self.searching = false;
                        self.enough = 1;
                        return Some(item);
                    }
                    Err(Flaw::Short) => cut = cut.or(Some(self.at)),
                    Err(Flaw::Malformed) => {}
                }
            }
            self.at += 1;
        }
        self.enough = 1;
        if let Some(at) = cut.filter(|at| !self.ended && self.buffer.len() - at < limits::ITEM_MAX) {
            self.at = at;
            self.enough = self.rest().len().saturating_mul(2);
        }
        None
    }

    fn drop_partial(&mut self) {
        self.at = self.buffer.len();
        self.enough = 1;
        self.searching = true;
    }

    /// Appends the next stream chunk.
    async fn refill(&mut self, port: &Port) -> Result<Refill> {
        let Some(chunk) = self.chunks.pop_front() else {
            let Some(list) = self.lists.pop_front() else { return Ok(Refill::End) };
            return match tolerate(self.store.list(port, list).await)? {
                Ok(ids) => {
                    self.chunks = ids.into();
                    Ok(Refill::More)
                }
                Err(error) => Ok(Refill::Lost(error)),
            };
        };
        match tolerate(self.store.chunk(port, chunk).await)? {
            Ok(plain) => {
                self.buffer.drain(..self.at);
                self.at = 0;
                self.buffer.extend_from_slice(&plain);
                Ok(Refill::More)
            }
            Err(error) => Ok(Refill::Lost(error)),
        }
    }
}

enum Refill {
    More,
    Lost(Error),
    End,
}

/// Splits damage, which leaves a gap, from I/O errors, which end the run.
fn tolerate<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(error) if matches!(error.kind(), Kind::Store(_) | Kind::Misuse(_)) => Err(error),
        other => Ok(other),
    }
}

impl Catalog for ItemStream<'_> {
    fn next<'b>(&'b mut self, port: &'b Port) -> Pending<'b, Result<Option<Listed>>> {
        Box::pin(async move {
            Ok(self.step(port).await?.map(|step| match step {
                Step::Entry(entry, _) => Listed::Entry(entry),
                Step::Refused { path, why } => Listed::Refused { path, why },
                Step::Gap(error) => Listed::Gap(error),
            }))
        })
    }
}
