//! Reading an image: metadata by place, the metabox in memory, data addresses resolved to devices.

use super::inode::{Inode, LEN_MAX, Space, Spot};
use super::superblock::{self, IN_METABOX, Superblock};
use super::tables::{Algorithms, DEVICE_LEN, Device};
use crate::base::{Check, Error, Result};
use crate::platform::{DEVICE, IMAGE, Port};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::cell::RefCell;

/// Bytes of metadata that are read at a time, and kept: inodes lie side by side.
const WINDOW: u64 = 64 << 10;
/// Windows that are kept: inodes, directory blocks and shared attributes are apart from each other.
const WINDOWS: usize = 6;

/// Name of a device as a store object; device 0 is the image.
pub fn object_name(device: u32) -> String {
    if device == 0 { IMAGE.into() } else { format!("{DEVICE}{device}") }
}

/// An image that is being read.
pub struct Image {
    /// What the superblock says.
    pub superblock: Superblock,
    /// Algorithms that its pclusters may have.
    pub algorithms: Algorithms,
    /// Its further devices.
    pub devices: Vec<Device>,
    /// Content of the metabox, once that was read; empty where there is none.
    pub metabox: Arc<[u8]>,
    /// Length of the image in bytes.
    pub len: u64,
    windows: RefCell<Vec<Window>>,
}

/// Bytes of the image that were read.
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Image {
    /// Reads the superblock and what hangs off it, except what lies in other inodes.
    ///
    /// # Errors
    /// What [`Superblock::parse`] and [`Algorithms::parse`] say; `SuperblockChecksum` unless
    /// `trusting`; I/O errors.
    pub async fn open(port: &Port, len: u64, trusting: bool) -> Result<Self> {
        let bytes = port.read(IMAGE, superblock::OFFSET, WINDOW).await?;
        let found = Superblock::parse(&bytes).map_err(|error| error.in_object(IMAGE).at(superblock::OFFSET))?;
        let inside = |end: u64| if end <= len { Ok(()) } else { Err(Error::from(Check::Truncated).in_object(IMAGE)) };
        inside(superblock::OFFSET + u64::from(found.len))?;
        if let Some(covered) = found.checksummed().filter(|_| !trusting) {
            inside(superblock::OFFSET + covered)?;
            let covered = bytes.get(..covered as usize).ok_or(Check::Truncated)?;
            superblock::verify(covered).map_err(|error| error.in_object(IMAGE))?;
        }
        let records_at = superblock::OFFSET + u64::from(found.len);
        let mut image = Self {
            algorithms: found.implied_algorithms(),
            superblock: found,
            devices: Vec::new(),
            metabox: Arc::new([]),
            len,
            windows: RefCell::default(),
        };
        if image.superblock.has_algorithm_records() {
            let records = bytes.get(image.superblock.len as usize..).unwrap_or(&[]);
            image.algorithms = Algorithms::parse(image.superblock.algorithms, records, records_at)
                .map_err(|error| error.in_object(IMAGE).at(records_at))?;
        }
        for number in 0..u64::from(image.superblock.devices) {
            let at = Spot { space: Space::Image, offset: image.superblock.devices_at + number * DEVICE_LEN };
            let slot = image.read(port, at, DEVICE_LEN).await?;
            image.devices.extend(Device::parse(&slot, image.superblock.is_48bit()));
        }
        Ok(image)
    }

    /// Exactly `len` bytes of metadata.
    ///
    /// # Errors
    /// `Truncated` if the space ends before; I/O errors.
    pub async fn read(&self, port: &Port, at: Spot, len: u64) -> Result<Vec<u8>> {
        let bytes = self.read_up_to(port, at, len).await?;
        if bytes.len() as u64 == len { Ok(bytes) } else { Err(self.outside(at)) }
    }

    /// `len` bytes of metadata, or as many as there are.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn read_up_to(&self, port: &Port, at: Spot, len: u64) -> Result<Vec<u8>> {
        if at.space == Space::Metabox {
            let start = usize::try_from(at.offset).unwrap_or(usize::MAX);
            let rest = self.metabox.get(start..).unwrap_or(&[]);
            let end = usize::try_from(len).unwrap_or(usize::MAX).min(rest.len());
            return Ok(rest.get(..end).unwrap_or(&[]).to_vec());
        }
        let len = len.min(self.len.saturating_sub(at.offset));
        if len > WINDOW / 2 {
            return port.read(IMAGE, at.offset, len).await;
        }
        if let Some(bytes) = self.known(at.offset, len) {
            return Ok(bytes);
        }
        let offset = at.offset - at.offset % (WINDOW / 2);
        let bytes = port.read(IMAGE, offset, WINDOW).await?;
        let mut windows = self.windows.borrow_mut();
        if windows.len() == WINDOWS {
            windows.remove(0);
        }
        windows.push(Window { offset, bytes });
        drop(windows);
        Ok(self.known(at.offset, len).unwrap_or_default())
    }

    /// The bytes, if a window has them all. What was used last is dropped last.
    fn known(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let mut windows = self.windows.borrow_mut();
        let place = windows
            .iter()
            .rposition(|window| offset >= window.offset && offset + len <= window.offset + window.bytes.len() as u64)?;
        let window = windows.remove(place);
        let start = (offset - window.offset) as usize;
        let bytes = window.bytes.get(start..start + len as usize).map(<[u8]>::to_vec);
        windows.push(window);
        bytes
    }

    /// The error of metadata that lies outside its space.
    pub fn outside(&self, at: Spot) -> Error {
        Error::from(Check::Truncated).in_object(space_name(at.space)).at(at.offset)
    }

    /// Where the inode of this number is (erofs.md 4.1).
    ///
    /// # Errors
    /// `Inode` damage for a number that no inode of this image can have.
    pub fn locate(&self, nid: u64) -> Result<Spot> {
        let wrong = Check::Inode("its number is out of range");
        if nid & IN_METABOX != 0 {
            if self.superblock.metabox.is_none() {
                return Err(wrong.into());
            }
            let offset = (nid & !IN_METABOX).checked_mul(32).ok_or(wrong)?;
            return Ok(Spot { space: Space::Metabox, offset });
        }
        let base = u64::from(self.superblock.meta_block) << self.superblock.block_bits;
        let offset = nid.checked_mul(32).and_then(|offset| offset.checked_add(base)).ok_or(wrong)?;
        Ok(Spot { space: Space::Image, offset })
    }

    /// Reads the inode of this number.
    ///
    /// # Errors
    /// What [`Inode::parse`] says, with the place; I/O errors.
    pub async fn inode(&self, port: &Port, nid: u64) -> Result<Inode> {
        let at = self.locate(nid)?;
        let bytes = self.read_up_to(port, at, LEN_MAX as u64).await?;
        Inode::parse(&self.superblock, nid, at, &bytes)
            .map_err(|error| error.in_object(space_name(at.space)).at(at.offset))
    }

    /// The address of a block in bytes.
    ///
    /// # Errors
    /// `Map` damage for one beyond all addresses.
    pub fn address(&self, block: u64) -> Result<u64> {
        block.checked_mul(self.superblock.block_size()).ok_or_else(|| Check::Map("a block is out of range").into())
    }

    /// The device that has the data at `address` of device `device`, and the address there (erofs.md 1).
    ///
    /// # Errors
    /// `Map` damage for a device that there is not.
    pub fn resolve(&self, device: u16, address: u64) -> Result<(u16, u64)> {
        if usize::from(device) > self.devices.len() {
            return Err(Check::Map("a device is out of range").into());
        }
        if device != 0 {
            return Ok((device, address));
        }
        let bits = self.superblock.block_bits;
        let block = address >> bits;
        let found = self
            .devices
            .iter()
            .position(|slot| slot.first != 0 && block >= slot.first && block - slot.first < slot.blocks);
        Ok(match found.and_then(|at| Some((at, self.devices.get(at)?))) {
            Some((at, slot)) => (at as u16 + 1, address - (slot.first << bits)),
            None => (0, address),
        })
    }

    /// Which of the devices that the image names are not there.
    ///
    /// # Errors
    /// I/O errors.
    pub async fn missing_devices(&self, port: &Port) -> Result<Vec<u32>> {
        let mut missing = Vec::new();
        for device in 1..=self.devices.len() as u32 {
            if !matches!(port.stat(&object_name(device)).await?, Some(Some(_))) {
                missing.push(device);
            }
        }
        Ok(missing)
    }
}

/// What a space is called in messages.
pub const fn space_name(space: Space) -> &'static str {
    match space {
        Space::Image => IMAGE,
        Space::Metabox => "the metabox",
    }
}
