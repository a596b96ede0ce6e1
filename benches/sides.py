"""One run of one side, measured. Shared by the scripts that put two programs side by side."""
import os, shutil, subprocess, sys, time

def run(command, env, cwd):
    """Wall seconds, CPU seconds and peak memory in MiB of one run."""
    started = time.monotonic()
    child = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    stderr = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - started
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}: {stderr.decode(errors='replace')}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

def fresh(out):
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
