//! Surgery on copies of repositories: objects and where they lie, names, and keys that open fast.
//!
//! Real keys take a tenth of a second to open, on purpose. A copy whose key is sealed again with
//! the least cost opens in a millisecond; every other byte of it is the writer's own.

use crate::cases::Case;
use crate::folder::{self, Temp};
use base64ct::{Base64, Encoding};
use packtrain_core::base::Secret;
use packtrain_core::crypto::{Aead, AeadKind, AesCtr, Argon2Params, Argon2Variant, MacKey, argon2, pbkdf2_sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// First bytes of an object in a pack.
const MAGIC: &[u8] = b"BORG_OBJ";
/// Magic, version, id, two sizes.
const HEADER: usize = 49;

/// A copy of a case's repository, in a temporary folder, with a key that opens fast.
#[derive(Debug)]
pub struct Copy {
    temp: Temp,
}

/// One object in a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Name of the pack in the repository.
    pub pack: String,
    /// First byte.
    pub offset: usize,
    /// Length of the metadata slot.
    pub meta: usize,
    /// Length of the data slot.
    pub data: usize,
    /// Chunk id, in hex.
    pub id: String,
}

impl Object {
    /// Bytes in all.
    pub const fn len(&self) -> usize {
        HEADER + self.meta + self.data
    }

    /// Never true: an object has a header.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// A byte in the middle of its payload.
    pub const fn payload(&self) -> usize {
        self.offset + HEADER + self.meta + self.data / 2
    }

    /// A byte in the middle of its metadata slot.
    pub const fn metadata(&self) -> usize {
        self.offset + HEADER + self.meta / 2
    }
}

impl Copy {
    /// A copy of the repository of `case`. Its passphrase stays the same.
    pub fn of(case: &Case) -> Self {
        let copy = Self { temp: Temp::new() };
        folder::copy(&case.repo(), &copy.path());
        for name in folder::files(&copy.path()).iter().filter(|name| name.starts_with("keys/")) {
            let text = copy.read(name);
            // A repository can have keys for other passphrases; they stay as they are.
            if let Some(cheap) = cheap_key(&text, case) {
                copy.remove(name);
                copy.write(&format!("keys/{}", blake3::hash(&cheap)), &cheap);
            }
        }
        // Borg 1.x keeps its key in the config.
        if case.format() == "borg1"
            && let Ok(text) = std::fs::read(copy.path().join("config"))
            && let Some(cheap) = cheap_key(&text, case)
        {
            copy.write("config", &cheap);
        }
        copy
    }

    /// Its path.
    pub fn path(&self) -> PathBuf {
        self.temp.path().join("repo")
    }

    /// Every file, relative and sorted.
    pub fn files(&self) -> Vec<String> {
        folder::files(&self.path())
    }

    /// The files of one folder.
    pub fn files_in(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{folder}/");
        self.files().into_iter().filter(|name| name.starts_with(&prefix)).collect()
    }

    /// Content of a file.
    ///
    /// # Panics
    /// If there is none.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a file, and its folder if need be.
    ///
    /// # Panics
    /// If it cannot.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }

    /// Removes a file.
    ///
    /// # Panics
    /// If there is none.
    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Changes one byte.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, at: usize, mask: u8) {
        let mut bytes = self.read(name);
        bytes[at] ^= mask;
        self.write(name, &bytes);
    }

    /// Writes a pack under the name that its content demands, and returns that name.
    pub fn add_pack(&self, bytes: &[u8]) -> String {
        let name = pack_name(bytes);
        self.write(&name, bytes);
        name
    }

    /// Every object of every pack, in order of name and place.
    ///
    /// # Panics
    /// If a pack is not a row of objects.
    pub fn objects(&self) -> Vec<Object> {
        let mut found = Vec::new();
        for pack in self.files_in("packs") {
            let bytes = self.read(&pack);
            let mut offset = 0;
            while let Some(header) = bytes.get(offset..offset + HEADER) {
                assert_eq!(header.get(..8), Some(MAGIC), "{pack} at {offset}");
                let size = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes")) as usize;
                let id = header[9..41].iter().map(|byte| format!("{byte:02x}")).collect();
                let object = Object { pack: pack.clone(), offset, meta: size(41), data: size(45), id };
                offset += object.len();
                found.push(object);
            }
        }
        found
    }

    /// The object of a chunk.
    ///
    /// # Panics
    /// If there is none.
    pub fn object(&self, id: &str) -> Object {
        self.objects().into_iter().find(|object| object.id == id).unwrap_or_else(|| panic!("no chunk {id}"))
    }
}

/// The name of a pack with this content.
pub fn pack_name(bytes: &[u8]) -> String {
    let hash = blake3::hash(bytes).to_hex();
    format!("packs/{}/{hash}", &hash[..2])
}

/// The key in `text` sealed again, if a passphrase of the case opens it. Each key is opened once.
fn cheap_key(text: &[u8], case: &Case) -> Option<Vec<u8>> {
    static KNOWN: Mutex<BTreeMap<Vec<u8>, Option<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    if let Some(known) = KNOWN.lock().expect("no panic here").get(text) {
        return known.clone();
    }
    let cheapen = if case.format() == "borg1" { cheapened_config } else { cheapened };
    let cheap = case.passphrases().iter().find_map(|passphrase| cheapen(text, passphrase));
    KNOWN.lock().expect("no panic here").insert(text.to_vec(), cheap.clone());
    cheap
}

/// The key in `text` sealed again with the least cost, if `passphrase` opens it.
fn cheapened(text: &[u8], passphrase: &str) -> Option<Vec<u8>> {
    let text = core::str::from_utf8(text).ok()?;
    let (first, rest) = text.split_once('\n')?;
    let mut map = Base64::decode_vec(&rest.split_whitespace().collect::<String>()).ok()?;
    let after = |map: &[u8], key: &str| {
        let at = map.windows(key.len()).position(|window| window == key.as_bytes())?;
        Some(at + key.len())
    };
    // The map as the writer packs it: memory in 4 bytes, the rest in one.
    let (memory, lanes) = (after(&map, "argon2_memory_cost")?, after(&map, "argon2_parallelism")?);
    let (time, data, salt) = (after(&map, "argon2_time_cost")?, after(&map, "data")?, after(&map, "salt")?);
    let sealed = data + 2..data + 2 + usize::from(*map.get(data + 1)?);
    let salt = map.get(salt + 2..salt + 2 + 16)?.to_vec();
    let passphrase = Secret::new(passphrase.as_bytes().to_vec());
    let kek = |map: &[u8]| {
        let memory_kib = u32::from_be_bytes(map.get(memory + 1..memory + 5)?.try_into().ok()?);
        let params = Argon2Params {
            variant: Argon2Variant::Id,
            time: (*map.get(time)?).into(),
            memory_kib,
            lanes: (*map.get(lanes)?).into(),
        };
        let derived = argon2(&params, &passphrase, &salt).ok()?;
        Some(Aead::new(AeadKind::ChaCha20Poly1305, derived.expose().try_into().ok()?))
    };
    let (tag, rest) = map.get(sealed.clone())?.split_first_chunk::<16>()?;
    let mut inner = rest.to_vec();
    kek(&map)?.open_in_place(&[0; 12], b"", tag, &mut inner).ok()?;
    map.get_mut(memory + 1..memory + 5)?.copy_from_slice(&8u32.to_be_bytes());
    *map.get_mut(lanes)? = 1;
    *map.get_mut(time)? = 1;
    let tag = kek(&map)?.seal_in_place(&[0; 12], b"", &mut inner);
    map.get_mut(sealed)?.copy_from_slice(&[&tag[..], &inner].concat());
    let lines = Base64::encode_string(&map);
    let lines: Vec<&str> = lines.as_bytes().chunks(70).filter_map(|line| core::str::from_utf8(line).ok()).collect();
    Some(format!("{first}\n{}\n", lines.join("\n")).into_bytes())
}

/// The config of a Borg 1.x repository with its key sealed again with one iteration, if `passphrase`
/// opens it.
fn cheapened_config(text: &[u8], passphrase: &str) -> Option<Vec<u8>> {
    let text = core::str::from_utf8(text).ok()?;
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.iter().position(|line| line.starts_with("key"))?;
    let more = lines.iter().skip(first + 1).take_while(|line| line.starts_with(char::is_whitespace)).count();
    let value = lines.get(first)?.split_once('=')?.1;
    let base64: String = value.chars().chain(lines[first + 1..=first + more].concat().chars()).collect();
    let mut map = Base64::decode_vec(&base64.split_whitespace().collect::<String>()).ok()?;
    let place = |map: &[u8], key: &[u8], front: usize, len: usize| {
        let start = map.windows(key.len()).position(|window| window == key)? + key.len() + front;
        (start + len <= map.len()).then_some(start..start + len)
    };
    // The map as the writer packs it: iterations in 4 bytes, texts with a length of two.
    let (iterations, salt) = (place(&map, b"\xaaiterations", 1, 4)?, place(&map, b"\xa4salt", 3, 32)?);
    let hash = place(&map, b"\xa4hash", 3, 32)?;
    let len = place(&map, b"\xa4data", 1, 2)?;
    let data = place(&map, b"\xa4data", 3, u16::from_be_bytes(map.get(len)?.try_into().ok()?).into())?;
    let secret = Secret::new(passphrase.as_bytes().to_vec());
    let kek = |rounds: u32| {
        let derived = pbkdf2_sha256(&secret, map.get(salt.clone())?, rounds).ok()?;
        <[u8; 32]>::try_from(derived.expose()).ok()
    };
    let old = kek(u32::from_be_bytes(map.get(iterations.clone())?.try_into().ok()?))?;
    let new = kek(1)?;
    let mut inner = map.get(data.clone())?.to_vec();
    AesCtr::new(&old).apply(&[0; 16], &mut inner);
    if !MacKey::hmac_sha256(&old).verify(&[&inner], map.get(hash.clone())?) {
        return None;
    }
    map.get_mut(hash)?.copy_from_slice(&MacKey::hmac_sha256(&new).mac(&[&inner]));
    AesCtr::new(&new).apply(&[0; 16], &mut inner);
    map.get_mut(data)?.copy_from_slice(&inner);
    map.get_mut(iterations)?.copy_from_slice(&1u32.to_be_bytes());
    let key = format!("key = {}", Base64::encode_string(&map));
    let kept = lines[..first].iter().chain(&lines[first + 1 + more..]).copied();
    Some([kept.collect::<Vec<_>>().join("\n"), key, String::new()].join("\n").into_bytes())
}
