//! Borg 1.x repositories (version 1), as Borg 1.0 to 1.4 write them.
//!
//! Read: every mode, key place and compression. Refused by name: version 2, Borg's predecessor, and newer
//! metadata. The layers of the format note, lowest first: [`entry`], [`walk`] and [`audit`] know the
//! bytes of a segment; [`segments`], [`replay`], [`stored_index`] and [`log`] make an index of them;
//! [`mode`], [`keys`], [`envelope`], [`payload`] and [`object`] open objects; [`tam`], [`manifest`],
//! [`archive`] and [`catalog`] are what is in them, and [`repository`] is the whole. [`lost`] looks for
//! archives without a manifest.
//!
//! Memory: 44 bytes a live object, twice that while the log is replayed; all else is bounded.

pub mod archive;
pub mod audit;
pub mod catalog;
pub mod config;
pub mod entry;
pub mod envelope;
pub mod keys;
pub mod log;
pub mod lost;
pub mod manifest;
pub mod mode;
pub mod object;
pub mod payload;
pub mod replay;
pub mod repository;
pub mod segments;
pub mod stored_index;
pub mod tam;
pub mod walk;

#[cfg(test)]
mod store;
#[cfg(test)]
mod vectors;
#[cfg(test)]
mod whole;

use crate::base::{Check, Denied, Id, Kind, Result, Secret, Unsupported, limits};
use crate::formats::common::keyfile;
use crate::formats::{Format, Locked, OpenOptions, Source};
use crate::platform::{Kit, Pending, Port};
use alloc::{boxed::Box, format, sync::Arc, vec::Vec};
use config::Config;
use envelope::Keys;
use keys::SealedKey;
use log::Log;
use mode::Mode;
use repository::Repository;

/// The format.
pub struct Borg1;

const CONFIG: &str = "config";

impl Format for Borg1 {
    fn name(&self) -> &'static str {
        "Borg 1"
    }

    fn detect<'a>(&self, port: &'a Port) -> Pending<'a, Result<bool>> {
        Box::pin(recognise(port))
    }

    fn open<'a>(&self, port: &'a Port, kit: Kit, options: OpenOptions) -> Pending<'a, Result<Box<dyn Locked>>> {
        Box::pin(async move {
            let bytes = port.load(CONFIG, "config size", limits::CONFIG_MAX).await?;
            let config = Config::parse(&bytes).map_err(|error| error.in_object(CONFIG))?;
            let log = Log::open(port, config.segments_per_dir).await?;
            let type_byte = log.type_byte(port).await?;
            let mode = Mode::of(type_byte).ok_or_else(|| Unsupported::Suite(format!("of type {type_byte}")))?;
            if type_byte == mode::PASSPHRASE && config.key.is_none() {
                let why = "of the old passphrase mode: Borg 1.x must migrate the repository first";
                return Err(Unsupported::KeyWrap(why.into()).into());
            }
            let locked = LockedRepository { config, mode, options, kit, log: Arc::new(log), offered: Vec::new() };
            Ok(Box::new(locked) as Box<dyn Locked>)
        })
    }
}

/// A file `config` beside a folder `data`; or without that folder, one that reads like it.
async fn recognise(port: &Port) -> Result<bool> {
    let Some(Some(_)) = port.stat(CONFIG).await? else { return Ok(false) };
    if port.stat("data").await? == Some(None) {
        return Ok(true);
    }
    let bytes = port.read(CONFIG, 0, limits::CONFIG_MAX).await?;
    match Config::parse(&bytes) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), Kind::Unsupported(_)) => Err(error.in_object(CONFIG)),
        Err(_) => Ok(false),
    }
}

/// A repository whose key is not open yet.
struct LockedRepository {
    config: Config,
    /// The mode that the manifest claims.
    mode: &'static Mode,
    options: OpenOptions,
    kit: Kit,
    log: Arc<Log>,
    /// Key files of this machine, tried first.
    offered: Vec<Vec<u8>>,
}

impl LockedRepository {
    /// True if the repository may be read without its key, on request.
    fn may_do_without_key(&self) -> bool {
        self.options.not_authenticated && !self.mode.encrypted
    }

    fn keys_for(&self, passphrase: &Secret) -> Result<Keys> {
        if self.mode.is_plain() {
            // Whoever can write here could make it look so (borg1.md 16).
            return if self.keys() > 0 || !passphrase.is_empty() {
                Err(Check::Downgrade.into())
            } else {
                Ok(Keys::none(self.mode))
            };
        }
        match self.open_key(passphrase) {
            // An empty passphrase is only a try: whoever has another is still to be asked for it.
            Err(_) if self.may_do_without_key() && (self.keys() == 0 || !passphrase.is_empty()) => {
                Ok(Keys::unverified(self.mode))
            }
            other => other,
        }
    }

    /// The first key that opens. A damaged candidate is stepped over.
    fn open_key(&self, passphrase: &Secret) -> Result<Keys> {
        let offered = self.offered.iter().map(|text| keyfile::sealed(text));
        let opened = offered.chain(self.config.key.clone()).map(|blob| {
            let material = SealedKey::parse(&blob?)?.open(passphrase, &self.config.id)?;
            Keys::new(self.mode, &material)
        });
        keyfile::first_that_opens(opened, Denied::NoKey.into())
    }
}

impl Locked for LockedRepository {
    fn repository(&self) -> Id {
        self.config.id
    }

    fn offer_key(&mut self, bytes: &[u8]) -> bool {
        let fits = keyfile::belongs_to(bytes, &self.config.id) && self.offered.len() < limits::KEYS_MAX;
        if fits {
            self.offered.push(bytes.to_vec());
        }
        fits
    }

    fn keys(&self) -> usize {
        self.offered.len() + usize::from(self.config.key.is_some())
    }

    fn is_plain(&self) -> bool {
        self.mode.is_plain() || (self.may_do_without_key() && self.keys() == 0)
    }

    fn unlock<'a>(&'a self, port: &'a Port, passphrase: &'a Secret) -> Pending<'a, Result<Box<dyn Source>>> {
        Box::pin(async move {
            let keys = self.keys_for(passphrase)?;
            let (config, log) = (self.config.clone(), self.log.clone());
            let repository = Repository::open(port, self.kit, config, self.options, keys, log).await?;
            Ok(Box::new(repository) as Box<dyn Source>)
        })
    }
}
