//! What can go wrong at the target: warnings that leave the run going, and problems that lose
//! an entry or end the run.
//!
//! Neither carries a path: the caller knows which entry it was working on, groups equal ones
//! and adds the name. Neither allocates on the paths that succeed.

use core::fmt;
use rustix::io::Errno;

/// Result with a [`Problem`].
pub type Result<T, E = Problem> = core::result::Result<T, E>;

/// The exit code family a warning or problem belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// The system refused for any other reason (code 104).
    System,
    /// The system refused for lack of rights (code 105).
    Permission,
    /// The device or the network failed, or the disk is full (code 106).
    Io,
    /// Something that was there is gone (code 107).
    NotFound,
    /// A parent folder at the target is a symbolic link or another non-directory (code 108).
    ParentIsLink,
    /// A name would lead out of the target (code 109).
    ClimbsOut,
    /// A hard link would have joined another file than the restored one (code 110).
    UnsafeLink,
}

impl Class {
    /// The process exit code that stands for this class, 104 to 110.
    pub const fn code(self) -> u8 {
        match self {
            Self::System => 104,
            Self::Permission => 105,
            Self::Io => 106,
            Self::NotFound => 107,
            Self::ParentIsLink => 108,
            Self::ClimbsOut => 109,
            Self::UnsafeLink => 110,
        }
    }

    /// The class of a system error.
    pub fn of(errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Permission,
            Errno::NOENT | Errno::STALE => Self::NotFound,
            Errno::IO | Errno::NXIO | Errno::NODEV | Errno::TIMEDOUT | Errno::FBIG => Self::Io,
            _ if no_space(errno) => Self::Io,
            _ => Self::System,
        }
    }
}

/// True for the errors that every later write would meet as well.
pub(super) fn no_space(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::ROFS)
}

/// The piece of an entry that was being restored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum What {
    /// Making the object.
    Create,
    /// Writing content.
    Write,
    /// Setting the length.
    Length,
    /// Flushing at close.
    Close,
    /// Moving the finished object to its name, or removing what was in its place.
    Replace,
    /// Opening a folder.
    Open,
    /// Owner and group.
    Owner,
    /// Permission bits.
    Mode,
    /// The setuid or setgid bit, left out because the owner is not as archived.
    SetId,
    /// The access ACL.
    AccessAcl,
    /// The default ACL of a directory.
    DefaultAcl,
    /// One extended attribute, by its raw name.
    Xattr(Box<[u8]>),
    /// Modification and access time.
    Times,
    /// File flags.
    Flags,
    /// A hard link.
    Link,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "creation",
            Self::Write => "content",
            Self::Length => "length",
            Self::Close => "closing",
            Self::Replace => "replacement",
            Self::Open => "opening",
            Self::Owner => "owner",
            Self::Mode => "mode",
            Self::SetId => "setuid or setgid bit",
            Self::AccessAcl => "access ACL",
            Self::DefaultAcl => "default ACL",
            Self::Xattr(name) => {
                return write!(f, "extended attribute {}", name.escape_ascii());
            }
            Self::Times => "times",
            Self::Flags => "flags",
            Self::Link => "hard link",
        })
    }
}

/// Why a piece was not restored as archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The system refused, with this error.
    Refused(Errno),
    /// The archived value does not fit what the file system can hold; the nearest was set.
    OutOfRange,
    /// The archived value makes no sense; nothing was set.
    Malformed,
    /// Left out on purpose because it would give rights to another owner than the archived one.
    Unsafe,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(errno) => write!(f, "{}", std::io::Error::from(*errno)),
            Self::OutOfRange => f.write_str("out of range, the nearest value was set"),
            Self::Malformed => f.write_str("the archived value is malformed"),
            Self::Unsafe => f.write_str("the owner differs from the archived one"),
        }
    }
}

/// One piece of an entry that is not as archived, while the entry itself was restored.
/// Displays as one line without a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Warning {
    /// Which piece.
    pub what: What,
    /// Why.
    pub why: Why,
}

impl Warning {
    /// A warning about a piece the system refused.
    pub fn refused(what: What, errno: Errno) -> Self {
        Self { what, why: Why::Refused(errno) }
    }

    /// A warning with another reason.
    pub fn new(what: What, why: Why) -> Self {
        Self { what, why }
    }

    /// The exit code family. Everything but a system error counts as [`Class::System`], except
    /// bits left out for safety, which are a matter of rights.
    pub fn class(&self) -> Class {
        match self.why {
            Why::Refused(errno) => Class::of(errno),
            Why::Unsafe => Class::Permission,
            Why::OutOfRange | Why::Malformed => Class::System,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} not restored as archived: {}", self.what, self.why)
    }
}

/// Why an entry could not be restored. Displays as one line without a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The target is full, over quota or read-only: later entries would fail as well.
    NoSpace(Errno),
    /// A parent folder is a symbolic link, which is never followed.
    ParentIsLink,
    /// A parent folder is neither a directory nor a symbolic link.
    ParentIsFile,
    /// A name is empty, `.`, `..`, or holds a slash or NUL.
    ClimbsOut,
    /// A directory that is not empty is at the name of an entry that is no directory.
    Occupied,
    /// A hard link is impossible here for this reason; a copy would do.
    CopyWanted(Errno),
    /// What the hard link would have joined is not the file that was restored.
    UnsafeLink,
    /// The entry is of a kind that this call does not make.
    WrongKind,
    /// The system refused.
    Failed {
        /// At which step.
        what: What,
        /// With which error.
        errno: Errno,
    },
}

impl Problem {
    /// The problem that `errno` means at step `what`.
    pub fn new(what: What, errno: Errno) -> Self {
        if no_space(errno) { Self::NoSpace(errno) } else { Self::Failed { what, errno } }
    }

    /// The exit code family.
    pub fn class(&self) -> Class {
        match self {
            Self::NoSpace(_) => Class::Io,
            Self::ParentIsLink | Self::ParentIsFile => Class::ParentIsLink,
            Self::ClimbsOut => Class::ClimbsOut,
            Self::Occupied | Self::WrongKind => Class::System,
            Self::UnsafeLink => Class::UnsafeLink,
            Self::CopyWanted(errno) | Self::Failed { errno, .. } => Class::of(*errno),
        }
    }

    /// True if later entries would fail the same way, so that the run ends here.
    pub fn stops_the_run(&self) -> bool {
        matches!(self, Self::NoSpace(_))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSpace(errno) => write!(f, "{}", std::io::Error::from(*errno)),
            Self::ParentIsLink => f.write_str("a parent folder is a symbolic link"),
            Self::ParentIsFile => f.write_str("a parent folder is not a directory"),
            Self::ClimbsOut => f.write_str("the name would lead out of the target"),
            Self::Occupied => f.write_str("a directory that is not empty has this name"),
            Self::CopyWanted(errno) => {
                write!(f, "no hard link possible: {}", std::io::Error::from(*errno))
            }
            Self::UnsafeLink => f.write_str("the hard link's source was exchanged"),
            Self::WrongKind => f.write_str("entry of another kind"),
            Self::Failed { what, errno } => {
                write!(f, "{what}: {}", std::io::Error::from(*errno))
            }
        }
    }
}

impl core::error::Error for Problem {}

/// Turns a system error at a step into a [`Problem`].
pub(super) trait During<T> {
    /// The value, or the problem that the error means at step `what`.
    fn during(self, what: What) -> Result<T>;
}

impl<T> During<T> for rustix::io::Result<T> {
    fn during(self, what: What) -> Result<T> {
        self.map_err(|errno| Problem::new(what, errno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disks_stop_the_run_and_nothing_else_does() {
        for errno in [Errno::NOSPC, Errno::DQUOT, Errno::ROFS] {
            let problem = Problem::new(What::Write, errno);
            assert!(problem.stops_the_run());
            assert_eq!(problem.class().code(), 106);
        }
        assert!(!Problem::new(What::Write, Errno::FBIG).stops_the_run());
        assert_eq!(Problem::new(What::Create, Errno::PERM).class(), Class::Permission);
        assert_eq!(Problem::ParentIsLink.class().code(), 108);
        assert_eq!(Problem::ClimbsOut.class().code(), 109);
        assert_eq!(Problem::UnsafeLink.class().code(), 110);
    }

    #[test]
    fn one_line_even_with_a_hostile_name() {
        let what = What::Xattr(b"user.a\nb\x1b[0m".as_slice().into());
        let text = Warning::refused(what, Errno::OPNOTSUPP).to_string();
        assert!(text.contains("user.a\\nb\\x1b"), "{text}");
        assert!(!text.contains('\n'));
    }
}
