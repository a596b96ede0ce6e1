#!/usr/bin/env python3
"""Packtrain and fsck.erofs side by side: the same images, in turn, on one machine.

    benches/against_erofs.py --erofs BIN_FOLDER --packtrain BIN --tree TREE --work DIR --out DIR

BIN_FOLDER has mkfs.erofs and fsck.erofs. TREE is a folder of many files; --work keeps its images, one for each
algorithm and cluster size (made where missing); --out is where trees are extracted to, best on a tmpfs. Caches are
warm. For each image: medians of fsck.erofs and of 1, 2 and 16 workers, and three ratios, each round by round with its
spread. Needs Python 3 and nothing else.
"""
import argparse, os, shutil, statistics, subprocess
from sides import fresh, run

ALGORITHMS = {"lz4": "lz4", "lz4hc": "lz4hc", "zstd": "zstd", "deflate": "deflate", "lzma": "lzma,1"}
SIZES = (4096, 16384, 65536, 1048576)
JOBS = (1, 2, 16)

def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("erofs", "packtrain", "tree", "work", "out"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="only images whose name starts with this, such as lz4-4096")
    return parser.parse_args()

def main():
    options = arguments()
    os.makedirs(options.work, exist_ok=True)
    tool = lambda name: os.path.join(options.erofs, name)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PACKTRAIN_")}
    version = subprocess.run([tool("fsck.erofs"), "-V"], capture_output=True, text=True).stdout.splitlines()[:1]
    print(f"{' '.join(version)}; {options.rounds} rounds after one warm-up; {os.cpu_count()} cores")
    print("| image | fsck.erofs | -j 1 | -j 2 | -j 16 | fsck / -j 1 | fsck / -j 2 | -j 2 / -j 16 | memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    target = os.path.join(options.out, "tree")
    for algorithm, spec in ALGORITHMS.items():
        for size in SIZES:
            name = f"{algorithm}-{size}"
            if not name.startswith(options.only):
                continue
            image = os.path.join(options.work, name + ".img")
            if not os.path.exists(image):
                subprocess.run([tool("mkfs.erofs"), "--quiet", f"-z{spec}", f"-C{size}", image, options.tree], check=True)
            rounds = []
            for _ in range(options.rounds + 1):
                fresh(options.out)
                cells = [run([tool("fsck.erofs"), f"--extract={target}", "--preserve", image], env, options.out)]
                for jobs in JOBS:
                    fresh(options.out)
                    cells.append(run([options.packtrain, "extract", f"-j{jobs}", image, "-C", target], env, options.out))
                rounds.append(cells)
            del rounds[0]
            median = lambda at: f"{statistics.median(cells[at][0] for cells in rounds):.2f} s"
            def ratio(above, below):
                each = sorted(cells[above][0] / cells[below][0] for cells in rounds)
                return f"{statistics.median(each):.2f} ({each[0]:.2f} to {each[-1]:.2f})"
            memory = max(cells[at][2] for cells in rounds for at in (1, 2, 3))
            columns = [name, *(median(at) for at in range(4)), ratio(0, 1), ratio(0, 2), ratio(2, 3), f"{memory:.0f} MiB"]
            print("| " + " | ".join(columns) + " |", flush=True)
    shutil.rmtree(options.out, ignore_errors=True)

if __name__ == "__main__":
    main()
