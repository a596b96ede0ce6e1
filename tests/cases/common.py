"""What the makers of cases (borg1/make.py, borg2/make.py) share: data, trees to back up, looking at trees.

Python standard library only.
"""

import fcntl
import hashlib
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import zlib

NODUMP, IMMUTABLE, APPEND = 0x40, 0x10, 0x20


# ---------------------------------------------------------------- data

def noise(seed, size):
    """Incompressible bytes, the same every time."""
    parts = [hashlib.sha256(f"{seed}/{n}".encode()).digest() for n in range((size + 31) // 32)]
    return b"".join(parts)[:size]


WORDS = (
    "pack train mule bridle ford ridge saddle rope dawn hoof trail load cinch valley bell pass camp ledger order "
    "lead animal carry halt river stone"
).split()


def prose(seed, size):
    """Compressible text, the same every time."""
    chance, lines, total = random.Random(seed), [], 0
    while total < size:
        line = " ".join(chance.choice(WORDS) for _ in range(9)) + "\n"
        lines.append(line)
        total += len(line)
    return "".join(lines).encode()[:size]


def picture(width, height):
    """A PNG of a noisy gradient."""
    rows, grain = [], noise("picture", width * height)
    for y in range(height):
        row = bytearray(b"\0")
        for x in range(width):
            g = grain[y * width + x] & 63
            row += bytes(((x * 255 // width + g) & 255, (y * 255 // height) & 255, (x + y + g) & 255))
        rows.append(bytes(row))

    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", body) + part(b"IEND", b"")


def raw(path):
    return path if isinstance(path, bytes) else path.encode()


# ---------------------------------------------------------------- trees

class Tree:
    """A source tree. Entries are made at once; owner, mode, attributes and times are applied by settle()."""

    def __init__(self, root):
        self.root = raw(root)
        os.makedirs(self.root)
        self.entries = {}
        self._note(b"", mode=0o755)

    def full(self, path):
        return os.path.join(self.root, raw(path)) if path else self.root

    def _note(self, path, mode=None, uid=0, gid=0, ns=None, atime_ns=None, xattrs=None, acl=(), dacl=(), flags=0):
        n = len(self.entries)
        if ns is None:
            ns = (1_700_000_000 + n * 86_461) * 10**9 + (n * 123_456_789 + 1) % 10**9
        self.entries[raw(path)] = dict(
            mode=mode, uid=uid, gid=gid, ns=ns, atime_ns=atime_ns, xattrs=xattrs or {}, acl=acl, dacl=dacl, flags=flags
        )

    def file(self, path, data, mode=0o644, **more):
        with open(self.full(path), "wb") as f:
            if isinstance(data, list):  # [(offset, bytes)...], the last one (end, b"") sets the size
                for at, part in data:
                    f.seek(at)
                    f.write(part)
                f.truncate(data[-1][0] + len(data[-1][1]))
            else:
                f.write(data)
        self._note(path, mode, **more)

    def dir(self, path, mode=0o755, **more):
        os.mkdir(self.full(path))
        self._note(path, mode, **more)

    def link(self, path, target, **more):
        os.symlink(raw(target), self.full(path))
        self._note(path, None, **more)

    def hard(self, path, to):
        os.link(self.full(to), self.full(path), follow_symlinks=False)

    def fifo(self, path, mode=0o644, **more):
        os.mkfifo(self.full(path))
        self._note(path, mode, **more)

    def dev(self, path, kind, major, minor, mode=0o660, **more):
        os.mknod(self.full(path), kind | mode, os.makedev(major, minor))
        self._note(path, mode, **more)

    def sock(self, path, mode=0o755):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(self.full(path))
        self._note(path, mode)

    def settle(self):
        for path in sorted(self.entries, key=lambda p: (p.count(b"/") if p else -1, p), reverse=True):
            e, full = self.entries[path], self.full(path)
            os.chown(full, e["uid"], e["gid"], follow_symlinks=False)
            if e["mode"] is not None:
                os.chmod(full, e["mode"])
            for options, entries in (["-m"], e["acl"]), (["-d", "-m"], e["dacl"]):
                if entries:
                    subprocess.run(["setfacl", "-n", *options, ",".join(entries), full], check=True)
            for name, value in e["xattrs"].items():
                os.setxattr(full, name, value, follow_symlinks=False)
        for path in sorted(self.entries, key=lambda p: (p.count(b"/") if p else -1, p), reverse=True):
            e = self.entries[path]
            atime = e["ns"] if e["atime_ns"] is None else e["atime_ns"]
            os.utime(self.full(path), ns=(atime, e["ns"]), follow_symlinks=False)
        for path, e in self.entries.items():
            if e["flags"]:
                change_flags(self.full(path), e["flags"])


def last_words(done):
    """What a failed program said, without the traceback."""
    lines = done.stderr.decode(errors="replace").splitlines()
    return "; ".join(dict.fromkeys([s for s in lines if "Error:" in s and s.strip() != "Error:"] or lines[-5:]))


def change_flags(path, wanted):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        word = bytearray(8)
        fcntl.ioctl(fd, 0x80086601, word, True)
        now = struct.unpack("=I", word[:4])[0]
        fcntl.ioctl(fd, 0x40086602, struct.pack("=II", now & ~(NODUMP | IMMUTABLE | APPEND) | wanted, 0))
    finally:
        os.close(fd)


def remove(path):
    subprocess.run(["chattr", "-R", "-f", "-i", "-a", path], stderr=subprocess.DEVNULL)
    shutil.rmtree(path, ignore_errors=True)


def look(tree_py, path, options=()):
    done = subprocess.run([sys.executable, tree_py, *options, path], check=True, stdout=subprocess.PIPE)
    return done.stdout.decode().splitlines()


def blank_times(lines, since, until):
    """mtime_ns null where extract set no mtime (made just now), and which paths these are."""
    free, out = [], []
    for line in lines:
        entry = json.loads(line)
        if since <= entry["mtime_ns"] <= until:
            entry["mtime_ns"] = None
            free.append(entry["path"])
            line = json.dumps(entry, sort_keys=True)
        out.append(line)
    return out, free


def differences(source, extracted):
    """One line for each thing that extracting changed."""

    def by_path(lines):
        entries = [json.loads(line) for line in lines]
        return {e.get("path", e.get("path_b64")): e for e in entries}

    a, b = by_path(source), by_path(extracted)
    for path in sorted(a.keys() | b.keys()):
        if path not in b:
            yield f"{path!r}: only in the source ({a[path]['type']})"
        elif path not in a:
            yield f"{path!r}: only in the extracted tree ({b[path]['type']})"
        else:
            for key in sorted(a[path].keys() | b[path].keys()):
                was, now = a[path].get(key), b[path].get(key)
                if was != now:
                    yield f"{path!r}: {key}: source {was}, extracted {now}"


# ---------------------------------------------------------------- trees that several cases have

def small_tree(c):
    """A little of most things, for cases whose point is elsewhere."""
    t = c.tree()
    t.dir("docs")
    t.file("docs/readme.txt", prose("readme", 700))
    t.file("docs/empty", b"")
    t.dir("bin", uid=1, gid=1)
    t.file("bin/run", b"#!/bin/sh\necho hello\n", mode=0o755, uid=1, gid=2)
    t.hard("bin/run-again", "bin/run")
    t.file("noise.bin", noise("small", 1500), mode=0o600, uid=54321, gid=54322)
    t.link("latest", "docs/readme.txt")
    return t


def codec_tree(c):
    t = c.tree()
    t.file("0", b"")
    t.file("1", b"x")
    t.file("4095", prose("4095", 4095))
    t.file("text", prose("text", 30_000))           # four chunks, the last one short
    t.file("noise", noise("noise", 10_000))         # two chunks that no codec makes smaller
    t.file("half", prose("half", 8192) + noise("half", 3000))
    t.file("zeros", bytes(8192))
    return t


def folder_size(path):
    return sum(os.lstat(os.path.join(top, n)).st_size for top, _, names in os.walk(path) for n in names)


def tiny_tree(c):
    """For obfuscation by factors up to 10,000."""
    t = c.tree()
    t.file("0", b"")
    t.file("1", b"x")
    t.file("300", prose("300", 300))
    t.file("noise", noise("tiny", 200))
    t.file("text", prose("tiny", 9000))
    return t
