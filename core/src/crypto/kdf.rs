//! Key derivation from a passphrase with 32 bytes of output: Argon2, version 0x13 (RFC 9106), and
//! PBKDF2 with HMAC-SHA-256 (RFC 8018, 5.2).
//!
//! The costs are read from an object that nothing authenticates, so they are limited before any
//! memory is taken: whoever can write to a store could otherwise make a reader use up its machine.

use crate::base::{Check, Error, Kind, Result, Secret, limits};
use ::argon2::{Algorithm, Argon2, Block, Params, Version};
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Shortest salt, bytes (RFC 9106, 3.1).
const SALT_MIN: usize = 8;
/// Longest salt, bytes. Writers use 16; more than this is damage.
const SALT_MAX: usize = 64;
/// Bytes derived.
const OUTPUT: usize = 32;

/// How memory is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argon2Variant {
    /// Argon2id: independent of the passphrase in the first half pass, dependent after it.
    Id,
    /// Argon2i: independent of the passphrase.
    I,
    /// Argon2d: dependent on the passphrase.
    D,
}

/// Variant and costs, as a key object states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Params {
    /// The variant.
    pub variant: Argon2Variant,
    /// Passes over the memory, 1 to [`limits::ARGON2_TIME_MAX`].
    pub time: u32,
    /// Memory in KiB, 8 times `lanes` to [`limits::ARGON2_MEMORY_MAX`].
    pub memory_kib: u32,
    /// Lanes (parallelism), 1 to [`limits::ARGON2_LANES_MAX`]. They are computed one after the
    /// other, unless a shell turns on `argon2/parallel`: how many cores to use is for the shell to
    /// say, not for a key object.
    pub lanes: u32,
}

impl Argon2Params {
    /// Checks the costs and the length of the salt against each other and against the limits.
    ///
    /// # Errors
    /// `OverLimit` for a cost over its limit, `Corrupt(Key)` for a cost or salt that Argon2 does
    /// not define.
    pub fn check(&self, salt: &[u8]) -> Result<()> {
        limits::within("Argon2 memory cost in KiB", self.memory_kib.into(), limits::ARGON2_MEMORY_MAX.into())?;
        limits::within("Argon2 time cost", self.time.into(), limits::ARGON2_TIME_MAX.into())?;
        limits::within("Argon2 parallelism", self.lanes.into(), limits::ARGON2_LANES_MAX.into())?;
        // The lanes are limited by now: eight times their number cannot overflow.
        let least = 8 * self.lanes;
        if self.time == 0 || self.lanes == 0 || self.memory_kib < least || !(SALT_MIN..=SALT_MAX).contains(&salt.len())
        {
            return Err(Check::Key.into());
        }
        Ok(())
    }
}

/// Derives 32 bytes from `passphrase` and `salt` (8 to 64 bytes).
///
/// Takes `memory_kib` KiB once, fallibly, and wipes and frees it before it returns.
///
/// # Errors
/// As [`Argon2Params::check`], and `OverLimit` if the machine does not grant the memory; the limit
/// named is then an amount it does grant.
pub fn argon2(params: &Argon2Params, passphrase: &Secret, salt: &[u8]) -> Result<Secret> {
    params.check(salt)?;
    let malformed = |_| Error::from(Check::Key);
    let algorithm = match params.variant {
        Argon2Variant::Id => Algorithm::Argon2id,
        Argon2Variant::I => Algorithm::Argon2i,
        Argon2Variant::D => Algorithm::Argon2d,
    };
    let costs = Params::new(params.memory_kib, params.time, params.lanes, Some(OUTPUT)).map_err(malformed)?;
    let mut memory = Zeroizing::new(blocks(costs.block_count())?);
    let mut derived = Zeroizing::new([0; OUTPUT]);
    Argon2::new(algorithm, Version::V0x13, costs)
        .hash_password_into_with_memory(passphrase.expose(), salt, derived.as_mut_slice(), memory.as_mut_slice())
        .map_err(malformed)?;
    Ok(Secret::new(derived.to_vec()))
}

/// Derives 32 bytes from `passphrase` and `salt` in `iterations` rounds, 1 to
/// [`limits::PBKDF2_ITERATIONS_MAX`].
///
/// # Errors
/// `OverLimit` for more rounds, `Corrupt(Key)` for none.
pub fn pbkdf2_sha256(passphrase: &Secret, salt: &[u8], iterations: u32) -> Result<Secret> {
    limits::within("PBKDF2 iterations", iterations.into(), limits::PBKDF2_ITERATIONS_MAX.into())?;
    if iterations == 0 {
        return Err(Check::Key.into());
    }
    let mut derived = Zeroizing::new([0; OUTPUT]);
    pbkdf2::pbkdf2_hmac::<sha2::Sha256>(passphrase.expose(), salt, iterations, derived.as_mut_slice());
    Ok(Secret::new(derived.to_vec()))
}

/// `count` zeroed blocks of 1 KiB, or an error that names an amount which could be had.
fn blocks(count: usize) -> Result<Vec<Block>> {
    let mut memory = Vec::new();
    if memory.try_reserve_exact(count).is_err() {
        let granted = |count: &usize| Vec::<Block>::new().try_reserve_exact(*count).is_ok();
        let cap = core::iter::successors(Some(count / 2), |count| (*count > 0).then_some(count / 2)).find(granted);
        return Err(Error::new(Kind::OverLimit {
            what: "Argon2 memory in KiB on this machine",
            asked: count as u64,
            cap: cap.unwrap_or(0) as u64,
        }));
    }
    memory.resize(count, Block::new());
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    const PARAMS: Argon2Params = Argon2Params { variant: Argon2Variant::Id, time: 2, memory_kib: 256, lanes: 1 };

    fn derive(params: Argon2Params, salt: &[u8]) -> Result<Secret> {
        argon2(&params, &Secret::new(b"password".to_vec()), salt)
    }

    #[test]
    fn vectors() {
        // From the test suite of the reference implementation, version 0x13. The vectors printed in
        // RFC 9106 take a secret and associated data, which no format here uses.
        let cases = [
            (PARAMS, "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"),
            (Argon2Params { lanes: 2, ..PARAMS }, "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037"),
            (
                Argon2Params { variant: Argon2Variant::I, ..PARAMS },
                "89e9029f4637b295beb027056a7336c414fadd43f6b208645281cb214a56452f",
            ),
        ];
        for (params, expected) in cases {
            assert_eq!(derive(params, b"somesalt").unwrap().expose(), hex(expected), "{params:?}");
        }
    }

    #[test]
    fn variants_differ() {
        let [id, i, d] = [Argon2Variant::Id, Argon2Variant::I, Argon2Variant::D]
            .map(|variant| derive(Argon2Params { variant, ..PARAMS }, b"somesalt").unwrap());
        assert!(id.expose() != i.expose() && i.expose() != d.expose() && d.expose() != id.expose());
    }

    #[test]
    fn costs_over_their_limits_are_refused_before_anything_is_allocated() {
        for params in [
            Argon2Params { memory_kib: limits::ARGON2_MEMORY_MAX + 1, ..PARAMS },
            Argon2Params { memory_kib: u32::MAX, ..PARAMS },
            Argon2Params { time: limits::ARGON2_TIME_MAX + 1, ..PARAMS },
            Argon2Params { lanes: limits::ARGON2_LANES_MAX + 1, ..PARAMS },
            Argon2Params { lanes: u32::MAX, ..PARAMS },
        ] {
            let error = derive(params, b"somesalt").unwrap_err();
            assert!(matches!(error.kind(), Kind::OverLimit { .. }), "{params:?}");
        }
    }

    #[test]
    fn costs_that_argon2_does_not_define_are_refused() {
        for params in [
            Argon2Params { time: 0, ..PARAMS },
            Argon2Params { lanes: 0, ..PARAMS },
            Argon2Params { memory_kib: 7, ..PARAMS },
            Argon2Params { memory_kib: 0, ..PARAMS },
            Argon2Params { lanes: 33, ..PARAMS },
        ] {
            assert_eq!(derive(params, b"somesalt").unwrap_err(), Check::Key.into(), "{params:?}");
        }
        for len in [0, 7, 65] {
            assert_eq!(derive(PARAMS, &alloc::vec![1; len]).unwrap_err(), Check::Key.into(), "salt of {len} bytes");
        }
        for len in [8, 64] {
            assert!(derive(PARAMS, &alloc::vec![1; len]).is_ok());
        }
    }

    #[test]
    fn pbkdf2_vectors() {
        // RFC 7914, section 11, the first 32 bytes of each.
        for (passphrase, salt, iterations, expected) in [
            ("passwd", "salt", 1, "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc"),
            ("Password", "NaCl", 80_000, "4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56"),
        ] {
            let derived = pbkdf2_sha256(&Secret::new(passphrase.into()), salt.as_bytes(), iterations).unwrap();
            assert_eq!(derived.expose(), hex(expected));
        }
        assert!(pbkdf2_sha256(&Secret::new(Vec::new()), b"", 0).is_err());
        assert!(pbkdf2_sha256(&Secret::new(Vec::new()), b"", limits::PBKDF2_ITERATIONS_MAX + 1).is_err());
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        let error = blocks(usize::MAX / 4096).unwrap_err();
        assert!(matches!(error.kind(), Kind::OverLimit { asked, cap, .. } if cap < asked));
    }
}
