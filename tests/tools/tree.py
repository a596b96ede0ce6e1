#!/usr/bin/env python3
"""Prints what a tree of files holds, one JSON object a line. Python standard library only.

    tree.py [--sparse] [--atime] DIR

It is the comparing tool of the tests that is not ours: a tree that real borg wrote and a tree that Packtrain
wrote are the same when this prints the same lines for both. Run it as root, or it cannot see trusted.* attributes.

One line per entry below DIR (not DIR itself), sorted by the raw bytes of the path, keys sorted:

    path        below DIR, as text; if it is not UTF-8, `path_b64` is there instead
    type        file, dir, symlink, fifo, char, block, socket
    mode        permission bits with setuid, setgid, sticky, as octal text ("4755"); symlinks too
    uid, gid    numbers
    mtime_ns    whole nanoseconds since 1970, may be negative
    size, sha256    files only
    target      symlinks only; if it is not UTF-8, `target_b64` is there instead
    rdev        [major, minor], char and block devices only
    xattrs      name -> base64 of the value, only if there are any. All of user.*, security.*, trusted.* and
                system.posix_acl_access / _default (raw), but not security.selinux. A name that is not UTF-8 is
                written with Python's surrogate escapes
    hlgroup     the first path (as in the sort order; `hlgroup_b64` if not UTF-8) that names the same inode, only
                if more than one path in the tree does
    flags       FS_IOC_GETFLAGS & (nodump 0x40, immutable 0x10, append 0x20); files and dirs; 0 if unsupported
    allocated   st_blocks * 512, files only, only with --sparse
    atime_ns    only with --atime (files are opened with O_NOATIME, so looking does not change it)
"""

import array
import base64
import fcntl
import hashlib
import json
import os
import stat
import sys

FS_IOC_GETFLAGS = 0x80086601
FLAGS = 0x40 | 0x10 | 0x20
KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "dir",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
    stat.S_IFSOCK: "socket",
}


def b64(raw):
    return base64.b64encode(raw).decode()


def put_bytes(entry, key, raw):
    """Text if it is UTF-8, else base64 under another key."""
    try:
        entry[key] = raw.decode("utf-8")
    except UnicodeDecodeError:
        entry[key + "_b64"] = b64(raw)


def open_quietly(path, flags=0):
    flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_NOATIME)
    except PermissionError:
        return os.open(path, flags)


def xattrs(path):
    found = {}
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return found
    for name in names:
        kept = name.startswith(("user.", "security.", "trusted.", "system.posix_acl_"))
        if kept and name != "security.selinux":
            found[name] = b64(os.getxattr(path, name, follow_symlinks=False))
    return found


def flags_of(fd):
    word = array.array("L", [0])
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, word, True)
    except OSError:
        return 0
    return word[0] & FLAGS


def digest(fd):
    total = hashlib.sha256()
    while True:
        part = os.read(fd, 1 << 20)
        if not part:
            return total.hexdigest()
        total.update(part)


def walk(top, below, out):
    """(relative path, lstat) of everything below; a dir is looked at before it is listed."""
    fd = open_quietly(os.path.join(top, below) if below else top, os.O_DIRECTORY)
    try:
        names = [os.fsencode(n) for n in os.listdir(fd)]
    finally:
        os.close(fd)
    for name in names:
        path = below + b"/" + name if below else name
        st = os.lstat(os.path.join(top, path))
        out.append((path, st))
        if stat.S_ISDIR(st.st_mode):
            walk(top, path, out)


def describe(top, path, st, first_of, options):
    full = os.path.join(top, path)
    kind = KINDS[stat.S_IFMT(st.st_mode)]
    entry = {}
    put_bytes(entry, "path", path)
    entry["type"] = kind
    entry["mode"] = format(stat.S_IMODE(st.st_mode), "o")
    entry["uid"] = st.st_uid
    entry["gid"] = st.st_gid
    entry["mtime_ns"] = st.st_mtime_ns
    if "--atime" in options:
        entry["atime_ns"] = st.st_atime_ns
    if kind in ("file", "dir"):
        fd = open_quietly(full)
        try:
            entry["flags"] = flags_of(fd)
            if kind == "file":
                entry["size"] = st.st_size
                entry["sha256"] = digest(fd)
        finally:
            os.close(fd)
    if kind == "file" and "--sparse" in options:
        entry["allocated"] = st.st_blocks * 512
    if kind == "symlink":
        put_bytes(entry, "target", os.readlink(full))
    if kind in ("char", "block"):
        entry["rdev"] = [os.major(st.st_rdev), os.minor(st.st_rdev)]
    found = xattrs(full)
    if found:
        entry["xattrs"] = found
    group = first_of.get((st.st_dev, st.st_ino))
    if group is not None:
        put_bytes(entry, "hlgroup", group)
    return entry


def tree(top, options=()):
    top = os.fsencode(top)
    found = []
    walk(top, b"", found)
    found.sort(key=lambda pair: pair[0])
    members = {}
    for path, st in found:
        if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode):
            members.setdefault((st.st_dev, st.st_ino), []).append(path)
    first_of = {inode: paths[0] for inode, paths in members.items() if len(paths) > 1}
    for path, st in found:
        yield describe(top, path, st, first_of, options)


def main(args):
    options = [a for a in args if a in ("--sparse", "--atime")]
    rest = [a for a in args if a not in options]
    if len(rest) != 1 or not os.path.isdir(rest[0]):
        sys.exit("usage: tree.py [--sparse] [--atime] DIR")
    for entry in tree(rest[0], options):
        # surrogates can only come from attribute names; escaping them keeps every line ASCII
        print(json.dumps(entry, sort_keys=True))


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    main(sys.argv[1:])
