//! A PAX tar stream with everything that restore knows: times to the nanosecond, xattrs, ACLs,
//! hard links, long and odd names. Holes are written as zeros.

use super::sink::{Sink, output_failed};
use crate::exit::Result;
use packtrain_core::objects::{Entry, EntryKind, Refusal, Time};
use std::io::Write;
use tar::{Builder, EntryType, Header};

/// Largest number that the octal fields for owner and group hold.
const OCTAL_MAX: u64 = 0o777_7777;
/// Largest size that the octal field holds, bytes.
const SIZE_MAX: u64 = 0o777_7777_7777;
/// Tar's block, bytes.
const BLOCK: u64 = 512;

/// Keywords and values of a PAX header.
type Pax = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes a tar stream.
pub struct TarSink<W: Write> {
    tar: Builder<W>,
    path: Vec<u8>,
    written: u64,
}

impl<W: Write> TarSink<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { tar: Builder::new(out), path: Vec::new(), written: 0 }
    }

    fn header(&mut self, entry: &Entry, link: Option<&[u8]>) -> Result<()> {
        let mut pax: Pax = Vec::new();
        let mut header = Header::new_ustar();
        let kind = match (&entry.kind, link) {
            (_, Some(_)) => EntryType::Link,
            (EntryKind::File(_), _) => EntryType::Regular,
            (EntryKind::Directory, _) => EntryType::Directory,
            (EntryKind::Symlink(_), _) => EntryType::Symlink,
            (EntryKind::Fifo, _) => EntryType::Fifo,
            (EntryKind::CharDevice(_), _) => EntryType::Char,
            (EntryKind::BlockDevice(_), _) => EntryType::Block,
            // Not taken, see `refusal`.
            (EntryKind::Socket, _) => EntryType::Regular,
        };
        header.set_entry_type(kind);
        header.set_mode(entry.mode);
        let mut path = entry.path.clone();
        if entry.kind == EntryKind::Directory {
            path.push(b'/');
        }
        let fields = header.as_ustar_mut().map(|ustar| (&mut ustar.name, &mut ustar.linkname));
        if let Some((name, link_name)) = fields {
            text_field(name, &path, "path", &mut pax);
            let target = match (&entry.kind, link) {
                (_, Some(first)) => first,
                (EntryKind::Symlink(target), None) => target,
                _ => &[],
            };
            text_field(link_name, target, "linkpath", &mut pax);
        }
        if let Some(ustar) = header.as_ustar_mut() {
            text_field(&mut ustar.uname, entry.user.as_deref().unwrap_or(&[]), "uname", &mut pax);
            text_field(&mut ustar.gname, entry.group.as_deref().unwrap_or(&[]), "gname", &mut pax);
        }
        header.set_uid(number(entry.uid, "uid", &mut pax));
        header.set_gid(number(entry.gid, "gid", &mut pax));
        let content = if link.is_none() { entry.content_len() } else { 0 };
        header.set_size(content.min(SIZE_MAX));
        if content > SIZE_MAX {
            pax.push(("size".into(), content.to_string().into_bytes()));
        }
        if let Some(mtime) = entry.mtime {
            header.set_mtime(u64::try_from(mtime.seconds).unwrap_or(0).min(SIZE_MAX));
            if mtime.nanos != 0 || mtime.seconds < 0 || mtime.seconds as u64 > SIZE_MAX {
                pax.push(("mtime".into(), decimal(mtime).into_bytes()));
            }
        }
        if let Some(atime) = entry.atime {
            pax.push(("atime".into(), decimal(atime).into_bytes()));
        }
        if let EntryKind::CharDevice(device) | EntryKind::BlockDevice(device) = entry.kind {
            // The fields are there in a ustar header.
            let _ = header.set_device_major(rustix::fs::major(device));
            let _ = header.set_device_minor(rustix::fs::minor(device));
        }
        if link.is_none() {
            for (name, value) in &entry.xattrs {
                pax.push((attribute_keyword(name), value.clone()));
            }
            for (key, acl) in [("SCHILY.acl.access", &entry.acl.access), ("SCHILY.acl.default", &entry.acl.default)] {
                if !acl.is_empty() {
                    pax.push((key.into(), acl.clone()));
                }
            }
        }
        if !pax.is_empty() {
            // Names of attributes need not be UTF-8, so the records are made here.
            let records: Vec<u8> = pax.iter().flat_map(|(key, value)| record(key, value)).collect();
            let mut extension = Header::new_ustar();
            extension.set_entry_type(EntryType::XHeader);
            extension.set_size(records.len() as u64);
            extension.set_cksum();
            self.tar.append(&extension, records.as_slice()).map_err(output_failed)?;
        }
        header.set_cksum();
        self.tar.get_mut().write_all(header.as_bytes()).map_err(output_failed)
    }
}

/// The keyword of an extended attribute. A keyword ends at its equals sign; GNU tar writes one in
/// a name as `%3D`, and `%` as `%25`.
fn attribute_keyword(name: &[u8]) -> Vec<u8> {
    let mut keyword = b"SCHILY.xattr.".to_vec();
    for byte in name {
        match byte {
            b'%' => keyword.extend(b"%25"),
            b'=' => keyword.extend(b"%3D"),
            other => keyword.push(*other),
        }
    }
    keyword
}

/// One PAX record: its length in decimal, which counts itself, then `key=value`.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut digits = 1;
    while (rest + digits).to_string().len() > digits {
        digits += 1;
    }
    [format!("{} ", rest + digits).as_bytes(), key, b"=", value, b"\n"].concat()
}

/// Puts `text` into a header field, or into a PAX record where it does not fit or is not ASCII.
fn text_field(field: &mut [u8], text: &[u8], key: &str, pax: &mut Pax) {
    let fits = text.len() <= field.len();
    for (to, from) in field.iter_mut().zip(text) {
        *to = *from;
    }
    if !fits || !text.is_ascii() {
        pax.push((key.into(), text.to_vec()));
    }
}

fn number(id: Option<i64>, key: &str, pax: &mut Pax) -> u64 {
    let id = id.and_then(|id| u64::try_from(id).ok()).unwrap_or(0);
    if id > OCTAL_MAX {
        pax.push((key.into(), id.to_string().into_bytes()));
    }
    id.min(OCTAL_MAX)
}

/// Seconds with a decimal fraction; before 1970 the fraction counts towards the past.
fn decimal(time: Time) -> String {
    let total = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let sign = if total < 0 { "-" } else { "" };
    let total = total.unsigned_abs();
    let text = format!("{sign}{}.{:09}", total / 1_000_000_000, total % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

impl<W: Write> Sink for TarSink<W> {
    fn refusal(&self, kind: &EntryKind) -> Option<Refusal> {
        (*kind == EntryKind::Socket).then_some(Refusal::Socket)
    }

    fn begin(&mut self, entry: &Entry) -> Result<()> {
        self.path.clone_from(&entry.path);
        self.written = 0;
        self.header(entry, None)
    }

    fn data(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        self.tar.get_mut().write_all(bytes).map_err(output_failed)
    }

    fn end(&mut self) -> Result<()> {
        let padding = self.written.next_multiple_of(BLOCK) - self.written;
        self.tar.get_mut().write_all(&[0; BLOCK as usize][..padding as usize]).map_err(output_failed)
    }

    fn links(&self) -> bool {
        true
    }

    fn link(&mut self, entry: &Entry, first: &[u8]) -> Result<()> {
        self.path.clone_from(&entry.path);
        self.header(entry, Some(first))
    }

    fn path(&self) -> &[u8] {
        &self.path
    }

    fn finish(&mut self) -> Result<()> {
        self.tar.finish().and_then(|()| self.tar.get_mut().flush()).map_err(output_failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_themselves() {
        assert_eq!(record(b"a", b"b"), b"6 a=b\n");
        assert_eq!(record(b"path", &[b'x'; 90]).len(), 99);
        assert!(record(b"path", &[b'x'; 90]).starts_with(b"99 path="));
        assert!(record(b"path", &[b'x'; 91]).starts_with(b"101 path="));
        assert_eq!(attribute_keyword(b"user.a=%\xff"), b"SCHILY.xattr.user.a%3D%25\xff");
    }

    #[test]
    fn times_before_1970() {
        let time = |seconds, nanos| decimal(Time { seconds, nanos });
        assert_eq!(time(-1, 500_000_000), "-0.5");
        assert_eq!(time(-2, 0), "-2");
        assert_eq!(time(1_700_000_000, 120_000_000), "1700000000.12");
        assert_eq!(time(10, 0), "10");
    }
}
