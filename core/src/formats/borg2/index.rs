//! The chunk index as stored: fragments to be merged into one table (borg2.md section 9).

use crate::base::{Check, Cursor, Id, Result};
use alloc::vec::Vec;

/// Length of one fragment entry: id 32, flags 4, size 4, pack id 32, offset 4, length 4.
const ENTRY_LEN: usize = 80;
/// Longest JSON block accepted in a fragment.
const JSON_MAX: usize = 65_536;

/// Parses an opened fragment, a BORGHASH table, and hands each entry to `take` with its pack id.
///
/// # Errors
/// `Index` if magic, version, field list or lengths are not exactly those of borg2.md 9.2.
pub fn parse_fragment(table: &[u8], mut take: impl FnMut(Id, Id, u32, u32)) -> Result<()> {
    let mut cursor = Cursor::new(table);
    if cursor.take(8) != Some(b"BORGHASH") || cursor.u32_le() != Some(1) {
        return Err(Check::Index.into());
    }
    let json_len = cursor.u32_le().map_or(usize::MAX, |len| len as usize);
    let json = cursor.take(json_len).filter(|json| json.len() <= JSON_MAX).ok_or(Check::Index)?;
    let used = checked_header(json).ok_or(Check::Index)?;
    let (entries, tail) = cursor.rest().as_chunks::<ENTRY_LEN>();
    if !tail.is_empty() || entries.len() as u64 != used {
        return Err(Check::Index.into());
    }
    for entry in entries {
        let mut fields = Cursor::new(entry);
        let id = fields.array().ok_or(Check::Index)?;
        fields.take(8);
        let pack = fields.array().ok_or(Check::Index)?;
        let (Some(offset), Some(len)) = (fields.u32_le(), fields.u32_le()) else { return Err(Check::Index.into()) };
        take(Id(id), Id(pack), offset, len);
    }
    Ok(())
}

/// The value of `used` if the JSON names exactly the expected layout.
///
/// The block is authenticated and machine-written; what matters is that no other layout passes.
/// So blanks are dropped and each expected pair is looked for as text.
fn checked_header(json: &[u8]) -> Option<u64> {
    let json: Vec<u8> = json.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let json = core::str::from_utf8(&json).ok()?.strip_prefix('{')?.strip_suffix('}')?;
    let expected = [
        r#""key_size":32"#,
        r#""value_size":48"#,
        r#""byte_order":"little""#,
        r#""value_type_fields":["flags","size","pack_id","obj_offset","obj_size"]"#,
        r#""value_format":["I","I","32s","I","I"]"#,
    ];
    let present = |pair: &str| {
        json.find(pair).is_some_and(|at| {
            let before = json.get(..at).is_some_and(|front| front.is_empty() || front.ends_with(','));
            let after = json.get(at + pair.len()..).is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
            before && after
        })
    };
    if !expected.iter().all(|pair| present(pair)) {
        return None;
    }
    let (_, rest) = json.split_once(r#""used":"#)?;
    let digits = rest.split_once(',').map_or(rest, |(digits, _)| digits);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"key_size": 32, "value_size": 48, "byte_order": "little", "value_type_name": "ChunkIndexEntry", "value_type_fields": ["flags", "size", "pack_id", "obj_offset", "obj_size"], "value_format_name": "ChunkIndexEntryFormatT", "value_format_fields": ["flags", "size", "pack_id", "obj_offset", "obj_size"], "value_format": ["I", "I", "32s", "I", "I"], "capacity": 674, "used": 2}"#;

    fn table(json: &str, entries: usize) -> Vec<u8> {
        let mut table = b"BORGHASH\x01\0\0\0".to_vec();
        table.extend((json.len() as u32).to_le_bytes());
        table.extend(json.as_bytes());
        for n in 0..entries {
            table.extend([n as u8; 32]);
            table.extend([0, 0, 0, 1, 0, 0, 0, 0]);
            table.extend([0xaa; 32]);
            table.extend(100u32.to_le_bytes());
            table.extend(200u32.to_le_bytes());
        }
        table
    }

    #[test]
    fn entries_come_out() {
        let mut seen = Vec::new();
        parse_fragment(&table(JSON, 2), |id, pack, offset, len| seen.push((id, pack, offset, len))).unwrap();
        assert_eq!(seen, [(Id([0; 32]), Id([0xaa; 32]), 100, 200), (Id([1; 32]), Id([0xaa; 32]), 100, 200)]);
    }

    #[test]
    fn any_other_layout_is_refused() {
        let refused = |bytes: &[u8]| parse_fragment(bytes, |_, _, _, _| ()) == Err(Check::Index.into());
        assert!(refused(&table(JSON, 1)) && refused(&table(JSON, 3)));
        assert!(refused(&table(&JSON.replace("32,", "33,"), 2)));
        assert!(refused(&table(&JSON.replace("little", "big"), 2)));
        assert!(refused(&table(&JSON.replace("\"I\"]", "\"Q\"]"), 2)));
        let good = table(JSON, 2);
        for cut in 0..good.len() {
            assert!(refused(&good[..cut]), "{cut}");
        }
    }
}
