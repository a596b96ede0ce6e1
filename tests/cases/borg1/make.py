"""The work of make.sh, which see: run it through that. Python standard library only (write.py uses borg's modules).

First the tools (a case being made, the segments by hand), then the table of cases, one function each.
"""

import argparse
import base64
import binascii
import hashlib
import hmac
import io
import json
import os
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from common import (  # noqa: E402
    APPEND, IMMUTABLE, NODUMP, WORDS, Tree, blank_times, differences, folder_size, look,
    noise, prose, raw, remove, small_tree, tiny_tree,
)

TOOL = "borgbackup 1.4.5"
LIST_KEYS = (
    "type mode uid gid user group path bpath source flags size num_chunks mtime isomtime ctime isoctime "
    "atime isoatime health sha256 extra"
).split()
STAMP = "2026-01-02T03:04:05"
ENV = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "BORG_DISPLAY_PASSPHRASE": "no",
    "BORG_SHOW_SYSINFO": "no",
    "BORG_HOST_ID": "muleteer@1",
    "BORG_HOSTNAME": "muleteer",
    "BORG_USERNAME": "driver",
    "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
    "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    "BORG_CHECK_I_KNOW_WHAT_I_AM_DOING": "YES",
    "BORG_DELETE_I_KNOW_WHAT_I_AM_DOING": "YES",
}


def day(n):
    return f"2026-01-{n + 1:02}T03:04:05"


# ---------------------------------------------------------------- segments

MAGIC, COMMIT = b"BORG_SEG", bytes.fromhex("40f43c250900000002")
MANIFEST = bytes(32)


def segments(repo):
    """(number, path) of each segment file, in order."""
    found = []
    for top, _, names in os.walk(os.path.join(repo, "data")):
        found += [(int(n), os.path.join(top, n)) for n in names if n.isdecimal()]
    return sorted(found)


def entries(path):
    """(offset, size, tag, key) of each entry of a sound segment."""
    data = read(path)
    at = 8
    while at < len(data):
        _, size, tag = struct.unpack_from("<IIB", data, at)
        yield at, size, tag, data[at + 9:at + 41] if tag != 2 else b""
        at += size


def replay(repo):
    """key -> (segment, offset, size) of what is live."""
    live = {}
    for n, path in segments(repo):
        for at, size, tag, key in entries(path):
            if tag == 0:
                live[key] = (n, at, size)
            elif tag == 1:
                live.pop(key, None)
    return live


def read(path):
    with open(path, "rb") as f:
        return f.read()


def overwrite(path, at, data):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data)


def flip(path, at):
    overwrite(path, at, bytes([read(path)[at] ^ 1]))


def entry(tag, key=b"", data=b""):
    rest = struct.pack("<IB", 9 + len(key) + len(data), tag) + key + data
    return struct.pack("<I", binascii.crc32(rest)) + rest


def append_transaction(repo, body):
    """Two more segments: the entries given, and a commit."""
    last, path = segments(repo)[-1]
    for n, data in (last + 1, body), (last + 2, COMMIT):
        with open(os.path.join(os.path.dirname(path), str(n)), "wb") as f:
            f.write(MAGIC + data)


def drop(repo, *starts):
    for name in os.listdir(repo):
        if name.startswith(starts):
            os.remove(os.path.join(repo, name))


def drop_index(repo):
    drop(repo, "index.", "hints.", "integrity.")


def pack(value):
    """MessagePack as borg 1 writes it: text and bytes are both raw."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return bytes([value]) if 0 <= value < 128 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, (str, bytes)):
        data = raw(value)
        return (bytes([0xA0 | len(data)]) if len(data) < 32 else b"\xda" + struct.pack(">H", len(data))) + data
    if isinstance(value, dict):
        return bytes([0x80 | len(value)]) + b"".join(pack(k) + pack(v) for k, v in value.items())
    return bytes([0x90 | len(value)]) + b"".join(pack(v) for v in value)


def plain_manifest(archives):
    """A manifest object of mode none, sealed as that mode does, which needs no secret."""
    salt = hashlib.sha512(b"salt").digest()
    fields = {"archives": archives, "config": {}, "item_keys": [b"mtime", b"path"],
              "tam": {"hmac": bytes(64), "salt": salt, "type": "HKDF_HMAC_SHA512"},
              "timestamp": "2026-12-31T00:00:00.000000", "version": 1}
    fields["tam"]["hmac"] = hmac.digest(salt + b"manifest", pack(fields), "sha512")
    return b"\x02\0\0" + pack(fields)


# ---------------------------------------------------------------- a case being made

def last_words(done):
    """What a failed borg said, without the traceback and its paths."""
    lines = [s for s in done.stderr.decode(errors="replace").splitlines() if s.strip() and not s.startswith((" ", "Traceback"))]
    return lines[-1] if lines else ""


class Case:
    def __init__(self, setup, name, what, mode="repokey", compression="lz4", passphrase="test", config=None, by="borg",
                 index=False, init=True):
        self.setup, self.name, self.what, self.mode, self.compression = setup, name, what, mode, compression
        self.passphrase, self.index, self.program = passphrase, index, by
        self.out = os.path.join(setup.out, name)
        self.base = os.path.join(setup.scratch, name)
        self.repo = os.path.join(self.base, "repo")
        self.cwd = self.base
        for path in self.base, self.out:
            remove(path)
            os.makedirs(path)
        home = os.path.join(self.base, "home")
        self.env = {**ENV, "PATH": os.path.join(setup.scratch, "bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home,
                    "BORG_BASE_DIR": home, "BORG_REPO": self.repo, "BORG_PASSPHRASE": passphrase}
        self.sources = {}     # archive name -> tree.py of its source
        self.options = {}     # archive name -> extra options of tree.py
        self.select = {}      # archive name -> lists of paths to extract alone
        self.more = {}        # archive name -> more keys of its record
        self.from_source = set()  # archives borg does not extract as they should be: expect is the source
        self.no_items = set()     # archives borg cannot list the items of
        self.no_raw = set()       # archives whose raw items would be too long
        self.unnameable = {}  # archives borg's command line cannot name: what is known of them
        self.notes = []       # reasons why the extracted tree differs, what was done by hand
        self.extra = {}       # more keys of case.json
        self.records, self.differing, self.items, self.collected = [], [], {}, False
        if init:
            self.borg("init", "-e", mode)
            if config:
                self.config(**config)

    def run(self, program, *args, input=b"", ok=(0,), cwd=None, env=None):
        done = subprocess.run([program, *args], cwd=cwd or self.cwd, env={**self.env, **(env or {})}, input=input,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        if done.returncode not in ok:
            sys.exit(f"{self.name}: {program} {args}: exit {done.returncode}: {last_words(done)}")
        return done

    def borg(self, *args, **more):
        return self.run(self.program, *args, **more)

    def json(self, *args, **more):
        return json.loads(self.borg(*args, **more).stdout)

    def config(self, **values):
        edit_config(self.repo, **values)

    def tree(self, name="src"):
        return Tree(os.path.join(self.base, name))

    def write_ops(self, operations):
        """write.py with these operations."""
        return self.run(self.setup.python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "write.py"), self.repo,
                        input=repr(operations).encode()).stdout.decode().split()

    def create(self, archive, tree, *options, paths=(".",), compare=True, stamp=STAMP, look_at=(), ok=(0,), **more):
        """borg create; the tree is looked at before, to be compared with what extract writes."""
        if tree is not None:
            tree.settle()
            if compare:
                self.sources[archive] = look(self.setup.tree, tree.root, look_at)
        self.options[archive] = list(look_at)
        compression = [] if self.compression is None else ["-C", self.compression]
        done = self.borg("create", *compression, "--timestamp", stamp, *options, "::" + archive, *paths,
                         cwd=tree.root if tree is not None else None, ok=ok, **more)
        if done.stderr:
            self.notes.append(f"borg create {archive} said: {done.stderr.decode(errors='replace').strip()}")

    def note(self, text):
        self.notes.append(text)

    def names(self):
        return [a["barchive"] for a in self.json("list", "--json", "--consider-checkpoints")["archives"]]

    def extract(self, name, options=(), paths=(), ok=(0, 1, 2)):
        target = os.path.join(self.base, "extracted")
        remove(target)
        os.makedirs(target)
        return target, self.borg("extract", *options, "::" + name, *paths, cwd=target, ok=ok)

    def extracted(self, name, file, options=(), paths=(), look_at=()):
        """Extracts, writes what came; the record of it."""
        since = time.time_ns()
        target, done = self.extract(name, options, paths)
        if done.returncode == 2:
            sys.exit(f"{self.name}: extract {name}: exit 2: {last_words(done)}")
        seen, free = blank_times(look(self.setup.tree, target, look_at), since - 20_000_000, time.time_ns())
        remove(target)
        record = {"expect": self.write(file, "".join(s + "\n" for s in seen))}
        if free:
            record["mtime_free"] = free
        if look_at:
            record["tree_options"] = list(look_at)
        if done.returncode:
            record["extract_rc"] = done.returncode
            record["extract_stderr"] = [s.replace(target + "/", "") for s in done.stderr.decode(errors="replace").splitlines()]
        return record, seen

    def dump(self, name):
        """Archive map and items, as `borg debug dump-archive` shows them; no items if it fails at a name."""
        done = self.borg("debug", "dump-archive", "::" + name, "-", ok=range(256))
        if done.returncode:
            self.note(f"No raw items of {name!r}: `borg debug dump-archive` failed ({last_words(done)}).")
            info = self.json("info", "--json", "::" + name)["archives"][0]
            return {**info, "time": info["start"], "time_end": info["end"], "_id": info["id"]}, None
        dump = json.loads(done.stdout)
        return {**dump["_meta"], "_id": dump["_manifest_entry"]["id"].lstrip("\x7f")}, dump["_items"]

    def collect(self, only=None):
        """Records what is in the repository as it is now."""
        self.collected = True
        told = []
        for name in self.names():
            if name in self.unnameable:
                told.append((name, self.unnameable[name], None))
            elif only is None or name in only:
                told.append((name, *self.dump(name)))
        told.sort(key=lambda a: (a[1]["time"], a[1]["_id"]))
        labels = []
        for name, meta, items in told:
            label = re.sub("[^A-Za-z0-9._-]+", "_", name)[:60]
            if label in labels:
                label += "-%d" % (1 + len(labels))
            labels.append(label)
            record = text_or_bytes("name", os.fsencode(name))
            record.update(id=meta["_id"], time=full_time(meta["time"]), comment=meta.get("comment"),
                          hostname=meta["hostname"], username=meta["username"], time_stored=meta["time"])
            known = ("version time_end cmdline recreate_cmdline cwd chunker_params size csize nfiles size_parts csize_parts "
                     "nfiles_parts").split()
            record["meta"] = {k: meta[k] for k in known if k in meta}
            if "items" in meta:
                record["item_ptrs"] = [p.lstrip("\x7f") for p in meta["items"]]
            if ".checkpoint" in name:
                record["hidden"] = True
            record.update(self.more.get(name, {}))
            self.records.append(record)
            self.items[label] = (name, items)
            source, options = self.sources.get(name), self.options.get(name, [])
            if name in self.from_source:
                record["expect"] = self.write(f"expect/{label}.jsonl", "".join(s + "\n" for s in source))
                record["expect_is"] = "the source"
            elif name not in self.no_items:
                more, seen = self.extracted(name, f"expect/{label}.jsonl", look_at=options)
                record.update(more)
                if source is not None:
                    self.differing += [f"{label}: {d}" for d in differences(source, seen)]
            for n, paths in enumerate(self.select.get(name, ())):
                more, _ = self.extracted(name, f"expect/{label}.only-{n + 1}.jsonl", paths=paths, look_at=options)
                record.setdefault("selected", []).append({"paths": list(paths), **more})
            if name not in self.no_items | self.no_raw and not self.name.startswith(("log-", "index-", "damaged-")):
                keys = "".join("{%s}" % k for k in LIST_KEYS)
                record["items"] = self.write(f"items/{label}.jsonl",
                                             self.borg("list", "::" + name, "--json-lines", "--format", keys).stdout)
            if items is not None and name not in self.no_raw:
                lines = "".join(json.dumps(i, sort_keys=True) + "\n" for i in items)
                record["raw_items"] = self.write(f"items/{label}.raw.jsonl", lines)
            self.also(record, name, label)

    def also(self, record, name, label):
        """More to record of one archive; a case may replace this."""

    def broken(self, lost=()):
        """What cannot be right: zeros put in by a repair, and chunks that are lost."""
        found = []
        for name, items in self.items.values():
            ranges_of = {}
            for item in items or ():
                ranges, at = [], 0
                healthy = item.get("chunks_healthy")
                for n, (id, size, _) in enumerate(item.get("chunks", ())):
                    id = id.lstrip("\x7f")
                    if id in lost or healthy and healthy[n][0].lstrip("\x7f") != id:
                        if ranges and ranges[-1][1] == at:
                            ranges[-1][1] = at + size
                        else:
                            ranges.append([at, at + size])
                    at += size
                if item.get("source") in ranges_of and stat.S_ISREG(item["mode"]):
                    ranges = ranges_of[item["source"]]
                if ranges:
                    ranges_of[item["path"]] = ranges
                    found.append({"archive": name, "path": item["path"], "ranges": ranges})
        return found

    def content_ids(self):
        """ids (hex) of the chunks of files"""
        return {c[0].lstrip("\x7f") for _, items in self.items.values() for i in items or () for c in i.get("chunks", ())}

    def finish(self, edit=None, lost=(), **extra):
        """Writes the case; `edit` changes the copy of the repository by hand, `lost` are ids it takes away."""
        if not self.collected:
            self.collect()
        if self.differing and not self.notes:
            sys.exit(f"{self.name}: source and extracted tree differ, and no note says why:\n" + "\n".join(self.differing))
        notes = [*self.notes, "", *(self.differing or ["The trees that borg extract wrote equal their sources."])]
        self.write("notes.txt", "\n".join(notes).strip() + "\n")
        self.close(edit, {"passphrase": self.passphrase, "key": self.key(), **self.extra, **extra}, self.broken(lost))

    def key(self):
        return None if self.mode == "none" else "keyfile" if self.mode.startswith("keyfile") else "repokey"

    def refuse(self, why, edit=None, **extra):
        """Ends a case whose repository is to be refused."""
        self.close(edit, {"refused": why, "passphrase": self.passphrase, "key": self.key(), **self.extra, **extra}, ())

    def close(self, edit, extra, damage):
        target = os.path.join(self.out, "repo")
        for top, _, files in os.walk(self.repo):
            below = os.path.relpath(top, self.repo)
            for name in sorted(files):
                if not self.index and below == "." and name.startswith(("index.", "hints.", "integrity.")):
                    continue
                full = os.path.join(target, below, name)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                shutil.copyfile(os.path.join(top, name), full)
        if edit is not None:
            edit(target)
        keys = os.path.join(self.base, "home/.config/borg/keys")
        for name in os.listdir(keys) if os.path.isdir(keys) else ():
            extra["keyfile"] = self.write("keys/keyfile", read(os.path.join(keys, name)))
        case = {"case": self.name, "tool": self.setup.tools[self.program], "what": self.what, "mode": self.mode,
                "compression": self.compression, **extra}
        if damage:
            case["damage"] = damage
        case["archives"] = self.records
        self.write("case.json", json.dumps(case, indent=1, ensure_ascii=False) + "\n")
        remove(self.base)

    def write(self, path, data):
        full = os.path.join(self.out, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
        return path


def edit_config(repo, **values):
    path = os.path.join(repo, "config")
    with open(path) as f:
        text = f.read()
    for name, value in values.items():
        text = re.sub(rf"(?m)^{name} = .*\n(?:\t.*\n)*", "" if value is None else f"{name} = {value}\n", text)
    with open(path, "w") as f:
        f.write(text)


def text_or_bytes(key, data):
    """As tree.py does it: text if it is UTF-8, else base64 under another key."""
    try:
        return {key: data.decode()}
    except UnicodeDecodeError:
        return {key + "_b64": base64.b64encode(data).decode()}


def full_time(text):
    return (text if "." in text else text + ".000000") + "+00:00"


# ---------------------------------------------------------------- the cases

CASES = {}


def case(name):
    def keep(function):
        CASES[name] = function
        return function
    return keep


def mode(name, mode_name, **more):
    @case(name)
    def make(setup):
        what = {"key-empty": "the empty passphrase", "key-empty-authenticated": "the empty passphrase, authenticated",
                "key-unicode": "a passphrase that is not ASCII, with a decomposed a-umlaut, blanks at both ends"}
        indexed = name in ("mode-none", "mode-repokey", "mode-repokey-blake2")
        c = Case(setup, name, what.get(name, f"encryption mode {mode_name}"), mode=mode_name, index=indexed, **more)
        t = small_tree(c)
        c.create("first", t)
        t.file("docs/second.txt", prose("second", 500))
        c.create("second", t, stamp=day(2))
        c.finish()


for each in ("none", "repokey", "keyfile", "repokey-blake2", "keyfile-blake2", "authenticated", "authenticated-blake2"):
    mode("mode-" + each, each)
mode("key-empty", "repokey-blake2", passphrase="")
mode("key-empty-authenticated", "authenticated", passphrase="")
mode("key-unicode", "repokey", passphrase=" pa\u0308sswo\u00f6rt-\u043a\u043b\u044e\u0447-\U0001f511 ")


@case("key-one-line")
def key_one_line(setup):
    c = Case(setup, "key-one-line", "the key in config is one long line; the options in another order and case, a comment")
    c.create("archive", small_tree(c))
    c.note("By hand: config was rewritten, with the same values.")

    def edit(repo):
        values, last = {}, None
        for line in read(os.path.join(repo, "config")).decode().splitlines()[1:]:
            if line.startswith("\t"):
                values[last] += line.strip()
            elif " = " in line:
                last, values[last] = line.split(" = ")
        lines = ["# a comment", "[Other]", "id = 00", "", "[repository]", "; another", f"KEY: {values['key']}",
                 f"Id={values['id'].upper()}", f"version:{values['version']}", "segments_per_dir   =   1000",
                 "max_segment_size = 500M", "unknown_option = x", ""]
        with open(os.path.join(repo, "config"), "w") as f:
            f.write("\n".join(lines))

    c.finish(edit)


def by_level(c, specs, tree):
    """An archive with each compression, each of files of its own: a chunk is stored once only."""
    for n, spec in enumerate(specs):
        t = c.tree(f"src{n}")
        tree(t, spec)
        c.create(spec.replace(",", "-"), t, "--chunker-params", "fixed,8192", "-C", spec, stamp=day(n + 1))


def level_tree(t, spec):
    t.file("0", b"")
    t.file("1", spec.encode()[-1:])
    t.file("4095", prose(spec + "4095", 4095))
    t.file("text", prose(spec, 18_000))
    t.file("noise", noise(spec, 3000))
    t.file("zeros", bytes(8192 + len(spec)))


def codec(name, *specs, mode="repokey"):
    @case(name)
    def make(setup):
        c = Case(setup, name, "compression " + ", ".join(specs) + ": chunks of 8 KiB", compression=None, mode=mode)
        by_level(c, specs, level_tree)
        c.finish()


codec("codec-none", "none")
codec("codec-lz4", "lz4", mode="none")
codec("codec-zlib", "zlib,0", "zlib,1", "zlib,6", "zlib,9", mode="authenticated-blake2")
codec("codec-zstd", "zstd,1", "zstd,3", "zstd,10", "zstd,22", mode="repokey-blake2")
codec("codec-lzma", "lzma,0", "lzma,6", "lzma,9")
codec("codec-auto", "auto,lz4", "auto,zstd,3", "auto,zlib,6", "auto,lzma,6")


@case("codec-zstd-fast")
def codec_zstd_fast(setup):
    c = Case(setup, "codec-zstd-fast", "zstd levels below 1, which borg create does not offer; written by write.py",
             compression=None)
    items = [{b"path": f"file-{n}", b"mode": 0o100644, b"uid": 0, b"gid": 0, b"user": b"root", b"group": b"root",
              b"mtime": 1_700_000_000_000_000_000 + n, "data": [prose(f"fast{n}", 6000), prose(f"fast{n}b", 700)]}
             for n in range(3)]
    for level in -1, -50:
        c.write_ops([{"op": "archive", "name": f"fast{level}", "items": items[level == -50:][:2],
                      "compression": ("zstd", {"level": level})}])
    c.finish()


@case("codec-mixed")
def codec_mixed(setup):
    c = Case(setup, "codec-mixed", "one repository, an archive with each codec; each adds one file of its own",
             compression=None)
    t = c.tree()
    t.file("common", prose("common", 3000))
    for n, spec in enumerate(("none", "lz4", "zstd,3", "zlib,6", "lzma,6", "auto,zstd,10", "obfuscate,110,none")):
        t.file(f"by-{n}", prose(f"by-{n}", 5000))
        c.create(spec.replace(",", "-"), t, "-C", spec, stamp=day(n + 1))
    c.finish()


def obfuscated(name, spec, tree):
    @case(name)
    def make(setup):
        while True:
            c = Case(setup, name, f"compression {spec}: chunks longer than what is in them", compression=spec)
            t = tree(c)
            c.create("archive", t, "--chunker-params", "fixed,1048576")
            if folder_size(c.repo) < 250_000:
                break
        c.finish()


def padded_tree(c):
    t = c.tree()
    t.file("0", b"")
    t.file("1", b"x")
    t.file("4095", prose("4095", 4095))
    line = prose("three-mib", 300)
    t.file("3-mib", (line * (3 * 1024 * 1024 // 300 + 1))[: 3 * 1024 * 1024])
    return t


obfuscated("codec-obfuscate-110-zstd-3", "obfuscate,110,zstd,3", padded_tree)
obfuscated("codec-obfuscate-250-lz4", "obfuscate,250,lz4", padded_tree)
obfuscated("codec-obfuscate-3-auto-zlib", "obfuscate,3,auto,zlib,6", tiny_tree)
obfuscated("codec-obfuscate-nested", "obfuscate,110,obfuscate,1,lz4", tiny_tree)


# ---- shapes of the log

def shaped(c, name="archive", seed="", n=0, stamp=STAMP, **more):
    """An archive of four files of many small chunks, so that it takes several segments."""
    t = c.tree("src-" + name)
    t.dir("d")
    t.file("d/long", noise(seed + "long", 6000 + n))
    t.file("d/text", prose(seed + "text", 5000))
    t.hard("zz-again", "d/long")
    t.file("short", seed.encode() + b"short\n")
    c.create(name, t, "--chunker-params", "fixed,1024", stamp=stamp, **more)
    return t


SMALL = {"max_segment_size": 3000}


@case("log-segments")
def log_segments(setup):
    c = Case(setup, "log-segments", "many small segments, three a directory: data/0, data/1, ...", index=True,
             config={"max_segment_size": 2000, "segments_per_dir": 3})
    shaped(c, "one")
    shaped(c, "two", "two", stamp=day(2))
    c.finish()


def deleting(c):
    shaped(c, "stays-1")
    shaped(c, "goes", "goes", stamp=day(2))
    shaped(c, "stays-2", "stays", stamp=day(3))
    c.borg("delete", "::goes")


@case("log-deleted")
def log_deleted(setup):
    c = Case(setup, "log-deleted", "an archive deleted, nothing compacted: DELETE entries, tombstones in the index", index=True,
             config=SMALL)
    deleting(c)
    c.finish()


@case("log-compacted")
def log_compacted(setup):
    c = Case(setup, "log-compacted", "an archive deleted, then compacted: gaps between segments, commits at the end of data",
             index=True, config=SMALL)
    deleting(c)
    c.borg("compact", "--threshold", "0", "--cleanup-commits")
    c.finish()


@case("log-compaction-cut")
def log_compaction_cut(setup):
    c = Case(setup, "log-compaction-cut", "compaction stopped before it removed the old segments: entries twice; index.N of before",
             index=True, config=SMALL)
    deleting(c)
    before = os.path.join(c.base, "before")
    shutil.copytree(c.repo, before)
    c.borg("compact", "--threshold", "0")
    c.note("By hand: the segments that compaction removed were put back, and index, hints and integrity are those of before. "
           "Commits stand in the middle of the log; what was moved is there twice, without DELETE between.")

    def edit(repo):
        drop_index(repo)
        there = {n for n, _ in segments(repo)}
        for n, path in segments(before):
            if n not in there:
                shutil.copyfile(path, os.path.join(repo, "data/0", str(n)))
        for name in os.listdir(before):
            if name.startswith(("index.", "hints.", "integrity.")):
                shutil.copyfile(os.path.join(before, name), os.path.join(repo, name))

    c.finish(edit)


@case("log-append-only")
def log_append_only(setup):
    c = Case(setup, "log-append-only", "append_only = 1 and the file transactions; one archive deleted since",
             config={"append_only": 1})
    deleting(c)
    c.finish()


@case("log-many-commits")
def log_many_commits(setup):
    c = Case(setup, "log-many-commits", "24 archives of equal content, each a transaction: most segments are a commit alone")
    t = small_tree(c)
    for n in range(24):
        c.create(f"run-{n:02}", t, stamp=f"2026-02-{n + 1:02}T03:04:05", compare=n == 23)
    c.no_raw = {f"run-{n:02}" for n in range(23)}
    c.finish()


def tail(setup, name, what, keep_index):
    c = Case(setup, name, what, index=keep_index, config=SMALL)
    shaped(c, "kept")
    c.collect()
    return c


@case("log-killed")
def log_killed(setup):
    c = tail(setup, "log-killed", "a writer was killed: segments after the last commit, its lock is still there", True)
    have = {n for n, _ in segments(c.repo)}
    killed = subprocess.Popen([c.program, "create", "-C", "none", "--chunker-params", "fixed,1024", "::never", "-"],
                              stdin=subprocess.PIPE, cwd=c.base, env=c.env)
    for n in range(200):
        killed.stdin.write(noise(f"killed{n}", 1024))
        killed.stdin.flush()
        if len(segments(c.repo)) > len(have) + 3:
            break
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert len(segments(c.repo)) > len(have) + 2
    c.note("Made by SIGKILL of a `borg create` in the middle of its work. lock.exclusive and lock.roster are its.")
    c.finish(lock=True, uncommitted=[n for n, _ in segments(c.repo) if n not in have])


@case("log-uncommitted")
def log_uncommitted(setup):
    c = tail(setup, "log-uncommitted", "everything of a second archive is there, but for the commit; the index is not", False)
    have = {n for n, _ in segments(c.repo)}
    shaped(c, "never", "never", stamp=day(2))
    new = [n for n, _ in segments(c.repo) if n not in have]
    c.note(f"By hand: the last segment, a commit alone ({new[-1]}), was removed.")
    c.finish(lambda repo: os.remove(segments(repo)[-1][1]), uncommitted=new[:-1])


@case("log-torn-commit")
def log_torn_commit(setup):
    c = tail(setup, "log-torn-commit", "the last commit is cut after 12 bytes of 17: the transaction before counts, index.N is newer",
             True)
    shaped(c, "never", "never", stamp=day(2))
    c.note("By hand: the last segment was cut to 12 bytes.")
    c.finish(lambda repo: os.truncate(segments(repo)[-1][1], 12))


@case("log-torn-data")
def log_torn_data(setup):
    c = tail(setup, "log-torn-data", "the last segment is cut within an entry: the transaction before counts", False)
    shaped(c, "never", "never", stamp=day(2))
    c.note("By hand: the last segment, a commit alone, was removed, and the one before it cut by 5 bytes.")

    def edit(repo):
        os.remove(segments(repo)[-1][1])
        path = segments(repo)[-1][1]
        os.truncate(path, os.path.getsize(path) - 5)

    c.finish(edit)


@case("log-garbage-end")
def log_garbage_end(setup):
    c = tail(setup, "log-garbage-end", "three bytes after the last commit: it does not count, the transaction before does", False)
    shaped(c, "never", "never", stamp=day(2))
    c.note("By hand: the bytes `abc` were added to the last segment.")

    def edit(repo):
        with open(segments(repo)[-1][1], "ab") as f:
            f.write(b"abc")

    c.finish(edit)


@case("log-put-after-commit")
def log_put_after_commit(setup):
    c = tail(setup, "log-put-after-commit", "a last segment PUT COMMIT PUT COMMIT is no committed one: the transaction before counts",
             False)
    shaped(c, "never", "never", stamp=day(2))
    c.note("By hand: the last two segments (PUT of the manifest; COMMIT) became one: PUT COMMIT DELETE COMMIT.")

    def edit(repo):
        (_, put), (_, commit) = segments(repo)[-2:]
        os.remove(commit)
        with open(put, "ab") as f:
            f.write(COMMIT + entry(1, hashlib.sha256(b"absent").digest()) + COMMIT)

    c.finish(edit)


@case("index-stale")
def index_stale(setup):
    c = Case(setup, "index-stale", "index.N of before a second create (a crash after the commit)", index=True, config=SMALL)
    shaped(c, "one")
    kept = {n: read(os.path.join(c.repo, n)) for n in os.listdir(c.repo) if n.startswith(("index.", "hints.", "integrity."))}
    shaped(c, "two", "two", stamp=day(2))
    c.note("By hand: index, hints and integrity are those of before archive two.")

    def edit(repo):
        drop_index(repo)
        for name, data in kept.items():
            with open(os.path.join(repo, name), "wb") as f:
                f.write(data)

    c.finish(edit)


@case("index-gone")
def index_gone(setup):
    c = Case(setup, "index-gone", "no index, no hints, no integrity file; one archive was deleted", config=SMALL)
    deleting(c)
    c.note("By hand: index, hints and integrity were removed.")
    c.finish()


@case("index-hints-gone")
def index_hints_gone(setup):
    c = Case(setup, "index-hints-gone", "the index is there, hints and integrity are not", index=True, config=SMALL)
    shaped(c)
    c.note("By hand: hints and integrity were removed.")
    c.finish(lambda repo: drop(repo, "hints.", "integrity."))


@case("index-integrity")
def index_integrity(setup):
    c = Case(setup, "index-integrity", "the index does not fit its integrity file: one segment number in it is wrong", index=True,
             config=SMALL)
    deleting(c)
    c.note("By hand: the segment number of one live bucket of the index was changed to 0.")

    def edit(repo):
        (name,) = [n for n in os.listdir(repo) if n.startswith("index.")]
        path = os.path.join(repo, name)
        data = read(path)
        content = c.content_ids()
        at = next(at for at in range(18, len(data), 40) if data[at:at + 32].hex() in content
                  and 1 < struct.unpack_from("<I", data, at + 32)[0] < 0xfffffe00)
        overwrite(path, at + 32, struct.pack("<I", 0))

    c.finish(edit)


@case("index-bucket-gone")
def index_bucket_gone(setup):
    c = Case(setup, "index-bucket-gone", "a bucket is missing in the index, the object is in the log; no integrity file", index=True,
             config=SMALL)
    shaped(c)
    c.note("By hand: one bucket of the index became a tombstone, its count one less; integrity was removed. The log has all.")

    def edit(repo):
        drop(repo, "integrity.")
        (name,) = [n for n in os.listdir(repo) if n.startswith("index.")]
        path = os.path.join(repo, name)
        data = read(path)
        (_, items) = c.items["archive"]
        id = bytes.fromhex(next(i for i in items if i["path"] == "d/long")["chunks"][2][0].lstrip("\x7f"))
        at = next(at for at in range(18, len(data), 40) if data[at:at + 32] == id)
        overwrite(path, at + 32, struct.pack("<I", 0xfffffffe))
        overwrite(path, 8, struct.pack("<i", struct.unpack_from("<i", data, 8)[0] - 1))

    c.finish(edit, borg_fails=True)


def content_segment(c, repo, count=2):
    """A segment of nothing but live content chunks (and DELETE of nothing), not the first: its path, its entries."""
    live, content = replay(repo), c.content_ids()
    for n, path in segments(repo)[1:]:
        found = list(entries(path))
        if len(found) >= count and all(tag == 0 and key.hex() in content and live.get(key, (0, 0))[:2] == (n, at)
                                       for at, _, tag, key in found):
            return path, found
    sys.exit(f"{c.name}: no segment with content alone")


def damaged(name, what, how, index=False, borg_fails=True):
    """Damages a segment of content chunks in the middle of the log; `how` gives the ids that are lost."""
    @case(name)
    def make(setup):
        c = Case(setup, name, what + ("; the index is there" if index else "; the index is not there"), index=index, config=SMALL)
        shaped(c, "one")
        t = shaped(c, "two", "two", stamp=day(2))
        t.file("fine", b"a third archive\n")
        c.create("three", t, "--chunker-params", "fixed,1024", stamp=day(3))
        c.collect()
        path, found = content_segment(c, c.repo, 3)
        lost = {key.hex() for key in how(path, found)}
        c.note("By hand: " + what + f" (segment {os.path.basename(path)}). expect is what was there before.")
        c.finish(lost=lost, borg_fails=borg_fails, segment=int(os.path.basename(path)))


def truncated(path, found):
    at, size = found[1][:2]
    os.truncate(path, at + size // 2)
    return [e[3] for e in found[1:]]


def flipped(path, found):
    at, size, _, key = found[1]
    flip(path, at + size - 3)
    return [key]


def bogus_size(path, found):
    at, _, _, key = found[1]
    overwrite(path, at + 4, struct.pack("<I", 0x47455F5F))
    return [key]


def odd_tag(path, found):
    at, _, _, key = found[1]
    overwrite(path, at + 8, b"\x09")
    return [key]


def gone(path, found):
    os.remove(path)
    return [e[3] for e in found]


def no_magic(path, found):
    overwrite(path, 0, b"BORG_GES")
    return [e[3] for e in found]


for each, index in ("", True), ("-no-index", False):
    damaged("damaged-truncated" + each, "a segment in the middle is cut within its second entry", truncated, index)
    damaged("damaged-flipped" + each, "one bit of a chunk is flipped", flipped, index)
damaged("damaged-size", "an entry says it is 1195727711 bytes long", bogus_size)
damaged("damaged-tag", "an entry has tag 9", odd_tag)
damaged("damaged-segment-gone", "a segment is missing", gone)
damaged("damaged-magic", "a segment begins with other bytes", no_magic)


@case("damaged-mac")
def damaged_mac(setup):
    c = Case(setup, "damaged-mac", "a bad chunk in the middle of file 2 of 3; borg stops there, files 1 and 3 are whole",
             compression="none")
    t = c.tree()
    for n in 1, 2, 3:
        t.file(f"file-{n}", noise(f"file-{n}", 5000))
    t.hard("file-2-again", "file-2")
    c.create("archive", t, "--chunker-params", "fixed,1024")
    c.collect()
    (_, items) = c.items["archive"]
    id = next(i for i in items if i["path"] == "file-2")["chunks"][2][0].lstrip("\x7f")
    n, at, size = replay(c.repo)[bytes.fromhex(id)]
    path = dict(segments(c.repo))[n]
    c.note("By hand: one bit of the stored chunk was flipped and the CRC made right again: its MAC is wrong.")

    def edit(repo):
        place = os.path.join(repo, "data/0", str(n))
        body = bytearray(read(path)[at:at + size])
        body[-100] ^= 4
        overwrite(place, at, struct.pack("<I", binascii.crc32(bytes(body[4:]))) + bytes(body[4:]))

    c.finish(edit, lost={id}, borg_fails=True)


@case("damaged-meta-chunk")
def damaged_meta_chunk(setup):
    c = Case(setup, "damaged-meta-chunk", "the item stream of archive two is bad; archive one is whole")
    shaped(c, "one")
    shaped(c, "two", "two", stamp=day(2))
    c.more["two"] = {"broken": "a chunk of its item stream is damaged: nothing of it can be listed"}
    c.collect()
    two = next(r for r in c.records if r["name"] == "two")
    n, at, size = replay(c.repo)[bytes.fromhex(two["item_ptrs"][0])]
    c.note("By hand: one bit of the first chunk of the item stream of archive two was flipped. expect is what was there before.")
    c.finish(lambda repo: flip(os.path.join(repo, "data/0", str(n)), at + size - 2), borg_fails=True)


@case("damaged-zero-segment")
def damaged_zero_segment(setup):
    c = Case(setup, "damaged-zero-segment", "segments of length zero in gaps of the log, one after its end; nothing is lost",
             config=SMALL)
    deleting(c)
    c.borg("compact", "--threshold", "0", "--cleanup-commits")
    c.note("By hand: empty files where compaction left gaps, and one with a number after the last commit; no index.")

    def edit(repo):
        there = [n for n, _ in segments(repo)]
        gaps = [n for n in range(there[0], there[-1]) if n not in there]
        assert len(gaps) >= 2
        for n in gaps[0], gaps[-1], there[-1] + 1:
            with open(os.path.join(repo, "data/0", str(n)), "wb"):
                pass

    c.finish(edit, borg_fails=True)


@case("damaged-dead")
def damaged_dead(setup):
    dead_corrupt(setup, "damaged-dead", True)


@case("damaged-dead-no-index")
def damaged_dead_no_index(setup):
    dead_corrupt(setup, "damaged-dead-no-index", False)


def dead_corrupt(setup, name, index):
    c = Case(setup, name, "objects that nothing uses are corrupt (an old manifest, a deleted archive); all that is live is right; "
             + ("the index is there" if index else "the index is not there"), index=index, config=SMALL)
    deleting(c)
    c.collect()
    c.note("By hand: one bit was flipped in the first copy of the manifest, and in two chunks of the deleted archive.")
    places = []

    def edit(repo):
        live = replay(repo)
        dead = [(path, at, size, key) for n, path in segments(repo) for at, size, tag, key in entries(path)
                if tag == 0 and live.get(key, (0, 0))[:2] != (n, at)]
        manifest = next(e for e in dead if e[3] == MANIFEST)
        other = [e for e in dead if e[3] != MANIFEST and e[2] > 500][:2]
        assert len(other) == 2
        for path, at, size, _ in (manifest, *other):
            places.append([int(os.path.basename(path)), at])
            flip(path, at + size - 2)

    extra = {} if index else {"borg_fails": True}
    c.finish(edit, unreferenced_damage=places, **extra)


@case("leftovers")
def leftovers(setup):
    c = Case(setup, "leftovers", "names to skip: an old lock, config.old, *.tmp, foreign names in data/, a segment in the wrong directory",
             config={"segments_per_dir": 4})
    shaped(c)
    shaped(c, "two", "two", stamp=day(2))
    c.note("By hand: all the files named in `unexpected` and `ignored`, and the lock. borg 1.4.5 says nothing of any; data/1/2 is in the "
           "wrong directory, data/0/2 is the segment.")
    names = ["config.old", "config.tmp", "index.tmp", "data/foo", "data/notes/1", "data/0/.nfs0001", "data/0/1.tmp", "data/0/01"]
    wrong = "data/1/2"

    def edit(repo):
        for name in (*names, wrong, "lock.exclusive/muleteer@1.99999999-0"):
            os.makedirs(os.path.dirname(os.path.join(repo, name)), exist_ok=True)
            with open(os.path.join(repo, name), "wb") as f:
                f.write(b"" if name.startswith("lock") else MAGIC + COMMIT)
        with open(os.path.join(repo, "lock.roster"), "w") as f:
            f.write('{"exclusive": [["muleteer@1", 99999999, 0]]}')

    c.finish(edit, unexpected=[wrong], ignored=names, lock=True)


# ---- checkpoints and archives

def slow_stdin(c, name, parts, kill, paths=("-",), cwd=None):
    """borg create of a slow stdin with a checkpoint every second; ended by SIGKILL or in peace."""
    run = subprocess.Popen([c.program, "create", "-C", "lz4", "--checkpoint-interval", "1", "--chunker-params", "fixed,1024",
                            "--timestamp", STAMP, "--stdin-name", "slow", "::" + name, *paths],
                           stdin=subprocess.PIPE, cwd=cwd or c.base, env=c.env, stderr=subprocess.PIPE)
    commits = sum(os.path.getsize(p) == 17 for _, p in segments(c.repo))
    for n in range(100):
        run.stdin.write(prose(f"slow{n}", 1024))
        run.stdin.flush()
        time.sleep(0.35)
        if n >= parts and sum(os.path.getsize(p) == 17 for _, p in segments(c.repo)) >= commits + 2:
            break
    if kill:
        os.kill(run.pid, signal.SIGKILL)
        run.stdin = None
        run.wait()
        shutil.rmtree(os.path.join(c.repo, "lock.exclusive"), ignore_errors=True)
        drop(c.repo, "lock.roster")
    else:
        run.stdin.write(b"the end\n")
        assert run.communicate()[1] == b""
        assert run.returncode == 0


def with_parts(c):
    def also(record, name, label):
        if any("part" in i for i in c.items[label][1]):
            record["with_parts"] = c.extracted(name, f"expect/{label}.parts.jsonl", options=["--consider-part-files"])[0]
    c.also = also


@case("checkpoint")
def checkpoint(setup):
    c = Case(setup, "checkpoint", "a killed backup of stdin: `run.checkpoint` has parts of a file and no file")
    shaped(c, "done")
    slow_stdin(c, "run", 10, True)
    c.note("Archive run.checkpoint was left by a killed `borg create --checkpoint-interval 1`. Part files are not extracted, unless "
           "borg is asked to (with_parts).")
    with_parts(c)
    c.finish()
    assert any(r.get("hidden") and "with_parts" in r for r in c.records)


@case("part-files")
def part_files(setup):
    c = Case(setup, "part-files", "a finished archive that has the parts as well as the whole file")
    slow_stdin(c, "run", 9, False)
    c.note("The parts are redundant: hidden by default (with_parts: as borg extract --consider-part-files has it).")
    c.note("stdin items have the time of the borg run as mtime, so these expect lines differ each time they are made.")
    with_parts(c)
    c.finish()
    assert all("with_parts" in r for r in c.records)


@case("checkpoint-tree")
def checkpoint_tree(setup):
    c = Case(setup, "checkpoint-tree", "a killed backup of a tree: a checkpoint archive with whole files and parts of the next")
    t = small_tree(c)
    t.settle()
    slow_stdin(c, "tree", 8, True, paths=("docs", "noise.bin", "bin", "-"), cwd=t.root)
    c.note("Archive tree.checkpoint was left by a killed `borg create --checkpoint-interval 1` of paths and stdin.")
    with_parts(c)
    c.finish()
    assert any(r.get("hidden") and "with_parts" in r for r in c.records)


@case("archive-names")
def archive_names(setup):
    c = Case(setup, "archive-names", "names of archives: not UTF-8, Unicode, blanks, a colon, like an option, equal content; comments")
    t = small_tree(c)
    names = (b"plain", "caf\u00e9 \u65e5\u672c\u8a9e \U0001f40e".encode(), b"not-utf8-\xff\xfe", b"two  blanks", b"a:b", b"--option",
             b"*?[x]", b"esc-\x1b[31m", b"new\nline", b"$(x) `y` \"'", b"CON", b"..", b"plain.checkpoint.1", b"back\\slash",
             b"n" * 255)
    for n, name in enumerate(names):
        comment = {0: "a comment", 1: "\u00fcn\u00efcode,\nof two lines", 3: "not utf-8: \udcff\udcfe"}.get(n)
        options = ["--comment", comment] if comment else []
        done = None
        try:
            c.create(os.fsdecode(name), t, *options, stamp=day(n + 1), compare=n == 0)
        except SystemExit as why:
            done = why
        if done:
            c.sources.pop(os.fsdecode(name), None)
            c.note(f"borg 1.4.5 refuses the name {name!r}.")
    c.no_raw = {os.fsdecode(n) for n in names[1:]}
    odd = os.fsdecode(b"written-\xff\xfe")
    t = c.tree("odd")
    t.file("file", b"in an archive whose name is not UTF-8\n", ns=1_700_000_000_123_456_789)
    t.settle()
    c.sources[odd] = look(setup.tree, t.root)
    time_is = "2026-03-01T03:04:05.000000"
    (id,) = c.write_ops([{"op": "archive", "name": odd, "items": [one_item("file", read(t.full("file")))], "meta": {"time": time_is}}])
    c.unnameable[odd] = {"_id": id, "time": time_is, "comment": "", "hostname": "muleteer", "username": "driver"}
    c.from_source.add(odd)
    c.no_items.add(odd)
    c.note("Archive written-ff-fe is by write.py.")
    c.finish()


@case("renamed")
def renamed(setup):
    c = Case(setup, "renamed", "archives renamed, recreated (an exclude, a comment, another codec and chunker), and their old objects",
             config=SMALL)
    shaped(c, "to-rename")
    t = shaped(c, "to-recreate", "two", stamp=day(2))
    shaped(c, "to-recompress", "three", stamp=day(3))
    c.borg("rename", "::to-rename", "renamed")
    c.borg("recreate", "--exclude", "short", "--comment", "without short", "::to-recreate")
    c.borg("recreate", "-C", "zlib,9", "--recompress", "always", "--chunker-params", "10,14,12,4095", "::to-recompress")
    c.sources["renamed"] = c.sources.pop("to-rename")
    t.file("new", b"new\n")
    c.create("empty", t, "--exclude", "*", stamp=day(4), compare=False)
    c.note("Archive to-recreate was rewritten without `short`; archive empty has no items at all.")
    c.finish()


@case("import-tar")
def import_tar(setup):
    c = Case(setup, "import-tar", "archives made by borg import-tar: hard links named ./d/b, masters without hardlink_master")
    s = 1_600_000_000

    def add(tar, name, data=b"", kind=tarfile.REGTYPE, **more):
        info = tarfile.TarInfo(name)
        info.size, info.type, info.mtime, info.mode = len(data), kind, more.pop("mtime", s), more.pop("mode", 0o644)
        for key, value in more.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(data))

    for n, (archive, dot, form) in enumerate((("gnu", "", tarfile.GNU_FORMAT), ("pax", "", tarfile.PAX_FORMAT),
                                              ("dotted", "./", tarfile.GNU_FORMAT))):
        path = os.path.join(c.base, archive + ".tar")
        with tarfile.open(path, "w", format=form, encoding="utf-8", errors="surrogateescape") as tar:
            add(tar, dot + "d", kind=tarfile.DIRTYPE, mode=0o750, uid=1, gid=2, uname="daemon", gname="bin")
            add(tar, dot + "d/b", f"in a tar {archive}\n".encode(), uid=54321, gid=54322, uname="nobody-here", gname="")
            add(tar, dot + "d/hard", kind=tarfile.LNKTYPE, linkname=dot + "d/b", uid=54321, gid=54322)
            add(tar, dot + "link", kind=tarfile.SYMTYPE, linkname="d/b", mode=0o777)
            add(tar, dot + "fifo", kind=tarfile.FIFOTYPE)
            add(tar, dot + "null", kind=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666)
            add(tar, dot + "long/" + "n" * 180, b"long name\n")
            add(tar, dot + "\udcff-not-utf8", b"bytes\n")
            if form == tarfile.PAX_FORMAT:
                add(tar, "ns", b"nanoseconds\n", pax_headers={"mtime": "1600000000.123456789"})
                add(tar, "xattr", b"xattr\n", pax_headers={"SCHILY.xattr.user.x": "value"})
        done = c.borg("import-tar", "-C", "lz4", "--timestamp", day(n + 1), "::" + archive, path, ok=(0, 1))
        if done.stderr:
            c.note(f"borg import-tar {archive} said: {done.stderr.decode(errors='replace').strip()}")
    c.note("Directory long/ has no item: extract makes it, mode 0700, with the time of extraction.")
    c.finish()


@case("many-items")
def many_items(setup):
    c = Case(setup, "many-items", "2000 files: the item stream crosses several chunks", compression="zstd,10")
    t = c.tree()
    for d in range(4):
        t.dir(f"{d}")
        for n in range(500):
            t.file(f"{d}/" + "-".join(random.Random(n).choices(WORDS, k=3)) + f"-{n:04}", b"" if n % 5 else b"%d\n" % (n % 50),
                   ns=1_700_000_000_000_000_000)
    c.create("many", t)
    c.no_raw = {"many"}
    c.finish()


@case("many-chunks")
def many_chunks(setup):
    c = Case(setup, "many-chunks", "files of about 200 chunks of 4 KiB: equal chunks again and again, zero chunks; buzhash; a header block")
    t = c.tree()
    kinds = [prose(f"chunk-{n}", 4096) for n in range(9)]
    zero, chance = bytes(4096), random.Random("many-chunks")
    parts = [zero if chance.random() < 0.25 else chance.choice(kinds) for _ in range(199)]
    t.file("repeats", b"".join(parts) + b"a short end")
    t.file("one-chunk-200-times", kinds[2] * 200)
    t.file("zeros", bytes(4096 * 60 + 17))
    t.file("distinct", b"".join(b"%4095d\n" % n for n in range(60)))
    c.create("fixed", t, "--chunker-params", "fixed,4096")
    t = c.tree("header")
    t.file("header", kinds[3][:512] + b"".join(parts[:30]) + b"end")
    c.create("header", t, "--chunker-params", "fixed,4096,512", stamp=day(2))
    t = c.tree("buzhash")
    t.file("text", prose("buzhash", 40_000))
    c.create("buzhash", t, "--chunker-params", "buzhash,10,14,12,4095", stamp=day(3))
    c.finish()


@case("big-chunks")
def big_chunks(setup):
    c = Case(setup, "big-chunks", "chunks of up to 8 MiB that compress to almost nothing, by each codec", compression=None)
    for n, spec in enumerate(("lz4", "zstd,3", "auto,lzma,9", "zlib,9")):
        t = c.tree(f"src{n}")
        block = prose(f"big-{n}", 300)
        t.file("twelve-mib", (block * (12 * 1024 * 1024 // 300 + 1))[: 12 * 1024 * 1024])
        t.file("zeros", bytes(9 * 1024 * 1024 + n))
        c.create(spec.replace(",", "-"), t, "-C", spec, stamp=day(n + 1))
    c.finish()


@case("sparse")
def sparse(setup):
    c = Case(setup, "sparse", "files with holes, one of 256 MiB; `sparse` is extract --sparse, tree.py --sparse",
             compression="zstd,3")
    mib = 1 << 20
    t = c.tree()
    t.file("big-hole", [(0, b"start"), (256 * mib, b"end")])
    t.file("holes", [(0, noise("a", 4096)), (5 * mib, noise("b", 4096)), (9 * mib + 100, b"unaligned"), (16 * mib, b"")])
    t.file("only-hole", [(3 * mib, b"")])
    t.file("zeros-written", bytes(200_000))
    c.create("fixed-sparse", t, "--chunker-params", "fixed,4194304", "--sparse")
    os.remove(t.full("big-hole"))
    del t.entries[b"big-hole"]
    c.create("buzhash", t, stamp=day(2))

    def also(record, name, label):
        record["sparse"] = c.extracted(name, f"expect/{label}.sparse.jsonl", ["--sparse"], look_at=["--sparse"])[0]

    c.also = also
    c.finish()


@case("stdin")
def stdin(setup):
    c = Case(setup, "stdin", "items not from a file system: stdin, a command's output, odd --stdin-name")
    text = prose("stdin", 5000)
    c.create("stdin", None, paths=("-",), input=text)
    c.create("stdin-named", None, "--stdin-name", "deep/down/name.txt", "--stdin-user", "daemon", "--stdin-group", "bin",
             "--stdin-mode", "0640", paths=("-",), input=text + b"more\n", stamp=day(2))
    c.create("stdin-empty", None, "--stdin-name", "empty", paths=("-",), input=b"", stamp=day(3))
    c.create("command", None, "--content-from-command", "--stdin-name", "out", paths=("printf", "from a command"), stamp=day(4))
    c.create("upwards", None, "--stdin-name", "x/../../../../tmp/packtrain-pwn", paths=("-",), input=b"out\n", stamp=day(5))
    c.note("stdin items have the time of the borg run as mtime, so these expect lines differ each time they are made.")
    c.note("Parents of deep/down/name.txt are not in the archive: extract makes them.")
    items = c.dump("upwards")[1]
    c.note(f"--stdin-name x/../../../../tmp/packtrain-pwn was stored as {items[0]['path']!r}.")
    if ".." in items[0]["path"].split("/"):
        c.no_items.add("upwards")
        target, done = c.extract("upwards")
        c.note(f"borg extract of it: exit {done.returncode}: {done.stderr.decode().strip()}")
        c.more["upwards"] = {"escapes": [items[0]["path"]]}
    c.finish()


# ---- metadata

@case("types")
def types(setup):
    c = Case(setup, "types", "every file type borg stores, hard links of most of them, all mode bits")
    t = c.tree()
    t.dir("empty-dir")
    t.dir("closed", mode=0o555)
    t.file("closed/inside", b"in a directory nobody may write\n", mode=0o444)
    t.dir("sticky", mode=0o1777)
    t.dir("setgid", mode=0o2775, gid=2)
    t.file("regular", prose("regular", 300))
    t.file("setuid", b"#!/bin/sh\n", mode=0o4755, uid=1, gid=1)
    t.file("setgid-file", b"#!/bin/sh\n", mode=0o2755, uid=54321, gid=54322)
    t.file("all-bits", b"all\n", mode=0o7777, uid=2, gid=2)
    t.file("no-bits", b"none\n", mode=0)
    t.link("link-relative", "setgid/hard-third")
    t.link("link-absolute", "/nowhere/at/all", uid=1, gid=1)
    t.link("link-dangling", "not-there", uid=54321, gid=54321)
    t.link("link-up", "../outside")
    t.link("link-long", "d/" * 400 + "end")
    t.link("link-xattr", "regular", xattrs={"trusted.on-link": b"kept"})
    t.hard("link-hard", "link-xattr")
    t.fifo("fifo", mode=0o640, uid=1, gid=2)
    t.dev("char-null", stat.S_IFCHR, 1, 3, mode=0o666)
    t.dev("char-zero", stat.S_IFCHR, 0, 0, mode=0o600)
    t.dev("char-big", stat.S_IFCHR, 4095, 1_048_575, mode=0o600)
    t.dev("block", stat.S_IFBLK, 259, 70_000, gid=2)
    t.sock("socket")
    c.note("Sockets are never stored, so `socket` is only in the source. Hard-linked symlinks are stored as two.")
    c.create("types", t)
    c.finish()


@case("hard-links")
def hard_links(setup):
    c = Case(setup, "hard-links", "hard links of files, fifos and devices across directories; `selected`: second names alone")
    t = c.tree()
    for d in "ab":
        t.dir(d)
    t.file("a/f", b"linked\n", uid=1, gid=54322)
    t.hard("b/f", "a/f")
    t.hard("b/f3", "a/f")
    t.file("a/empty", b"")
    t.hard("b/empty", "a/empty")
    t.file("a/long", noise("linked", 3000))
    t.hard("b/long", "a/long")
    t.fifo("a/p", mode=0o640, uid=1)
    t.hard("b/p", "a/p")
    t.dev("a/null", stat.S_IFCHR, 1, 3, mode=0o666)
    t.hard("b/null", "a/null")
    t.file("a/setuid", b"#!/bin/sh\n", mode=0o4755, uid=2, xattrs={"user.x": b"v"})
    t.hard("b/setuid", "a/setuid")
    t.file("b/alone", b"alone\n")
    t.link("a/s", "f")
    t.hard("b/s", "a/s")
    c.create("a-then-b", t, "--chunker-params", "fixed,1024", paths=("a", "b"))
    c.create("b-alone", t, "--chunker-params", "fixed,1024", paths=("b",), stamp=day(2), compare=False)
    c.note("Hard-linked symlinks are stored, and extracted, as two. Archive b-alone has the second names only: b/f and b/f3 are "
           "one there, the others have no hard_link partner.")
    c.select["a-then-b"] = [["b"], ["b/f3", "b/p"], ["b/empty", "b/long"], ["a/f", "b/f3"]]
    c.finish()


@case("times")
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
        ("year-1901", -2_147_483_648 * second),
        ("clamp", 2_147_310_847 * second),
        ("clamp-plus-1", 2_147_310_848 * second),
        ("max-i32", 2_147_483_647 * second + 999_999_999),
        ("past-i32", 2_147_483_648 * second),
        ("max-u32-ns", 4_294_967_295 * second + 5),
        ("year-2100", 4_102_444_800 * second + 123_456_789),
        ("max-i64-ns", 9_223_372_036_854_775_807),
        ("year-2446", 15_032_385_535 * second),
    ):
        t.file(name, b"", ns=ns)
    t.dir("old-dir", ns=86_400 * second + 3)
    t.file("old-dir/new-file", b"newer than its directory\n", ns=1_750_000_000 * second)
    t.dir("old-dir/sub", ns=2 * 86_400 * second)
    t.link("old-link", "zero", ns=3 * 86_400 * second + 11)
    t.fifo("old-fifo", ns=4 * 86_400 * second + 12)
    c.note("borg 1 keeps times within 0 .. 2,147,310,847 s: earlier ones become 1970-01-01, later ones January 2038.")
    c.create("times", t)
    c.finish()


@case("atime")
def atime(setup):
    c = Case(setup, "atime", "access times stored (create --atime); compare with tree.py --atime")
    t = c.tree()
    s = 10**9
    t.file("earlier", b"read before it was written\n", ns=1_600_000_000 * s + 1, atime_ns=1_500_000_000 * s + 2)
    t.file("later", b"read later\n", ns=1_600_000_000 * s + 3, atime_ns=1_700_000_000 * s + 4)
    t.dir("dir", ns=1_600_000_000 * s + 5, atime_ns=1_750_000_000 * s + 6)
    t.fifo("fifo", ns=1_600_000_000 * s + 9, atime_ns=1_710_000_000 * s + 10)
    c.create("with-atime", t, "--atime", look_at=["--atime"])
    c.create("without-atime", t, stamp=day(2), look_at=["--atime"])
    c.create("noctime", t, "--noctime", stamp=day(3))
    c.note("Without --atime no access time is stored; extract then sets it to the mtime.")
    c.finish()


@case("xattrs")
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
    t.dir("dir", xattrs={"user.on-dir": b"d", "trusted.on-dir": b"t"})
    t.file("dir/read-only", b"ro\n", mode=0o400, xattrs={"user.ro": b"r"})
    t.link("link", "one", xattrs={"trusted.on-link": b"l"})
    t.file("linked", b"linked\n", xattrs={"user.linked": b"both"})
    t.hard("linked-2", "linked")
    t.fifo("fifo", xattrs={"trusted.on-fifo": b"f"})
    c.create("xattrs", t)
    c.create("noxattrs", t, "--noxattrs", stamp=day(2), compare=False)
    t.file("odd-name", b"odd\n", xattrs={"user.na me=\u00fc\n": b"x", b"user.bytes-\xff".decode(errors="surrogateescape"): b"y"})
    c.create("odd-names", t, stamp=day(3))
    c.note("Archive noxattrs was made with --noxattrs.")
    c.finish()


@case("acls")
def acls(setup):
    c = Case(setup, "acls", "POSIX ACLs: access and default, names known and unknown, a dir with a default only; numeric ids")
    t = c.tree()
    t.file("known", b"known\n", mode=0o640, acl=["u:1:r-x", "g:2:--x", "m::r-x"])
    t.file("unknown", b"unknown\n", mode=0o644, uid=1, gid=1, acl=["u:54321:rw-", "g:54322:r--", "m::rw-"])
    t.file("mask", b"the mask takes rights away\n", mode=0o644, acl=["u:2:rwx", "m::r--"])
    t.dir("access", acl=["u:1:rwx", "m::rwx"])
    t.dir("default-only", dacl=["u::rwx", "u:1:rwx", "u:54321:r-x", "g::r-x", "m::rwx", "o::---"])
    t.dir("access-and-default", mode=0o2750, gid=2, acl=["u:54321:rwx", "m::rwx"],
          dacl=["u::rwx", "g::r-x", "g:2:rwx", "m::rwx", "o::r-x"])
    t.file("default-only/inside", b"made under a default ACL\n", mode=0o644)
    t.file("with-xattr", b"both kinds\n", acl=["u:1:rw-", "m::rw-"], xattrs={"user.x": b"v"})
    subprocess.run(["setfacl", "-b", t.full("default-only/inside")], check=True)  # it inherited one
    c.create("acls", t)
    c.create("numeric-ids", t, "--numeric-ids", stamp=day(2))
    c.create("noacls", t, "--noacls", stamp=day(3), compare=False)
    c.note("Archive noacls was made with --noacls.")
    c.finish()


@case("flags")
def flags(setup):
    c = Case(setup, "flags", "immutable, append-only and nodump files and dirs")
    t = c.tree()
    t.file("plain", b"plain\n")
    t.file("immutable", b"immutable\n", mode=0o4755, flags=IMMUTABLE, xattrs={"user.x": b"1"}, acl=["u:1:r--", "m::r-x"])
    t.file("append", b"append\n", flags=APPEND)
    t.file("append-and-immutable", b"both\n", flags=APPEND | IMMUTABLE)
    t.file("nodump", b"nodump\n", flags=NODUMP)
    t.dir("immutable-dir")
    t.file("immutable-dir/inside", b"inside\n")
    t.dir("nodump-dir")
    for name, bits in {"immutable-dir": IMMUTABLE, "nodump-dir": NODUMP}.items():
        t.entries[raw(name)]["flags"] = bits
    c.create("flags", t)
    t.settle = lambda: None
    c.create("noflags", t, "--noflags", stamp=day(2), compare=False)
    c.note("Archive noflags was made with --noflags: no flags are stored.")
    c.finish()


@case("names")
def names(setup):
    c = Case(setup, "names", "names that are not UTF-8, control characters, 255 bytes, 60 levels, odd link targets")
    t = c.tree()
    for name in (
        b"not-utf8-\xff\xfe", b"latin1-\xe4\xf6\xfc", b"overlong-\xc0\xaf", b"surrogate-\xed\xb3\xbf", b"cut-\xe2\x82",
        b"new\nline", b"x\r\n", b"tab\there", b"back\\slash", b"a\\b", b"esc-\x1b[31mred\x1b[0m", b"bell\x07", b"del\x7f", b"\x7fdel",
        b" blank first", b"blank last ", b"-leading-dash", b"*?[a]{b}", b"quote'\"`$(x)", b"colon:name", b"<>|&;", b"...",
        b"..dots", b"~", b"#", b"CON", b"caf\xc3\xa9-nfc", b"cafe\xcc\x81-nfd",
        "\u65e5\u672c\u8a9e-\U0001f40e".encode(), "\u202ertl".encode(), b"Case", b"case", b"n" * 255, b"\xff" * 255,
    ):
        t.file(name, name[:40] + b"\n")
    t.dir(b"dir-\xff\xfe")
    t.file(b"dir-\xff\xfe/in-\x80", b"both parts are not UTF-8\n")
    t.dir(b"dir\nnewline")
    t.file(b"dir\nnewline/file", b"f\n")
    t.link(b"link-\xff", b"target-\xff\xfe/x")
    t.link(b"link-newline", b"a\nb\r\n")
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


@case("roots")
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
    c.create("single", t, paths=("a/b/c.txt", "z/two"), compare=False)
    c.create("twice", t, paths=("z", "a/b/d.txt", "./a/b/d.txt", "a"), compare=False, stamp=day(2))
    c.create("upwards", t, paths=("../src/a", "z/./three"), compare=False, stamp=day(3))
    c.note("Parents that are not in the archive are made as plain directories by extract: mode 0700, owner root, the time of "
           "extraction (mtime_ns null, case.json: mtime_free).")
    c.finish()


@case("owners")
def owners(setup):
    c = Case(setup, "owners", "owners with and without a name, create --numeric-ids")
    t = c.tree()
    for name, uid, gid in (("root", 0, 0), ("known", 1, 2), ("no-user", 54321, 2), ("no-group", 2, 54322), ("neither", 54321, 54322),
                           ("huge", 4_294_967_294, 2_147_483_648)):
        t.file(name, name.encode(), uid=uid, gid=gid)
    c.create("named", t)
    c.create("numeric", t, "--numeric-ids", stamp=day(2))
    c.finish()


# ---- repaired

def repaired_case(setup, name, what, **more):
    c = Case(setup, name, what, config=SMALL, **more)
    t = shaped(c, "one")
    c.create("again", t, "--chunker-params", "fixed,1024", stamp=day(2))
    shaped(c, "other", "two", stamp=day(3))
    live, content = replay(c.repo), set()
    for archive in "one", "again":
        content |= {ch[0].lstrip("\x7f") for i in c.dump(archive)[1] for ch in i.get("chunks", ())}
    for n, path in segments(c.repo)[1:]:
        found = list(entries(path))
        if len(found) > 1 and all(tag == 0 and key.hex() in content and live[key][0] == n for _, _, tag, key in found):
            break
    else:
        sys.exit("no such segment")
    os.remove(path)
    done = c.borg("check", "--repair", ok=(0, 1))
    told = [s for s in done.stderr.decode().splitlines() if "missing file chunk" in s]
    assert told, done.stderr
    c.note(f"By hand: a segment with content was removed ({n}), then `borg check --repair`. It put zeros in place of lost chunks "
           "and keeps the ids of before in chunks_healthy. expect has the zeros.")
    return c, t


@case("repaired")
def repaired(setup):
    c, _ = repaired_case(setup, "repaired", "a segment was lost and the repository repaired: zeros in files, chunks_healthy",
                         index=True)
    c.finish()
    assert "damage" in read(os.path.join(c.out, "case.json")).decode()


@case("repaired-zero-gone")
def repaired_zero_gone(setup):
    c, _ = repaired_case(setup, "repaired-zero-gone", "repaired, then the chunk of zeros itself was lost: its length is known")
    c.collect()
    zeros = set()
    for _, items in c.items.values():
        for i in items:
            for old, new in zip(i.get("chunks_healthy", ()), i.get("chunks", ())):
                if old[0] != new[0]:
                    zeros.add(new[0].lstrip("\x7f"))
    assert zeros
    c.borg("debug", "delete-obj", c.repo, *sorted(zeros))
    c.note("By hand: the replacement chunks were deleted (`borg debug delete-obj`).")
    c.finish(borg_fails=True)


@case("repaired-came-back")
def repaired_came_back(setup):
    c, t = repaired_case(setup, "repaired-came-back", "repaired, then backed up again: the chunks of chunks_healthy are there again")
    before = c.sources["one"]
    c.create("new", t, "--chunker-params", "fixed,1024", stamp=day(4))
    c.note("Then archive `new` stored the lost chunks again. borg extract of the others still writes zeros (expect); the ids in "
           "chunks_healthy would give the whole file (healed_expect).")

    def also(record, name, label):
        if any("chunks_healthy" in i for i in c.items[label][1]):
            record["healed_expect"] = c.write(f"expect/{label}.healed.jsonl", "".join(s + "\n" for s in before))

    c.also = also
    c.finish()


# ---- refused

def refused(name, what, why, edit, mode="repokey", **extra):
    @case(name)
    def make(setup):
        c = Case(setup, name, what + " (by hand)", mode=mode, index=extra.pop("index", False))
        c.create("archive", small_tree(c))
        if mode.startswith("keyfile"):
            keys = os.path.join(c.base, "home/.config/borg/keys")
            (key,) = os.listdir(keys)
            edit(os.path.join(keys, key))
            c.refuse(why, **extra)
        else:
            c.refuse(why, edit, **extra)


def attic(repo):
    with open(os.path.join(repo, "README"), "w") as f:
        f.write("This is an Attic repository\n")
    for _, path in segments(repo):
        overwrite(path, 0, b"ATTICSEG")
    for name in os.listdir(repo):
        if name.startswith("index."):
            overwrite(os.path.join(repo, name), 0, b"ATTICIDX")
    drop(repo, "integrity.")


def attic_key(path):
    data = read(path)
    with open(path, "wb") as f:
        f.write(data.replace(b"BORG_KEY ", b"ATTIC KEY ", 1))


def cut_key(repo):
    text = read(os.path.join(repo, "config")).decode()
    key = re.search(r"(?m)^key = (.*\n(?:\t.*\n)*)", text)[1]
    edit_config(repo, key="".join(key.split())[:100])


def other_algorithm(repo):
    text = read(os.path.join(repo, "config")).decode()
    key = re.search(r"(?m)^key = (.*\n(?:\t.*\n)*)", text)[1]
    data = base64.b64decode("".join(key.split())).replace(b"\xa6sha256", b"\xa6sha512")
    edit_config(repo, key=base64.b64encode(data).decode())


refused("refused-version-2", "config says version 2", "repository version 2 is not supported", lambda r: edit_config(r, version=2))
refused("refused-attic", "an Attic repository, imitated: segments ATTICSEG, index ATTICIDX, README",
        "Attic repository, must be upgraded first", attic, index=True)
refused("refused-attic-key", "a key file that begins with ATTIC KEY", "Attic key file", attic_key, mode="keyfile")
refused("refused-key-empty", "`key =` is empty in config", "key material empty in config", lambda r: edit_config(r, key=""))
refused("refused-key-gone", "no `key` in config, the manifest is encrypted", "no key in config", lambda r: edit_config(r, key=None))
refused("refused-key-cut", "the key in config is cut to 100 characters", "key material damaged or too short in config", cut_key)
refused("refused-keyfile-cut", "the key file is cut to 100 bytes", "key material damaged or too short in the key file",
        lambda path: os.truncate(path, 100), mode="keyfile")
refused("refused-key-algorithm", "the key blob names algorithm sha512", "unsupported key algorithm", other_algorithm)
refused("refused-no-commit", "the only commits are gone, the index is there", "no committed transaction",
        lambda r: [os.remove(p) for _, p in segments(r) if os.path.getsize(p) == 17], index=True)
refused("refused-no-config", "no file config", "not a repository: config is missing", lambda r: os.remove(os.path.join(r, "config")))


@case("refused-wrong-passphrase")
def refused_wrong_passphrase(setup):
    c = Case(setup, "refused-wrong-passphrase", "`passphrase` is not the one", passphrase="right")
    c.create("archive", small_tree(c))
    c.passphrase = "wrong"
    c.refuse("wrong passphrase")


def no_key(name, mode_name):
    @case(name)
    def make(setup):
        c = Case(setup, name, f"{mode_name}, and the key was dropped from config: readable if asked for, unverified", mode=mode_name)
        c.create("archive", small_tree(c))
        c.note("By hand: `key` was removed from config. The data are not encrypted: expect holds if reading without verifying is asked for "
               "(`on_request`). borg 1.4.5 does so only while there is a key, whatever it is (BORG_WORKAROUNDS=authenticated_no_key).")
        c.finish(lambda repo: edit_config(repo, key=None), refused="no key in config", on_request="unverified")


no_key("refused-authenticated-no-key", "authenticated")
no_key("refused-authenticated-blake2-no-key", "authenticated-blake2")


@case("forged-manifest")
def forged_manifest(setup):
    c = Case(setup, "forged-manifest", "a plaintext manifest (type 02) without archives, put into a repokey repository")
    c.create("archive", small_tree(c))
    c.note("By hand: a transaction was added, with a manifest of mode none.")
    c.refuse("the manifest is not encrypted, but config has a key: forged",
             lambda repo: append_transaction(repo, entry(0, MANIFEST, plain_manifest({}))), borg_opens=True)


@case("forged-archive")
def forged_archive(setup):
    c = Case(setup, "forged-archive", "a whole repository of mode none with the id of a repokey one, and its key in config",
             mode="repokey")
    text = read(os.path.join(c.repo, "config"))
    shutil.rmtree(c.repo)
    c.mode = "none"
    c.borg("init", "-e", "none")
    with open(os.path.join(c.repo, "config"), "wb") as f:
        f.write(text)
    c.create("archive", small_tree(c), env={"BORG_BASE_DIR": os.path.join(c.base, "home2")})
    c.note("By hand: the repository is of mode none, config is of a repokey one.")
    c.mode = "repokey"
    c.refuse("the manifest is not encrypted, but config has a key: forged", borg_opens=True)


@case("refused-future-manifest")
def refused_future(setup):
    c = Case(setup, "refused-future-manifest", "the manifest begins with c1 c1 c1 c1", mode="none")
    c.create("archive", small_tree(c))
    c.refuse("manifest of a newer format", lambda repo: append_transaction(repo, entry(0, MANIFEST, b"\x02\0\0\xc1\xc1\xc1\xc1abc")))


def one_item(path, data, **more):
    return {b"path": raw(path), b"mode": 0o100644, b"uid": 0, b"gid": 0, b"user": b"root", b"group": b"root",
            b"mtime": 1_700_000_000_123_456_789, b"hardlink_master": False, "data": [data],
            **{raw(k): v for k, v in more.items()}}


def manifest_op(name, what, why, op):
    @case(name)
    def make(setup):
        c = Case(setup, name, what)
        c.create("archive", small_tree(c))
        c.write_ops([{"op": "manifest", **op}])
        c.note("By write.py: " + what + ".")
        c.refuse(why)


manifest_op("refused-manifest-tam-wrong", "the manifest's TAM has a flipped bit", "manifest TAM is wrong", {"tam": "wrong"})
manifest_op("refused-manifest-no-tam", "the manifest has no TAM", "manifest TAM is missing", {"tam": "none"})
manifest_op("refused-manifest-tam-type", "the manifest's TAM is of an unknown type", "manifest TAM type is unknown", {"tam": "type"})
manifest_op("refused-manifest-version", "manifest version 3", "manifest version 3 is not supported", {"version": 3})
manifest_op("refused-feature", "the manifest demands an unknown feature for reading", "unknown mandatory feature",
            {"config": {b"feature_flags": {b"read": {b"mandatory": [b"packtrain-unknown"]}}}})


@case("archive-tam")
def archive_tam(setup):
    c = Case(setup, "archive-tam", "archives with a good, a missing, a wrong, a cut TAM and one of unknown type")
    c.create("by-borg", small_tree(c))
    for n, tam in enumerate(("good", "none", "type", "wrong", "size")):
        c.write_ops([{"op": "archive", "name": "tam-" + tam, "tam": tam, "items": [one_item("file", f"tam {tam}\n".encode())],
                      "meta": {"time": day(n + 3) + ".000000"}}])
    for tam, word in ("none", "missing"), ("type", "of an unknown type"):
        c.more["tam-" + tam] = {"unauthenticated": f"archive TAM is {word}"}
    for tam in "wrong", "size":
        c.more["tam-" + tam] = {"refused": "archive TAM is wrong" if tam == "wrong" else "archive TAM is malformed",
                                "on_request": "ignoring invalid archive TAMs"}
        c.no_items.add("tam-" + tam)
        done = c.borg("list", "::tam-" + tam, ok=range(256))
        c.note(f"borg list ::tam-{tam}: exit {done.returncode}: {last_words(done)}")
    c.note("Written by write.py, but for archive by-borg.")
    c.finish()


@case("manifest-lost")
def manifest_lost(setup):
    c = Case(setup, "manifest-lost", "the manifest was deleted: archives are only found by looking through all objects", config=SMALL)
    shaped(c, "one")
    shaped(c, "two", "two", stamp=day(2))
    c.collect()
    c.borg("debug", "delete-obj", c.repo, MANIFEST.hex())
    for r in c.records:
        r["only_by_scan"] = True
    c.note("By hand: `borg debug delete-obj` of the manifest. expect is what was there before.")
    c.finish(refused="no manifest", on_request="looking through all objects")


@case("archive-unlisted")
def archive_unlisted(setup):
    c = Case(setup, "archive-unlisted", "an archive object that the manifest does not name; one it names whose object is gone",
             config=SMALL)
    shaped(c, "one")
    shaped(c, "two", "two", stamp=day(2))
    shaped(c, "three", "three", stamp=day(3))
    c.collect()
    kept = os.path.join(c.base, "with")
    shutil.copytree(c.repo, kept)
    lost = next(r for r in c.records if r["name"] == "two")
    c.write_ops([{"op": "archive", "name": "unlisted", "listed": False, "items": [one_item("file", b"unlisted\n")]}])
    c.borg("debug", "delete-obj", c.repo, lost["id"])
    for key in "expect", "items", "raw_items":
        os.remove(os.path.join(c.out, lost.pop(key)))
    lost["broken"] = "its archive object is gone"
    c.items.pop("two")
    c.note("By write.py: an archive without an entry in the manifest. By hand: `borg debug delete-obj` of the object of archive two.")
    c.finish(unlisted=["unlisted"])


@case("odd-items")
def odd_items(setup):
    c = Case(setup, "odd-items", "items borg create does not write, an archive for each; `wants` says what is right")
    big = 2**64 + 5
    base = {b"uid": 0, b"gid": 0, b"user": b"root", b"group": b"root", b"mtime": 1_700_000_000_123_456_789}
    far = (-6_698_727_701_578_022_144 * 10**9).to_bytes(12, "little", signed=True)
    link = {**base, b"mode": 0o120777}
    table = (
        ("size-plus-1", [one_item("f", b"12345", size=6), one_item("g", b"fine\n")],
         "f: 5 bytes written, both numbers told, counted as damaged; g exact"),
        ("size-minus-1", [one_item("f", b"12345", size=4), one_item("g", b"fine\n")], "as size-plus-1"),
        ("chunk-size-wrong", [{**one_item("f", b"12345"), b"size": 7, "chunk_size": 7}, one_item("g", b"fine\n")], "as size-plus-1"),
        ("time-big", [one_item("f", b"a", mtime=far), one_item("g", b"b", mtime=big.to_bytes(9, "little", signed=True))],
         "listed as out of range; restored, time clamped with a warning"),
        ("time-negative", [one_item("f", b"a", mtime=-500_000_000), one_item("g", b"b", mtime=-86_400_000_000_001)],
         "exact: -0.5 s and one day and 1 us before 1970"),
        ("owner-negative", [one_item("f", b"a", uid=-1, gid=2**32 - 2, user=None, group=None)],
         "shown; as borg: uid 0; or chown left out with a notice"),
        ("xattr-nil", [one_item("f", b"a", xattrs={b"user.e": None, b"user.v": b"v"})], "user.e is there and empty"),
        ("key-unknown", [one_item("f", b"a", **{"unknown": 5}), one_item("g", b"b")], "the key is ignored"),
        ("key-not-utf8", [{**one_item("f", b"a"), b"\xff": 1}, one_item("g", b"b")], "the key is ignored"),
        ("no-rdev", [{**base, b"path": b"null", b"mode": 0o020666}, one_item("g", b"b")], "device 0:0; g exact"),
        ("no-source", [{**base, b"path": b"a/second", b"mode": 0o100644, b"source": b"a/first"}, one_item("g", b"b")],
         "a/second is broken, both names told; g exact"),
        ("source-of-source", [one_item("first", b"linked\n", hardlink_master=True),
                              {**base, b"path": b"second", b"mode": 0o100644, b"source": b"first"},
                              {**base, b"path": b"third", b"mode": 0o100644, b"source": b"second"}], "three names of one file"),
        ("link-escape", [{**link, b"path": b"evil", b"source": b"/tmp/packtrain-evil"}, one_item("evil/f", b"out\n"),
                         one_item("g", b"b")], "nothing outside; evil/f skipped with a warning; g exact"),
        ("dot-dot", [one_item("x/../../f", b"out\n"), one_item("g", b"b")], "the first is refused; g exact"),
        ("absolute", [one_item("/tmp/packtrain-abs", b"out\n"), one_item("g", b"b")],
         "never outside: refused or made relative; g exact"),
        ("path-twice", [one_item("f", b"first\n"), one_item("f", b"second\n")], "the second counts"),
        ("socket", [{**base, b"path": b"s", b"mode": 0o140755}, one_item("g", b"b")], "s skipped and told; g exact"),
        ("size-absent", [{k: v for k, v in one_item("f", b"12345").items()}], "exact"),
        ("stream-cut", [one_item("f", b"a"), one_item("g", b"b")], "f exact; the rest of the stream is told as damaged"),
        ("zero-stream", [one_item("f", b"a", filler=bytes(10 << 20)), one_item("g", b"b")],
         "both listed: the item stream has chunks that are all zero"),
        ("no-items", [], "an empty archive"),
    )
    for n, (name, items, wants) in enumerate(table):
        if name == "chunk-size-wrong":
            items[0].pop("chunk_size")
        op = {"op": "archive", "name": name, "items": items, "meta": {"time": f"2026-03-{n + 1:02}T03:04:05.000000"}}
        if name == "zero-stream":
            op["split"] = 1 << 19
            op["compression"] = ("zstd", {"level": 3})
        if name == "stream-cut":
            op["cut"] = 30
        if name == "size-absent":
            op["no_size"] = True
        c.write_ops([op])
        c.more[name] = {"wants": wants}
        target, done = c.extract(name)
        listed = c.borg("list", "::" + name, "--json-lines", ok=range(256))
        said = "; ".join(s.replace(target, "") for s in done.stderr.decode(errors="replace").splitlines()[-1:])
        if done.returncode or listed.returncode:
            c.note(f"Archive {name}: borg extract ends with {done.returncode} ({last_words(done) if done.returncode == 2 else said}), "
                   f"borg list with {listed.returncode}.")
        if done.returncode == 2 or listed.returncode:
            c.no_items.add(name)
        if name == "zero-stream":
            c.no_raw.add(name)
    for path in "/tmp/packtrain-evil/f", "/tmp/packtrain-abs":
        assert not os.path.exists(path)
    c.finish()


# ---- other writers

def older(name, program, what, steps, mode="repokey"):
    @case(name)
    def make(setup):
        if program not in setup.tools:
            return False
        steps(Case(setup, name, what, mode=mode, by=program, index="blake2" not in name, config=None if name.endswith("tam") else SMALL))


def several(c):
    t = small_tree(c)
    t.fifo("fifo", mode=0o640)
    t.hard("fifo-2", "fifo")
    t.file("attr", b"attr\n", xattrs={"user.x": b"v", "user.empty": b""}, acl=["u:1:r--", "u:54321:r--", "m::r--"])
    for n, spec in enumerate(("lz4", "zstd,3", "zlib,6", "lzma,6", "auto,zstd,3")):
        t.file(f"more-{n}", prose(f"more-{n}", 5000))
        t.file(f"noise-{n}", noise(f"more-{n}", 2000))
        c.create(spec.replace(",", "-"), t, "-C", spec, "--comment", f"by {spec}", stamp=day(n + 1))
    c.borg("delete", "::zlib-6")
    if c.program == "borg11":
        c.note("borg 1.1 compacts at every commit.")
    c.compression = None
    writer, c.program = c.program, "borg"
    c.collect()
    c.program = writer
    c.note("Extracted and listed by borg 1.4.5.")
    c.finish()


for version, program in ("1.1", "borg11"), ("1.2", "borg12"):
    older(f"by-{version}", program, f"a repository that borg {version} wrote, a deleted archive", several)
    older(f"by-{version}-blake2", program, f"a repository that borg {version} wrote, repokey-blake2", several, mode="repokey-blake2")


def stale_tam(c):
    t = small_tree(c)
    c.create("kept", t)
    c.create("to-rename", t, stamp=day(2))
    c.create("to-recreate", t, stamp=day(3))
    c.borg("rename", "::to-rename", "renamed")
    c.borg("recreate", "--comment", "a new comment", "::to-recreate")
    c.sources["renamed"] = c.sources.pop("to-rename")
    writer, c.program = c.program, "borg"
    for name in "renamed", "to-recreate":
        done = c.borg("list", "::" + name, ok=range(256))
        c.note(f"borg 1.4.5 list ::{name}: exit {done.returncode}: {last_words(done)}")
        if done.returncode:
            c.from_source.add(name)
            c.no_items.add(name)
            c.more[name] = {"refused": "archive TAM is wrong (stale: by borg before 1.2.5)",
                            "on_request": "ignoring invalid archive TAMs"}
    c.program = "borg"
    c.collect()
    c.program = writer
    c.note("rename and recreate of borg before 1.2.5 leave a stale TAM: genuine, but invalid.")
    c.finish()


older("by-1.1-stale-tam", "borg11", "archives renamed and recreated by borg 1.1: their TAM is stale", stale_tam)


@case("by-1.1-then-1.4")
def mixed_writers(setup):
    if "borg11" not in setup.tools or "borg12" not in setup.tools:
        return False
    c = Case(setup, "by-1.1-then-1.4", "one repository, written by borg 1.1, 1.2 and 1.4 in turn", by="borg11", index=True)
    t = small_tree(c)
    for n, program in enumerate(("borg11", "borg12", "borg")):
        c.program = program
        t.file(f"by-{program}", prose(program, 2000))
        c.create("by-" + program, t, stamp=day(n + 1))
    c.note("Archives by borg 1.1.18, 1.2.8, 1.4.5, named so.")
    c.finish()


# ---------------------------------------------------------------- check

def check(setup, name):
    """Opens a copy of the committed repository with borg; says what is not as recorded."""
    folder = os.path.join(setup.out, name)
    with open(os.path.join(folder, "case.json")) as f:
        told = json.load(f)
    problems = []
    c = Case.__new__(Case)
    c.setup, c.name, c.program = setup, name, "borg"
    c.base = c.cwd = os.path.join(setup.scratch, "check")
    c.repo = os.path.join(c.base, "repo")
    remove(c.base)
    os.makedirs(c.base)
    shutil.copytree(os.path.join(folder, "repo"), c.repo)
    shutil.rmtree(os.path.join(c.repo, "lock.exclusive"), ignore_errors=True)
    home = os.path.join(c.base, "home")
    c.env = {**ENV, "PATH": os.path.join(setup.scratch, "bin") + ":/usr/bin:/bin", "HOME": home, "BORG_BASE_DIR": home,
             "BORG_REPO": c.repo, "BORG_PASSPHRASE": told["passphrase"]}
    if told.get("on_request") == "unverified":
        c.env["BORG_WORKAROUNDS"] = "authenticated_no_key"  # borg wants some key to be there
        with open(os.path.join(c.repo, "config"), "a") as f:
            f.write("key = none\n")
    if "keyfile" in told:
        os.makedirs(os.path.join(home, ".config/borg/keys"))
        shutil.copy(os.path.join(folder, told["keyfile"]), os.path.join(home, ".config/borg/keys"))
    done = c.borg("list", "--json", "--consider-checkpoints", ok=range(256))
    if "refused" in told and told.get("on_request") != "unverified":
        remove(c.base)
        if told.get("borg_opens"):
            return [] if done.returncode == 0 else [f"borg was to open it: {last_words(done)}"]
        return [] if done.returncode else ["borg was to refuse it"]
    names = [os.fsdecode(base64.b64decode(a["name_b64"])) if "name_b64" in a else a["name"] for a in told["archives"]]
    if done.returncode:
        problems.append(f"list: exit {done.returncode}: {last_words(done)}")
    elif {a["barchive"] for a in json.loads(done.stdout)["archives"]} != set(names):
        problems.append(f"other archives are listed: {done.stdout.decode()}")
    for name, a in zip(names, told["archives"]):
        if "refused" in a:
            if c.borg("list", "::" + name, ok=range(256)).returncode == 0:
                problems.append(f"{name}: borg was to refuse it")
            continue
        for one in (a, *a.get("selected", ())):
            if "expect" not in one or "expect_is" in a:
                continue
            target, done = c.extract(name, paths=one.get("paths", ()), ok=range(256))
            if done.returncode != one.get("extract_rc", 0):
                problems.append(f"extract {name}: exit {done.returncode}: {last_words(done)}")
            with open(os.path.join(folder, one["expect"])) as f:
                wanted = f.read().splitlines()
            for d in differences(wanted, look(setup.tree, target, one.get("tree_options", ()))):
                if ": mtime_ns: source None," not in d:
                    problems.append(f"extract {name}: {d}")
    remove(c.base)
    if told.get("borg_fails"):
        return [] if problems else ["borg was to fail, but does not"]
    return problems


def main():
    options = argparse.ArgumentParser()
    options.add_argument("task", choices=("make", "check"))
    for name in "scratch", "borg-python", "tree", "out":
        options.add_argument("--" + name, required=True)
    options.add_argument("cases", nargs="*")
    setup = options.parse_intermixed_args()
    setup.out, setup.tree, setup.python = os.path.abspath(setup.out), os.path.abspath(setup.tree), setup.borg_python
    versions = {"borg": TOOL, "borg12": "borgbackup 1.2.8", "borg11": "borgbackup 1.1.18"}
    setup.tools = {p: v for p, v in versions.items() if os.path.exists(os.path.join(setup.scratch, "bin", p))}
    unknown = set(setup.cases) - set(CASES)
    if unknown:
        sys.exit(f"no such case: {', '.join(sorted(unknown))}; there are: {', '.join(CASES)}")
    bad = 0
    for name in setup.cases or CASES:
        start = time.monotonic()
        if setup.task == "make":
            try:
                made = CASES[name](setup)
            except (Exception, SystemExit) as why:
                print(f"{name}: NOT MADE: {type(why).__name__}: {why}", flush=True)
                if os.environ.get("TRACE"):
                    raise
                remove(os.path.join(setup.scratch, name))
                bad += 1
                continue
            folder = os.path.join(setup.out, name)
            size = "left out (needs an older borg)" if made is False else f"{folder_size(folder + '/repo'):>8} of {folder_size(folder):>8} bytes"
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
