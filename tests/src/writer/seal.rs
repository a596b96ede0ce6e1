//! Sealing: keys, envelopes, objects and the key's text form (format note, sections 3 to 7).

use super::{Id, Value, hex};
use aes::Aes256;
use base64ct::{Base64, Encoding};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ocb3::Ocb3;
use ocb3::aead::AeadInOut;
use sha2::{Digest, Sha256};

/// One of the six crypto suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// `encryption` in the config.
    pub encryption: &'static str,
    /// `id_hash` in the config.
    pub id_hash: &'static str,
    /// First byte of envelopes.
    pub type_byte: u8,
    /// What session or tag keys are derived with.
    domain: &'static [u8],
}

const OCB: &[u8] = b"borg-session-key-AES256_OCB";
const CHACHA: &[u8] = b"borg-session-key-CHACHA20_POLY1305";

impl Suite {
    /// AES-256-OCB with HMAC-SHA-256 ids, the usual one.
    pub const OCB_SHA256: Self = Self { encryption: "aes256-ocb", id_hash: "sha256", type_byte: 0x10, domain: OCB };

    /// All six.
    pub const ALL: [Self; 6] = [
        Self::OCB_SHA256,
        Self { encryption: "chacha20-poly1305", id_hash: "sha256", type_byte: 0x20, domain: CHACHA },
        Self { encryption: "aes256-ocb", id_hash: "blake3", type_byte: 0x30, domain: OCB },
        Self { encryption: "chacha20-poly1305", id_hash: "blake3", type_byte: 0x40, domain: CHACHA },
        Self {
            encryption: "authenticated-sha256",
            id_hash: "sha256",
            type_byte: 0x50,
            domain: b"borg-repoobj-mac-hmac-sha256",
        },
        Self {
            encryption: "authenticated-blake3",
            id_hash: "blake3",
            type_byte: 0x60,
            domain: b"borg-repoobj-mac-blake3",
        },
    ];

    /// Bytes that an envelope adds.
    pub fn overhead(self) -> usize {
        if self.type_byte < 0x50 { 48 } else { 34 }
    }
}

/// What the key object says about Argon2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Passes.
    pub time: u32,
    /// KiB.
    pub memory: u32,
    /// Lanes.
    pub lanes: u32,
}

/// The keys of a repository and the counter of its one session.
pub struct Seal {
    /// The suite.
    pub suite: Suite,
    /// Repository id.
    pub repository: Id,
    /// What the key object states; cheap, since tests open many repositories.
    pub costs: Costs,
    passphrase: String,
    crypt_key: [u8; 64],
    id_key: Id,
    session: [u8; 24],
    counter: u64,
}

impl Seal {
    /// Fixed keys for a suite.
    pub fn new(suite: Suite, passphrase: &str) -> Self {
        let mark = suite.type_byte;
        Self {
            suite,
            repository: [mark; 32],
            costs: Costs { time: 1, memory: 8, lanes: 1 },
            passphrase: passphrase.into(),
            crypt_key: core::array::from_fn(|at| at as u8 ^ mark),
            id_key: core::array::from_fn(|at| 200 - at as u8),
            session: [mark ^ 0x0f; 24],
            // Borg starts at one.
            counter: 1,
        }
    }

    /// The id of a plaintext.
    pub fn chunk_id(&self, plain: &[u8]) -> Id {
        match self.suite.id_hash {
            "sha256" => hmac_sha256(&self.id_key, &[plain]),
            _ => *blake3::keyed_hash(&self.id_key, plain).as_bytes(),
        }
    }

    /// The text of `config/config`.
    pub fn config(&self) -> String {
        format!(
            "# This is a Borg Backup repository.\n# See https://borgbackup.readthedocs.io/\n\n[repository]\nversion = 5\n\
             id = {}\nencryption = {}\nid_hash = {}\n\n",
            hex(&self.repository),
            self.suite.encryption,
            self.suite.id_hash
        )
    }

    /// The key object: the keys wrapped under the passphrase.
    pub fn key_text(&self) -> String {
        let inner = Value::map(vec![
            ("chunk_seed", Value::Int(7)),
            ("crypt_key", Value::Blob(self.crypt_key.to_vec())),
            ("id_key", Value::Blob(self.id_key.to_vec())),
            ("repository_id", Value::Blob(self.repository.to_vec())),
            ("version", Value::Int(2)),
        ]);
        self.key_text_of(&inner.encode())
    }

    /// A key object around any inner map.
    pub fn key_text_of(&self, inner: &[u8]) -> String {
        const SALT: &[u8; 16] = b"salt of the test";
        let Costs { time, memory, lanes } = self.costs;
        let mut kek = [0; 32];
        // Costs that no reader may accept are stated, not computed.
        if let Ok(params) = argon2::Params::new(memory.min(1 << 16), time.min(4), lanes, Some(32)) {
            argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
                .hash_password_into(self.passphrase.as_bytes(), SALT, &mut kek)
                .expect("the costs are sound");
        }
        let mut sealed = inner.to_vec();
        let tag = ChaCha20Poly1305::new(&kek.into())
            .encrypt_inout_detached(&[0; 12].into(), b"", sealed.as_mut_slice().into())
            .expect("a short message");
        let outer = Value::map(vec![
            ("algorithm", Value::text("argon2 chacha20-poly1305")),
            ("argon2_memory_cost", Value::Int(memory.into())),
            ("argon2_parallelism", Value::Int(lanes.into())),
            ("argon2_time_cost", Value::Int(time.into())),
            ("argon2_type", Value::text("id")),
            ("data", Value::Blob([tag.as_slice(), &sealed].concat())),
            ("label", Value::text("admin")),
            ("salt", Value::Blob(SALT.to_vec())),
            ("version", Value::Int(1)),
        ]);
        let mut text = format!("BORG_KEY {}\n", hex(&self.repository));
        for line in Base64::encode_string(&outer.encode()).as_bytes().chunks(70) {
            text.push_str(core::str::from_utf8(line).expect("base64 is text"));
            text.push('\n');
        }
        text
    }

    /// An envelope around `payload`, for this context and id.
    pub fn envelope(&mut self, context: &[u8], id: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut out = vec![self.suite.type_byte, 0];
        if self.suite.type_byte >= 0x50 {
            let tag_key: Id =
                Sha256::new().chain_update(self.crypt_key).chain_update(self.suite.domain).finalize().into();
            let bound = u16::try_from(context.len() + id.len()).expect("contexts are short").to_be_bytes();
            let parts = [&out[..], &bound, context, id, payload];
            let tag = match self.suite.type_byte {
                0x50 => hmac_sha256(&tag_key, &parts),
                _ => *blake3::keyed_hash(&tag_key, &parts.concat()).as_bytes(),
            };
            out.extend(tag);
            out.extend(payload);
            return out;
        }
        out.extend(&self.counter.to_be_bytes()[2..]);
        self.counter += 1;
        out.extend(self.session);
        let key = Sha256::new()
            .chain_update(self.crypt_key)
            .chain_update(self.session)
            .chain_update(self.suite.domain)
            .finalize();
        let mut nonce = [0; 12];
        nonce[6..].copy_from_slice(&out[2..8]);
        let aad = [context, id, &out].concat();
        let mut text = payload.to_vec();
        let tag = match self.suite.domain {
            OCB => Ocb3::<Aes256>::new(&key).encrypt_inout_detached(&nonce.into(), &aad, text.as_mut_slice().into()),
            _ => ChaCha20Poly1305::new(&key).encrypt_inout_detached(&nonce.into(), &aad, text.as_mut_slice().into()),
        };
        out.extend(tag.expect("messages are short"));
        out.extend(text);
        out
    }

    /// A whole object: header, metadata slot, data slot.
    pub fn object(&mut self, id: &Id, metadata: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut out = b"BORG_OBJ\x02".to_vec();
        out.extend(id);
        let bound = out.clone();
        let meta = self.envelope(&[&bound[..], b"M"].concat(), id, metadata);
        let data = self.envelope(&[&bound[..], b"D"].concat(), id, payload);
        out.extend((meta.len() as u32).to_le_bytes());
        out.extend((data.len() as u32).to_le_bytes());
        out.extend(meta);
        out.extend(data);
        out
    }

    /// A store object named by its hash, such as an index fragment.
    pub fn store_object(&mut self, namespace: &str, payload: &[u8]) -> Vec<u8> {
        let context = [b"borg-store-object\0", &self.repository[..], b"h", namespace.as_bytes()].concat();
        self.envelope(&context, b"", payload)
    }

    /// A store object with a fixed name, such as `config/defaults`.
    pub fn named_object(&mut self, name: &str, payload: &[u8]) -> Vec<u8> {
        let context = [b"borg-store-object\0", &self.repository[..], b"n", name.as_bytes()].concat();
        self.envelope(&context, b"", payload)
    }
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> Id {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any key length does");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects of the format note, 19.1 to 19.4, made again from their keys.
    #[test]
    fn objects_are_those_of_the_format_note() {
        let metadata = Value::map(vec![
            ("type", Value::text("F")),
            ("size", Value::Int(12)),
            ("ctype", Value::Int(0)),
            ("clevel", Value::Int(255)),
            ("csize", Value::Int(12)),
        ])
        .encode();
        let unhex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        for (at, crypt_key, id_key, session, object) in [
            (
                0,
                "ff68ad9a08d439930ace1a90d54c7480005921c6c089562577e4fbf64ea142c6\
                 f95d2fe61b3739d57ef08e1c5101c1444725836cd74d825665d6b871ce9e227c",
                "e5f49a8d8fd7b2ff7602ed56ac008f98f964ca39979f75a83d978420256edb32",
                "008ecdaabaeaea9e9b6068a14b1e0c736a26b8688f02b22b",
                "424f52475f4f424a02fada3d174b4c4a1b2e54c8bfca4d8aea121d2747b0370f\
                 07b912d7d79a5010a5550000003c0000001000000000000002008ecdaabaeaea\
                 9e9b6068a14b1e0c736a26b8688f02b22b9e5ca6bfbeb7acf04b7379d95011a8\
                 fefcc0abfe4c733e4b02d058449ae54e9144d87161d1fa48f26dd3c54cda3599\
                 ec06c825672c",
            ),
            (
                3,
                "1b2472a0af4e07e986c0c5ebfc4bc7baf849987f2b9a41eebc26f9e2a2956521\
                 decd7b88905542c25d43ac0442d0fc07e5a4e5a7965902db01607eed12924029",
                "4f8a33cd4892020b9d1813ee3e8185cba762b63d3417f2ba41cc6518c995e70d",
                "c4fe3ff21ef2b8496fb6f6dda3a28cf5e3fc2d79315a1077",
                "424f52475f4f424a02b80bb4311109c7cceaa1c10f5704050d3ea857ab409722\
                 458e8e665b0859c0ae550000003c0000004000000000000002c4fe3ff21ef2b8\
                 496fb6f6dda3a28cf5e3fc2d79315a1077afb4b8aaf6e5158094413ddcc45fae\
                 4c2295e9a31ab57aa0df615b9d128cb2b1285dca998e30c38dc53be865a87dee\
                 e5491678afb3",
            ),
            (
                4,
                "5ba521f76b5221632100fa8965f5b5664c9e87e29ae64405a8bb4821b46531f0\
                 7f86f9dc36831f882ec2dffb295f25cec44b83203e72d8b70822f3fd9a95eb81",
                "96d109fdf715a7b5c3c9e5348895f6ba0d6d9b737e655ad11d1d47228e74ce99",
                "",
                "424f52475f4f424a02494c8d52e65ce78ff28e5ee5f43e3d18f9a0cfe1a0058e\
                 4fe741f2a06a36c995470000002e0000005000cb6f2afc740f2ccbf19628d7d9\
                 4f479b184c2399f932520822c48c416b4c010a85a474797065a146a473697a65\
                 0ca5637479706500a6636c6576656cccffa56373697a650c500049ed526b03ae\
                 f99cb954902092b77b42ccef08535a2275f51a899a2deb3805bc746573742076\
                 6563746f720a",
            ),
            (
                5,
                "acaedb9e682f096d68d7bc20b1221a699298f613ea0bd13017a5f9f6e97e131c\
                 92db44d4374b7e0f4b8b8438984ecf549970d2c664716585ed1bf27e99f0bbf7",
                "c2b046f633fbbe9ab5334f273fb520688c475cdc2384ae07d577ef0ef6a74e05",
                "",
                "424f52475f4f424a02eb7a0bf148723fb1e3858a140a000350ff3954389b4e31\
                 f2dbcb130ff8713dc3470000002e0000006000682daea392428c2551e24b8ec6\
                 588e3d9bd245d0251b19a9032f3261c89a198a85a474797065a146a473697a65\
                 0ca5637479706500a6636c6576656cccffa56373697a650c600074da25387c53\
                 08b7a2fcf634c133bd81f79c54363f9631cb7cfe10666ed57122746573742076\
                 6563746f720a",
            ),
        ] {
            let mut seal = Seal::new(Suite::ALL[at], "");
            seal.crypt_key = unhex(crypt_key).try_into().unwrap();
            seal.id_key = unhex(id_key).try_into().unwrap();
            if !session.is_empty() {
                seal.session = unhex(session).try_into().unwrap();
            }
            // Borg sealed the data first, so its metadata slot has counter 2: header and metadata
            // slot must be the same. The authenticated suites have no counter; there all is.
            seal.counter = 2;
            let id = seal.chunk_id(b"test vector\n");
            let made = seal.object(&id, &metadata, b"test vector\n");
            let object = unhex(object);
            assert_eq!(made.get(..object.len()), Some(&object[..]), "suite {at}");
        }
    }
}
