#!/usr/bin/env bash
# Runs every test. As root on Debian or Ubuntu it installs what is missing; otherwise it names it.
#
# Steps: tools, format, lints, docs, each feature alone, tests, wasm32 and a bare Arm target.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

step() { printf '\n== %s\n' "$*"; }
missing() { printf 'tests/run.sh: %s\n' "$*" >&2; exit 1; }

# Installs Debian packages that bring a command, or says which are needed.
need() {
    local command=$1; shift
    command -v "$command" >/dev/null && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >/dev/null
    fi
    command -v "$command" >/dev/null || missing "'$command' is missing; install: apt-get install $*"
}

step "tools"
command -v cargo >/dev/null || missing "cargo is missing; install Rust with rustup"
need cc gcc libc6-dev
need python3 python3
need tar tar
need setfacl acl
need setfattr attr
need chattr e2fsprogs
need setpriv util-linux

step "format, lints, docs"
if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else echo "rustfmt is not installed; skipped"; fi
if cargo clippy --version >/dev/null 2>&1; then cargo clippy --workspace --all-targets -q -- -D warnings; else echo "clippy is not installed; skipped"; fi
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps -q

step "each feature of the core alone"
for feature in borg1 borg2 erofs lz4 zstd zlib lzma; do
    cargo check -q -p packtrain-core --no-default-features --features "$feature"
done
cargo check -q -p packtrain-core --no-default-features

step "the command, as the tests run it"
cargo build -q -p packtrain

step "tests"
cargo test --workspace --no-fail-fast

# Builds for a target without an operating system: by rustup where it has the target or can fetch it,
# else by Debian's own Rust with its library sources.
build_for() {
    local target=$1 std=$2; shift 2
    if rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target" >/dev/null 2>&1; then
        cargo build -q --release --target "$target" --target-dir target/bare "$@"
        return
    fi
    if [ ! -x /usr/bin/cargo ] || [ ! -x /usr/bin/rustc ] || ! ls /usr/lib/rustlib/src/rust/library >/dev/null 2>&1 && ! ls "$(/usr/bin/rustc --print sysroot)/lib/rustlib/src/rust/library" >/dev/null 2>&1; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null
            DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends rustc-web cargo-web rust-web-src lld >/dev/null \
                || missing "target $target: rustup cannot add it, and rustc-web, cargo-web, rust-web-src cannot be installed"
        else
            missing "target $target is missing: rustup target add $target"
        fi
    fi
    local linker
    linker="$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-lld"
    [ -x "$linker" ] || linker=$(command -v rust-lld || command -v lld) || missing "no linker for $target: apt-get install lld"
    local variable
    variable="CARGO_TARGET_$(printf '%s' "$target" | tr 'a-z-' 'A-Z_')_LINKER"
    env PATH="/usr/bin:$PATH" RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc "$variable=$linker" \
        /usr/bin/cargo build -q --release --target "$target" --target-dir target/bare -Z "build-std=$std" "$@"
}

step "wasm32: the module builds, and imports nothing from an operating system"
build_for wasm32-unknown-unknown std,panic_abort -p packtrain-wasm
python3 tests/tools/wasm_imports.py target/bare/wasm32-unknown-unknown/release/packtrain_wasm.wasm

step "bare Arm: the core builds with core and alloc alone"
build_for thumbv7em-none-eabihf core,alloc -p packtrain-core

step "done"
