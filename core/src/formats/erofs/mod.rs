//! EROFS images, as mkfs.erofs up to 1.9 writes them.
//!
//! An image is one file, perhaps with further devices, and holds one tree. [`superblock`], [`tables`],
//! [`inode`], [`xattr`] and [`directory`] parse what lies in it, [`image`] reads it, [`map`] says of
//! which stored bytes the content of a file is made, [`recipe`] puts that into chunk ids, [`opener`]
//! decodes, [`volume`] and [`catalog`] bring all together.

pub mod catalog;
pub mod directory;
pub mod image;
pub mod inode;
pub mod map;
pub mod opener;
pub mod recipe;
pub mod superblock;
pub mod tables;
pub mod volume;
pub mod xattr;

use crate::base::{Id, Result, Secret, Unsupported};
use crate::formats::{Format, Locked, OpenOptions, Source};
use crate::platform::{IMAGE, Kit, Pending, Port};
use alloc::boxed::Box;
use superblock::{MAGIC, OFFSET};
use volume::Volume;

/// The format.
pub struct Erofs;

/// What is not an image, but may hold one: the first bytes, and what to say.
const WRAPPINGS: [(&[u8], &str); 3] = [
    (&[0x3a, 0xff, 0x26, 0xed], "this is an Android sparse image; make a plain one of it first (simg2img)"),
    (&[0x1f, 0x8b], "this is compressed with gzip; unpack it first"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "this is compressed with zstd; unpack it first"),
];

impl Format for Erofs {
    fn name(&self) -> &'static str {
        "EROFS"
    }

    fn detect<'a>(&self, port: &'a Port) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            // The source itself is a file, and not a folder that has one of this name.
            if !matches!(port.stat("").await?, Some(Some(_))) {
                return Ok(false);
            }
            let magic = port.read(IMAGE, OFFSET, 4).await?;
            if magic == MAGIC.to_le_bytes() {
                return Ok(true);
            }
            let start = port.read(IMAGE, 0, 4).await?;
            match WRAPPINGS.iter().find(|(magic, _)| start.starts_with(magic)) {
                Some((_, what)) => Err(Unsupported::Wrapped(what).into()),
                None => Ok(false),
            }
        })
    }

    fn open<'a>(&self, _port: &'a Port, kit: Kit, options: OpenOptions) -> Pending<'a, Result<Box<dyn Locked>>> {
        Box::pin(core::future::ready(Ok(Box::new(Plain { kit, options }) as Box<dyn Locked>)))
    }
}

/// An image before it is opened: there is no key to wait for.
struct Plain {
    kit: Kit,
    options: OpenOptions,
}

impl Locked for Plain {
    fn repository(&self) -> Id {
        Id([0; 32])
    }

    fn offer_key(&mut self, _bytes: &[u8]) -> bool {
        false
    }

    fn keys(&self) -> usize {
        0
    }

    fn is_plain(&self) -> bool {
        true
    }

    fn unlock<'a>(&'a self, port: &'a Port, _passphrase: &'a Secret) -> Pending<'a, Result<Box<dyn Source>>> {
        Box::pin(async move {
            let volume = Volume::open(port, self.kit, self.options).await?;
            Ok(Box::new(volume) as Box<dyn Source>)
        })
    }
}
