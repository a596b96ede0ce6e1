#!/usr/bin/env bash
# Makes the folders of cases beside this file again: small repositories written by real borg, and what real borg
# says is in them. It is no part of the test run; the cases are committed as they are.
#
#   BORG=path/to/borg [BORG1=path/to/borg1] [TREE=path/to/tree.py] make.sh make  OUT [CASE...]
#   BORG=path/to/borg                       [TREE=path/to/tree.py] make.sh check OUT [CASE...]
#
# make   writes OUT/CASE anew, for the cases named or for all. To renew the committed ones, OUT is this folder.
# check  copies each OUT/CASE/repo, opens the copy with borg and compares with what is recorded (OUT is only read).
#
# BORG   borgbackup 2.0.0b25, no other version (beta: other versions write another format)
# BORG1  borgbackup 1.4.5; without it the cases `from-borg1*` are left as they are
# TREE   tree.py; default: ../../tools/tree.py beside this folder
# TMPDIR where scratch trees go (default /tmp). It must be a file system with nanosecond times beyond 1970 and
#        2038, user.* and trusted.* attributes, POSIX ACLs, and the flags of chattr: ext4 with 256-byte inodes
#        (made with Linux 6.18; tmpfs and overlayfs lack some of these)
#
# Needs: Linux, root (mknod, chown, trusted.*, immutable), bash, Python 3.9 or newer with its standard library
# (made with 3.11 and 3.13), setfacl (acl 2.3.1), tar. The names daemon (1/1) and bin (2/2) must exist with these
# numbers, as on Debian; 54321 and 54322 must not exist.
#
# Keys, repository ids, inode numbers, ctimes and the borg run's own times differ from one making to the next, so
# every hash in a repository does too. The trees do not: OUT/CASE/expect must come out the same.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

[ $# -ge 2 ] || usage
: "${BORG:?path of borg 2.0.0b25}"
[ "$(id -u)" = 0 ] || { echo "make.sh: must run as root" >&2; exit 2; }
command -v setfacl >/dev/null || { echo "make.sh: setfacl is missing (package acl)" >&2; exit 2; }
[ "$("$BORG" --version)" = "borg 2.0.0b25" ] || { echo "make.sh: $BORG is not borg 2.0.0b25" >&2; exit 2; }
if [ -n "${BORG1:-}" ]; then
  [ "$("$BORG1" --version)" = "borg 1.4.5" ] || { echo "make.sh: $BORG1 is not borg 1.4.5" >&2; exit 2; }
fi

umask 022
scratch=$(mktemp -d "${TMPDIR:-/tmp}/packtrain-cases.XXXXXX")
cleanup() { chattr -R -f -i -a "$scratch" 2>/dev/null || true; rm -rf "$scratch"; }
trap cleanup EXIT

# borg records how it was called: call it by a name that says nothing about this machine
mkdir "$scratch/bin"
ln -s "$(realpath -s "$BORG")" "$scratch/bin/borg"
[ -z "${BORG1:-}" ] || ln -s "$(realpath -s "$BORG1")" "$scratch/bin/borg1"

for name in $(compgen -e BORG_ || true); do unset "$name"; done
export LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1
"${PYTHON:-python3}" "$here/make.py" "$1" --scratch "$scratch" \
  --tree "${TREE:-$here/../../tools/tree.py}" --out "$2" "${@:3}"
