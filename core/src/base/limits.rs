//! Limits on sizes and counts that come from untrusted bytes.
//!
//! Each constant names the clause it comes from. A value beyond its limit is refused with
//! [`Kind::OverLimit`] before anything of that size is allocated.

use super::{Error, Kind, Result};

/// Largest plaintext of one object, bytes: 20 MiB less what Borg's object framing takes.
pub const OBJECT_MAX: u32 = 20_971_479;
/// Largest metadata slot of an object, bytes.
pub const META_MAX: u32 = 65_536;
/// Largest repository config, bytes.
pub const CONFIG_MAX: u64 = 65_536;
/// Largest key object or key file, bytes.
pub const KEY_MAX: u64 = 65_536;
/// Most key candidates tried.
pub const KEYS_MAX: usize = 64;
/// Largest index fragment, bytes.
pub const FRAGMENT_MAX: u64 = 256 << 20;
/// Most packs in a repository.
pub const PACKS_MAX: usize = 10_000_000;
/// Most archives in a repository.
pub const ARCHIVES_MAX: usize = 1_000_000;
/// Deepest MessagePack nesting accepted.
pub const DEPTH_MAX: u32 = 8;
/// Longest string in an item (paths, targets, names), and longest path in an image, bytes.
pub const TEXT_MAX: usize = 65_536;
/// Largest extended attribute value or ACL text, bytes.
pub const XATTR_MAX: usize = 1 << 20;
/// Largest encoded item, bytes. A regular file of 1 TiB in 2 MiB chunks takes about 20 MB.
pub const ITEM_MAX: usize = 256 << 20;
/// Most path components.
pub const COMPONENTS_MAX: usize = 4096;
/// Largest Argon2 memory cost, KiB (1 GiB).
pub const ARGON2_MEMORY_MAX: u32 = 1 << 20;
/// Largest Argon2 time cost.
pub const ARGON2_TIME_MAX: u32 = 32;
/// Largest Argon2 parallelism.
pub const ARGON2_LANES_MAX: u32 = 64;
/// Most PBKDF2 iterations (borg1.md 16).
pub const PBKDF2_ITERATIONS_MAX: u32 = 10_000_000;
/// Largest entry of a Borg 1.x segment, bytes, header included (borg1.md 3.2).
pub const ENTRY_MAX: u32 = 20_971_520;
/// Largest plaintext of a Borg 1.x manifest or archive, bytes (borg1.md 16).
pub const MANIFEST_MAX: u32 = 60 << 20;
/// Most segments of a Borg 1.x repository.
pub const SEGMENTS_MAX: usize = 16_000_000;
/// Most bytes kept to resolve the hard links of one Borg 1.x archive.
pub const LINKS_MAX: usize = 64 << 20;

/// Largest regular file of an EROFS image, bytes (16 TiB).
pub const FILE_MAX: u64 = 16 << 40;
/// Most pieces of one file of an EROFS image: 8 Mi, which take 352 MB.
pub const PIECES_MAX: u64 = 8 << 20;
/// Largest pcluster of an EROFS image, bytes as stored (erofs.md 9.7).
pub const PCLUSTER_MAX: u32 = 1 << 20;
/// Most plaintext of one pcluster, bytes (erofs.md 9.7).
pub const PCLUSTER_PLAIN_MAX: u32 = 12 << 20;
/// Largest metabox, which is kept in memory, bytes.
pub const METABOX_MAX: u64 = 256 << 20;
/// Largest directory, bytes of its content.
pub const DIRECTORY_MAX: u64 = 256 << 20;
/// Longest target of a symbolic link, bytes (erofs.md 14).
pub const TARGET_MAX: u64 = 4095;
/// Largest dictionary of an LZMA stream, bytes (erofs.md 3.1).
pub const DICTIONARY_MAX: u32 = 8 << 20;

/// Passes `asked` through if it is at most `cap`.
pub fn within(what: &'static str, asked: u64, cap: u64) -> Result<u64> {
    if asked <= cap { Ok(asked) } else { Err(Error::new(Kind::OverLimit { what, asked, cap })) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_itself_passes() {
        assert!(super::within("x", 5, 5).is_ok());
        let text = alloc::format!("{}", super::within("x", 6, 5).unwrap_err());
        assert!(text.contains("6") && text.contains("5"));
    }
}
