//! Borg 2 repositories of version 5, as borgbackup 2.0.0b25 writes them.
//!
//! Read: every suite, key place and compression. Refused by name: other versions (the older
//! betas) and Borg 1.x. The format note calls the layers store, pack, object, envelope; here
//! they are [`repository`], [`scan`], [`object`] and [`envelope`], with [`config`], [`keys`],
//! [`index`] and [`archive`] beside them.

pub mod archive;
pub mod config;
pub mod envelope;
pub mod index;
pub mod keys;
pub mod object;
pub mod repository;
pub mod scan;
pub mod suite;

use crate::base::{Check, Denied, Error, Id, Kind, Result, Secret, Unsupported, limits};
use crate::formats::common::keyfile;
use crate::formats::{Format, Locked, OpenOptions, Source};
use crate::platform::{Kit, Pending, Port};
use alloc::{boxed::Box, format, string::String, vec::Vec};
use config::Config;
use envelope::Keys;
use keys::{KeyMaterial, SealedKey};
use repository::{Repository, list_ids};

/// The format.
pub struct Borg2;

const CONFIG: &str = "config/config";

impl Format for Borg2 {
    fn name(&self) -> &'static str {
        "Borg 2"
    }

    fn detect<'a>(&self, port: &'a Port) -> Pending<'a, Result<bool>> {
        Box::pin(recognise(port))
    }

    fn open<'a>(&self, port: &'a Port, kit: Kit, _options: OpenOptions) -> Pending<'a, Result<Box<dyn Locked>>> {
        Box::pin(async move {
            let bytes = port.load(CONFIG, "config size", limits::CONFIG_MAX).await?;
            let config = Config::parse(&bytes).map_err(|error| error.in_object(CONFIG))?;
            let key_objects = list_ids(port, "keys", limits::KEYS_MAX).await?;
            let mut locked = LockedRepository {
                config,
                kit,
                key_objects,
                offered: Vec::new(),
                stored: Vec::new(),
                unreadable: None,
            };
            for id in &locked.key_objects {
                match port.load(&format!("keys/{id}"), "key size", limits::KEY_MAX).await {
                    Ok(text) if keys::belongs_to(&text, &config.id) => locked.stored.push(text),
                    Err(error) if matches!(error.kind(), Kind::Store(_)) => return Err(error),
                    // Others may still open the repository; if there are none, this is the reason.
                    Err(error) => locked.unreadable = Some(error),
                    // A key of another repository.
                    Ok(_) => {}
                }
            }
            Ok(Box::new(locked) as Box<dyn Locked>)
        })
    }
}

/// Looks at names only, in the order of borg2.md 2.4.
async fn recognise(port: &Port) -> Result<bool> {
    match port.stat("config").await? {
        Some(Some(_)) => {
            // Borg 1.x keeps its config in one file and its segments in `data`.
            let borg1 = port.stat("data").await? == Some(None);
            return if borg1 && cfg!(not(feature = "borg1")) {
                Err(Unsupported::Format("Borg 1.x").into())
            } else {
                Ok(false)
            };
        }
        Some(None) => {}
        None => return Ok(false),
    }
    if let Some(Some(_)) = port.stat(CONFIG).await? {
        return Ok(true);
    }
    if let Some(Some(_)) = port.stat("config/version").await? {
        let version = port.load("config/version", "version size", 64).await?;
        let version = String::from_utf8_lossy(version.trim_ascii()).into_owned();
        return Err(config::other_version(&format!("{version}, an older beta,")));
    }
    for folder in ["packs", "archives", "index"] {
        if port.stat(folder).await? != Some(None) {
            return Ok(false);
        }
    }
    Err(Error::from(Check::ConfigLost).in_object(CONFIG))
}

/// A repository whose key is not open yet.
struct LockedRepository {
    config: Config,
    kit: Kit,
    key_objects: Vec<Id>,
    /// Key files of this machine, tried first.
    offered: Vec<Vec<u8>>,
    /// Keys in the repository.
    stored: Vec<Vec<u8>>,
    /// Why a key in the repository cannot even be read.
    unreadable: Option<Error>,
}

impl LockedRepository {
    /// The first key that opens. A damaged candidate is stepped over.
    fn open_key(&self, passphrase: &Secret) -> Result<KeyMaterial> {
        let texts = self.offered.iter().chain(&self.stored);
        let opened = texts.map(|text| SealedKey::parse(text)?.open(passphrase, &self.config.id));
        keyfile::first_that_opens(opened, self.unreadable.clone().unwrap_or_else(|| Denied::NoKey.into()))
    }
}

impl Locked for LockedRepository {
    fn repository(&self) -> Id {
        self.config.id
    }

    fn offer_key(&mut self, bytes: &[u8]) -> bool {
        let fits = keys::belongs_to(bytes, &self.config.id) && self.offered.len() < limits::KEYS_MAX;
        if fits {
            self.offered.push(bytes.to_vec());
        }
        fits
    }

    fn keys(&self) -> usize {
        self.offered.len() + self.stored.len() + usize::from(self.unreadable.is_some())
    }

    fn unlock<'a>(&'a self, port: &'a Port, passphrase: &'a Secret) -> Pending<'a, Result<Box<dyn Source>>> {
        Box::pin(async move {
            let material = self.open_key(passphrase)?;
            let keys = Keys::new(self.config.suite, material.crypt_key, &material.id_key);
            let repository = Repository::open(port, self.kit, self.config, keys, self.key_objects.clone()).await?;
            Ok(Box::new(repository) as Box<dyn Source>)
        })
    }
}
