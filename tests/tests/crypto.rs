//! The core's primitives against objects that Borg 2 wrote: four suites, both slots of an object, a
//! named store object, the chunk id, and a wrapped key.

use packtrain_core::base::Secret;
use packtrain_core::crypto::{
    Aead, AeadKind, Argon2Params, Argon2Variant, MacKey, TagMismatch, argon2, blake3, sha256,
};

const PLAIN: &[u8] = b"test vector\n";
const META: &str = "85a474797065a146a473697a650ca5637479706500a6636c6576656cccffa56373697a650c";

/// One repository with the passphrase `test`; hex.
struct Suite {
    kind: Kind,
    blake3_ids: bool,
    repository: &'static str,
    crypt_key: &'static str,
    id_key: &'static str,
    /// The store object `config/defaults`, whose payload is one byte, 0x80.
    defaults: &'static str,
    /// An uncompressed object holding [`PLAIN`].
    object: &'static str,
}

#[derive(Clone, Copy)]
enum Kind {
    Aead(AeadKind, &'static str),
    Mac(&'static str),
}

const SUITES: [Suite; 4] = [
    Suite {
        kind: Kind::Aead(AeadKind::Aes256Ocb, "borg-session-key-AES256_OCB"),
        blake3_ids: false,
        repository: "a589d7fabaad156f9f93f426eef9bec25b9bc464ae56250bf07c18cbf329d193",
        crypt_key: "ff68ad9a08d439930ace1a90d54c7480005921c6c089562577e4fbf64ea142c6
            f95d2fe61b3739d57ef08e1c5101c1444725836cd74d825665d6b871ce9e227c",
        id_key: "e5f49a8d8fd7b2ff7602ed56ac008f98f964ca39979f75a83d978420256edb32",
        defaults: "100000000000000191600ba9cbfb923b6e906b7af2e9befb7e1c74960f56d860
            8d8356ff066e06f2d8b9581545279e595f",
        object: "424f52475f4f424a02fada3d174b4c4a1b2e54c8bfca4d8aea121d2747b0370f
            07b912d7d79a5010a5550000003c0000001000000000000002008ecdaabaeaea
            9e9b6068a14b1e0c736a26b8688f02b22b9e5ca6bfbeb7acf04b7379d95011a8
            fefcc0abfe4c733e4b02d058449ae54e9144d87161d1fa48f26dd3c54cda3599
            ec06c825672c1000000000000001008ecdaabaeaea9e9b6068a14b1e0c736a26
            b8688f02b22b32ae8a815bbf79c5b6262f6b492fdd8e5d26f829c49305a90eb7
            67ec",
    },
    Suite {
        kind: Kind::Aead(AeadKind::ChaCha20Poly1305, "borg-session-key-CHACHA20_POLY1305"),
        blake3_ids: true,
        repository: "ff2cd452c84d7787b0705d7ce3e4f428381c6fbd468d77b5b0d158cc4a06999b",
        crypt_key: "1b2472a0af4e07e986c0c5ebfc4bc7baf849987f2b9a41eebc26f9e2a2956521
            decd7b88905542c25d43ac0442d0fc07e5a4e5a7965902db01607eed12924029",
        id_key: "4f8a33cd4892020b9d1813ee3e8185cba762b63d3417f2ba41cc6518c995e70d",
        defaults: "400000000000000135029929ba1908d72d8de2148b1a97c780621c7f905f0535
            c48f0294fa6ac15c9eade76a25846047d8",
        object: "424f52475f4f424a02b80bb4311109c7cceaa1c10f5704050d3ea857ab409722
            458e8e665b0859c0ae550000003c0000004000000000000002c4fe3ff21ef2b8
            496fb6f6dda3a28cf5e3fc2d79315a1077afb4b8aaf6e5158094413ddcc45fae
            4c2295e9a31ab57aa0df615b9d128cb2b1285dca998e30c38dc53be865a87dee
            e5491678afb34000000000000001c4fe3ff21ef2b8496fb6f6dda3a28cf5e3fc
            2d79315a107713940346e4acf39e5ae7ac55b00f1c5498d8a67aa8e375e8e59c
            107b",
    },
    Suite {
        kind: Kind::Mac("borg-repoobj-mac-hmac-sha256"),
        blake3_ids: false,
        repository: "c43aa19f4714ca923f13c248e2fa966d8fe013fb7833346a7f5661040a9bd873",
        crypt_key: "5ba521f76b5221632100fa8965f5b5664c9e87e29ae64405a8bb4821b46531f0
            7f86f9dc36831f882ec2dffb295f25cec44b83203e72d8b70822f3fd9a95eb81",
        id_key: "96d109fdf715a7b5c3c9e5348895f6ba0d6d9b737e655ad11d1d47228e74ce99",
        defaults: "500001c6672e39a533b4b0b0cf2d4771d53f66ba1cd8a5cb4bfdd6d4f12abb69
            d73f80",
        object: "424f52475f4f424a02494c8d52e65ce78ff28e5ee5f43e3d18f9a0cfe1a0058e
            4fe741f2a06a36c995470000002e0000005000cb6f2afc740f2ccbf19628d7d9
            4f479b184c2399f932520822c48c416b4c010a85a474797065a146a473697a65
            0ca5637479706500a6636c6576656cccffa56373697a650c500049ed526b03ae
            f99cb954902092b77b42ccef08535a2275f51a899a2deb3805bc746573742076
            6563746f720a",
    },
    Suite {
        kind: Kind::Mac("borg-repoobj-mac-blake3"),
        blake3_ids: true,
        repository: "4e2edb9d15a8e52e5e1a01a3075600b34be6b952289773fc90d1763cbceac154",
        crypt_key: "acaedb9e682f096d68d7bc20b1221a699298f613ea0bd13017a5f9f6e97e131c
            92db44d4374b7e0f4b8b8438984ecf549970d2c664716585ed1bf27e99f0bbf7",
        id_key: "c2b046f633fbbe9ab5334f273fb520688c475cdc2384ae07d577ef0ef6a74e05",
        defaults: "6000e2d99c3de0251ff9552258c53aa5d07c15bd51d23ea1e6545b7f72bda49b
            b95b80",
        object: "424f52475f4f424a02eb7a0bf148723fb1e3858a140a000350ff3954389b4e31
            f2dbcb130ff8713dc3470000002e0000006000682daea392428c2551e24b8ec6
            588e3d9bd245d0251b19a9032f3261c89a198a85a474797065a146a473697a65
            0ca5637479706500a6636c6576656cccffa56373697a650c600074da25387c53
            08b7a2fcf634c133bd81f79c54363f9631cb7cfe10666ed57122746573742076
            6563746f720a",
    },
];

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the vector has the right length")
}

/// Opens one envelope the way the format describes: key from the session, nonce from the counter.
fn open(suite: &Suite, aad: &[u8], id: &[u8], envelope: &[u8]) -> Result<Vec<u8>, TagMismatch> {
    let crypt_key = hex(suite.crypt_key);
    match suite.kind {
        Kind::Aead(kind, domain) => {
            let aead = Aead::new(kind, &sha256(&[&crypt_key, &envelope[8..32], domain.as_bytes()]));
            let nonce = array(&[&[0; 6], &envelope[2..8]].concat());
            let (tag, mut text) = (array(&envelope[32..48]), envelope[48..].to_vec());
            let aad = [aad, id, &envelope[..32]].concat();
            aead.open_in_place(&nonce, &aad, &tag, &mut text).map(|()| text)
        }
        Kind::Mac(domain) => {
            let tag_key = sha256(&[&crypt_key, domain.as_bytes()]);
            let key = if suite.blake3_ids { MacKey::blake3(&tag_key) } else { MacKey::hmac_sha256(&tag_key) };
            let (head, rest) = envelope.split_at(2);
            let (tag, payload) = rest.split_at(32);
            let len = u16::try_from(aad.len() + id.len()).expect("a short context").to_be_bytes();
            key.verify(&[head, &len, aad, id, payload], tag).then(|| payload.to_vec()).ok_or(TagMismatch)
        }
    }
}

#[test]
fn objects_of_all_suites_open() {
    for suite in &SUITES {
        let object = hex(suite.object);
        let (header, slots) = object.split_at(49);
        let (context, id) = (&header[..41], &header[9..41]);
        let meta_len = u32::from_le_bytes(array(&header[41..45])) as usize;
        let (meta, data) = slots.split_at(meta_len);
        assert_eq!(open(suite, &[context, b"M"].concat(), id, meta), Ok(hex(META)));
        assert_eq!(open(suite, &[context, b"D"].concat(), id, data), Ok(PLAIN.to_vec()));
        // A slot does not pass for the other, nor for that of another chunk.
        assert_eq!(open(suite, &[context, b"D"].concat(), id, meta), Err(TagMismatch));
        assert_eq!(open(suite, &[context, b"M"].concat(), &[0; 32], meta), Err(TagMismatch));

        let id_key = hex(suite.id_key);
        let id_of = if suite.blake3_ids { MacKey::blake3(&array(&id_key)) } else { MacKey::hmac_sha256(&id_key) };
        assert_eq!(id_of.mac(&[PLAIN]), id);
    }
}

#[test]
fn every_bit_of_an_envelope_counts() {
    for suite in &SUITES {
        let object = hex(suite.object);
        let meta_len = u32::from_le_bytes(array(&object[41..45])) as usize;
        let aad = [&object[..41], b"D"].concat();
        let data = &object[49 + meta_len..];
        for bit in 0..8 * data.len() {
            let mut damaged = data.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(suite, &aad, &object[9..41], &damaged), Err(TagMismatch), "bit {bit}");
        }
    }
}

#[test]
fn named_store_objects_open() {
    for suite in &SUITES {
        let aad = [&b"borg-store-object\0"[..], &hex(suite.repository), b"nconfig/defaults"].concat();
        assert_eq!(open(suite, &aad, &[], &hex(suite.defaults)), Ok(vec![0x80]));
        let other = [&b"borg-store-object\0"[..], &[0; 32], b"nconfig/defaults"].concat();
        assert_eq!(open(suite, &other, &[], &hex(suite.defaults)), Err(TagMismatch));
    }
}

/// The key object of the first suite, without its first line.
const KEY: &str = "\
    ialhbGdvcml0aG24YXJnb24yIGNoYWNoYTIwLXBvbHkxMzA1smFyZ29uMl9tZW1vcnlfY2\
    9zdM4AAQAAsmFyZ29uMl9wYXJhbGxlbGlzbQSwYXJnb24yX3RpbWVfY29zdAOrYXJnb24y\
    X3R5cGWiaWSkZGF0YcTPRK3tcIMm9g1eh1D0TVU1HqXUd4Yo08CZc++v/2xd0gUWuVHUW0\
    iewmr58N5/Ni9xVlA3s3BCOlfbPVsCjegCFnCBjrD63Rl6PetyEEoBpO5+WmGBrRdcQS9m\
    z3HiOFjueO12wKNQIX/o+AlegUuGB+Iv1exk5UWS6+Mfxb8m2UypX4lt0z4I+vHNjKzeGe\
    6gjnA0CEAmw0mtMe/8ERdjG0u3WcvM1BOmlTb4rYN8eTsQzjD39cTmafbKbYCOXpCBuqHQ\
    nqP9ubnfGq9MMW0LpWxhYmVspWFkbWlupHNhbHTEEPcKXx2P2iLGQ0/zevzrI1OndmVyc2\
    lvbgE=";

#[test]
fn a_passphrase_opens_a_key() {
    use base64ct::{Base64, Encoding};
    let outer = Base64::decode_vec(KEY).expect("the vector is base64");
    // Byte strings of the outer map: a name, the marker 0xc4, one byte of length, the bytes.
    let value = |name: &[u8]| {
        let at = outer.windows(name.len()).position(|window| window == name).expect("the name occurs") + name.len();
        assert_eq!(outer[at], 0xc4);
        &outer[at + 2..][..outer[at + 1].into()]
    };
    let (salt, data) = (value(b"salt"), value(b"data"));
    let (tag, wrapped) = data.split_at(16);
    let params = Argon2Params { variant: Argon2Variant::Id, time: 3, memory_kib: 65_536, lanes: 4 };
    let unwrap = |passphrase: &[u8]| {
        let key = argon2(&params, &Secret::new(passphrase.to_vec()), salt).expect("the costs are within the limits");
        let aead = Aead::new(AeadKind::ChaCha20Poly1305, &array(key.expose()));
        let mut inner = wrapped.to_vec();
        aead.open_in_place(&[0; 12], &[], &array(tag), &mut inner).map(|()| inner)
    };
    let inner = unwrap(b"test").expect("the passphrase is right");
    for key in [SUITES[0].crypt_key, SUITES[0].id_key, SUITES[0].repository] {
        let key = hex(key);
        assert!(inner.windows(key.len()).any(|window| window == key));
    }
    assert_eq!(unwrap(b"Test"), Err(TagMismatch));
}

#[test]
fn a_store_name_is_the_hash_of_the_content() {
    // The name of the key object above hashes its text.
    let first = format!("BORG_KEY {}\n", SUITES[0].repository);
    let lines: Vec<&[u8]> = KEY.as_bytes().chunks(70).collect();
    let text = [first.as_bytes(), &lines.join(&b'\n'), b"\n"].concat();
    assert_eq!(blake3(&text).as_slice(), hex("664abac7ef433beed011fbe9944a7b322c8c8640fc876c941455f2c0bf63b8f0"));
}

/// The batched OCB against the crate that works block by block, around every border of a batch.
#[test]
fn ocb_equals_the_independent_implementation() {
    use ocb3::aead::{AeadInOut, KeyInit};
    let key = core::array::from_fn(|i| (i * 11) as u8);
    let ours = Aead::new(AeadKind::Aes256Ocb, &key);
    let reference = ocb3::Ocb3::<aes::Aes256>::new(&key.into());
    let lengths = (0..200).chain(1000..1050).chain(2040..2056).chain([4095, 4096, 4097, 65_536, 1_000_003]);
    for (n, len) in lengths.enumerate() {
        let mut nonce = [0x5a; 12];
        nonce[11] = n as u8;
        let aad = &[7; 300][..n % 300];
        let plain: Vec<u8> = (0..len).map(|i| (i * 131 + n) as u8).collect();
        let (mut a, mut b) = (plain.clone(), plain.clone());
        let tag = ours.seal_in_place(&nonce, aad, &mut a);
        let expected =
            reference.encrypt_inout_detached(&nonce.into(), aad, b.as_mut_slice().into()).expect("short enough");
        assert_eq!((tag.as_slice(), &a), (expected.as_slice(), &b), "{len} bytes");
        assert_eq!(ours.open_in_place(&nonce, aad, &tag, &mut a), Ok(()));
        assert_eq!(a, plain);
    }
}
