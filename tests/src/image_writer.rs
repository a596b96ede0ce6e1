//! A writer of small EROFS images (erofs.md), with every field in the caller's hands.
//!
//! Blocks have 4096 bytes. Inode number `n` of the caller is alone in block `n + 1`, with whatever is
//! stored beside it; data blocks are those from [`DATA`] on.

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// The first data block.
pub const DATA: u32 = 64;
/// Layouts, as an inode's format has them.
pub const PLAIN: u16 = 0;
#[expect(missing_docs)]
pub const FULL: u16 = 1;
#[expect(missing_docs)]
pub const INLINE: u16 = 2;
#[expect(missing_docs)]
pub const COMPACT: u16 = 3;
#[expect(missing_docs)]
pub const CHUNKS: u16 = 4;

/// The nid of inode number `n`.
pub const fn nid(n: u64) -> u64 {
    (n + 1) * 128
}

/// An image in the making.
#[derive(Clone, Debug)]
pub struct ImageWriter {
    /// All bytes; the superblock's checksum is made by [`finish`](Self::finish).
    pub bytes: Vec<u8>,
}

/// An extended inode.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Type and permissions.
    pub mode: u16,
    /// Layout.
    pub layout: u16,
    /// Bytes of content.
    pub size: u64,
    /// The field at offset 16.
    pub word: u32,
    /// Links.
    pub links: u32,
    /// The count of attributes.
    pub xattrs: u16,
}

impl Node {
    /// A regular file.
    pub const fn file(layout: u16, size: u64, word: u32) -> Self {
        Self { mode: 0o100_644, layout, size, word, links: 1, xattrs: 0 }
    }

    /// A directory whose content is beside its inode. One link stands for any number.
    pub const fn folder(size: u64) -> Self {
        Self { mode: 0o040_755, layout: INLINE, size, word: u32::MAX, links: 1, xattrs: 0 }
    }
}

/// A directory block.
pub fn dirents(names: &[(&[u8], u64)]) -> Vec<u8> {
    let mut heads = Vec::new();
    let mut text = Vec::new();
    for (name, nid) in names {
        heads.extend(nid.to_le_bytes());
        heads.extend(((names.len() * 12 + text.len()) as u16).to_le_bytes());
        heads.extend([0, 0]);
        text.extend(*name);
    }
    [heads, text].concat()
}

impl Default for ImageWriter {
    fn default() -> Self {
        Self::new(0)
    }
}

impl ImageWriter {
    /// An image with these features that a reader must know, whose root is inode 0 and not there yet.
    pub fn new(incompat: u32) -> Self {
        let mut writer = Self { bytes: vec![0; DATA as usize * BLOCK] };
        writer.put(1024, &0xe0f5_e1e2u32.to_le_bytes());
        // Checksum and modification times.
        writer.put(1032, &3u32.to_le_bytes());
        writer.put(1036, &[12, 0]);
        writer.put(1038, &(nid(0) as u16).to_le_bytes());
        writer.put(1104, &incompat.to_le_bytes());
        writer
    }

    /// Writes bytes at a place, which may lie behind the end.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self
    }

    /// Writes inode `n` with what follows it.
    pub fn node(&mut self, n: u64, node: Node, beside: &[u8]) -> &mut Self {
        let mut inode = Vec::new();
        inode.extend((node.layout << 1 | 1).to_le_bytes());
        inode.extend(node.xattrs.to_le_bytes());
        inode.extend(node.mode.to_le_bytes());
        inode.extend([0, 0]);
        inode.extend(node.size.to_le_bytes());
        inode.extend(node.word.to_le_bytes());
        inode.resize(44, 0);
        inode.extend(node.links.to_le_bytes());
        inode.resize(64, 0);
        inode.extend(beside);
        self.put(nid(n) as usize * 32, &inode)
    }

    /// Writes inode `n` as a folder below folder `parent`, with these names, which must be sorted
    /// after the two that each folder has.
    pub fn folder(&mut self, n: u64, parent: u64, names: &[(&[u8], u64)]) -> &mut Self {
        let own: [(&[u8], u64); 2] = [(b".", nid(n)), (b"..", nid(parent))];
        let block = dirents(&[&own, names].concat());
        self.node(n, Node::folder(block.len() as u64), &block)
    }

    /// Writes a data block and returns its number.
    pub fn block(&mut self, bytes: &[u8]) -> u32 {
        assert!(bytes.len() <= BLOCK, "more than a block");
        let number = self.bytes.len() / BLOCK;
        let mut block = bytes.to_vec();
        block.resize(BLOCK, 0);
        self.put(number * BLOCK, &block);
        number as u32
    }

    /// Writes a pcluster of one block: a stream, with the zeros before it that the format wants.
    pub fn padded(&mut self, stream: &[u8]) -> u32 {
        let zeros = vec![0; BLOCK - stream.len()];
        self.block(&[&zeros[..], stream].concat())
    }

    /// The image, with the right checksum.
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[1028..1032].fill(0);
        // CRC-32C bit by bit, without the final inversion.
        let sum = bytes[1024..BLOCK].iter().fold(u32::MAX, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 })
        });
        bytes[1028..1032].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}
