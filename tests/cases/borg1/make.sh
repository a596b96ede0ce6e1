#!/usr/bin/env bash
# Makes the folders of cases beside this file again: small repositories written by real borg 1.x, and what real borg
# says is in them. It is no part of the test run; the cases are committed as they are.
#
#   BORG1=path/to/borg [BORG12=path/to/borg] [BORG11=path/to/borg] make.sh make  OUT [CASE...]
#   BORG1=path/to/borg                                             make.sh check OUT [CASE...]
#
# make   writes OUT/CASE anew, for the cases named or for all. To renew the committed ones, OUT is this folder.
# check  copies each OUT/CASE/repo, opens the copy with borg and compares with what is recorded (OUT is only read).
#
# BORG1  borgbackup 1.4.5, installed for a Python that lies beside it (bin/python): write.py is run by that
# BORG12 borgbackup 1.2.8; without it the cases `by-1.2*` are left as they are
# BORG11 borgbackup 1.1.18; without it the cases `by-1.1*` are left as they are
# TREE   tree.py; default: ../../tools/tree.py beside this folder
# TMPDIR where scratch trees go (default /tmp). It must be a file system with nanosecond times beyond 1970 and
#        2038, user.* and trusted.* attributes, POSIX ACLs, and the flags of chattr: ext4 with 256-byte inodes
#
# Needs: Linux, root (mknod, chown, trusted.*, immutable, unshare), bash, Python 3.9 or newer with its standard
# library, setfacl (acl), tar. The names daemon (1/1) and bin (2/2) must exist with these numbers, as on Debian;
# 54321 and 54322 must not exist.
#
# Keys, repository ids, inode numbers, ctimes and the borg run's own times differ from one making to the next, so
# every hash in a repository does too. The trees do not: OUT/CASE/expect must come out the same.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

[ $# -ge 2 ] || usage
: "${BORG1:?path of borg 1.4.5}"
[ "$(id -u)" = 0 ] || { echo "make.sh: must run as root" >&2; exit 2; }
command -v setfacl >/dev/null || { echo "make.sh: setfacl is missing (package acl)" >&2; exit 2; }
is() { [ "$("$1" --version)" = "borg $2" ] || { echo "make.sh: $1 is not borg $2" >&2; exit 2; }; }
is "$BORG1" 1.4.5
[ -z "${BORG12:-}" ] || is "$BORG12" 1.2.8
[ -z "${BORG11:-}" ] || is "$BORG11" 1.1.18

# borg 1.1 records the name of the machine: it runs on one called muleteer
if [ "${PACKTRAIN_CASES_UTS:-}" != own ]; then
  export PACKTRAIN_CASES_UTS=own BORG1 BORG12="${BORG12:-}" BORG11="${BORG11:-}"
  exec unshare --uts bash -c 'hostname muleteer && exec bash "$0" "$@"' "$here/make.sh" "$@"
fi

umask 022
scratch=$(mktemp -d "${TMPDIR:-/tmp}/packtrain-cases.XXXXXX")
cleanup() { chattr -R -f -i -a "$scratch" 2>/dev/null || true; rm -rf "$scratch"; }
trap cleanup EXIT

# borg records how it was called: call it by a name that says nothing about this machine
mkdir "$scratch/bin"
ln -s "$(realpath -s "$BORG1")" "$scratch/bin/borg"
[ -z "$BORG12" ] || ln -s "$(realpath -s "$BORG12")" "$scratch/bin/borg12"
[ -z "$BORG11" ] || ln -s "$(realpath -s "$BORG11")" "$scratch/bin/borg11"
python=$(dirname "$(realpath -s "$BORG1")")/python

for name in $(compgen -e BORG_ || true); do unset "$name"; done
export LC_ALL=C.UTF-8 TZ=UTC PYTHONDONTWRITEBYTECODE=1
"${PYTHON:-python3}" "$here/make.py" "$1" --scratch "$scratch" --borg-python "$python" \
  --tree "${TREE:-$here/../../tools/tree.py}" --out "$2" "${@:3}"
