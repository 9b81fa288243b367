"""Records whole corpora on a GPU machine and packs them. Usage:

    python testdata/record/record.py OUT [--work /tmp/recordings] [--minutes 8.5] [--jobs 12] [CORPUS...] [--names NAME...]

CORPUS: mistakes_a, mistakes_b, healthy, roles, sizes (all without one); --names: only these programs, or NAME.bad, NAME.good. Each corpus is a script beside this file, and each recording a
process of its own; what is in the work folder already is not made again. OUT gets CORPUS.tar (and CORPUS.2.tar … if it is
larger than 15 MiB) and table.txt; what must be looked at is printed, too.
"""
import argparse, glob, os, subprocess, sys, tarfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
CORPORA = ["mistakes_a", "mistakes_b", "healthy", "roles", "sizes"]
SCRIPTS = {"roles": "roles2"}  # where the script has another name
LARGEST = 15 << 20


def pack(folder, out, corpus):
    files = sorted(f for f in glob.glob(f"{folder}/**", recursive=True) if f.endswith((".pickle.xz", ".truth.json", ".roles.json", ".oracle.json", ".largest.default.json", ".largest.expandable.json"))); parts, size = [[]], 0
    for f in files:
        n = os.path.getsize(f) + 1024
        if size + n > LARGEST: parts.append([]); size = 0
        parts[-1].append(f); size += n
    for i, part in enumerate(parts, 1):
        with tarfile.open(os.path.join(out, f"{corpus}.tar" if i == 1 else f"{corpus}.{i}.tar"), "w") as t:
            for f in part: t.add(f, arcname=f"{corpus}/{os.path.relpath(f, folder)}")
    return len(files)


def main():
    a = argparse.ArgumentParser(); a.add_argument("out"); a.add_argument("corpora", nargs="*"); a.add_argument("--work", default="/tmp/recordings"); a.add_argument("--minutes", type=float, default=8.5); a.add_argument("--jobs", type=int, default=12); a.add_argument("--names", nargs="+", default=[])
    a = a.parse_intermixed_args(); end = time.time() + 60 * a.minutes; os.makedirs(a.out, exist_ok=True); table = open(os.path.join(a.out, "table.txt"), "w")
    for corpus in a.corpora or CORPORA:
        began = time.time(); script = SCRIPTS.get(corpus, corpus) + ".py"; folder = os.path.join(a.work, corpus); left = end - began - 25
        if left < 10: print(f"{corpus}: no time left"); continue
        r = subprocess.run([sys.executable, os.path.join(HERE, script), folder, "--jobs", str(a.jobs), "--seconds", str(left - 60 if left > 120 else left / 2), *a.names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        table.write(r.stdout); table.flush(); note = r.stdout[r.stdout.rfind("\n" + script + ":"):] if r.returncode == 0 else r.stdout[-3000:]
        print(note[:3500], f"\n({pack(folder, a.out, corpus)} files, {time.time() - began:.0f} s)", flush=True)


main()
