"""The work of make.sh, which see: run it through that. Python standard library only.

First the tools (trees to back up, a case being made), then the table of cases, one function each.
"""

import argparse
import hashlib
import io
import json
import os
import random
import re
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import (  # noqa: E402
    APPEND, IMMUTABLE, NODUMP, WORDS, Tree, blank_times, codec_tree, differences, folder_size, last_words, look,
    noise, picture, prose, raw, remove, small_tree, tiny_tree,
)

TOOL = "borgbackup 2.0.0b25"
LIST_KEYS = (
    "type mode uid gid user group path target hlid inode flags size num_chunks mtime isomtime ctime isoctime "
    "atime isoatime fingerprint sha256 blake3 extra"
).split()
STAMP = "2026-01-02T03:04:05+00:00"


# ---------------------------------------------------------------- a case being made

class Case:
    def __init__(self, setup, name, what, suite="aes256-ocb+blake3", compression="lz4", passphrase="test",
                 key="repokey", init=True, init_options=(), defaults=False):
        self.setup, self.name, self.what = setup, name, what
        self.suite, self.compression, self.passphrase, self.key = suite, compression, passphrase, key
        self.out = os.path.join(setup.out, name)
        self.base = os.path.join(setup.scratch, name)
        self.repo = os.path.join(self.base, "repo")
        remove(self.base)
        remove(self.out)
        os.makedirs(self.base)
        os.makedirs(self.out)
        self.env = {
            "PATH": os.path.join(setup.scratch, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "HOME": os.path.join(self.base, "home"),
            "BORG_BASE_DIR": os.path.join(self.base, "home"),
            "BORG_REPO": self.repo,
            "BORG_PASSPHRASE": passphrase,
            "BORG_DISPLAY_PASSPHRASE": "no",
            "BORG_HOSTNAME": "muleteer",
            "BORG_USERNAME": "driver",
            "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        }
        self.sources = {}   # archive id -> tree.py of its source, or None where comparing makes no sense
        self.options = {}   # archive id -> extra options of tree.py
        self.crashes = set()  # ids of archives at which borg extract crashes
        self.notes = []     # reasons why the extracted tree differs
        self.extra = {}     # more keys of case.json
        self.cwd = self.base
        if init:
            self.init(*init_options)

    def init(self, *options):
        mode, _, hash_ = self.suite.partition("+")
        args = ["repo-create", "-e", mode, *(["-i", hash_] if hash_ else []), "--key-location", self.key, *options]
        self.borg(*args)

    def run(self, program, *args, input=None, ok=(0,), cwd=None, env=None):
        done = subprocess.run(
            [program, *args], cwd=cwd or self.cwd, env={**self.env, **(env or {})}, input=input if input is not None else b"",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        if done.returncode not in ok:
            sys.exit(f"{self.name}: {program} {args}: exit {done.returncode}: {last_words(done)}")
        return done

    def borg(self, *args, **more):
        return self.run("borg", *args, **more)

    def json(self, *args, **more):
        return json.loads(self.borg(*args, **more).stdout)

    def tree(self, name="src"):
        return Tree(os.path.join(self.base, name))

    def create(self, archive, tree, *options, paths=(".",), compare=True, stamp=STAMP, look_at=(), ok=(0,), **more):
        """borg create; the tree is looked at before, to be compared with what extract writes."""
        if tree is not None:
            tree.settle()
        compression = [] if self.compression is None else ["-C", self.compression]
        before = look(self.setup.tree, tree.root, look_at) if compare and tree is not None else None
        args = ["create", *compression, "--timestamp", stamp, *options, "--json", archive, *paths]
        done = self.borg(*args, cwd=tree.root if tree is not None else None, ok=ok, **more)
        told = json.loads(done.stdout)["archive"]["id"]
        self.sources[told] = before
        self.options[told] = list(look_at)
        if done.stderr:
            self.notes.append(f"borg create {archive} said: {done.stderr.decode(errors='replace').strip()}")
        return told

    def note(self, text):
        self.notes.append(text)

    def extract(self, id, *options):
        target = os.path.join(self.base, "extracted")
        remove(target)
        os.makedirs(target)
        done = self.borg("extract", *options, "aid:" + id, cwd=target, ok=(0, 1, 2, *range(100, 128)))
        return target, done

    def list_items(self, id):
        keys = "".join("{%s}" % k for k in self.setup.list_keys.get(self.name, LIST_KEYS))
        return self.borg("list", "aid:" + id, "--json-lines", "--format", keys).stdout

    def raw_items(self, id):
        """The decoded item maps, one a line, as `borg debug dump-archive` shows them."""
        done = self.borg("debug", "dump-archive", "aid:" + id, "-", ok=range(256))
        if done.returncode:
            self.note("No raw items of one archive: `borg debug dump-archive` failed at an attribute name that is not UTF-8.")
            return self.json("info", "aid:" + id, "--json")["archives"][0], None
        dump = json.loads(done.stdout)
        return dump["_meta"], "".join(json.dumps(i, sort_keys=True) + "\n" for i in dump["_items"])

    def finish(self, skip=(), keep_cache=False, raw=True, label=None):
        told = self.json("repo-list", "--json")["archives"]
        # in the order of time, then id: what the format note asks of a listing
        told.sort(key=lambda a: (a["time"], a["id"]))
        names = [a["name"] for a in told]
        records, differing = [], []
        for a in told:
            label = re.sub("[^A-Za-z0-9._-]+", "_", a["name"])  # a file name for every system
            if names.count(label) > 1:
                label += "-%d" % (1 + sum(r["name"] == a["name"] for r in records))
            record = {"name": a["name"], "id": a["id"], "time": a["time"], "comment": a["comment"],
                      "tags": [t for t in a["tags"].split(",") if t] if isinstance(a["tags"], str) else a["tags"],
                      "hostname": a["hostname"], "username": a["username"]}
            records.append(record)
            if a["id"] in skip:
                continue
            meta, lines = self.raw_items(a["id"])
            record["time_stored"] = meta["time"]
            known = ("version start end command_line recreate_command_line cwd chunker_params size nfiles").split()
            record["meta"] = {k: meta[k] for k in known if k in meta}
            if "item_ptrs" in meta:
                record["item_ptrs"] = [p.lstrip("\x7f") for p in meta["item_ptrs"]]
            options = self.options.get(a["id"], [])
            before = time.time_ns()
            target, done = self.extract(a["id"])
            crashed = a["id"] in self.crashes
            if (done.returncode == 2) != crashed:
                sys.exit(f"{self.name}: extract {label}: exit {done.returncode}: {last_words(done)}")
            seen = look(self.setup.tree, target, options)
            seen, free = blank_times(seen, before - 20_000_000, time.time_ns())
            if free and not crashed:
                record["mtime_free"] = free
            remove(target)
            if not crashed:
                record["expect"] = self.write(f"expect/{label}.jsonl", "".join(s + "\n" for s in seen))
            if options:
                record["tree_options"] = options
            if done.returncode:
                record["extract_rc"] = done.returncode
                lines_said = done.stderr.decode(errors="replace").splitlines()
                record["extract_stderr"] = ([last_words(done)] if crashed else
                                            [s.replace(target + "/", "") for s in lines_said])
            record["items"] = self.write(f"items/{label}.jsonl", self.list_items(a["id"]))
            if raw and lines is not None:
                record["raw_items"] = self.write(f"items/{label}.raw.jsonl", lines)
            before = self.sources.get(a["id"])
            if before is not None:
                differing += [f"{label}: {d}" for d in differences(before, seen)]
            self.also(record, a["id"], label)
        deleted = self.json("repo-list", "--deleted", "--json")["archives"]
        if differing and not self.notes:
            sys.exit(f"{self.name}: source and extracted tree differ, and no note says why:\n" + "\n".join(differing))
        notes = [*self.notes, "", *(differing or ["The trees that borg extract wrote equal their sources."])]
        self.write("notes.txt", "\n".join(notes).strip() + "\n")
        self.copy_repo(keep_cache)
        case = {"case": self.name, "tool": TOOL, "what": self.what, "suite": self.suite,
                "compression": self.compression, "passphrase": self.passphrase, "key": self.key, **self.extra,
                "archives": records}
        if deleted:
            case["deleted"] = [{k: d[k] for k in ("name", "id", "time", "comment")} for d in deleted]
        self.write("case.json", json.dumps(case, indent=1, ensure_ascii=False) + "\n")
        remove(self.base)

    def also(self, record, id, label):
        """More to record of one archive; a case may replace this."""

    def refuse(self, why, **more):
        """Ends a case whose repository is to be refused."""
        self.copy_repo(False)
        case = {"case": self.name, "what": self.what, "refused": why, **more, "archives": []}
        self.write("case.json", json.dumps(case, indent=1, ensure_ascii=False) + "\n")
        remove(self.base)

    def copy_repo(self, keep_cache):
        for top, dirs, files in os.walk(self.repo):
            below = os.path.relpath(top, self.repo)
            dirs.sort()
            if below in ("locks", "cache") and not keep_cache:
                continue
            for name in sorted(files):
                self.write(os.path.normpath(os.path.join("repo", below, name)), open(os.path.join(top, name), "rb").read())

    def write(self, path, data):
        full = os.path.join(self.out, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
        return path


# ---------------------------------------------------------------- the cases

CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def suite(name, suite_name):
    def make(setup):
        c = Case(setup, name, f"crypto suite {suite_name}", suite=suite_name)
        t = small_tree(c)
        c.create("first", t)
        t.file("docs/second.txt", prose("second", 500))
        c.create("second", t, stamp="2026-01-03T03:04:05+00:00")
        c.finish()
    CASES[name] = make


suite("suite-aes256-ocb-sha256", "aes256-ocb+sha256")
suite("suite-aes256-ocb-blake3", "aes256-ocb+blake3")
suite("suite-chacha20-poly1305-sha256", "chacha20-poly1305+sha256")
suite("suite-chacha20-poly1305-blake3", "chacha20-poly1305+blake3")
suite("suite-authenticated-sha256", "authenticated-sha256")
suite("suite-authenticated-blake3", "authenticated-blake3")


def codec(name, spec, tree=codec_tree, limit=None, suite_name="aes256-ocb+blake3"):
    def make(setup):
        while True:
            c = Case(setup, name, f"compression {spec}, chunks of 8 KiB", compression=spec, suite=suite_name)
            c.create("archive", tree(c), "--chunker-params", "fixed,8192")
            if limit is None or folder_size(c.repo) <= limit:
                break
        c.finish()
    CASES[name] = make


codec("codec-none", "none")
codec("codec-lz4", "lz4")
codec("codec-zstd-3", "zstd,3")
codec("codec-zstd-19", "zstd,19")
codec("codec-zstd-fast", "zstd,-5")
codec("codec-zlib-6", "zlib,6")
codec("codec-lzma-6", "lzma,6")
codec("codec-lzma-9", "lzma,9")
codec("codec-auto-zstd", "auto,zstd")
codec("codec-auto-lzma", "auto,lzma")
codec("codec-auto-lz4", "auto,lz4")
codec("codec-auto-zlib-authenticated", "auto,zlib", suite_name="authenticated-blake3")
codec("codec-obfuscate-110-zstd-3", "obfuscate,110,zstd,3")
codec("codec-obfuscate-250-lz4", "obfuscate,250,lz4")
codec("codec-obfuscate-3-auto-zlib", "obfuscate,3,auto,zlib", tree=tiny_tree, limit=250_000)


@case
def codec_mixed(setup):
    c = Case(setup, "codec-mixed", "one repository, an archive with each codec; each adds one file of its own",
             compression=None)
    t = c.tree()
    t.file("common", prose("common", 3000))
    for n, spec in enumerate(("none", "lz4", "zstd,3", "zlib,6", "lzma,6", "auto,zstd,10", "obfuscate,110,none")):
        t.file(f"by-{n}", prose(f"by-{n}", 5000))
        c.create(spec.replace(",", "-"), t, "-C", spec, stamp=f"2026-01-{n + 2:02}T03:04:05+00:00")
    c.finish()


@case
def types(setup):
    c = Case(setup, "types", "every file type borg stores, hard links of most of them, all mode bits")
    t = c.tree()
    t.dir("empty-dir")
    t.dir("closed", mode=0o555)
    t.file("closed/inside", b"in a directory nobody may write\n", mode=0o444)
    t.dir("closed/deeper", mode=0o500)
    t.file("closed/deeper/inside", b"deeper\n", mode=0o400)
    t.dir("sticky", mode=0o1777)
    t.dir("setgid", mode=0o2775, gid=2)
    t.file("regular", prose("regular", 300))
    t.file("setuid", b"#!/bin/sh\n", mode=0o4755, uid=1, gid=1)
    t.file("setgid-file", b"#!/bin/sh\n", mode=0o2755, uid=54321, gid=54322)
    t.file("all-bits", b"all\n", mode=0o7777, uid=2, gid=2)
    t.file("no-bits", b"none\n", mode=0)
    t.file("zz-hard-first", b"linked\n", uid=1, gid=54322)
    t.hard("aa-hard-second", "zz-hard-first")
    t.hard("setgid/hard-third", "zz-hard-first")
    t.file("empty-linked", b"")
    t.hard("empty-linked-2", "empty-linked")
    t.link("link-relative", "setgid/hard-third")
    t.link("link-absolute", "/nowhere/at/all", uid=1, gid=1)
    t.link("link-dangling", "not-there", uid=54321, gid=54321)
    t.link("link-to-dir", "empty-dir")
    t.link("link-up", "../outside")
    t.link("link-long", "d/" * 400 + "end")
    t.link("link-xattr", "regular", xattrs={"trusted.on-link": b"kept"})
    t.hard("link-hard", "link-xattr")
    t.fifo("fifo", mode=0o640, uid=1, gid=2)
    t.hard("fifo-hard", "fifo")
    t.dev("char-null", stat.S_IFCHR, 1, 3, mode=0o666)
    t.dev("char-big", stat.S_IFCHR, 4095, 1_048_575, mode=0o600)
    t.hard("char-hard", "char-null")
    t.dev("block", stat.S_IFBLK, 7, 300, gid=2)
    t.hard("block-hard", "block")
    t.sock("socket")
    c.note("Sockets are never stored, so `socket` is only in the source.")
    c.create("types", t)
    c.finish()


@case
def sample(setup):
    c = Case(setup, "sample", "a friendly first repository: the one of the README", compression="zstd,3")
    t = c.tree()
    t.dir("journey")
    t.file("journey/notes.txt", b"Day 1: eleven mules, four riders, rain.\nDay 2: the ford held. All loads dry.\n")
    t.file("journey/ledger.csv", b"load,animal,kg\n" + b"".join(b"%d,mule-%d,%d\n" % (n, n % 11, 40 + n * 7 % 30)
                                                                     for n in range(400)))
    t.dir("journey/pictures")
    t.file("journey/pictures/pass.png", picture(300, 260))
    t.hard("journey/pictures/cover.png", "journey/pictures/pass.png")
    t.link("journey/latest.txt", "notes.txt")
    t.dir("bin")
    t.file("bin/count-loads", b"#!/bin/sh\ntail -n +2 ../journey/ledger.csv | wc -l\n", mode=0o755)
    t.file("README.txt", b"A small tree to try Packtrain on. The passphrase of the repository is: test\n")
    c.create("journey", t, "--comment", "the sample of the README", stamp="2026-01-02T03:04:05+00:00")
    t.file("journey/notes.txt", b"Day 1: eleven mules, four riders, rain.\nDay 2: the ford held. All loads dry.\n"
                                b"Day 3: snow on the pass. We wait.\n", ns=1_767_400_000_123_456_789)
    c.create("journey", t, "--comment", "a day later", stamp="2026-01-03T03:04:05+00:00")
    c.finish()


@case
def key_keyfile(setup):
    c = Case(setup, "key-keyfile", "the key is a file of the client (keys/), not in the repository", key="keyfile",
             suite="chacha20-poly1305+blake3")
    c.create("archive", small_tree(c))
    found = [os.path.join(top, n) for top, _, names in os.walk(os.path.join(c.base, "home")) for n in names
             if os.path.basename(top) == "keys"]
    assert len(found) == 1, found
    c.extra["keyfile"] = c.write("keys/" + os.path.basename(found[0]), open(found[0], "rb").read())
    c.finish()


@case
def key_both(setup):
    c = Case(setup, "key-both", "the same key as a keyfile (keys/) and as a repokey; either opens it", key="repokey")
    c.borg("key", "change-location", "--keep", "keyfile")
    keys = os.path.join(c.base, "home/.config/borg/keys")
    (name,) = os.listdir(keys)
    c.extra["keyfile"] = c.write("keys/" + name, open(os.path.join(keys, name), "rb").read())
    c.create("archive", small_tree(c))
    c.finish()


@case
def key_several(setup):
    c = Case(setup, "key-several", "three repokeys with three passphrases; any opens it")
    c.borg("key", "add", "--label", "alice", env={"BORG_NEW_PASSPHRASE": "second"})
    c.borg("key", "add", "--label", "bob", env={"BORG_NEW_PASSPHRASE": "the third one"})
    c.extra["passphrases"] = ["test", "second", "the third one"]
    c.create("archive", small_tree(c))
    c.finish()


@case
def key_empty(setup):
    c = Case(setup, "key-empty", "the empty passphrase", passphrase="")
    c.create("archive", small_tree(c))
    c.finish()


@case
def key_unicode(setup):
    c = Case(setup, "key-unicode", "a passphrase that is not ASCII, with a decomposed a-umlaut, blanks at both ends",
             passphrase=" pa\u0308sswo\u00f6rt-\u043a\u043b\u044e\u0447-\U0001f511 ")
    c.create("archive", small_tree(c))
    c.finish()


@case
def times(setup):
    c = Case(setup, "times", "nanoseconds, before 1970, the years 2038, 2100, 2262 and beyond; old directories")
    t = c.tree()
    second = 10**9
    for name, ns in (
        ("ns-1", 1_600_000_000 * second + 1),
        ("ns-999999999", 1_600_000_000 * second + 999_999_999),
        ("zero", 0),
        ("zero-plus-1ns", 1),
        ("minus-half-second", -second // 2),
        ("minus-1ns", -1),
        ("year-1960", -315_619_200 * second),
        ("year-1901", -2_147_483_648 * second),
        ("max-i32", 2_147_483_647 * second + 999_999_999),
        ("past-i32", 2_147_483_648 * second),
        ("max-u32", 4_294_967_295 * second),
        ("max-u32-ns", 4_294_967_295 * second + 5),
        ("past-u32", 4_294_967_296 * second),
        ("year-2100", 4_102_444_800 * second + 123_456_789),
        ("clamp", 9_223_199_236 * second),
        ("clamp-plus-ns", 9_223_199_236 * second + 123),
        ("clamp-plus-1", 9_223_199_237 * second),
        ("max-i64-ns", 9_223_372_036_854_775_807),
        ("year-2300", 10_413_792_000 * second + 7),
        ("year-2446", 15_032_385_535 * second),
    ):
        t.file(name, b"", ns=ns)
    t.dir("old-dir", ns=86_400 * second + 3)
    t.file("old-dir/new-file", b"newer than its directory\n", ns=1_750_000_000 * second)
    t.dir("old-dir/sub", ns=2 * 86_400 * second)
    t.link("old-link", "zero", ns=3 * 86_400 * second + 11)
    t.fifo("old-fifo", ns=4 * 86_400 * second + 12)
    c.note("borg keeps times within 0 .. 9,223,199,236 s: earlier ones become 1970-01-01, later ones the year 2262.")
    c.create("times", t)
    c.finish()


@case
def atime(setup):
    c = Case(setup, "atime", "access times stored (create --atime); compare with tree.py --atime")
    t = c.tree()
    s = 10**9
    t.file("earlier", b"read before it was written\n", ns=1_600_000_000 * s + 1, atime_ns=1_500_000_000 * s + 2)
    t.file("later", b"read later\n", ns=1_600_000_000 * s + 3, atime_ns=1_700_000_000 * s + 4)
    t.dir("dir", ns=1_600_000_000 * s + 5, atime_ns=1_750_000_000 * s + 6)
    t.fifo("fifo", ns=1_600_000_000 * s + 9, atime_ns=1_710_000_000 * s + 10)
    c.create("with-atime", t, "--atime", look_at=["--atime"])
    t.settle()
    c.create("without-atime", t, stamp="2026-01-03T03:04:05+00:00", look_at=["--atime"])
    c.note("Without --atime no access time is stored; extract then sets it to the mtime.")
    c.finish()


@case
def xattrs(setup):
    c = Case(setup, "xattrs", "extended attributes on files, dirs, a symlink, a hard link; empty, binary, big")
    t = c.tree()
    caps = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # cap_net_bind_service=ep
    t.file("one", b"one\n", xattrs={"user.one": b"value"})
    t.file("empty", b"empty value\n", xattrs={"user.empty": b""})
    t.file("binary", b"binary\n", xattrs={"user.binary": bytes(range(256)), "user.nul": b"\0", "user.not-utf8": b"\xff\xfe"})
    t.file("big", b"big\n", xattrs={"user.big": noise("xattr", 3900)})
    t.file("many", b"many\n", xattrs={f"user.n{n:02}": b"%d" % n for n in range(40)})
    t.file("caps", b"#!/bin/sh\n", mode=0o755, uid=1, gid=1, xattrs={"security.capability": caps})
    t.file("trusted", b"trusted\n", xattrs={"trusted.t": b"\1\2\3", "user.u": b"u"})
    t.file("odd-name", b"odd\n", xattrs={"user.na me=\u00fc\n": b"x", b"user.bytes-\xff".decode(errors="surrogateescape"): b"y"})
    t.dir("dir", xattrs={"user.on-dir": b"d", "trusted.on-dir": b"t"})
    t.file("dir/read-only", b"ro\n", mode=0o400, xattrs={"user.ro": b"r"})
    t.link("link", "one", xattrs={"trusted.on-link": b"l"})
    t.file("linked", b"linked\n", xattrs={"user.linked": b"both"})
    t.hard("linked-2", "linked")
    t.fifo("fifo", xattrs={"trusted.on-fifo": b"f"})
    c.create("xattrs", t)
    c.create("noxattrs", t, "--noxattrs", stamp="2026-01-03T03:04:05+00:00", compare=False)
    c.note("Archive noxattrs was made with --noxattrs.")
    c.finish()


@case
def acls(setup):
    c = Case(setup, "acls", "POSIX ACLs: access and default, names known and unknown, a dir with a default only")
    t = c.tree()
    t.file("known", b"known\n", mode=0o640, acl=["u:1:r-x", "g:2:--x", "m::r-x"])
    t.file("unknown", b"unknown\n", mode=0o644, uid=1, gid=1, acl=["u:54321:rw-", "g:54322:r--", "m::rw-"])
    t.file("both", b"both\n", mode=0o600, acl=["u:1:r--", "u:54321:rwx", "g:1:r--", "g:54322:-wx", "m::rwx"])
    t.file("mask", b"the mask takes rights away\n", mode=0o644, acl=["u:2:rwx", "m::r--"])
    t.dir("access", acl=["u:1:rwx", "m::rwx"])
    t.dir("default-only", dacl=["u::rwx", "u:1:rwx", "u:54321:r-x", "g::r-x", "m::rwx", "o::---"])
    t.dir("access-and-default", mode=0o2750, gid=2, acl=["u:54321:rwx", "m::rwx"],
          dacl=["u::rwx", "g::r-x", "g:2:rwx", "m::rwx", "o::r-x"])
    t.dir("plain")
    t.file("default-only/inside", b"made under a default ACL\n", mode=0o644)
    t.file("with-xattr", b"both kinds\n", acl=["u:1:rw-", "m::rw-"], xattrs={"user.x": b"v"})
    for path in ("default-only/inside",):  # it inherited an ACL; this one is to have none
        subprocess.run(["setfacl", "-b", t.full(path)], check=True)
    c.create("acls", t)
    c.create("numeric-ids", t, "--numeric-ids", stamp="2026-01-03T03:04:05+00:00")
    c.finish()


@case
def flags(setup):
    c = Case(setup, "flags", "immutable and append-only files and dirs; a nodump file is not stored")
    t = c.tree()
    t.file("plain", b"plain\n")
    t.file("immutable", b"immutable\n", mode=0o4755, flags=IMMUTABLE, xattrs={"user.x": b"1"}, acl=["u:1:r--", "m::r-x"])
    t.file("append", b"append\n", flags=APPEND)
    t.file("append-and-immutable", b"both\n", flags=APPEND | IMMUTABLE)
    t.file("nodump", b"nodump\n", flags=NODUMP)
    t.dir("immutable-dir")
    t.file("immutable-dir/inside", b"inside\n")
    t.dir("immutable-dir/sub")
    t.dir("append-dir")
    t.file("append-dir/inside", b"inside\n")
    t.dir("nodump-dir")
    t.file("nodump-dir/inside", b"inside\n")
    change = {"immutable-dir": IMMUTABLE, "append-dir": APPEND, "nodump-dir": NODUMP}
    for name, bits in change.items():
        t.entries[raw(name)]["flags"] = bits
    c.create("flags", t)
    c.note("borg create leaves out what has the nodump flag.")
    t.settle = lambda: None
    c.create("noflags", t, "--noflags", stamp="2026-01-03T03:04:05+00:00")
    c.note("Archive noflags was made with --noflags: no flags are stored, and the nodump ones are.")
    c.finish()


@case
def flags_linked(setup):
    c = Case(setup, "flags-linked", "hard links of an immutable and of an append-only file: borg extract loses all but the first")
    t = c.tree()
    for n in 1, 2, 3:
        t.dir(f"{n}")
        for name, bits in ("immutable", IMMUTABLE), ("append", APPEND):
            if n == 1:
                t.file(f"1/{name}", name.encode(), flags=bits)
            else:
                t.hard(f"{n}/{name}", f"1/{name}")
    c.note("borg extract sets the flags of the first name before it makes the others, which then fails (EPERM), one "
           "warning each. To set flags after all links are made restores the source; expect is what borg does.")
    c.create("linked", t, paths=("1", "2", "3"))  # not `.`: so the order is known
    c.finish()


@case
def sparse(setup):
    c = Case(setup, "sparse", "files with holes, 16 MiB logical; expect/*.sparse.jsonl is extract --sparse, tree.py --sparse",
             compression="zstd,3")
    mib = 1 << 20
    t = c.tree()
    t.file("holes", [(0, noise("a", 4096)), (5 * mib, noise("b", 4096)), (9 * mib + 100, b"unaligned"), (16 * mib, b"")])
    t.file("only-hole", [(3 * mib, b"")])
    t.file("leading-hole", [(2 * mib, b"end")])
    t.file("trailing-hole", [(0, b"start"), (2 * mib, b"")])
    t.file("zeros-written", bytes(200_000))
    t.file("no-hole", noise("c", 9000))
    c.create("fixed-sparse", t, "--chunker-params", "fixed,65536", "--sparse")
    c.create("fixed-plain", t, "--chunker-params", "fixed,65536", stamp="2026-01-03T03:04:05+00:00")
    c.create("fastcdc-sparse", t, "--sparse", stamp="2026-01-04T03:04:05+00:00")

    def also(record, id, label):
        target, _ = c.extract(id, "--sparse")
        lines = look(setup.tree, target, ["--sparse"])
        record["expect_sparse"] = c.write(f"expect/{label}.sparse.jsonl", "".join(s + "\n" for s in lines))
        remove(target)

    c.also = also
    c.finish()


@case
def names(setup):
    c = Case(setup, "names", "names that are not UTF-8, control characters, 255 bytes, 60 levels, odd link targets")
    t = c.tree()
    for name in (
        b"not-utf8-\xff\xfe", b"latin1-\xe4\xf6\xfc", b"overlong-\xc0\xaf", b"surrogate-\xed\xb3\xbf", b"cut-\xe2\x82",
        b"new\nline", b"x\r\n", b"tab\there", b"back\\slash", b"esc-\x1b[31mred\x1b[0m", b"bell\x07", b"del\x7f",
        b" blank first", b"blank last ", b"two  blanks", b"-leading-dash", b"--option", b"*?[a]{b}", b"quote'\"`$(x)",
        b"colon:name", b"<>|&;", b"...", b"..dots", b"~", b"#", b"CON", b"caf\xc3\xa9-nfc", b"cafe\xcc\x81-nfd",
        "\u65e5\u672c\u8a9e-\U0001f40e".encode(), "\u202ertl".encode(), b"\xef\xbb\xbfbom",
        b"Case", b"case", b"n" * 255, b"\xff" * 255,
    ):
        t.file(name, name[:40] + b"\n")
    t.dir(b"dir-\xff\xfe")
    t.file(b"dir-\xff\xfe/in-\x80", b"both parts are not UTF-8\n")
    t.dir(b"dir\nnewline")
    t.file(b"dir\nnewline/file", b"f\n")
    t.link(b"link-\xff", b"target-\xff\xfe/x")
    t.link(b"link-newline", b"a\nb\r\n")
    t.link(b"link-esc", b"\x1b]0;title\x07")
    t.hard(b"hard-\xff", b"not-utf8-\xff\xfe")
    deep = b"deep"
    t.dir(deep)
    for n in range(59):
        deep += b"/level-%02d" % (n + 2)
        t.dir(deep)
    t.file(deep + b"/bottom", b"at the bottom\n")
    t.dir("a")
    t.file("a/x", b"order: a, a-b, a/x\n")
    t.file("a-b", b"sorts before a/x by bytes\n")
    c.create("names", t)
    c.finish()


@case
def many_chunks(setup):
    c = Case(setup, "many-chunks", "files of about 200 chunks of 4 KiB: equal chunks again and again, zero chunks; a header block",
             compression="lz4")
    t = c.tree()
    kinds = [prose(f"chunk-{n}", 4096) for n in range(9)]
    zero, chance = bytes(4096), random.Random("many-chunks")
    parts = [zero if chance.random() < 0.25 else chance.choice(kinds) for _ in range(199)]
    t.file("repeats", b"".join(parts) + b"a short end")
    t.file("alternating", (kinds[0] + kinds[1]) * 100)
    t.file("one-chunk-200-times", kinds[2] * 200)
    t.file("zeros", bytes(4096 * 60 + 17))
    t.file("distinct", b"".join(b"%4095d\n" % n for n in range(60)))
    t.file("again", b"".join(parts) + b"a short end")
    c.create("fixed", t, "--chunker-params", "fixed,4096")
    t = c.tree("header")
    t.file("header", kinds[3][:512] + b"".join(parts[:30]) + b"end")
    c.create("header", t, "--chunker-params", "fixed,4096,512", stamp="2026-01-03T03:04:05+00:00")
    c.finish()


@case
def many_items(setup):
    c = Case(setup, "many-items", "1500 files with long names: the item stream crosses several S objects",
             compression="zstd,10")
    t = c.tree()
    for d in range(3):
        t.dir(f"{d}")
        for n in range(500):
            t.file(f"{d}/" + "-".join(random.Random(n).choices(WORDS, k=14)) + f"-{n:04}", b"" if n % 5 else b"%d\n" % (n % 50),
                   ns=1_700_000_000_000_000_000)
    c.create("many", t)
    c.finish(raw=False)


@case
def packs_small(setup):
    c = Case(setup, "packs-small", "BORG_PACK_MAX_COUNT=3: many packs of a few objects each")
    c.env["BORG_PACK_MAX_COUNT"] = "3"
    t = c.tree()
    t.file("long", b"".join(prose(f"p{n}", 1024) for n in range(25)))
    t.file("noise", noise("packs", 5000))
    for n in range(6):
        t.file(f"f{n}", prose(f"packs-{n}", 400 + n))
    c.create("archive", t, "--chunker-params", "fixed,1024")
    c.finish()


@case
def chunkers(setup):
    c = Case(setup, "chunkers", "one archive for each chunker, the same file")
    t = c.tree()
    t.file("text", prose("chunkers", 40_000))
    t.file("noise", noise("chunkers", 6000))
    for n, params in enumerate(("fastcdc,10,14,12,2", "buzhash,10,14,12,4095", "buzhash64,10,14,12,4095,2", "fixed,4096,100")):
        c.create(params.split(",")[0], t, "--chunker-params", params, stamp=f"2026-01-{n + 2:02}T03:04:05+00:00")
    c.finish()


@case
def big_chunks(setup):
    c = Case(setup, "big-chunks", "chunks of up to 8 MiB that compress to almost nothing, by each codec", compression=None)
    for n, spec in enumerate(("lz4", "zstd,3", "auto,lzma,9", "auto,lz4", "zlib,9")):
        t = c.tree(f"src{n}")
        block = prose(f"big-{n}", 300)
        t.file("twelve-mib", (block * (12 * 1024 * 1024 // 300 + 1))[: 12 * 1024 * 1024])
        t.file("zeros", bytes(9 * 1024 * 1024 + n))
        c.create(spec.replace(",", "-"), t, "-C", spec, stamp=f"2026-01-{n + 2:02}T03:04:05+00:00")
    c.finish()


def series(c):
    t = c.tree()
    t.file("a.txt", b"version 1\n")
    c.create("docs", t, "--comment", "the first", "--tag", "keep", "--tag", "alpha", stamp="2026-01-01T12:00:00+00:00")
    t.file("a.txt", b"version 2\n")
    t.file("b.txt", b"new\n")
    c.create("docs", t, "--comment", "the second\nof two lines, ünïcode", stamp="2026-01-02T12:00:00.123456-04:00")
    t.file("a.txt", b"version 3\n")
    c.create("docs", t, stamp="2026-01-03T01:00:00+14:00")
    c.create("other name \u00fc", t, "--tag", "beta", stamp="2001-07-03T04:05:06-04:00")
    return t


@case
def archives(setup):
    c = Case(setup, "archives", "a series of three, comments, tags, offsets of time, renamed, recreated, protected, one soft-deleted")
    t = series(c)
    c.create("to-delete", t, stamp="2026-02-01T00:00:00+00:00")
    c.create("to-rename", t, stamp="2026-02-02T00:00:00+00:00", compare=False)
    c.create("to-protect", t, stamp="2026-02-03T00:00:00+00:00")
    c.create("to-recreate", t, stamp="2026-02-04T00:00:00+00:00", compare=False)
    empty = c.tree("empty")
    c.create("no-items", empty, "--exclude", "*", stamp="2026-02-05T00:00:00+00:00")
    c.borg("delete", "to-delete")
    c.borg("rename", "to-rename", "renamed")
    c.borg("tag", "to-protect", "--add", "@PROT")
    c.borg("recreate", "-a", "to-recreate", "--exclude", "b.txt", "--comment", "without b.txt")
    c.note("Archive renamed, to-protect and to-recreate have new ids since; the old pointers are soft-deleted (.del).")
    c.finish()


@case
def compacted(setup):
    c = Case(setup, "compacted", "archives deleted, then compacted: no .del left, packs rewritten, the index new")
    series(c)
    t2 = c.tree("big")
    t2.file("gone", noise("gone", 20_000))
    t2.file("stays", noise("stays", 3_000))
    gone = c.create("gone", t2, stamp="2026-02-01T00:00:00+00:00")
    t3 = c.tree("less")
    t3.file("stays", noise("stays", 3_000))
    c.create("stays", t3, stamp="2026-02-02T00:00:00+00:00")
    c.borg("delete", "aid:" + gone)
    c.borg("delete", "other name \u00fc")
    c.borg("compact", "--threshold", "0")
    c.finish()


@case
def index_multi(setup):
    c = Case(setup, "index-multi", "six runs, several index fragments")
    t = c.tree()
    for n in range(6):
        t.file(f"file-{n}", prose(f"multi-{n}", 1500))
        c.create(f"run-{n}", t, stamp=f"2026-01-{n + 2:02}T03:04:05+00:00")
    c.extra["index_fragments"] = len(os.listdir(os.path.join(c.repo, "index")))
    c.finish()


@case
def stdin(setup):
    c = Case(setup, "stdin", "items not from a file system: stdin, a command's output, a fifo read as data; paths one by one")
    text = prose("stdin", 5000)
    c.create("stdin", None, paths=("-",), input=text)
    c.create("stdin-named", None, "--stdin-name", "deep/down/name.txt", "--stdin-user", "daemon", "--stdin-group", "bin",
             "--stdin-mode", "0640", paths=("-",), input=text + b"more\n", stamp="2026-01-03T03:04:05+00:00")
    c.create("stdin-empty", None, "--stdin-name", "empty", paths=("-",), input=b"", stamp="2026-01-04T03:04:05+00:00")
    c.create("command", None, "--content-from-command", "--stdin-name", "out", paths=("printf", "from a command"),
             stamp="2026-01-05T03:04:05+00:00")
    t = c.tree("special")
    t.fifo("fifo", mode=0o600, uid=1, gid=1)
    t.file("plain", b"plain\n")
    writer = subprocess.Popen(["sh", "-c", 'printf "through a fifo" >"$0"', t.full("fifo")])
    c.create("read-special", t, "--read-special", stamp="2026-01-06T03:04:05+00:00", compare=False)
    writer.wait()
    c.note("stdin items have the time of the borg run as mtime, so these expect lines differ each time they are made. "
           "They have whole seconds, and atime and ctime too.")
    c.note("Parents of deep/down/name.txt are not in the archive: see case roots.")
    c.note("Items without uid and gid are extracted as the user who extracts: root here.")
    c.finish()


@case
def roots(setup):
    c = Case(setup, "roots", "paths given one by one: parents are not in the archive, one path twice, ../ and /./ in the roots")
    t = c.tree()
    t.dir("a", mode=0o700, uid=1)
    t.dir("a/b", mode=0o711)
    t.file("a/b/c.txt", b"c\n")
    t.file("a/b/d.txt", b"d\n")
    t.dir("z")
    t.file("z/one", b"1\n")
    t.hard("z/two", "z/one")
    t.file("z/three", b"3\n")
    t.link("to-z", "z")
    c.create("single", t, paths=("a/b/c.txt", "z/two"), compare=False)
    c.create("several", t, paths=("z", "a/b/d.txt", "./a/b/d.txt", "to-z"), compare=False, stamp="2026-01-03T03:04:05+00:00")
    c.create("upwards", t, paths=("../src/a", "z/./three"), compare=False, stamp="2026-01-04T03:04:05+00:00")
    c.create("names", t, paths=("z/one", "z/two", "z/three"), compare=False, stamp="2026-01-06T03:04:05+00:00")
    listed = b"a/b/c.txt\0a\0z/one\0to-z\0"
    c.create("from-stdin", t, "--paths-from-stdin", "--paths-delimiter", "\\0", paths=(), input=listed, compare=False,
             stamp="2026-01-05T03:04:05+00:00")
    c.note("Parents that are not in the archive are made as plain directories by extract: mode 0700, as borg's umask is "
           "0077 if no --umask is given, owner root, the time of extraction (mtime_ns null, case.json: mtime_free).")
    c.note("Archive from-stdin: the item of directory `a` comes after `a/b/c.txt`; `a/b` and `z` have none.")
    c.note("Archive names: z/one and z/two are one inode; given as roots, borg create stores the first alone.")
    c.note("Archive single has one member of a hard link group only.")
    c.finish()


@case
def digests(setup):
    c = Case(setup, "digests", "whole-file digests in the items (create --digests sha256,blake3)")
    c.create("digests", small_tree(c), "--digests", "sha256,blake3")
    c.finish()


@case
def import_tar(setup):
    c = Case(setup, "import-tar", "archives made by borg import-tar from a GNU and a PAX tar file")
    s = 1_600_000_000

    def add(tar, name, data=b"", kind=tarfile.REGTYPE, **more):
        info = tarfile.TarInfo(name)
        info.size, info.type, info.mtime, info.mode = len(data), kind, more.pop("mtime", s), more.pop("mode", 0o644)
        for key, value in more.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(data))

    for archive, form in ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT):
        path = os.path.join(c.base, archive + ".tar")
        with tarfile.open(path, "w", format=form, encoding="utf-8", errors="surrogateescape") as tar:
            add(tar, "dir", kind=tarfile.DIRTYPE, mode=0o750, uid=1, gid=2, uname="daemon", gname="bin")
            add(tar, "dir/file", b"in a tar\n", uid=54321, gid=54322, uname="nobody-here", gname="")
            add(tar, "dir/hard", kind=tarfile.LNKTYPE, linkname="dir/file", uid=54321, gid=54322)
            add(tar, "link", kind=tarfile.SYMTYPE, linkname="dir/file", mode=0o777)
            add(tar, "fifo", kind=tarfile.FIFOTYPE)
            add(tar, "null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)
            add(tar, "setuid", b"x", mode=0o4755)
            add(tar, "long/" + "n" * 180, b"long name\n")
            add(tar, "\udcff-not-utf8", b"bytes\n")
            if form == tarfile.PAX_FORMAT:
                add(tar, "ns", b"nanoseconds\n", pax_headers={"mtime": "1600000000.123456789"})
                add(tar, "xattr", b"xattr\n", pax_headers={"SCHILY.xattr.user.x": "value"})
                acl = "user::rw-\ngroup::rw-\nmask::r--\nother::---"
                add(tar, "acl", b"acl\n", pax_headers={"SCHILY.acl.access": acl})
                add(tar, "acl-comma", b"acl\n", pax_headers={"SCHILY.acl.access": acl.replace("\n", ","),
                                                            "SCHILY.xattr.user.x": "value"})
            else:
                add(tar, "empty", b"")
        stamp = "2026-01-02T03:04:05+00:00" if archive == "gnu" else "2026-01-03T03:04:05+00:00"
        done = c.borg("import-tar", "-C", "lz4", "--timestamp", stamp, archive, path, ok=(0, 1, *range(100, 128)))
        if done.stderr:
            c.note(f"borg import-tar {archive} said: {done.stderr.decode(errors='replace').strip()}")
    c.note("Archive pax, acl-comma: the ACL text is as GNU tar and star write it, with commas; import-tar stores it as it "
           "is, extract fails to set it (EINVAL, exit 104) and then sets neither the xattr nor the time.")
    c.note("Directory long/ has no item: extract makes it, see case roots.")
    path = os.path.join(c.base, "named.tar")
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        add(tar, "before", b"before\n")
        acl = "user::rw-\nuser:daemon:rw-\ngroup::r--\ngroup:54322:r--\nmask::rw-\nother::---"
        add(tar, "acl", b"acl\n", pax_headers={"SCHILY.acl.access": acl, "SCHILY.xattr.user.x": "value"}, mode=0o660)
        add(tar, "after", b"after\n")
    c.borg("import-tar", "-C", "lz4", "--timestamp", "2026-01-06T03:04:05+00:00", "acl-named", path)
    (named,) = [a["id"] for a in c.json("repo-list", "--json")["archives"] if a["name"] == "acl-named"]
    c.crashes.add(named)
    c.note("Archive acl-named: named ACL entries without the 4th field (the number), as a tar file of another program has them. "
           "borg extract ends with a traceback there (IndexError, exit 2), so it has no expect: files before, acl and after, "
           "user.x on acl, and an ACL for uid 1 (daemon) and gid 54322.")
    # a tar that borg itself wrote keeps everything
    t = small_tree(c)
    t.file("attr", b"attr\n", xattrs={"user.x": b"\0v"}, acl=["u:1:r--", "g:54322:r--", "m::r--"])
    id_ = c.create("source", t, stamp="2026-01-04T03:04:05+00:00")
    tar = os.path.join(c.base, "exported.tar")
    c.borg("export-tar", "--tar-format=BORG", "aid:" + id_, tar)
    done = c.borg("import-tar", "-C", "lz4", "--timestamp", "2026-01-05T03:04:05+00:00", "from-export", tar)
    c.note("Archive from-export went through export-tar --tar-format=BORG and import-tar.")
    c.finish()


@case
def index_marker(setup):
    c = Case(setup, "index-marker", "an interrupted operation: cache/chunkindex-invalid is there, half the index is gone; read the packs")
    t = small_tree(c)
    c.create("first", t)
    t.file("more", prose("more", 2000))
    c.create("second", t, stamp="2026-01-03T03:04:05+00:00")
    finish = c.copy_repo

    def copy_repo(_):
        finish(False)
        index = os.path.join(c.out, "repo/index")
        fragments = sorted(os.listdir(index), key=lambda n: os.path.getsize(os.path.join(index, n)))
        os.remove(os.path.join(index, fragments[-1]))
        c.write("repo/cache/chunkindex-invalid", b"")

    c.copy_repo = copy_repo
    c.note("By hand: the biggest index fragment was removed and the empty file cache/chunkindex-invalid added.")
    c.finish()


@case
def index_gone(setup):
    c = Case(setup, "index-gone", "index/ holds nothing: the packs must be read")
    c.create("archive", small_tree(c))
    finish = c.copy_repo

    def copy_repo(_):
        finish(False)
        shutil.rmtree(os.path.join(c.out, "repo/index"))

    c.copy_repo = copy_repo
    c.note("By hand: everything below index/ was removed.")
    c.finish()


@case
def leftovers(setup):
    c = Case(setup, "leftovers", "names to skip: .tmp, .hid, an old lock, a foreign name in packs/, quota.hid")
    c.create("archive", small_tree(c))
    kept = os.path.join(c.base, "locked")
    c.borg("with-lock", "cp", "-a", os.path.join(c.repo, "locks"), kept)
    locks = {name: open(os.path.join(kept, name), "rb").read() for name in os.listdir(kept)}
    assert locks
    c.note("By hand: a copy of locks/ as it was during `borg with-lock` (a dead process by now, and old), unfinished uploads "
           "(*.tmp), an internal file (*.hid), names that are not 64 hex digits, quota.hid, a small config/space-reserve.0.")
    c.extra["unexpected"] = ["packs/00/notes"]
    c.finish()
    for name, data in locks.items():
        c.write("repo/locks/" + name, data)
    for name in ("packs/00/0123456789abcdef.tmp", "index/0123456789abcdef.tmp", "archives/0123456789abcdef.tmp",
                 "archives/internal.hid", "packs/00/notes", "config/space-reserve.0"):
        c.write("repo/" + name, b"left over\n")
    c.write("repo/quota.hid", b"12345")


@case
def foreign_names(setup):
    c = Case(setup, "foreign-names", "names in archives/ and index/ that are not 64 hex digits: to be reported once, the rest works")
    c.create("archive", small_tree(c))
    c.note("By hand: the files archives/notes and index/notes were added. borg 2.0.0b25 fails at each: at the first with a "
           "traceback (ValueError, exit 2), at the second with `Chunk index fragment index/notes is corrupt` (exit 94).")
    c.extra["unexpected"] = ["archives/notes", "index/notes"]
    c.extra["borg_fails"] = True
    c.finish()
    for name in c.extra["unexpected"]:
        c.write("repo/" + name, b"left over\n")


@case
def pointer_lost(setup):
    c = Case(setup, "pointer-lost", "a pointer in archives/ whose object does not exist: to be listed as such, the rest works")
    c.create("archive", small_tree(c))
    lost = hashlib.sha256(b"no such archive").hexdigest()
    c.extra["lost"] = [lost]
    c.finish()
    c.write("repo/archives/" + lost, b"")


def transferred(name, mode, suite_name, hash_, create_options, transfer_options, what):
    def make(setup):
        if not setup.borg1:
            return False
        c = Case(setup, name, what, suite=suite_name, init=False)
        t = small_tree(c)
        t.dir("zz")
        t.hard("zz/linked", "bin/run")
        t.fifo("fifo")
        t.file("attr", b"attr\n", xattrs={"user.x": b"v", "user.empty": b""}, acl=["u:1:r--", "u:54321:r--", "m::r--"])
        old = os.path.join(c.base, "old")
        older = {"BORG_REPO": old, "BORG_BASE_DIR": os.path.join(c.base, "home1")}
        c.run("borg1", "init", "-e", mode, env=older)
        before = {}
        for n, spec in enumerate(("lz4", "zlib,6", "auto,zstd,3")):
            t.file(f"more-{n}", prose(f"more-{n}", 3000))
            t.settle()
            archive = spec.replace(",", "-")
            before[archive] = look(setup.tree, t.root)
            c.run("borg1", "create", "-C", spec, "--timestamp", f"2026-01-{n + 2:02}T03:04:05",
                  "--comment", f"borg 1, {spec}", "::" + archive, ".", env=older, cwd=t.root)
        other = {"BORG_OTHER_PASSPHRASE": "test", "BORG_OTHER_REPO": old}
        c.borg("repo-create", "-e", suite_name.split("+")[0], *(["-i", hash_] if hash_ else []), "--from-borg1",
               *create_options, env=other)
        c.borg("transfer", "--from-borg1", *transfer_options, env=other)
        c.note("Made by: borg 1.4.5 " + " ".join(["init -e", mode]) + "; create, three times; borg 2 "
               + " ".join(["repo-create --from-borg1", *create_options]) + "; "
               + " ".join(["transfer --from-borg1", *transfer_options]) + ".")
        for a in c.json("repo-list", "--json")["archives"]:
            c.sources[a["id"]] = before[a["name"]]
        c.finish()
    CASES[name] = make


transferred("from-borg1", "repokey", "aes256-ocb+sha256", "sha256", [], [],
            "archives of borg 1.4.5, transferred: chunks as borg 1 compressed them, hlid from paths")
transferred("from-borg1-blake2", "repokey-blake2", "chacha20-poly1305+blake3", "blake3", ["--copy-crypt-key"],
            ["--chunker-params", "default"],
            "archives of a borg 1.4.5 blake2 repository with its key: crypt_key is longer than 64 bytes; chunked anew")


@case
def old_beta(setup):
    c = Case(setup, "old-beta", "an older borg 2 beta, made by hand: config/version says 4", init=False)
    os.makedirs(os.path.join(c.repo, "config"))
    for name, data in (("version", b"4"), ("id", hashlib.sha256(b"old beta").hexdigest().encode()),
                       ("readme", b"This is a Borg Backup repository.\nSee https://borgbackup.readthedocs.io/\n")):
        with open(os.path.join(c.repo, "config", name), "wb") as f:
            f.write(data)
    c.refuse("Borg 2 beta repository version 4, only version 5 is supported", tool="by hand")


# ---------------------------------------------------------------- check

def check(setup, name):
    """Opens a copy of the committed repository with borg; says what is not as recorded."""
    folder = os.path.join(setup.out, name)
    with open(os.path.join(folder, "case.json")) as f:
        told = json.load(f)
    if "refused" in told:
        return []
    problems = []
    c = Case.__new__(Case)
    c.setup, c.name = setup, name
    c.base = c.cwd = os.path.join(setup.scratch, "check")
    c.repo = os.path.join(c.base, "repo")
    remove(c.base)
    os.makedirs(c.base)
    shutil.copytree(os.path.join(folder, "repo"), c.repo)
    for d in ["archives", "cache", "config", "index", "keys", "locks", *(f"packs/{n:02x}" for n in range(256))]:
        os.makedirs(os.path.join(c.repo, d), exist_ok=True)  # git keeps no empty directories, borg wants them
    home = os.path.join(c.base, "home")
    c.env = {"PATH": os.path.join(setup.scratch, "bin") + ":/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": home,
             "BORG_BASE_DIR": home, "BORG_REPO": c.repo, "BORG_PASSPHRASE": told["passphrase"],
             "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
    if "keyfile" in told:
        os.makedirs(os.path.join(home, ".config/borg/keys"))
        shutil.copy(os.path.join(folder, told["keyfile"]), os.path.join(home, ".config/borg/keys"))
    for passphrase in told.get("passphrases", [told["passphrase"]]):
        done = c.borg("repo-list", "--json", env={"BORG_PASSPHRASE": passphrase}, ok=range(256))
        if done.returncode:
            problems.append(f"repo-list: exit {done.returncode}: {last_words(done)}")
    if done.stdout:
        ids = {a["id"] for a in json.loads(done.stdout)["archives"]}
        if ids != {a["id"] for a in told["archives"]} | set(told.get("lost", ())):
            problems.append(f"other archives are listed: {sorted(ids)}")
    for a in told["archives"]:
        if "expect" not in a:
            continue
        target = os.path.join(c.base, "extracted")
        remove(target)
        os.makedirs(target)
        done = c.borg("extract", "aid:" + a["id"], cwd=target, ok=range(256))
        if done.returncode != a.get("extract_rc", 0):
            problems.append(f"extract {a['name']}: exit {done.returncode}: {last_words(done)}")
        with open(os.path.join(folder, a["expect"])) as f:
            wanted = f.read().splitlines()
        for d in differences(wanted, look(setup.tree, target, a.get("tree_options", ()))):
            if ": mtime_ns: source None," not in d:
                problems.append(f"extract {a['name']}: {d}")
    remove(c.base)
    if told.get("borg_fails"):
        return [] if problems else ["borg was to fail, but does not"]
    return problems


def main():
    options = argparse.ArgumentParser()
    options.add_argument("task", choices=("make", "check"))
    options.add_argument("--scratch", required=True)
    options.add_argument("--tree", required=True)
    options.add_argument("--out", required=True)
    options.add_argument("cases", nargs="*")
    setup = options.parse_intermixed_args()
    setup.out, setup.tree = os.path.abspath(setup.out), os.path.abspath(setup.tree)
    setup.borg1 = os.path.exists(os.path.join(setup.scratch, "bin/borg1"))
    setup.list_keys = {"many-items": "type mode uid gid user group path size mtime".split()}
    unknown = set(setup.cases) - set(CASES)
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(CASES)}")
    bad = 0
    for name in setup.cases or CASES:
        start = time.monotonic()
        if setup.task == "make":
            try:
                made = CASES[name](setup)
            except SystemExit as why:
                print(f"{name}: NOT MADE: {why}", flush=True)
                remove(os.path.join(setup.scratch, name))
                bad += 1
                continue
            folder = os.path.join(setup.out, name)
            size = "left out (needs BORG1)" if made is False else f"{folder_size(os.path.join(folder, 'repo')):>8} of {folder_size(folder):>8} bytes"
            print(f"{name:36} {size}  {time.monotonic() - start:5.1f} s", flush=True)
        elif os.path.exists(os.path.join(setup.out, name, "case.json")):
            problems = check(setup, name)
            bad += bool(problems)
            print(f"{name:36} {'as recorded' if not problems else ''}  {time.monotonic() - start:5.1f} s", flush=True)
            for p in problems:
                print("    " + p, flush=True)
    if bad:
        sys.exit(f"{bad} cases to look at")


if __name__ == "__main__":
    main()
