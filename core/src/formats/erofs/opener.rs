//! Opening one unit: a pcluster, or a run of bytes that are stored as they are (erofs.md 10).

use super::image::{Image, object_name};
use super::inode::Space;
use super::recipe::{Coding, Recipe};
use crate::base::{Check, Error, Fault, Id, Stage, bytes::fit, bytes::part, limits};
use crate::objects::Unit;
use crate::platform::{Content, Opener, Scratch};
use alloc::{string::String, sync::Arc, vec::Vec};

/// Opens the units of one image. There are no keys: the unit's id says all.
pub struct PclusterOpener {
    /// Content of the metabox.
    metabox: Arc<[u8]>,
    /// Block size in bytes.
    block_size: u64,
    /// True if compressed data ends at the end of its pcluster.
    zero_padded: bool,
}

impl PclusterOpener {
    /// An opener for the units of `image`, with the metabox that it has by now.
    pub fn new(image: &Image) -> Self {
        Self {
            metabox: image.metabox.clone(),
            block_size: image.superblock.block_size(),
            zero_padded: image.superblock.is_zero_padded(),
        }
    }

    fn decode(
        &self,
        recipe: &Recipe,
        stored: &[u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let in_metabox = recipe.space == Space::Metabox;
        let stored = if in_metabox { self.inline(recipe)? } else { stored };
        let len = recipe.plain as usize;
        match recipe.coding {
            Coding::Raw if in_metabox => fit(plain, stored.len()).copy_from_slice(stored),
            Coding::Raw => return Ok(Content::Stored(0..stored.len())),
            Coding::Rotated(start) => {
                let start = start as usize % stored.len().max(1);
                let (front, back) = stored.split_at(start);
                let order = back.iter().chain(front);
                fit(plain, len).iter_mut().zip(order).for_each(|(to, from)| *to = *from);
            }
            Coding::Whole(_) | Coding::Front(_) => {
                let method = recipe.method().ok_or_else(|| Error::from(Check::Inflate).during(Stage::Inflate))?;
                let stream = if self.zero_padded { self.padded(stored)? } else { stored };
                match recipe.coding {
                    Coding::Front(_) => scratch.inflate_front(method, stream, recipe.plain, plain)?,
                    _ => {
                        let (size, cap) = (Some(recipe.plain), limits::PCLUSTER_PLAIN_MAX);
                        scratch.inflate(method, stream, size, cap, plain)?;
                    }
                }
            }
        }
        Ok(Content::Plain(len))
    }

    /// Bytes that lie in the metabox.
    fn inline(&self, recipe: &Recipe) -> Result<&[u8], Fault> {
        let start = usize::try_from(recipe.address).unwrap_or(usize::MAX);
        part(&self.metabox, start, recipe.stored as usize).ok_or_else(|| {
            Error::from(Check::Truncated).in_object("the metabox").at(recipe.address).during(Stage::Fetch)
        })
    }

    /// The stream in a pcluster: it starts with the first byte that is not zero, less than a block
    /// from the start (erofs.md 10.1).
    fn padded<'a>(&self, stored: &'a [u8]) -> Result<&'a [u8], Fault> {
        // Sixteen at a time, as there can be almost a block of them.
        let (blocks, _) = stored.as_chunks::<16>();
        let whole = blocks.iter().take_while(|block| **block == [0; 16]).count() * 16;
        let zeros = whole + stored.iter().skip(whole).take_while(|byte| **byte == 0).count();
        match stored.get(zeros..).filter(|stream| !stream.is_empty() && (zeros as u64) < self.block_size) {
            Some(stream) => Ok(stream),
            None => Err(Error::from(Check::Inflate).during(Stage::Inflate)),
        }
    }
}

impl Opener for PclusterOpener {
    fn open(
        &self,
        unit: &Unit,
        stored: &mut [u8],
        plain: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<Content, Fault> {
        let opened = match Recipe::of(&unit.id) {
            Some(recipe) => self.decode(&recipe, stored, plain, scratch),
            None => Err(Error::from(Check::Map("no recipe for this unit")).during(Stage::Open)),
        };
        opened.map_err(|fault| Fault { error: fault.error.at(unit.at.offset), ..fault })
    }

    /// Nothing in an image says what content is right, so none is known to be.
    fn is_content(&self, _id: &Id, _plain: &[u8]) -> bool {
        false
    }

    fn object_name(&self, object: u32) -> String {
        object_name(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::portable;
    use crate::objects::Role;

    fn opener() -> PclusterOpener {
        PclusterOpener { metabox: Arc::from(*b"0123456789"), block_size: 8, zero_padded: true }
    }

    fn open(recipe: Recipe, stored: &[u8]) -> Result<Vec<u8>, Fault> {
        let unit = Unit { id: recipe.id(), at: recipe.extent(), size: Some(recipe.plain), role: Role::Content };
        let (mut stored, mut plain) = (stored.to_vec(), Vec::new());
        let content = opener().open(&unit, &mut stored, &mut plain, &mut Scratch::new(portable()))?;
        Ok(content.bytes(&stored, &plain).to_vec())
    }

    fn recipe(space: Space, stored: u32, plain: u32, coding: Coding) -> Recipe {
        Recipe { space, device: 0, address: 3, stored, plain, coding }
    }

    #[test]
    fn raw_bytes_from_both_spaces() {
        assert_eq!(open(recipe(Space::Image, 4, 4, Coding::Raw), b"abcd").unwrap(), b"abcd");
        assert_eq!(open(recipe(Space::Metabox, 4, 4, Coding::Raw), b"").unwrap(), b"3456");
        assert!(open(recipe(Space::Metabox, 8, 8, Coding::Raw), b"").is_err());
    }

    #[test]
    fn rotated_blocks_start_within() {
        assert_eq!(open(recipe(Space::Image, 8, 6, Coding::Rotated(3)), b"abcdefgh").unwrap(), b"defgha");
        assert_eq!(open(recipe(Space::Image, 8, 8, Coding::Rotated(0)), b"abcdefgh").unwrap(), b"abcdefgh");
    }

    #[test]
    fn streams_end_where_the_pcluster_does() {
        // One LZ4 block of five literals.
        let lz4 =
            |stored: &[u8], plain| open(recipe(Space::Image, stored.len() as u32, plain, Coding::Whole(0)), stored);
        assert_eq!(lz4(b"\0\0\x50hello", 5).unwrap(), b"hello");
        assert_eq!(lz4(b"\x50hello", 5).unwrap(), b"hello");
        for (stored, plain) in [
            (b"\x50hello".as_slice(), 4),
            (b"\x50hello", 6),
            (b"\x50hello\0\0", 5),
            (b"\0\0\0\0\0\0\0\0\x50hello", 5),
            (b"\0\0\0", 5),
            (b"", 5),
        ] {
            assert!(lz4(stored, plain).is_err(), "{stored:?}");
        }
    }
}
