//! Runs the real `packtrain` command in an environment with nothing in it.

use crate::cases::Case;
use crate::folder::Temp;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Variable that names another command to test, such as one that is installed.
const OVERRIDE: &str = "PACKTRAIN_TEST_COMMAND";

/// The command under test, built in this profile if it is not up to date.
///
/// # Panics
/// If it cannot be built.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(path) => path.into(),
        None => build(),
    })
}

/// Cargo gives no path to a binary of another package, and does not build it for these tests.
fn build() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    // <target>[/<triple>]/<profile>/deps/<test>
    let profile_folder = test.parent().and_then(Path::parent).expect("a profile's folder");
    let above = profile_folder.parent().expect("a target folder");
    let profile = profile_folder.file_name().and_then(OsStr::to_str).expect("a profile");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--offline", "-p", "packtrain", "--bin", "packtrain"]);
    cargo.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
    if above.join("CACHEDIR.TAG").exists() {
        cargo.env("CARGO_TARGET_DIR", above);
    } else {
        cargo.env("CARGO_TARGET_DIR", above.parent().expect("a target folder"));
        cargo.arg("--target").arg(above.file_name().expect("a target triple"));
    }
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"));
    let run = cargo.output().expect("cargo runs");
    assert!(run.status.success(), "the command cannot be built:\n{}", String::from_utf8_lossy(&run.stderr));
    let path = profile_folder.join("packtrain");
    assert!(path.is_file(), "cargo did not put the command at {}", path.display());
    path
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Exit code; 128 + N if signal N ended it.
    pub code: i32,
    /// What it wrote to stdout.
    pub stdout: Vec<u8>,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Run {
    /// stdout as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.stdout).expect("UTF-8")
    }

    /// Panics unless the exit code is `code`.
    ///
    /// # Panics
    /// If it is another.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert!(self.code == code, "exit code {} instead of {code}:\n{}", self.code, self.stderr);
        assert!(!self.stderr.contains("panicked"), "a panic:\n{}", self.stderr);
        self
    }
}

/// One call of the command.
#[derive(Debug)]
pub struct Call {
    command: Command,
    /// An empty home, so that no key or setting of this machine is found.
    home: Temp,
}

impl Call {
    /// The command with these arguments, in an empty environment.
    pub fn new<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Self {
        Self::of(Command::new(binary()), arguments)
    }

    /// The same as a normal user; only root can do that.
    pub fn as_nobody<I: AsRef<OsStr>>(arguments: impl IntoIterator<Item = I>) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(binary());
        Self::of(command, arguments)
    }

    fn of<I: AsRef<OsStr>>(mut command: Command, arguments: impl IntoIterator<Item = I>) -> Self {
        let home = Temp::new();
        command.args(arguments).env_clear().env("HOME", home.path()).stdin(Stdio::null());
        for kept in ["PATH", "TMPDIR"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        Self { command, home }
    }

    /// With more arguments.
    #[must_use]
    pub fn args<I: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = I>) -> Self {
        self.command.args(arguments);
        self
    }

    /// With what opens `case`: nothing, if it is not encrypted.
    #[must_use]
    pub fn opening(self, case: &Case) -> Self {
        if case.json.get("mode").is_some_and(|mode| mode == "none") {
            return self;
        }
        let call = self.env("PACKTRAIN_PASSPHRASE", case.passphrase());
        match case.keyfile() {
            Some(key) => call.env("BORG_KEY_FILE", key),
            None => call,
        }
    }

    /// With an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// In this folder.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// With this on stdin.
    #[must_use]
    pub fn stdin(mut self, from: impl Into<Stdio>) -> Self {
        self.command.stdin(from);
        self
    }

    /// Its empty home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn run(mut self) -> Run {
        finished(self.command.output().expect("the command starts"))
    }

    /// Starts it, with pipes on stdout and stderr. The home must be kept until it has ended.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(mut self) -> (std::process::Child, Temp) {
        let child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        (child, self.home)
    }
}

/// What an ended process gave.
pub fn finished(output: std::process::Output) -> Run {
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    Run {
        code: code.unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
