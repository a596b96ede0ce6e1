//! The test vectors of the format note: keys, objects, and a whole repository (borg1.md 17).

use super::entry::FRONT_LEN;
use super::envelope::Keys;
use super::keys::{KeyMaterial, SealedKey};
use super::mode::Mode;
use super::store::MemoryStore;
use crate::base::{Id, Secret};
use crate::crypto::crc32;
use crate::formats::common::keyfile;
use alloc::vec::Vec;

/// The repository's id.
pub const REPOSITORY: Id = {
    let mut id = [0; 32];
    let mut at = 0;
    while at < 32 {
        id[at] = 0xa0 + at as u8;
        at += 1;
    }
    Id(id)
};

/// `config` of the whole repository; the passphrase is `test`.
pub const CONFIG: &str = "[repository]
version = 1
segments_per_dir = 1000
max_segment_size = 524288000
append_only = 0
storage_quota = 0
additional_free_space = 0
id = a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf
key = hqlhbGdvcml0aG2mc2hhMjU2pGRhdGHaANowWzv9Zv/E9yrw+lgBJNcqIsDGw28jJJB38n
\tmZ0yeiCE/sT33u+7FWcLVpfeYTV6uOCfLEnZFt00ryZAYzkegkVv1UmGO6ynBo461MY/zX
\ts7jLFA0GiHoYKH+pAS+nmMhud3ZcvbMybSH+DfGXX3WiXd45/nqd3gUUN8ZO0jIva37N10
\tfoT4Nj9UJWOwbhLdLLklBYgiNmug+plrHNLE2OmIshOc3ZWuiwkUfJ9HIoyWuXU+tx6rIY
\tgLCBEVbEoIH0Yw58nFbsoACyPEjIjIcYQaYwTzMXzh19Q6RoYXNo2gAgUHER1lH8tdiQLF
\tamgt/WzADghrX7um7R7iBam5FwREGqaXRlcmF0aW9uc84AAYagpHNhbHTaACDAwcLDxMXG
\tx8jJysvMzc7P0NHS09TV1tfY2drb3N3e36d2ZXJzaW9uAQ==
";

/// The blob of a key of the BLAKE2 family, base64.
pub const BLAKE2_BLOB: &str = "hqlhbGdvcml0aG2mc2hhMjU2pGRhdGHaAZowWzv9Zv/E9yrw+lgBJNcqIsDGw28jJJB38nmZcyeiCE/sT33u+7FWcLVpfeYTV6uOCfLEnZFt00ryZAYzdswIduZ6u10ogxojruIBKKmA5uOWS1Bd3S1NYzLmTGSyjt92bmxHoa4scoeXaa78Ogx4Xf55vzjemkBScI4HmHljJjCChxa6HNc2oxUOYly6cY+Vzf0q51MJyWbd+cO01EGEIdRq/BWh+WwVNuJiWd2FYs4w9lDMVQ+jJRckuvtrDSpRxKvL9Cqf4NS+KWLKm5umgoEmSyMHwxd1JZV8hkud7Ni7tCjzaRQAISR3HGRafJ/fN8lfL4A9bPb6s6dGSGyPPfWDLVo3H4pYP6AK4mpYdPqKLM8QUDRsgaGn0qUJMPUM8VeGHMXFTbDI2pYevROcj+eashcepLP6DBbIhj6MUq3eJVMp0nJ6zcxyDXM5mV6qWWC4EJmJq9U6J+qStNQP2vcLOQDqj/C7hQu762AvOCUQ+qX5Po5okyA2bAUAX/4CPHISt2d/TYu8CdkhSoaLRgdL+iR7AVT6naRoYXNo2gAgLuvWsVkVotzXieb1mh7Az1gZ/65ZcjiXBXniX/wOqNiqaXRlcmF0aW9uc84AAYagpHNhbHTaACDAwcLDxMXGx8jJysvMzc7P0NHS09TV1tfY2drb3N3e36d2ZXJzaW9uAQ==";

/// The one segment with objects: content, item stream, archive, manifest.
const SEGMENT: &str = "
        424f52475f534547c0b56c805a00000000f532ec0a52feaa5fdd429dd5472d62a3593654ee6720a116056cb68a4589797903396e455032bee913e826fc9cf277
        a6705759eea78829e1344852d604cbc9a07e0000000000000001f05d1ecb26d5f0ef460b0408cf00000000dc00ac9f160d763edfab8d46bb3c0c2ef6ce3c09c5
        cc91400847ca91895d5a3e03abfeb63ed9008f9e14904d57089350dec571a81b0a195850fb4efba17c7c59300000000001000001d532d750a59deea64566fe9f
        9e41da6a629f940c9f16a7f8fc1fd4094c4c0f60204007de3f970040650837a25d8701ced0761f2692801913bb745ea3f9ead20103081804fe5b97460450a83f
        fee1093399f10b6726c722cfa0c490462e8df5381a1a17c7fff130611eeeef4476c00dbf701b5860c76f499e30a22a76e7f67b5552a101000000587633c38ee1
        f5dcba75608e4913c2d6b7dba6d0232a6187bb449ecbaaff56fb03bca8616095c72e8ac5e139c3a1601387f41d73ce8c871d1e7e5a76e489d5ee5a0000000002
        000001da16ce90aef1808c198c9745fa389b0c6dfccafb4be146aa690644d804c98afb4a56097bbedf8496afa57adc3565d0875ff94604d523b34fb4eef81f82
        a7c0a5c2b071e8030b6dee2e7c9be516708bc65de12eb87fcad070f2242f2f8a0f0ebfaf81366a386708f2ed3a3e5d7c8a8c074595f5de8f46fafbb37e712147
        84e6dff859baa9df893f1a64a4a0318db984e2cb7c9a12918a68bd01e7ea6021ae695776683390b18877f4ee40fe97f343adab7576a7fa47545590aac97190bb
        a03204c8ca8000418825e86d4506cc982afe4e5719336785b654633e3d1dcbfc5113be2ef7fc63def50b17d1348b8529a4095c2f7b87f1cc9476540609a4e45a
        1ce2a472dfc41cdbdeedb69eb9294f0ab3516df1425e987404935b9a0a9ac0d426738d18eb5ed0ae10c9d480ce84340b8bd47992d0f75c38afd77a8dd700e010
        bcc8712178e791064072d670338489067ffa1a536b34a70100000000000000000000000000000000000000000000000000000000000000000000000312af1e96
        0b33738927cb43feaa03f294fdc46c4418721513c663fbee455a431200000000030000015f3c9d7ae0caaffd3d80be4d161dc3849d530806fd7367966f353726
        1b8c9aafb0356b8d1a97574dbde3f7e5b4a045afb2c178efac54fb808ffe3f725c24c358c64f585c6ca16107862ef485b50b879118a7787fc37531a5b95daf4b
        011787c1fc3a6020664e83d520fa9002027952edb77a19568bb40631357ac408e00230e12eb1f15a1a5680b6427e609bb35d7f3cd93ef98a17d771166286198f
        7fb7a4903b783460d2ec3602a46425b37106281a414f033b979e0914021240ffdfffe1b3430afb6b327af793386f3e3edf6b1fefc0de9697ddb37f82b1c4ea09
        73ed5577d54c334b3e814564ccffc72f64a9fd83bd21b53d56ebcde8fea205ae8644e28984dbb2c529108ebd769491564f7daa519b6f0373f084c3534559ae78
        2c40bbb8a7443844e59cce6c97c51f92d81967925bed49f2d8f5fe00ba4e5d908496a45256902370138f4098ee5241a649fccbb62bc73b0e6b
";

const MANIFEST: &str = "86a8617263686976657381a17682a26964da0020587633c38ee1f5dcba75608e4913c2d6b7dba6d0232a6187bb449ecbaaff56fba474696d65ba323032302d30312d30325430333a30343a30352e303030303036a6636f6e66696781ac74616d5f7265717569726564c3a96974656d5f6b65797391a470617468a374616d83a4686d6163da00407af100a153595e93a3ccea7aa3d95eccac19a08c6afc7db5750825ebc1bc28fa48dfe1cb8c1b14702dcbdff916e2d091c9f2aa7bd9a44f09f7f326ae268cf618a473616c74da00401112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f50a474797065b0484b44465f484d41435f534841353132a974696d657374616d70ba323032302d30312d30325430333a30343a30352e303030303036a776657273696f6e01";

/// Decodes hex with any white space.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect()
}

/// An entry of a segment with a checksum that holds.
pub fn sealed(tag: u8, body: &[u8]) -> Vec<u8> {
    let size = (FRONT_LEN + body.len()) as u32;
    let covered = [&size.to_le_bytes()[..], &[tag], body].concat();
    [&crc32(&covered).to_le_bytes()[..], &covered].concat()
}

/// The key blob of the whole repository.
pub fn hmac_blob() -> Vec<u8> {
    let (_, key) = CONFIG.split_once("key = ").unwrap();
    keyfile::decode(key).unwrap()
}

/// The unwrapped keys for a mode.
pub fn material(type_byte: u8) -> KeyMaterial {
    let blob = if matches!(type_byte, 4..=6) { keyfile::decode(BLAKE2_BLOB).unwrap() } else { hmac_blob() };
    SealedKey::parse(&blob).unwrap().open(&Secret::new(b"test".to_vec()), &REPOSITORY).unwrap()
}

/// The keys of a mode.
pub fn keys(type_byte: u8) -> Keys {
    let mode = Mode::of(type_byte).unwrap();
    if mode.is_plain() { Keys::none(mode) } else { Keys::new(mode, &material(type_byte)).unwrap() }
}

/// The plaintext of the manifest.
pub fn manifest() -> Vec<u8> {
    hex(MANIFEST)
}

/// The id of the one archive.
pub fn archive_id() -> Id {
    Id::from_hex(b"587633c38ee1f5dcba75608e4913c2d6b7dba6d0232a6187bb449ecbaaff56fb").unwrap()
}

/// The whole repository.
pub fn repository() -> MemoryStore {
    let mut store = MemoryStore::default();
    store.put("config", CONFIG.as_bytes());
    store.put("data/0/0", &hex(SEGMENT));
    store.put("data/0/1", &hex("424f52475f53454740f43c250900000002"));
    store
}
