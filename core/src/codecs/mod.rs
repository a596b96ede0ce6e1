//! Codecs: one file per compression method, each decoding into the caller's buffer.
//!
//! These are the portable ones: safe Rust on `core` and `alloc`, for every target. A shell may put
//! faster ones in their place ([`Kit::with`]); they behave alike, which the differential tests hold
//! them to. Each file is behind the cargo feature of its name, `deflate` behind `zlib` and `microlzma`
//! behind `lzma`; [`portable`] holds those that are on.
//!
//! Common to all: the input is exactly one stream, so bytes after its end are an error; the output
//! starts at the front of the buffer; after an error the buffer holds anything. A checksum inside a
//! stream is checked where noted, but what vouches for content is the id above, never the codec.

use crate::platform::Kit;

#[cfg(feature = "zlib")]
pub mod deflate;
#[cfg(feature = "lz4")]
pub mod lz4;
#[cfg(feature = "lzma")]
pub mod lzma;
#[cfg(feature = "lzma")]
pub mod microlzma;
#[cfg(feature = "zlib")]
pub mod zlib;
#[cfg(feature = "zstd")]
pub mod zstd;

#[cfg(feature = "zlib")]
pub use deflate::Deflate;
#[cfg(feature = "lz4")]
pub use lz4::Lz4;
#[cfg(feature = "lzma")]
pub use lzma::Lzma;
#[cfg(feature = "lzma")]
pub use microlzma::MicroLzma;
#[cfg(feature = "zlib")]
pub use zlib::Zlib;
#[cfg(feature = "zstd")]
pub use zstd::Zstd;

/// The portable codecs of this build.
pub fn portable() -> Kit {
    let kit = Kit::empty();
    #[cfg(feature = "lz4")]
    let kit = kit.with(&Lz4);
    #[cfg(feature = "zstd")]
    let kit = kit.with(&Zstd);
    #[cfg(feature = "zlib")]
    let kit = kit.with(&Zlib).with(&Deflate);
    #[cfg(feature = "lzma")]
    let kit = kit.with(&Lzma).with(&MicroLzma);
    kit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Method;

    /// Decodes the hex of a test vector.
    #[cfg(any(feature = "zstd", feature = "zlib", feature = "lzma"))]
    pub fn hex(text: &str) -> alloc::vec::Vec<u8> {
        let digits: alloc::vec::Vec<u8> =
            text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
        digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
    }

    #[test]
    fn the_kit_holds_what_is_compiled_in() {
        let has = |method| portable().codec(method).is_some_and(|codec| codec.method() == method);
        assert!(!has(Method::None));
        assert_eq!(has(Method::Lz4), cfg!(feature = "lz4"));
        assert_eq!(has(Method::Zstd), cfg!(feature = "zstd"));
        assert_eq!(has(Method::Zlib), cfg!(feature = "zlib"));
        assert_eq!(has(Method::Xz), cfg!(feature = "lzma"));
        assert_eq!(has(Method::Deflate), cfg!(feature = "zlib"));
        assert_eq!(has(Method::MicroLzma), cfg!(feature = "lzma"));
    }
}
