//! POSIX access control lists: from the archive's text to the bytes the kernel takes.
//!
//! The text is lines of `type:name:perms[:id]`. The kernel takes an extended attribute with a
//! version word and eight bytes per entry, in a fixed order of types. A list is set whole or not
//! at all: leaving one entry out could give somebody more rights than the archive did.

use super::owners::{Number, Owners};

/// Name of the attribute that holds an access ACL.
pub const ACCESS: &str = "system.posix_acl_access";
/// Name of the attribute that holds a directory's default ACL.
pub const DEFAULT: &str = "system.posix_acl_default";

/// The only version of the attribute's layout.
const VERSION: u32 = 2;
/// The number of entries without a name: none.
const NO_ID: u32 = u32::MAX;

/// Who an entry is about, numbered as the kernel does, which is also the order it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u16)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Other = 0x20,
}

/// One line. The derived order is the kernel's: by tag, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    tag: Tag,
    id: u32,
    perms: u16,
}

/// An ACL ready to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Value of the extended attribute.
    pub bytes: Vec<u8>,
    /// What the owning group may do, 0 to 7: the permission bits to fall back on where ACLs
    /// cannot be set. (With an ACL, the mode's group bits are the mask, which may be more.)
    pub group_bits: u32,
}

/// The text cannot be turned into an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// A line is not `type:name:perms[:id]` with known type and permissions.
    Line,
    /// A named entry's user or group is unknown here and has no usable number.
    UnknownName,
    /// An entry for owner, owning group or other is missing or double, or the mask is double, or
    /// it is missing beside named entries.
    Incomplete,
}

/// Encodes the ACL `text`, with names mapped to the numbers they have here.
///
/// A name known here wins over the number in the fourth field, that over a name that is itself a
/// number; where `owners` is numeric the names known here do not count.
pub fn encode(text: &[u8], owners: &Owners) -> Result<Encoded, Malformed> {
    let mut lines = Vec::new();
    // Tar archives separate entries by commas, which no user name holds.
    for line in text.split(|byte| matches!(byte, b'\n' | b',')) {
        if !line.trim_ascii().is_empty() {
            lines.push(parse(line.trim_ascii(), owners)?);
        }
    }
    lines.sort_unstable();
    let count = |tag| lines.iter().filter(|line| line.tag == tag).count();
    let named = count(Tag::User) + count(Tag::Group) > 0;
    let single = [Tag::Owner, Tag::OwningGroup, Tag::Other].iter().all(|tag| count(*tag) == 1);
    if !single || count(Tag::Mask) > 1 || (named && count(Tag::Mask) == 0) {
        return Err(Malformed::Incomplete);
    }

    let perms = |tag| lines.iter().find(|line| line.tag == tag).map(|line| line.perms);
    let group = perms(Tag::OwningGroup).unwrap_or(0) & perms(Tag::Mask).unwrap_or(7);
    let mut bytes = Vec::with_capacity(4 + 8 * lines.len());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for line in &lines {
        bytes.extend_from_slice(&(line.tag as u16).to_le_bytes());
        bytes.extend_from_slice(&line.perms.to_le_bytes());
        bytes.extend_from_slice(&line.id.to_le_bytes());
    }
    Ok(Encoded { bytes, group_bits: u32::from(group) })
}

fn parse(line: &[u8], owners: &Owners) -> Result<Line, Malformed> {
    // Borg 1.x leaves a tab where a remark on effective rights was.
    let mut fields = line.split(|byte| *byte == b':').map(<[u8]>::trim_ascii);
    let mut field = || fields.next();
    let (Some(kind), Some(name), Some(perms)) = (field(), field(), field()) else {
        return Err(Malformed::Line);
    };
    let number = field();
    if field().is_some() {
        return Err(Malformed::Line);
    }
    let perms = permissions(perms)?;
    let tag = match (kind, name.is_empty()) {
        (b"user" | b"u", true) => Tag::Owner,
        (b"group" | b"g", true) => Tag::OwningGroup,
        (b"mask" | b"m", true) => Tag::Mask,
        (b"other" | b"o", true) => Tag::Other,
        (b"user" | b"u", false) => Tag::User,
        (b"group" | b"g", false) => Tag::Group,
        _ => return Err(Malformed::Line),
    };
    if name.is_empty() {
        return Ok(Line { tag, id: NO_ID, perms });
    }
    let number = match number {
        Some(text) if !text.is_empty() => Some(decimal(text).ok_or(Malformed::Line)?),
        _ => decimal(name),
    };
    let found = match tag {
        Tag::User => owners.user(Some(name), number),
        _ => owners.group(Some(name), number),
    };
    match found {
        Number::Id(id) => Ok(Line { tag, id, perms }),
        Number::Absent | Number::OutOfRange => Err(Malformed::UnknownName),
    }
}

/// `rwx` with `-` for each right withheld.
fn permissions(text: &[u8]) -> Result<u16, Malformed> {
    let [read, write, execute] = text else {
        return Err(Malformed::Line);
    };
    let mut perms = 0;
    for (have, letter, bit) in [(read, b'r', 4), (write, b'w', 2), (execute, b'x', 1)] {
        match *have {
            b'-' => {}
            byte if byte == letter => perms |= bit,
            _ => return Err(Malformed::Line),
        }
    }
    Ok(perms)
}

fn decimal(text: &[u8]) -> Option<i64> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn local(text: &str) -> Result<Encoded, Malformed> {
        encode(text.as_bytes(), &Owners::new(false))
    }

    #[test]
    fn bytes_of_a_full_list() {
        let text = "other::--x\nuser:54321:rwx:54321\nuser::rw-\nuser:root:r-x:77\ngroup::r--\n\
                    group:no-such-group:-w-:2\nmask::rwx\n";
        let encoded = local(text).unwrap();
        let mut want = vec![2, 0, 0, 0];
        for (tag, perms, id) in [
            (1_u16, 6_u16, u32::MAX),
            (2, 5, 0),
            (2, 7, 54321),
            (4, 4, u32::MAX),
            (8, 2, 2),
            (16, 7, u32::MAX),
            (32, 1, u32::MAX),
        ] {
            want.extend(tag.to_le_bytes());
            want.extend(perms.to_le_bytes());
            want.extend(id.to_le_bytes());
        }
        assert_eq!(encoded.bytes, want);
        assert_eq!(encoded.group_bits, 4);
    }

    #[test]
    fn numeric_takes_the_fourth_field() {
        let text = b"user::rw-\nuser:root:r-x:77\ngroup::rw-\nmask::r--\nother::---";
        let id = |numeric| {
            let encoded = encode(text, &Owners::new(numeric)).unwrap();
            assert_eq!(encoded.group_bits, 4, "the mask limits the owning group");
            u32::from_le_bytes(encoded.bytes[16..20].try_into().unwrap())
        };
        assert_eq!((id(false), id(true)), (0, 77));
    }

    #[test]
    fn names_that_are_numbers_and_names_that_are_nothing() {
        assert_eq!(
            local("user::rw-,user:5:r-x\t:5,group::r--,mask::r--,other::---"),
            local("user::rw-,user:5:r-x:5,group::r--,mask::r--,other::---")
        );
        let with = |line: &str| local(&format!("user::rw-,{line},group::r--,mask::r--,other::---"));
        assert!(with("user:54321:r--").is_ok());
        assert_eq!(with("user:no-such-user:r--"), Err(Malformed::UnknownName));
        assert_eq!(with("user:4294967295:r--"), Err(Malformed::UnknownName));
        assert_eq!(with("user:x:r--:-1"), Err(Malformed::Line));
        assert_eq!(with("user:x:r--:99999999999999999999"), Err(Malformed::Line));
    }

    #[test]
    fn malformed_lists() {
        for text in ["user", "user::", "user::rw", "user::wr-", "user::rwxr", "door::rwx"] {
            assert_eq!(local(text), Err(Malformed::Line), "{text}");
        }
        assert_eq!(local("mask:name:rwx"), Err(Malformed::Line));
        assert_eq!(local("user::rwx:::"), Err(Malformed::Line));
        for text in [
            "",
            "user::rwx\ngroup::rwx",
            "user::rwx\nuser::rwx\ngroup::r--\nother::r--",
            "user::rwx\nuser:5:r--:5\ngroup::r--\nother::r--",
            "user::rwx\ngroup::r--\nother::r--\nmask::r--\nmask::r--",
        ] {
            assert_eq!(local(text), Err(Malformed::Incomplete), "{text}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_setfacl() {
        let folder = tempfile::tempdir().unwrap();
        let set = |option: &[&str]| {
            Command::new("setfacl").args(option).arg(folder.path()).status().is_ok_and(|s| s.success())
        };
        let rules = "u::rwx,u:54321:rw-,u:7:r-x,g::r-x,g:9:--x,m::rwx,o::r--";
        if !set(&["--set", rules]) || !set(&["-d", "--set", rules]) {
            eprintln!("skipped: no setfacl here, or no ACLs on this file system");
            return;
        }
        let text = "user::rwx\nuser:54321:rw-:54321\nuser:7:r-x:7\ngroup::r-x\ngroup:9:--x:9\n\
                    mask::rwx\nother::r--";
        let ours = encode(text.as_bytes(), &Owners::new(true)).unwrap().bytes;
        for name in [ACCESS, DEFAULT] {
            let mut buffer = [0; 256];
            let len = rustix::fs::getxattr(folder.path(), name, &mut buffer[..]).unwrap();
            assert_eq!(buffer[..len], ours[..], "{name}");
        }
    }
}
