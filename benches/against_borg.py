#!/usr/bin/env python3
"""Packtrain and Borg side by side: the same repositories, in turn, on one machine.

    benches/against_borg.py --borg BORG --packtrain BIN --floor BIN --small TREE --big TREE --work DIR --out DIR

BORG is borg 2.0.0b25 or 1.4.5: what it is asked for follows from its version. TREE is a folder of many small files, and one of few large files; --work keeps the repositories (made by
BORG where missing); --out is where trees are restored to, best on a tmpfs. Caches are warm. For each row:
median of each side, and the ratio pair by pair (median, min to max). Needs Python 3 and nothing else.
"""
import argparse, os, shutil, statistics, subprocess
from sides import fresh, run

def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("borg", "packtrain", "floor", "small", "big", "work", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--id-hash", default="sha256", choices=("sha256", "blake3"), help="Borg 2: with AES-256-OCB")
    parser.add_argument("--mode", default="repokey-blake2", help="Borg 1: as for borg init -e")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    return parser.parse_args()

def environment(work):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BORG_", "PACKTRAIN_"))}
    env.update(BORG_PASSPHRASE="test", BORG_BASE_DIR=os.path.join(work, "borg-home"), BORG_RELOCATED_REPO_ACCESS_IS_OK="yes",
               BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK="yes")
    return env

def warm(repo):
    """Reads a repository: Borg 1 takes the segments it has checked out of the page cache."""
    for folder, _, names in os.walk(repo):
        for name in names:
            with open(os.path.join(folder, name), "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass

def pair(name, repo, ours, theirs, options, env, cwd_ours, cwd_theirs):
    """Runs both in turn; prints medians and the ratio theirs/ours."""
    rows = []
    for n in range(options.rounds + 1):
        fresh(options.out)
        warm(repo)
        b = run(theirs, env, cwd_theirs)
        fresh(options.out)
        warm(repo)
        a = run(ours, env, cwd_ours)
        if n > 0:
            rows.append((a, b))
    fresh(options.out)
    ratios = sorted(b[0] / a[0] for a, b in rows)
    median = lambda pick: statistics.median(pick)
    print(f"| {name} | {median([b[0] for _, b in rows]):.2f} s | {median([a[0] for a, _ in rows]):.2f} s "
          f"| {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) "
          f"| {median([a[1] for a, _ in rows]):.2f} s | {max(a[2] for a, _ in rows):.0f} MiB | {max(b[2] for _, b in rows):.0f} MiB |", flush=True)

class Borg2:
    """Borg 2 and its repositories."""
    def __init__(self, borg, id_hash):
        self.borg, self.id_hash, self.name = borg, id_hash, f"aes256-ocb with {id_hash} ids"

    def repository(self, work, codec):
        return os.path.join(work, f"{codec}-{self.id_hash}")

    def init(self, repo):
        return [self.borg, "repo-create", "-r", repo, "-e", "aes256-ocb", "-i", self.id_hash]

    def on(self, command, repo, archive=None, *options):
        return [self.borg, *command, *options, "-r", repo] + ([archive] if archive else [])

class Borg1:
    """Borg 1.x and its repositories."""
    def __init__(self, borg, mode):
        self.borg, self.mode, self.name = borg, mode, mode

    def repository(self, work, codec):
        return os.path.join(work, f"{codec}-{self.mode}")

    def init(self, repo):
        return [self.borg, "init", "-e", self.mode, repo]

    def on(self, command, repo, archive=None, *options):
        return [self.borg, *command, *options, f"{repo}::{archive}" if archive else repo]

def main():
    options = arguments()
    version = subprocess.run([options.borg, "--version"], capture_output=True, text=True, check=True).stdout
    borg = Borg1(options.borg, options.mode) if version.startswith("borg 1.") else Borg2(options.borg, options.id_hash)
    os.makedirs(options.work, exist_ok=True)
    env = environment(options.work)
    trees = {"small": options.small, "big": options.big}
    codecs = {"lz4": "lz4", "zstd": "zstd,3"}
    for codec, spec in codecs.items():
        repo = borg.repository(options.work, codec)
        if os.path.isdir(repo):
            continue
        subprocess.run(borg.init(repo), env=env, check=True, stdin=subprocess.DEVNULL)
        for tree, path in trees.items():
            subprocess.run([*borg.on(["create"], repo, tree, "-C", spec), "."], env=env, cwd=path, check=True)
    out = options.out
    print(f"{version.strip()}, {borg.name}; {options.rounds} rounds after one warm-up; {os.cpu_count()} cores")
    print("| work | Borg | Packtrain | times faster (min to max) | CPU | memory | Borg's memory |")
    print("|---|---|---|---|---|---|---|")
    for codec in codecs:
        repo = borg.repository(options.work, codec)
        for tree in trees:
            row = f"extract {tree}, {codec}"
            if options.only in row:
                pair(row, repo, [options.packtrain, "extract", "-r", repo, tree, "-C", out],
                     borg.on(["extract"], repo, tree), options, env, out, out)
        row = f"check --verify-data, {codec}"
        if options.only in row:
            pair(row, repo, [options.packtrain, "check", "--verify-data", repo],
                 borg.on(["check", "--verify-data"], repo), options, env, out, out)
    repo = borg.repository(options.work, "lz4")
    if options.only in "list small":
        pair("list small", repo, [options.packtrain, "list", "-r", repo, "small"],
             borg.on(["list"], repo, "small"), options, env, out, out)
    print("\n| workers | extract small, lz4 | CPU | extract big, lz4 | CPU |\n|---|---|---|---|---|")
    if options.only in "workers":
        cells = {}
        for n in range(options.rounds + 1):
            for jobs in (1, 2, 4, 8, 16):
                for tree in trees:
                    fresh(out)
                    cell = run([options.packtrain, "extract", "-j", str(jobs), "-r", repo, tree, "-C", out], env, out)
                    if n > 0:
                        cells.setdefault((jobs, tree), []).append(cell)
        for jobs in (1, 2, 4, 8, 16):
            text = " | ".join(f"{statistics.median(c[0] for c in cells[jobs, t]):.2f} s | {statistics.median(c[1] for c in cells[jobs, t]):.2f} s" for t in trees)
            print(f"| {jobs} | {text} |", flush=True)
    if options.only in "floor":
        print("\nfloor (creating, writing and dating the same files, content in memory):")
        for tree, path in trees.items():
            for threads in (1, 2):
                shutil.rmtree(out, ignore_errors=True)
                result = subprocess.run([options.floor, path, out, str(threads)], capture_output=True, text=True, check=True)
                print(f"  {tree}: {result.stdout.strip()}", flush=True)
    shutil.rmtree(out, ignore_errors=True)

if __name__ == "__main__":
    main()
