//! The entries of an archive: a stream of item maps cut into chunks anywhere (borg2.md 11.3).

use super::archive::parse_list;
use super::repository::Repository;
use crate::base::{Check, Error, Id, Kind, Result, limits};
use crate::formats::common::item::{self, Item};
use crate::formats::common::msgpack::Flaw;
use crate::formats::{Catalog, Listed};
use crate::objects::Role;
use crate::platform::{Pending, Port};
use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

/// Walks the item stream of one archive. Holds one list of chunk ids and the bytes of one item
/// more than a chunk, whatever the size of the archive.
pub struct ItemStream<'a> {
    repository: &'a Repository,
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
    pub fn new(repository: &'a Repository, roots: &[Id]) -> Self {
        Self {
            repository,
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

    async fn step(&mut self, port: &Port) -> Result<Option<Listed>> {
        loop {
            if self.rest().len() >= self.enough {
                let known = self.searching;
                match self.parse() {
                    Some(Item::Entry(entry)) => return Ok(Some(Listed::Entry(entry))),
                    Some(Item::Refused { path, why }) => return Ok(Some(Listed::Refused { path, why })),
                    Some(Item::Part) => continue,
                    None if self.searching && !known => return Ok(Some(Listed::Gap(Check::Item.into()))),
                    None => {}
                }
            }
            if let Some(error) = self.lost.take() {
                self.drop_partial();
                return Ok(Some(Listed::Gap(error)));
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
                    return Ok(Some(Listed::Gap(Check::ItemTail.into())));
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
        match item::parse(self.rest()) {
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
        let mut looks = FULL_LOOKS;
        let mut cut = None;
        while !self.rest().is_empty() {
            let rest = self.rest();
            if item::may_start(rest) {
                let glance = rest.get(..GLANCE).unwrap_or(rest);
                let mut found = item::parse(glance);
                if found == Err(Flaw::Short) && glance.len() < rest.len() && looks > 0 {
                    looks -= 1;
                    found = item::parse(rest);
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
            return match tolerate(self.repository.fetch(port, list, Role::List).await)? {
                Ok(plain) => match parse_list(&plain) {
                    Ok(ids) => {
                        self.chunks = ids.into();
                        Ok(Refill::More)
                    }
                    Err(error) => Ok(Refill::Lost(error.of_chunk(list))),
                },
                Err(error) => Ok(Refill::Lost(error)),
            };
        };
        match tolerate(self.repository.fetch(port, chunk, Role::Stream).await)? {
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
        Box::pin(self.step(port))
    }
}
