//! Openers: how a worker turns the stored bytes of a unit into checked plaintext.

use super::{CodecError, Decoder, Kit, Wide};
use crate::base::{Check, Error, Fault, Id, Result, Stage, Unsupported, bytes::fit, limits};
use crate::objects::{Method, Unit};
use alloc::{boxed::Box, string::String, vec::Vec};
use core::{any::Any, ops::Range};

/// Where the plaintext of a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A part of the stored bytes: it was stored as it is, and decrypted in place.
    Stored(Range<usize>),
    /// The first bytes of the plain buffer, so many.
    Plain(usize),
}

impl Content {
    /// The plaintext, given the two buffers it may lie in.
    pub fn bytes<'a>(&self, stored: &'a [u8], plain: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Stored(range) => stored.get(range.clone()),
            Self::Plain(len) => plain.get(..*len),
        }
        .unwrap_or(&[])
    }

    /// Length of the plaintext in bytes.
    pub const fn len(&self) -> usize {
        match self {
            Self::Stored(range) => range.end - range.start,
            Self::Plain(len) => *len,
        }
    }

    /// True for an empty plaintext.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One of several units that are opened together.
pub struct Opening<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// Exactly its stored bytes; they may be decrypted in place.
    pub stored: &'a mut [u8],
    /// A buffer for its plaintext, as in [`Opener::open`].
    pub plain: Vec<u8>,
    /// What came of it.
    pub outcome: Result<Content, Fault>,
}

/// Opens the units of one source. Made by a format, shared by all workers; holds the keys.
pub trait Opener: Send + Sync {
    /// Authenticates, decrypts, decompresses and checks one unit.
    ///
    /// `stored` holds exactly the bytes of `unit.at` and may be decrypted in place. The result is
    /// a part of `stored` (content that was stored as it is) or of `plain` (anything that had to
    /// be decompressed): the plaintext is produced once, in the buffer it is used from. `plain`
    /// is reused between calls and grows only as far as authenticated sizes allow.
    ///
    /// # Errors
    /// A [`Fault`] with stage and chunk id. Never panics, whatever the bytes.
    fn open(
        &self,
        unit: &Unit,
        stored: &mut [u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault>;

    /// How many units, at least, should be opened together; 1 if nothing is gained by that.
    fn group(&self) -> usize {
        1
    }

    /// Opens several units together, each with the same outcome as by [`open`](Self::open) alone.
    fn open_group(&self, group: &mut [Opening<'_>], scratch: &mut Scratch) {
        for opening in group {
            opening.outcome = self.open(opening.unit, opening.stored, &mut opening.plain, scratch);
        }
    }

    /// True if `plain` is the content that the chunk id stands for.
    fn is_content(&self, id: &Id, plain: &[u8]) -> bool;

    /// Store name of object number `object`, as in [`Extent`](crate::objects::Extent).
    fn object_name(&self, object: u32) -> String;
}

/// A worker's decoders, by method.
type Decoders = [Option<Box<dyn Decoder>>; Method::ALL.len()];

/// What one worker keeps between units: decoders, and whatever its opener wants to remember.
pub struct Scratch {
    kit: Kit,
    decoders: Decoders,
    memo: Option<Box<dyn Any + Send>>,
    /// Where plaintext of unknown size is made.
    room: Vec<u8>,
}

/// Most bytes that the room for plaintext of unknown size keeps: more than any usual chunk has.
const ROOM_KEPT: usize = 8 << 20;

impl Scratch {
    /// Scratch for one worker using the codecs of `kit`.
    pub fn new(kit: Kit) -> Self {
        Self { kit, decoders: Default::default(), memo: None, room: Vec::new() }
    }

    /// Hashing of several messages at a time, as far as the shell offers it.
    pub const fn wide(&self) -> &Wide {
        self.kit.wide()
    }

    /// The opener's own memory of type `T`, empty at first.
    pub fn memo<T: Any + Send + Default>(&mut self) -> &mut T {
        if !self.memo.as_ref().is_some_and(|memo| memo.is::<T>()) {
            self.memo = Some(Box::new(T::default()));
        }
        self.memo.as_mut().and_then(|memo| memo.downcast_mut()).expect("the memo was just made with this type")
    }

    /// Decompresses the first `size` bytes of what `source` holds into the front of `plain`. What
    /// follows them is not looked at.
    ///
    /// # Errors
    /// `Unsupported` if the kit lacks the method; `Inflate` damage.
    pub fn inflate_front(
        &mut self,
        method: Method,
        source: &[u8],
        size: u32,
        plain: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let target = fit(plain, size as usize);
        let decoded = decoder(self.kit, &mut self.decoders, method)?.decode_prefix(source, target);
        decoded.map_err(|_| Error::from(Check::Inflate).during(Stage::Inflate))
    }

    /// Decompresses `source` into the front of `plain` and returns the plaintext's length.
    ///
    /// With a known `size` the buffer has exactly that length, and any other length is an error.
    /// Without one, it is made elsewhere, in room that doubles from twice the input up to `cap`, so that `plain`
    /// takes no more than it needs.
    ///
    /// # Errors
    /// `Unsupported` if the kit lacks the method; `Inflate` or `Length` damage; `OverLimit` past `cap`.
    pub fn inflate(
        &mut self,
        method: Method,
        source: &[u8],
        size: Option<u32>,
        cap: u32,
        plain: &mut Vec<u8>,
    ) -> Result<usize, Fault> {
        let decoder = decoder(self.kit, &mut self.decoders, method)?;
        if let Some(size) = size {
            limits::within("plaintext size", size.into(), cap.into()).map_err(|e| e.during(Stage::Inflate))?;
            let target = fit(plain, size as usize);
            return match decoder.decode(source, target) {
                Ok(written) if written == target.len() => Ok(written),
                Ok(_) | Err(CodecError::TooSmall) => Err(Error::from(Check::Length).during(Stage::Inflate)),
                Err(CodecError::Invalid) => Err(Error::from(Check::Inflate).during(Stage::Inflate)),
            };
        }
        let cap = cap as usize;
        // Room that is there already need not be cleared again, and a second attempt costs more than a copy.
        let first = source.len().saturating_mul(2).min(ROOM_KEPT.max(source.len()));
        let mut len = first.max(self.room.len()).clamp(1024.min(cap), cap);
        loop {
            let room = fit(&mut self.room, len);
            match decoder.decode(source, room) {
                Ok(written) => {
                    plain.clear();
                    plain.extend_from_slice(room.get(..written).unwrap_or(room));
                    if self.room.len() > ROOM_KEPT {
                        self.room = Vec::new();
                    }
                    return Ok(written);
                }
                Err(CodecError::TooSmall) if len < cap => len = len.saturating_mul(2).min(cap),
                Err(CodecError::TooSmall) => {
                    return Err(limits::within("plaintext size", cap as u64 + 1, cap as u64)
                        .expect_err("one more than the cap is over it")
                        .during(Stage::Inflate));
                }
                Err(CodecError::Invalid) => return Err(Error::from(Check::Inflate).during(Stage::Inflate)),
            }
        }
    }
}

/// The decoder for `method`, made when it is first asked for.
fn decoder(kit: Kit, decoders: &mut Decoders, method: Method) -> Result<&mut dyn Decoder, Fault> {
    let codec =
        kit.codec(method).ok_or_else(|| Error::from(Unsupported::Codec(method.name())).during(Stage::Inflate))?;
    let slot = decoders.get_mut(method as usize).ok_or_else(|| Error::from(Check::Inflate).during(Stage::Inflate))?;
    Ok(&mut **slot.get_or_insert_with(|| codec.decoder()))
}
