//! The table of EROFS cases: images by the reference tools, and the tree that all of them are of.

use crate::folder::Temp;
use crate::tree::{self, Tree};
use packtrain::store::Place;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// One image.
#[derive(Debug)]
pub struct Image {
    /// Its name in the table.
    pub name: String,
    /// What the table says of it.
    pub json: Map<String, Value>,
    /// Where it is, unpacked.
    pub place: Place,
}

/// The folder of the table.
pub fn root() -> PathBuf {
    crate::cases::root().join("erofs")
}

/// Every image, in the order of the table, unpacked once a run.
///
/// # Panics
/// If one cannot be read: a broken table must not make tests pass.
pub fn all() -> &'static [Image] {
    // The folder goes with the last test of the run, not with this value: nothing drops a static.
    static ALL: OnceLock<(Vec<Image>, Temp)> = OnceLock::new();
    &ALL.get_or_init(|| {
        let temp = Temp::new();
        let text = std::fs::read_to_string(root().join("cases.json")).expect("the table");
        let table: Vec<Map<String, Value>> = serde_json::from_str(&text).expect("a list of maps");
        (table.into_iter().map(|json| Image::unpack(json, temp.path())).collect(), temp)
    })
    .0
}

/// The image of this name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> &'static Image {
    all().iter().find(|image| image.name == name).unwrap_or_else(|| panic!("no image {name}"))
}

/// Unpacks one file of the table into `folder`.
fn unpack(name: &str, folder: &Path) -> PathBuf {
    let packed = std::fs::read(root().join(format!("{name}.zst"))).expect("a file of the table");
    let size = zstd_safe::get_frame_content_size(&packed).expect("a frame").expect("a stated size");
    let mut plain = vec![0; usize::try_from(size).expect("a small image")];
    let len = zstd_safe::decompress(&mut plain[..], &packed).expect("a whole frame");
    let path = folder.join(name);
    std::fs::write(&path, &plain[..len]).expect("a file");
    path
}

impl Image {
    fn unpack(json: Map<String, Value>, folder: &Path) -> Self {
        let name = json["name"].as_str().expect("a name").to_owned();
        let devices = json.get("devices").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let devices = devices.iter().map(|device| unpack(device.as_str().expect("a name"), folder)).collect();
        let path = unpack(&format!("{name}.img"), folder);
        Self { name, json, place: Place { path, offset: 0, devices } }
    }

    /// The words that name it on a command line.
    pub fn words(&self) -> Vec<String> {
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let devices = self.place.devices.iter().flat_map(|device| ["--device".into(), text(device)]);
        [text(&self.place.path)].into_iter().chain(devices).collect()
    }

    /// What it must restore: the source tree, but for what the image itself cannot keep.
    pub fn expected(&self) -> Tree {
        let mut tree = tree::kept(&root().join("tree.jsonl"));
        if let Some(below) = self.json.get("below").and_then(Value::as_str) {
            // Entries of a folder, whose further names elsewhere are not there.
            let prefix = format!("{below}/");
            let inside = tree.into_iter().filter_map(|(path, mut entry)| {
                let path = path.strip_prefix(&prefix)?.to_owned();
                entry.insert("path".into(), path.as_str().into());
                Some((path, entry))
            });
            return inside.collect();
        }
        if self.json.get("seconds").is_some() {
            // Compact inodes of the 48-bit layout have seconds, and none before their epoch.
            for entry in tree.values_mut() {
                let nanos = entry["mtime_ns"].as_i64().expect("a time");
                let kept = if nanos < 0 { Value::Null } else { (nanos / 1_000_000_000 * 1_000_000_000).into() };
                entry.insert("mtime_ns".into(), kept);
            }
        }
        if self.name == "digest" {
            for entry in tree.values_mut().filter(|entry| entry.get("size").is_some_and(|size| size != 0)) {
                let mut value = b"sha256:".to_vec();
                let hex = entry["sha256"].as_str().expect("a digest");
                value.extend(packtrain_core::base::Id::from_hex(hex.as_bytes()).expect("hex").0);
                attributes(entry).insert("trusted.digest".into(), packtrain::messages::base64(&value).into());
            }
        }
        if self.name == "from-tar" {
            // A tar stream has no sockets, and each name of a pipe as a pipe of its own.
            tree.remove("special/socket");
            for path in ["special/fifo", "special/fifo-too"] {
                tree.get_mut(path).expect("a pipe").remove("hlgroup");
            }
        } else {
            // mkfs.erofs marks each folder that has a whiteout.
            let special = tree.get_mut("special").expect("a folder");
            attributes(special).insert("trusted.overlay.origin".into(), "".into());
        }
        tree
    }
}

fn attributes(entry: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let all = entry.entry("xattrs").or_insert_with(|| Value::Object(Map::new()));
    all.as_object_mut().expect("a map")
}
