//! Where passphrases and key files come from.
//!
//! In this order: `PACKTRAIN_PASSPHRASE` or `BORG_PASSPHRASE`, a passcommand, a file descriptor,
//! a question on the terminal. Secrets are never arguments, never printed, and not passed on to
//! the passcommand.

use crate::exit::{Failure, NO_KEY_FILE, NO_PASSPHRASE, Result};
use packtrain_core::base::{Id, Secret, limits};
use std::env;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that hold secrets or lead to one; children do not get them.
const SECRET_VARIABLES: [&str; 6] = [
    "PACKTRAIN_PASSPHRASE",
    "BORG_PASSPHRASE",
    "PACKTRAIN_PASSCOMMAND",
    "BORG_PASSCOMMAND",
    "PACKTRAIN_PASSPHRASE_FD",
    "BORG_PASSPHRASE_FD",
];

/// The environment's answers to the question for keys and passphrases.
#[derive(Clone, Copy, Debug, Default)]
pub struct Secrets;

impl Secrets {
    /// The passphrase that the environment gives, if it gives one.
    ///
    /// # Errors
    /// If the passcommand or file descriptor fails.
    pub fn given(&self) -> Result<Option<Secret>> {
        if let Some(passphrase) = variable("PASSPHRASE") {
            return Ok(Some(Secret::new(passphrase.into_vec())));
        }
        if let Some(command) = variable("PASSCOMMAND") {
            return ask_command(&command).map(Some);
        }
        if let Some(fd) = variable("PASSPHRASE_FD") {
            let number: u32 = fd
                .to_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| Failure::usage("PASSPHRASE_FD is not the number of a file descriptor"))?;
            return std::fs::File::open(format!("/dev/fd/{number}")).and_then(read_line).map(Some).map_err(|error| {
                Failure::new(NO_PASSPHRASE, format!("reading the passphrase from descriptor {number} failed: {error}"))
            });
        }
        Ok(None)
    }

    /// Asks on the terminal.
    ///
    /// # Errors
    /// 50 without a terminal.
    pub fn ask(&self, repository: &Id) -> Result<Secret> {
        if !std::io::stdin().is_terminal() {
            let text = "a passphrase is needed: set PACKTRAIN_PASSPHRASE, PACKTRAIN_PASSCOMMAND or PACKTRAIN_PASSPHRASE_FD (or the BORG_ names)";
            return Err(Failure::new(NO_PASSPHRASE, text));
        }
        let typed = rpassword::prompt_password(format!("Passphrase for repository {repository}: "));
        typed.map(|text| Secret::new(text.into_bytes())).map_err(|error| Failure::new(NO_PASSPHRASE, error.to_string()))
    }

    /// The content of key files of this machine that could belong to `repository`, in path order.
    ///
    /// # Errors
    /// 42 if a key file is named that cannot be read or is for another repository.
    pub fn key_files(&self, repository: &Id) -> Result<Vec<Vec<u8>>> {
        if let Some(named) = variable("KEY_FILE") {
            let path = PathBuf::from(named);
            let bytes = read_key(&path).map_err(|error| {
                Failure::new(NO_KEY_FILE, format!("{}: the key file cannot be read: {error}", path.display()))
            })?;
            if !bytes.windows(64).any(|window| Id::from_hex(window).as_ref() == Some(repository)) {
                let text = format!("{}: not a key file for repository {repository}", path.display());
                return Err(Failure::new(NO_KEY_FILE, text));
            }
            return Ok(vec![bytes]);
        }
        let Some(folder) = key_folder() else { return Ok(Vec::new()) };
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        Ok(paths.iter().filter_map(|path| read_key(path).ok()).collect())
    }

    /// Where key files are looked for, for messages.
    pub fn key_place(&self) -> String {
        key_folder().map_or_else(|| "any key folder (HOME is not set)".into(), |folder| folder.display().to_string())
    }
}

/// `PACKTRAIN_<name>`, else `BORG_<name>`.
pub fn variable(name: &str) -> Option<OsString> {
    env::var_os(format!("PACKTRAIN_{name}")).or_else(|| env::var_os(format!("BORG_{name}")))
}

fn key_folder() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("BORG_KEYS_DIR") {
        return Some(folder.into());
    }
    if let Some(folder) = env::var_os("BORG_CONFIG_DIR") {
        return Some(Path::new(&folder).join("keys"));
    }
    if let Some(folder) = env::var_os("BORG_BASE_DIR") {
        return Some(Path::new(&folder).join(".config/borg/keys"));
    }
    if let Some(folder) = env::var_os("XDG_CONFIG_HOME") {
        return Some(Path::new(&folder).join("borg/keys"));
    }
    Some(Path::new(&env::var_os("HOME")?).join(".config/borg/keys"))
}

fn read_key(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    std::fs::File::open(path)?.take(limits::KEY_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn ask_command(command: &OsString) -> Result<Secret> {
    let fail = |why: String| Failure::new(NO_PASSPHRASE, format!("the passcommand failed: {why}"));
    let words = command.to_str().and_then(shlex::split).ok_or_else(|| fail("it cannot be split into words".into()))?;
    let (program, arguments) = words.split_first().ok_or_else(|| fail("it is empty".into()))?;
    let mut child = Command::new(program);
    child.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    for name in SECRET_VARIABLES {
        child.env_remove(name);
    }
    let output = child.output().map_err(|error| fail(format!("{program}: {error}")))?;
    if !output.status.success() {
        return Err(fail(format!("{program}: {}", output.status)));
    }
    Ok(first_line(output.stdout))
}

fn read_line(file: std::fs::File) -> std::io::Result<Secret> {
    let mut bytes = Vec::with_capacity(limits::KEY_MAX as usize);
    file.take(limits::KEY_MAX).read_to_end(&mut bytes)?;
    Ok(first_line(bytes))
}

/// The secret without the line end that commands print after it.
fn first_line(mut bytes: Vec<u8>) -> Secret {
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    Secret::new(bytes)
}
