//! Payloads: a plaintext compressed as its first two bytes say (borg1.md section 8).

use crate::base::{Check, Cursor, Result, Unsupported};
use crate::objects::Method;
use core::ops::Range;

/// Obfuscations inside each other; one more than any command line makes.
const NESTING_MAX: usize = 3;

/// How the front of `payload` is compressed, and which bytes of it are the compressed ones.
///
/// # Errors
/// `Truncated` or `Sizes` for a payload that ends early, `Inflate` for too much nesting, `Unsupported` for
/// an unknown type.
pub fn unwrap(payload: &[u8]) -> Result<(Method, Range<usize>)> {
    let mut range = 0..payload.len();
    for _ in 0..=NESTING_MAX {
        let bytes = payload.get(range.clone()).unwrap_or(&[]);
        let Some(&[kind, second]) = bytes.first_chunk() else { return Err(Check::Truncated.into()) };
        let inside = range.start + 2..range.end;
        return Ok(match (kind, second) {
            (0, 0) => (Method::None, inside),
            (1, 0) => (Method::Lz4, inside),
            (2, 0) => (Method::Xz, inside),
            (3, 0) => (Method::Zstd, inside),
            (4, 0) => {
                let mut cursor = Cursor::new(payload.get(inside.clone()).unwrap_or(&[]));
                let len = cursor.u32_be().ok_or(Check::Truncated)?;
                let inner = cursor.take(len as usize).ok_or(Check::Sizes)?;
                let start = inside.start + 4;
                range = start..start + inner.len();
                continue;
            }
            // The two bytes are the start of a zlib stream, and belong to it.
            _ if kind & 0x0f == 8 && u16::from_be_bytes([kind, second]).is_multiple_of(31) => (Method::Zlib, range),
            _ => return Err(Unsupported::Compression(kind).into()),
        });
    }
    Err(Check::Inflate.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn types_by_their_first_bytes() {
        for (bytes, expected) in [
            (&[0, 0][..], (Method::None, 2..2)),
            (&[1, 0, 7], (Method::Lz4, 2..3)),
            (&[2, 0, 7, 8], (Method::Xz, 2..4)),
            (&[3, 0, 7], (Method::Zstd, 2..3)),
            (&[0x78, 0x9c, 7], (Method::Zlib, 0..3)),
            (&[0x78, 0x01, 7], (Method::Zlib, 0..3)),
            (&[4, 0, 0, 0, 0, 3, 1, 0, 9, 0, 0], (Method::Lz4, 8..9)),
            (&[4, 0, 0, 0, 0, 2, 0x78, 0xda, 5], (Method::Zlib, 6..8)),
        ] {
            assert_eq!(unwrap(bytes), Ok(expected), "{bytes:?}");
        }
        for bytes in [&[][..], &[0], &[4, 0, 0, 0, 0], &[4, 0, 0, 0, 0, 1, 0, 0]] {
            assert_eq!(unwrap(bytes), Err(Check::Truncated.into()), "{bytes:?}");
        }
        assert_eq!(unwrap(&[4, 0, 0, 0, 0, 4, 1, 0, 9]), Err(Check::Sizes.into()));
        assert_eq!(unwrap(&[4, 0, 0xff, 0xff, 0xff, 0xff, 1, 0]), Err(Check::Sizes.into()));
        assert_eq!(unwrap(&[5, 0, 0]), Err(Unsupported::Compression(5).into()));
        assert_eq!(unwrap(&[0x78, 0x9d, 0]), Err(Unsupported::Compression(0x78).into()));
    }

    #[test]
    fn nesting_is_bounded() {
        let mut payload: Vec<u8> = alloc::vec![0, 0, b'x'];
        for depth in 1..=5 {
            payload = [&[4, 0][..], &(payload.len() as u32).to_be_bytes(), &payload, &[0; 3]].concat();
            match unwrap(&payload) {
                Ok((method, range)) => assert!(depth <= 3 && method == Method::None && payload[range] == *b"x"),
                Err(error) => assert!(depth > 3 && error == Check::Inflate.into()),
            }
        }
    }
}
