//! Entries: one file-system object of an archive, with everything that can be restored of it.

use crate::base::{Id, bytes::part};
use alloc::{string::String, vec::Vec};

/// A point in time: seconds since 1970 (negative before) and 0 to 999,999,999 nanoseconds after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since the epoch, rounded down.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, 0 to 999,999,999.
    pub nanos: u32,
}

/// A reference from an entry to one chunk of its content, or to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRef {
    /// The chunk id.
    pub id: Id,
    /// Plaintext bytes of the chunk, at least 1.
    pub whole: u32,
    /// First of them that the entry has.
    pub skip: u32,
    /// How many of them the entry has, at least 1.
    pub size: u32,
}

impl ChunkRef {
    /// All of a chunk of `size` bytes.
    pub const fn new(id: Id, size: u32) -> Self {
        Self { id, whole: size, skip: 0, size }
    }

    /// What the entry has of the chunk, given all of its plaintext.
    pub fn of<'a>(&self, plain: &'a [u8]) -> &'a [u8] {
        part(plain, self.skip as usize, self.size as usize).unwrap_or(&[])
    }
}

/// What kind of file-system object an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file. `None` where the archive lost track of the content.
    File(Option<Vec<ChunkRef>>),
    /// A directory.
    Directory,
    /// A symbolic link and the raw bytes it points to.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A character device with its raw device number.
    CharDevice(u64),
    /// A block device with its raw device number.
    BlockDevice(u64),
    /// A local socket.
    Socket,
}

/// Why an item of an archive is not restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No entry can have its path.
    #[error("{0}")]
    Path(&'static str),
    /// It is of a type that no writer stores.
    #[error("unknown file type")]
    Type,
    /// It is a folder that was met before, here or further up.
    #[error("the folder is the same as one met before: the tree has a loop")]
    Loop,
    /// What is written cannot hold it.
    #[error("a tar stream cannot hold a socket")]
    Socket,
    /// It is a link that leads nowhere.
    #[error("the link has no valid target")]
    Target,
    /// It is a further name of something that is not in the archive: the raw path of that.
    #[error("it is another name of {}, which is not in the archive", .0.escape_ascii())]
    FirstName(Vec<u8>),
}

impl EntryKind {
    /// The letter that `ls -l` shows first.
    pub const fn letter(&self) -> char {
        match self {
            Self::File(_) => '-',
            Self::Directory => 'd',
            Self::Symlink(_) => 'l',
            Self::Fifo => 'p',
            Self::CharDevice(_) => 'c',
            Self::BlockDevice(_) => 'b',
            Self::Socket => 's',
        }
    }
}

/// Access control lists in their text forms, empty where absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// POSIX access ACL: lines of `type:name:perms[:id]`.
    pub access: Vec<u8>,
    /// POSIX default ACL of a directory.
    pub default: Vec<u8>,
    /// FreeBSD NFSv4 ACL; kept, not applied on Linux.
    pub nfs4: Vec<u8>,
    /// macOS extended ACL; kept, not applied on Linux.
    pub extended: Vec<u8>,
}

/// One entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Raw path bytes: relative, `/` separated, no empty, `.` or `..` component (`.` alone is the root).
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits with setuid, setgid and sticky, 0 to 0o7777.
    pub mode: u32,
    /// Numeric owner; may be negative or absent in odd archives.
    pub uid: Option<i64>,
    /// Numeric group.
    pub gid: Option<i64>,
    /// Owner's name, raw bytes.
    pub user: Option<Vec<u8>>,
    /// Group's name, raw bytes.
    pub group: Option<Vec<u8>>,
    /// Modification time.
    pub mtime: Option<Time>,
    /// Access time.
    pub atime: Option<Time>,
    /// Status change time; never restored.
    pub ctime: Option<Time>,
    /// Creation time.
    pub birthtime: Option<Time>,
    /// The size the archive states for a regular file.
    pub size: Option<u64>,
    /// Entries of one archive that share this are hard links of each other.
    pub link_group: Option<Id>,
    /// Inode number at the source.
    pub inode: Option<u64>,
    /// Extended attributes: name and value.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Access control lists.
    pub acl: Acl,
    /// BSD-style file flags.
    pub flags: u32,
    /// Whole-file hashes by name.
    pub digests: Vec<(String, Vec<u8>)>,
    /// How the content is laid out; nothing where the format has but one way.
    pub storage: Storage,
}

/// How content is laid out, in words such as `compact lz4`: a choice from a format's own list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// All words that the format has, at most 32.
    pub words: &'static [&'static str],
    /// Those that hold, by bit.
    pub chosen: u32,
}

impl core::fmt::Display for Storage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let chosen = self.words.iter().enumerate().filter(|(bit, _)| self.chosen >> bit & 1 == 1);
        chosen.enumerate().try_for_each(|(at, (_, word))| write!(f, "{}{word}", if at > 0 { " " } else { "" }))
    }
}

impl Entry {
    /// The chunks of a regular file; empty for everything else.
    pub fn chunks(&self) -> &[ChunkRef] {
        match &self.kind {
            EntryKind::File(Some(chunks)) => chunks,
            _ => &[],
        }
    }

    /// Sum of the chunk sizes, in bytes.
    pub fn content_len(&self) -> u64 {
        self.chunks().iter().map(|chunk| u64::from(chunk.size)).sum()
    }
}
