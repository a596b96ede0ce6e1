"""Writes into a borg 1.x repository what borg create would not write. Run by the Python that borg 1.4.5 is installed in.

    write.py REPO < operations

The operations are a Python literal, a list of dicts, done in order and committed once:

    op "archive": name, items (dicts of byte keys; the key "data", a list of bytes, becomes chunks and size),
        and where wanted: tam ("good", "none", "wrong", "type", "size"), meta (replaces values of the archive map),
        split (length of the pieces of the item stream), cut (bytes taken from its end), no_size, compression (name, options),
        listed (False: no entry in the manifest)
    op "manifest": tam ("none", "wrong"), config (bytes -> value), version; it replaces the manifest that the others wrote
    op "put": id, data: an object as it is

Prints the ids of archives written, one a line.
"""

import ast
import os
import sys

from borg.compress import Compressor
from borg.helpers import Manifest, bin_to_hex, msgpack
from borg.logger import setup_logging
from borg.repository import Repository


def tagged(key, fields, context, tam):
    """The packed map with a TAM as asked for."""
    if tam == "none":
        return msgpack.packb(fields)
    packed = key.pack_and_authenticate_metadata(fields, context=context)
    if tam == "good":
        return packed
    fields = msgpack.unpackb(packed)
    seal = fields[b"tam"]
    if tam == "wrong":
        seal[b"hmac"] = bytes([seal[b"hmac"][0] ^ 1]) + seal[b"hmac"][1:]
    elif tam == "type":
        seal[b"type"] = b"HKDF_HMAC_SHA1024"
    elif tam == "size":
        seal[b"hmac"] = seal[b"hmac"][:32]
    return msgpack.packb(fields)


def write_archive(repository, manifest, key, op):
    if "compression" in op:
        name, options = op["compression"]
        key.compressor = Compressor(name, **options)

    def put(data):
        id, stored = key.id_hash(data), key.encrypt(data)
        repository.put(id, stored)
        return id, len(data), len(stored)

    stream = b""
    for item in op["items"]:
        item = dict(item)
        data = item.pop("data", None)
        if data is not None:
            chunks = [put(part) for part in data]
            item.setdefault(b"chunks", chunks)
            if not op.get("no_size"):
                item.setdefault(b"size", sum(size for _, size, _ in chunks))
        stream += msgpack.packb({k: item[k] for k in sorted(item)})
    stream = stream[:len(stream) - op.get("cut", 0)]
    step = op.get("split", 100_000)
    pieces = [put(stream[at:at + step])[0] for at in range(0, len(stream), step)]
    fields = {
        "version": 1, "name": os.fsencode(op["name"]), "comment": "", "items": pieces, "cmdline": ["write.py"],
        "hostname": "muleteer", "username": "driver", "time": "2026-03-01T03:04:05.000000",
        "time_end": "2026-03-01T03:04:06.000000", "chunker_params": ["fixed", 4096, 0], **op.get("meta", {}),
    }
    id = put(tagged(key, fields, b"archive", op.get("tam", "good")))[0]
    if op.get("listed", True):
        manifest.archives[op["name"]] = (id, fields["time"])
    print(bin_to_hex(id))


def main():
    setup_logging()
    path, operations = sys.argv[1], ast.literal_eval(sys.stdin.read())
    with Repository(path, exclusive=True, lock=True) as repository:
        manifest, key = Manifest.load(repository, Manifest.NO_OPERATION_CHECK)
        for op in operations:
            if op["op"] == "archive":
                write_archive(repository, manifest, key, op)
            elif op["op"] == "put":
                repository.put(op["id"], op["data"])
        manifest.write()
        for op in operations:
            if op["op"] == "manifest":
                fields = {"version": op.get("version", 1), "archives": manifest.archives.get_raw_dict(),
                          "timestamp": "2026-12-31T00:00:00.000000", "item_keys": sorted(manifest.item_keys),
                          "config": {b"tam_required": True, **op.get("config", {})}}
                repository.put(Manifest.MANIFEST_ID, key.encrypt(tagged(key, fields, b"manifest", op.get("tam", "good"))))
        repository.commit(compact=False)


if __name__ == "__main__":
    os.umask(0o077)
    main()
