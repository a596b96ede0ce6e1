#!/usr/bin/env python3
"""Lists what a WebAssembly module imports, and fails if that is anything but its own glue.

    wasm_imports.py MODULE

Reads the import section (WebAssembly core specification, 5.5.5) with the standard library alone.
"""
import sys


def unsigned(data, at):
    """A LEB128 number and the position after it."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def imports(data):
    if data[:8] != b"\0asm\x01\0\0\0":
        sys.exit("not a WebAssembly module of version 1")
    at = 8
    while at < len(data):
        section = data[at]
        size, at = unsigned(data, at + 1)
        if section == 2:
            return parse(data, at)
        at += size
    return []


def parse(data, at):
    count, at = unsigned(data, at)
    found = []
    for _ in range(count):
        names = []
        for _ in range(2):
            size, at = unsigned(data, at)
            names.append(data[at : at + size].decode())
            at += size
        kind = data[at]
        at += 1
        if kind == 0:  # a function, by type
            _, at = unsigned(data, at)
        elif kind in (1, 2):  # a table or memory, with limits
            at += kind == 1
            flags, at = unsigned(data, at)
            for _ in range(1 + (flags & 1)):
                _, at = unsigned(data, at)
        elif kind == 3:  # a global
            at += 2
        found.append(".".join(names))
    return found


def main():
    data = open(sys.argv[1], "rb").read()
    found = imports(data)
    print(f"{len(data)} bytes, {len(found)} imports: {', '.join(found) or 'none'}")
    foreign = [name for name in found if not name.startswith("__wbindgen")]
    if foreign:
        sys.exit(f"the module needs an operating system: {', '.join(foreign)}")


if __name__ == "__main__":
    main()
