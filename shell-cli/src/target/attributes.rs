//! The attributes of an object, set in the one order that works.
//!
//! Owner, extended attributes, mode, ACLs, times; flags last and apart. The reasons:
//! a change of owner clears setuid bits and capabilities, so it comes first; a file made
//! read-only refuses further `user.` attributes to everybody but root, so those precede the mode;
//! each of them may touch times; and an immutable object refuses all of it, even being renamed.

use super::Shared;
use super::acl;
use super::object::Object;
use super::owners::Number;
use super::warning::{Warning, What, Why};
use packtrain_core::objects::{Entry, EntryKind, Time};
use rustix::fs::{IFlags, Timespec, Timestamps};
use rustix::io::{Errno, Result};

/// What an object has before its attributes are set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits with setuid, setgid and sticky, 0 to 0o7777.
    pub mode: u32,
    /// True if it may have got ACLs from its folder's default ACL.
    pub inherits: bool,
}

/// The owner and group an entry asks for, as numbers of this system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Owner.
    pub user: Number,
    /// Group.
    pub group: Number,
}

impl Wanted {
    /// Looks up what `entry` asks for.
    pub fn of(entry: &Entry, shared: &Shared) -> Self {
        Self {
            user: shared.owners.user(entry.user.as_deref(), entry.uid),
            group: shared.owners.group(entry.group.as_deref(), entry.gid),
        }
    }

    /// True if an object with this owner and group is as wanted, or nothing is wanted.
    pub fn is_met_by(&self, uid: u32, gid: u32) -> bool {
        let met = |wanted, have| match wanted {
            Number::Id(id) => id == have,
            Number::Absent => true,
            Number::OutOfRange => false,
        };
        met(self.user, uid) && met(self.group, gid)
    }
}

/// True if all that creation has to give to `entry` is the right mode.
pub(crate) fn only_mode(entry: &Entry, shared: &Shared) -> bool {
    (entry.xattrs.is_empty() || !shared.policy.xattrs) && (entry.acl.access.is_empty() || !shared.policy.acls)
}

/// Sets everything but flags. What is refused is added to `warnings`.
pub(crate) fn apply(
    object: Object<'_>,
    entry: &Entry,
    wanted: Wanted,
    made: Made,
    shared: &Shared,
    warnings: &mut Vec<Warning>,
) {
    let (uid, gid) = set_owner(object, wanted, made, shared, warnings);
    if shared.policy.xattrs {
        set_xattrs(object, entry, shared, warnings);
    }
    if !object.is_link() {
        let mode = safe_mode(entry, wanted, uid, gid, warnings);
        set_mode_and_acls(object, entry, mode, made, (uid, gid), shared, warnings);
    }
    set_times(object, entry, warnings);
}

/// Sets the owner where wanted, allowed and not so already; returns what it is then.
fn set_owner(
    object: Object<'_>,
    wanted: Wanted,
    made: Made,
    shared: &Shared,
    warnings: &mut Vec<Warning>,
) -> (u32, u32) {
    let have = (made.uid, made.gid);
    if wanted.is_met_by(made.uid, made.gid) {
        return have;
    }
    let asked = |number, have| match number {
        Number::Id(id) if id != have => Some(id),
        _ => None,
    };
    let (user, group) = (asked(wanted.user, made.uid), asked(wanted.group, made.gid));
    let change = if shared.policy.owners {
        if [wanted.user, wanted.group].contains(&Number::OutOfRange) {
            warnings.push(Warning::new(What::Owner, Why::Malformed));
        }
        (user, group)
    } else {
        // A user may pass own files on to own groups, which is worth having for own backups.
        let own = made.uid == shared.process.uid && user.is_none();
        let passed_on = group.filter(|id| own && shared.process.groups.contains(id));
        if user.is_some() || group != passed_on {
            warnings.push(Warning::refused(What::Owner, Errno::PERM));
        }
        (None, passed_on)
    };
    if change == (None, None) {
        return have;
    }
    match object.set_owner(change.0, change.1) {
        Ok(()) => (change.0.unwrap_or(made.uid), change.1.unwrap_or(made.gid)),
        Err(errno) => {
            warnings.push(Warning::refused(What::Owner, errno));
            have
        }
    }
}

/// The entry's mode, without the bits that would hand an owner's rights to programs of another.
fn safe_mode(entry: &Entry, wanted: Wanted, uid: u32, gid: u32, warnings: &mut Vec<Warning>) -> u32 {
    const SETUID: u32 = 0o4000;
    const SETGID: u32 = 0o2000;
    let mode = entry.mode & 0o7777;
    // On directories these bits only steer what new files get.
    if mode & (SETUID | SETGID) == 0 || matches!(entry.kind, EntryKind::Directory) {
        return mode;
    }
    let mut safe = mode;
    if wanted.user != Number::Id(uid) {
        safe &= !SETUID;
    }
    if wanted.group != Number::Id(gid) {
        safe &= !SETGID;
    }
    if safe != mode {
        warnings.push(Warning::new(What::SetId, Why::Unsafe));
    }
    safe
}

fn set_mode_and_acls(
    object: Object<'_>,
    entry: &Entry,
    mode: u32,
    made: Made,
    owner: (u32, u32),
    shared: &Shared,
    warnings: &mut Vec<Warning>,
) {
    let access = read_acl(&entry.acl.access, What::AccessAcl, shared, warnings);
    let default = read_acl(&entry.acl.default, What::DefaultAcl, shared, warnings);
    let is_directory = matches!(entry.kind, EntryKind::Directory);
    if made.inherits && shared.policy.acls {
        // Before the mode, whose group bits would open the inherited list to those on it.
        if access.is_none() {
            note(object.remove_xattr(acl::ACCESS), What::AccessAcl, warnings);
        }
        if is_directory && default.is_none() {
            note(object.remove_xattr(acl::DEFAULT), What::DefaultAcl, warnings);
        }
    }

    // The archived group bits are the mask of the ACL. Until the ACL is there, they would let
    // the owning group do more than it may, so it gets nothing for that moment.
    let first = if access.is_some() { mode & !0o070 } else { mode };
    let chowned = owner != (made.uid, made.gid);
    if first != made.mode || (chowned && mode & 0o6000 != 0) {
        note(object.set_mode(first), What::Mode, warnings);
    }
    if let Some(access) = access
        && let Err(errno) = object.set_xattr(acl::ACCESS.as_bytes(), &access.bytes)
    {
        warnings.push(Warning::refused(What::AccessAcl, errno));
        note(object.set_mode(first | access.group_bits << 3), What::Mode, warnings);
    }
    if let (true, Some(default)) = (is_directory, default) {
        let set = object.set_xattr(acl::DEFAULT.as_bytes(), &default.bytes);
        note(set, What::DefaultAcl, warnings);
    }
}

fn read_acl(text: &[u8], what: What, shared: &Shared, warnings: &mut Vec<Warning>) -> Option<acl::Encoded> {
    if text.is_empty() || !shared.policy.acls {
        return None;
    }
    match acl::encode(text, &shared.owners) {
        Ok(encoded) => Some(encoded),
        Err(_) => {
            warnings.push(Warning::new(what, Why::Malformed));
            None
        }
    }
}

fn set_xattrs(object: Object<'_>, entry: &Entry, shared: &Shared, warnings: &mut Vec<Warning>) {
    for (name, value) in &entry.xattrs {
        // Archives made from tar files have ACLs in this form too, sometimes in addition.
        let text = match name.as_slice() {
            name if name == acl::ACCESS.as_bytes() => Some(&entry.acl.access),
            name if name == acl::DEFAULT.as_bytes() => Some(&entry.acl.default),
            _ => None,
        };
        if text.is_some_and(|text| !text.is_empty() || !shared.policy.acls) {
            continue;
        }
        if let Err(errno) = object.set_xattr(name, value) {
            warnings.push(Warning::refused(What::Xattr(name.as_slice().into()), errno));
        }
    }
}

/// Sets the times the entry has; the modification time stands in for an absent access time.
fn set_times(object: Object<'_>, entry: &Entry, warnings: &mut Vec<Warning>) {
    if entry.mtime.is_none() && entry.atime.is_none() {
        return;
    }
    let keep = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let times = Timestamps {
        last_access: entry.atime.or(entry.mtime).map_or(keep, timespec),
        last_modification: entry.mtime.map_or(keep, timespec),
    };
    if let Err(errno) = object.set_times(&times) {
        warnings.push(Warning::refused(What::Times, errno));
        return;
    }
    let odd =
        |time: Option<Time>| time.is_some_and(|time| i32::try_from(time.seconds).is_err() || time.nanos > NANOS_MAX);
    // File systems silently set the nearest time they can hold. All hold these 136 years, so
    // only other times are worth a look at what came of them.
    if (odd(entry.mtime) || odd(entry.atime)) && !came_out(object, entry) {
        warnings.push(Warning::new(What::Times, Why::OutOfRange));
    }
}

const NANOS_MAX: u32 = 999_999_999;

fn timespec(time: Time) -> Timespec {
    // Larger numbers of nanoseconds have special meanings to the kernel.
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.min(NANOS_MAX).into() }
}

fn came_out(object: Object<'_>, entry: &Entry) -> bool {
    let same = |wanted: Option<Time>, seconds: i64| {
        wanted.is_none_or(|time| time.seconds == seconds && time.nanos <= NANOS_MAX)
    };
    object.stat().is_ok_and(|now| same(entry.mtime, now.st_mtime) && same(entry.atime.or(entry.mtime), now.st_atime))
}

/// The flags of this system for archived BSD-style ones. Those without a counterpart are left out.
fn kernel_flags(archived: u32) -> IFlags {
    const NO_DUMP: u32 = 0x1;
    const IMMUTABLE: u32 = 0x2;
    const APPEND: u32 = 0x4;
    let mut flags = IFlags::empty();
    flags.set(IFlags::NODUMP, archived & NO_DUMP != 0);
    flags.set(IFlags::IMMUTABLE, archived & IMMUTABLE != 0);
    flags.set(IFlags::APPEND, archived & APPEND != 0);
    flags
}

/// True if the entry asks for flags that are to be set.
pub(crate) fn wants_flags(entry: &Entry, shared: &Shared) -> bool {
    shared.policy.flags && !kernel_flags(entry.flags).is_empty()
}

/// True if the entry, once restored, resists being changed or replaced.
pub(crate) fn wants_lock(entry: &Entry, shared: &Shared) -> bool {
    shared.policy.flags && kernel_flags(entry.flags).intersects(locks())
}

fn locks() -> IFlags {
    IFlags::IMMUTABLE | IFlags::APPEND
}

/// Sets the flags the entry asks for, which must come after everything else.
pub(crate) fn apply_flags(object: Object<'_>, entry: &Entry, shared: &Shared, warnings: &mut Vec<Warning>) {
    if wants_flags(entry, shared) {
        let set = object.change_flags(kernel_flags(entry.flags), IFlags::empty());
        note(set, What::Flags, warnings);
    }
}

/// Removes the flags that keep an object from being changed.
pub(crate) fn unlock(object: Object<'_>) -> Result<()> {
    match object.change_flags(IFlags::empty(), locks()) {
        Err(Errno::NOTTY | Errno::OPNOTSUPP) => Ok(()),
        other => other,
    }
}

fn note(result: Result<()>, what: What, warnings: &mut Vec<Warning>) {
    if let Err(errno) = result {
        warnings.push(Warning::refused(what, errno));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, as_nobody, file, is_root, put, target, xattr};
    use super::super::{Class, Policy};
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// `cap_net_raw=ep` as the kernel stores it.
    const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    #[test]
    fn everything_at_once() {
        if !is_root() {
            return;
        }
        let (place, target) = target();
        let mut entry = file("f", 0o6755);
        (entry.uid, entry.gid) = (Some(12), Some(13));
        entry.user = Some(b"no-such-user-here".to_vec());
        entry.atime = Some(Time { seconds: 5, nanos: 7 });
        entry.xattrs = vec![
            (b"user.empty".to_vec(), Vec::new()),
            (b"security.capability".to_vec(), CAPABILITY.to_vec()),
            (b"user.x".to_vec(), vec![0, 255]),
        ];
        for name in ["f", "g"] {
            let warnings = put(target.root(), name, &entry, b"x").unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            let path = place.path().join(name);
            let meta = path.metadata().unwrap();
            assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (12, 13, 0o6755));
            assert_eq!((meta.atime(), meta.atime_nsec()), (5, 7));
            assert_eq!((meta.mtime(), meta.mtime_nsec()), (1_577_836_800, 123_456_789));
            assert_eq!(xattr(&path, "user.empty").as_deref(), Some(&[][..]));
            assert_eq!(xattr(&path, "user.x").as_deref(), Some(&[0, 255][..]));
            assert_eq!(xattr(&path, "security.capability").as_deref(), Some(&CAPABILITY[..]));
        }
    }

    #[test]
    fn owners_that_cannot_be() {
        if !is_root() {
            return;
        }
        let (place, target) = target();
        let mut entry = file("f", 0o6755);
        (entry.uid, entry.gid) = (Some(-1), Some(0xffff_ffff));
        let warnings = put(target.root(), "f", &entry, b"x").unwrap();
        assert_eq!(warnings, [Warning::new(What::Owner, Why::Malformed), Warning::new(What::SetId, Why::Unsafe)]);
        let meta = place.path().join("f").metadata().unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o7777), (0, 0o755));
        // One good half is set all the same.
        entry.gid = Some(13);
        assert_eq!(put(target.root(), "f", &entry, b"x").unwrap().len(), 2);
        let meta = place.path().join("f").metadata().unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (13, 0o2755));
        // Nothing said of the owner is no reason for a warning, but none for rights either.
        (entry.uid, entry.gid) = (None, None);
        let warnings = put(target.root(), "f", &entry, b"x").unwrap();
        assert_eq!(warnings, [Warning::new(What::SetId, Why::Unsafe)]);
    }

    #[test]
    fn times_old_odd_and_absent() {
        let (place, target) = target();
        let mut entry = file("f", 0o644);
        let set = |entry: &Entry| {
            let warnings = put(target.root(), "f", entry, b"x").unwrap();
            let meta = place.path().join("f").metadata().unwrap();
            ((meta.atime(), meta.mtime(), meta.mtime_nsec()), warnings)
        };
        for (seconds, nanos) in [(-1, 500_000_000), (0, 0), (-2_000_000_000, 1), (4_000_000_000, 9)] {
            entry.mtime = Some(Time { seconds, nanos });
            let (times, warnings) = set(&entry);
            assert_eq!(times, (seconds, seconds, i64::from(nanos)));
            assert!(warnings.is_empty(), "{warnings:?}");
        }
        // This number of nanoseconds would mean "now".
        entry.mtime = Some(Time { seconds: 5, nanos: 0x3fff_ffff });
        let odd = [Warning::new(What::Times, Why::OutOfRange)];
        assert_eq!(set(&entry), ((5, 5, 999_999_999), odd.to_vec()));
        for seconds in [-6_698_727_701_578_022_144, i64::MIN, i64::MAX] {
            entry.mtime = Some(Time { seconds, nanos: 0 });
            let ((_, now, _), warnings) = set(&entry);
            assert_eq!(warnings.is_empty(), now == seconds, "{seconds} became {now}");
        }
        entry.mtime = None;
        entry.atime = Some(Time { seconds: 77, nanos: 0 });
        let ((accessed, modified, _), warnings) = set(&entry);
        assert!(accessed == 77 && modified > 1_577_836_800 && warnings.is_empty());
    }

    #[test]
    fn acls_and_their_mask() {
        let (place, target) = target();
        let mut entry = file("f", 0o670);
        entry.acl.access = b"user::rw-\nuser:54321:rwx:54321\ngroup::---\nmask::rwx\nother::---".to_vec();
        // A tar import's second copy does not count.
        entry.xattrs = vec![(acl::ACCESS.as_bytes().to_vec(), vec![1])];
        let warnings = put(target.root(), "f", &entry, b"x").unwrap();
        let path = place.path().join("f");
        let mode = path.metadata().unwrap().mode() & 0o7777;
        if warnings.is_empty() {
            assert_eq!(mode, 0o670, "the group bits show the mask");
            assert_eq!(xattr(&path, acl::ACCESS).unwrap().len(), 4 + 5 * 8);
        } else {
            eprintln!("no ACLs here");
            assert_eq!(mode, 0o600, "the owning group gets no more than its entry says");
        }
        entry.acl.access = b"user::rw-\nnonsense".to_vec();
        let warnings = put(target.root(), "f", &entry, b"x").unwrap();
        assert_eq!(warnings, [Warning::new(What::AccessAcl, Why::Malformed)]);

        let policy = Policy { acls: false, xattrs: false, ..Policy::of_this_process() };
        let (place, target) = testing::target_with(policy);
        assert!(put(target.root(), "f", &entry, b"x").unwrap().is_empty());
        assert_eq!(xattr(&place.path().join("f"), acl::ACCESS), None);
    }

    #[test]
    fn users_without_rights_get_what_they_may() {
        as_nobody(|| {
            let (place, target) = target();
            let own = i64::from(rustix::process::geteuid().as_raw());
            let mut entry = file("f", 0o4444);
            entry.xattrs = vec![(b"user.x".to_vec(), b"y".to_vec())];
            let warnings = put(target.root(), "f", &entry, b"x").unwrap();
            assert!(warnings.is_empty(), "{warnings:?}");
            let path = place.path().join("f");
            assert_eq!(xattr(&path, "user.x").as_deref(), Some(&b"y"[..]));
            assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o4444, "own setuid bits stay");

            entry.uid = Some(own + 1);
            entry.gid = Some(4242);
            entry.mode = 0o6755;
            entry.xattrs = vec![(b"trusted.x".to_vec(), b"y".to_vec())];
            let warnings = put(target.root(), "f", &entry, b"x").unwrap();
            let kinds: Vec<_> = warnings.iter().map(|w| (w.class(), w.what.clone())).collect();
            let name = b"trusted.x".as_slice().into();
            let refused = [What::Owner, What::Xattr(name), What::SetId];
            assert_eq!(kinds, refused.map(|what| (Class::Permission, what)));
            let meta = path.metadata().unwrap();
            assert_eq!((i64::from(meta.uid()), meta.mode() & 0o7777), (own, 0o755));

            // Own files may go to own groups, with their setgid bit.
            let groups = rustix::process::getgroups().unwrap();
            if groups.iter().any(|gid| gid.as_raw() == 4242) {
                entry.uid = Some(own);
                entry.xattrs.clear();
                assert!(put(target.root(), "f", &entry, b"x").unwrap().is_empty());
                let meta = path.metadata().unwrap();
                assert_eq!((meta.gid(), meta.mode() & 0o7777), (4242, 0o6755));
            }
        });
    }
}
