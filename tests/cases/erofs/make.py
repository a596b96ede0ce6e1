#!/usr/bin/env python3
"""Makes the EROFS cases: one small tree, and an image of it for each layout and feature.

    make.py MKFS_FOLDER [OLD_MKFS]

As root, with mkfs.erofs 1.9.4 in MKFS_FOLDER, zstd, and perhaps mkfs.erofs 1.5 as OLD_MKFS. Writes here:
`tree.jsonl`, what ../../tools/tree.py prints of the source tree; `<name>.img.zst` and its devices; `cases.json`.
No part of the tests. Nothing here is read from an image: what is right is the source.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common import noise, prose  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
UUID = "-U5f2a3438-7471-4111-8d4a-396fd06f937c"
# What an image cannot keep of the tree, see README.md.
SECONDS = ["48bit", "48bit-plain", "48bit-zstd-64k", "metabox", "metabox-zstd", "metabox-plain", "dot-omitted", "mz-inodes-metabox"]

RECIPES = {
    "plain": [], "plain-b512": ["-b512"], "plain-b1024": ["-b1024"], "plain-b2048": ["-b2048"],
    "extended": ["-Eforce-inode-extended"], "noinline": ["-Enoinline_data", "-zlz4"],
    "chunk4k": ["--chunksize=4096"], "chunk4k-indexes": ["--chunksize=4096", "-Eforce-chunk-indexes"],
    "lz4-4k": ["-zlz4"], "lz4-64k": ["-zlz4", "-C65536"], "lz4-1m": ["-zlz4", "-C1048576"],
    "lz4-b512": ["-zlz4", "-b512"], "lz4-legacy": ["-zlz4", "-Elegacy-compress"], "lz4-extended": ["-zlz4", "-Eforce-inode-extended"],
    "lz4-dsunit": ["-zlz4", "--dsunit=16"], "lz4-max-extent": ["-zlz4", "--max-extent-bytes=8192"],
    "lz4hc-4k": ["-zlz4hc,9"], "lz4hc-64k": ["-zlz4hc,9", "-C65536"],
    "lzma-4k": ["-zlzma,6"], "lzma-64k": ["-zlzma,6", "-C65536"], "lzma-dict": ["-zlzma,level=6,dictsize=65536", "-C32768"],
    "lzma-8m": ["-zlzma,level=6,dictsize=8388608", "-C1048576"],
    "deflate-4k": ["-zdeflate,6"], "deflate-64k": ["-zdeflate,6", "-C65536"], "libdeflate-64k": ["-zlibdeflate", "-C65536"],
    "zstd-4k": ["-zzstd,3"], "zstd-64k": ["-zzstd,3", "-C65536"], "zstd-1m": ["-zzstd", "-C1048576"], "zstd-b1024": ["-zzstd", "-b1024", "-C16384"],
    "two-algorithms": ["-zlz4:zstd"],
    "ztail-lz4hc": ["-zlz4hc", "-Eztailpacking"], "ztail-lz4-16k": ["-zlz4", "-Eztailpacking", "-C16384"], "ztail-lzma": ["-zlzma", "-Eztailpacking"],
    "fragments": ["-zlz4hc", "-C65536", "-Efragments"], "all-fragments": ["-zzstd", "-C65536", "-Eall-fragments"],
    "fragdedupe": ["-zzstd", "-C65536", "-Efragments,fragdedupe=full"], "dedupe": ["-zlz4hc", "-C65536", "-Ededupe"],
    "dedupe-zstd": ["-zzstd", "-C16384", "-Ededupe"], "dedupe-deflate": ["-zdeflate", "-C16384", "-Ededupe"], "dedupe-lzma": ["-zlzma", "-C16384", "-Ededupe"],
    "everything": ["-zlz4hc:zstd:lzma:deflate", "-C65536", "-Eall-fragments,dedupe,ztailpacking"],
    "48bit": ["-zlz4", "-E48bit"], "48bit-plain": ["-E48bit"], "48bit-zstd-64k": ["-zzstd", "-C65536", "-E48bit"],
    "metabox": ["-zlz4", "-m4096"], "metabox-zstd": ["-zzstd", "-m65536", "-C65536"], "metabox-plain": ["-m4096"],
    "mz-inodes": ["-zlz4", "--MZ=i"],
    "dot-omitted": ["-Edot-omitted"], "zdir": ["-zzstd", "-C65536", "--zD=1"], "zdir-fragments": ["-zlz4hc", "-C65536", "-Efragments", "--zD=1"],
    "xattr-filter": ["-zlz4", "-Exattr-name-filter"], "xattr-prefix": ["-zlz4", "--xattr-prefix=user.com"],
    "digest": ["-zzstd", "-C65536", "--xattr-inode-digest=trusted.digest"],
    "blobdev": ["--chunksize=16384", "--blobdev=blob"],
}
OLD_RECIPES = {
    "by-1.5-lz4": ["-zlz4"], "by-1.5-legacy": ["-zlz4", "-Elegacy-compress"],
}


def tree(top):
    """The tree that all images are of."""
    def put(path, data, mtime=1_600_000_000, mode=0o644):
        path = os.path.join(top, path)
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, mode)
        os.utime(path, ns=(mtime * 10**9, mtime * 10**9))

    def folder(path):
        os.mkdir(os.path.join(top, path))

    for path in ("sizes", "many", "links", "special", "deep", "deep/er", "deep/er/still", "empty"):
        folder(path)
    text = prose("long", 40_000)
    put("text", text)
    put("copy-of-text", text)
    put("shifted", b"one line more\n" + text[:33_000])
    put("noise", noise("noise", 5_000))
    put("mixed", prose("a", 6_000) + noise("b", 3_000) + prose("c", 6_000))
    put("zeros", bytes(300_000))
    put("repeated", b"0123456789abcdef" * 12_000)
    for size in (0, 1, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 8193):
        put(f"sizes/text-{size}", prose(size, size))
    for size in (1, 100, 4097):
        put(f"sizes/noise-{size}", noise(size, size))
    with open(os.path.join(top, "sparse"), "wb") as file:
        file.write(b"start")
        file.seek(400_000)
        file.write(prose("middle", 5_000))
        file.truncate(900_001)
    os.utime(os.path.join(top, "sparse"), ns=(10**18, 10**18 + 5))
    for number in range(260):
        put(f"many/a-file-with-a-rather-long-name-{number:04}", str(number).encode(), 1_500_000_000 + number)
    put("deep/er/still/leaf", b"leaf")
    put(b"deep/name-\xff\xfe\n".decode("utf-8", "surrogateescape"), b"not UTF-8")
    put("deep/" + "n" * 255, b"as long as names get")
    put("-before-the-dots", b"sorts before . and ..")
    os.symlink("../text", os.path.join(top, "links/up"))
    os.symlink("x" * 4000, os.path.join(top, "links/far"))
    os.symlink("nowhere", os.path.join(top, "links/dangling"))
    os.link(os.path.join(top, "text"), os.path.join(top, "links/text"))
    os.link(os.path.join(top, "text"), os.path.join(top, "deep/text"))
    os.link(os.path.join(top, "links/up"), os.path.join(top, "links/up-too"), follow_symlinks=False)
    os.mkfifo(os.path.join(top, "special/fifo"), 0o640)
    os.link(os.path.join(top, "special/fifo"), os.path.join(top, "special/fifo-too"))
    os.mknod(os.path.join(top, "special/null"), 0o20666, os.makedev(1, 3))
    os.mknod(os.path.join(top, "special/block"), 0o60640, os.makedev(259, 70_000))
    os.mknod(os.path.join(top, "special/whiteout"), 0o20000, os.makedev(0, 0))
    with socket.socket(socket.AF_UNIX) as sock:
        here = os.getcwd()
        os.chdir(os.path.join(top, "special"))
        sock.bind("socket")
        os.chdir(here)
    put("setuid", b"#!/bin/false\n", mode=0o6755)
    put("old", b"from before the epoch")
    os.utime(os.path.join(top, "old"), ns=(-1_500_000_001, -1_500_000_001))
    put("owned", b"owned")
    for path, name, value in (
        ("owned", "user.empty", b""), ("owned", "user.com.example.long", prose("x", 1500)), ("owned", "user.com.example.b", b"1"),
        ("owned", "trusted.t", b"t"), ("owned", "security.s", b"s"), ("text", "user.shared", b"shared by many"),
        ("noise", "user.shared", b"shared by many"), ("zeros", "user.shared", b"shared by many"), ("mixed", "user.shared", b"shared by many"),
        ("deep", "user.folder", b"f"), ("links/up", "trusted.on-a-link", b"l"),
    ):
        os.setxattr(os.path.join(top, path), name, value, follow_symlinks=False)
    subprocess.run(["setfacl", "-m", "u:1:r,g:2:rw", os.path.join(top, "owned")], check=True)
    subprocess.run(["setfacl", "-d", "-m", "u:1:rwx", os.path.join(top, "deep")], check=True)
    os.chown(os.path.join(top, "owned"), 100_000, 70_000)
    os.chown(os.path.join(top, "sizes"), 1, 2)
    at = 1_550_000_000
    for where, folders, files in os.walk(top, topdown=False):
        for name in sorted(folders + files):
            path = os.path.join(where, name)
            if os.path.islink(path) or not os.path.isfile(path):
                at += 1
                os.utime(path, ns=(at * 10**9, at * 10**9 + 123_456_789), follow_symlinks=False)
    os.utime(top, ns=(10**18, 10**18))


def main():
    tools, old = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    mkfs = os.path.join(tools, "mkfs.erofs")
    version = subprocess.run([mkfs, "--version"], capture_output=True, text=True).stdout.split("\n")[0].strip()
    cases = []
    with tempfile.TemporaryDirectory(dir="/tmp") as work:
        source = os.path.join(work, "tree")
        os.mkdir(source)
        tree(source)
        lines = subprocess.run([sys.executable, os.path.join(HERE, "../../tools/tree.py"), source], capture_output=True, check=True).stdout
        with open(os.path.join(HERE, "tree.jsonl"), "wb") as file:
            file.write(lines)

        def keep(name, case, files):
            for kept, path in files.items():
                subprocess.run(["zstd", "-q", "-f", "-19", "-o", os.path.join(HERE, kept + ".zst"), path], check=True)
            cases.append({"name": name, **case})

        def make(name, program, tool, options, input=source):
            image = os.path.join(work, "image")
            if os.path.exists(image):
                os.remove(image)
            run = subprocess.run([program, "--quiet", UUID, *options, image, input], cwd=work, capture_output=True, text=True)
            if run.returncode != 0:
                print(f"{name}: {run.stderr.strip()}", file=sys.stderr)
                return
            case = {"tool": tool, "options": options}
            if name in SECONDS:
                case["seconds"] = True
            files = {name + ".img": image}
            if name == "blobdev":
                case["devices"] = [name + ".blob"]
                files[name + ".blob"] = os.path.join(work, "blob")
            keep(name, case, files)

        for name, options in RECIPES.items():
            make(name, mkfs, version, options)
        tar = os.path.join(work, "tree.tar")
        subprocess.run(["tar", "--xattrs", "--xattrs-include=*", "--acls", "--format=posix", "--numeric-owner", "-C", source, "-cf", tar, "."], check=True, stderr=subprocess.DEVNULL)
        make("from-tar", mkfs, version, ["--tar=f", "-zlz4"], tar)
        # That version cannot name files as long as the tree has.
        for name, options in OLD_RECIPES.items() if old else ():
            image = os.path.join(work, "image")
            subprocess.run([old, *options, image, os.path.join(source, "sizes")], check=True, stdout=subprocess.DEVNULL)
            keep(name, {"tool": "mkfs.erofs 1.5", "options": options, "below": "sizes"}, {name + ".img": image})
            os.remove(image)
    with open(os.path.join(HERE, "cases.json"), "w") as file:
        file.write("[\n" + ",\n".join(" " + json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
