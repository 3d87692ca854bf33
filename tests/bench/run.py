#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py - the benchmarks (`make bench`): ratios in one run on one machine.

    tests/bench/run.py [--build DIR] [--quick] [--strict] [NAME...]

Each bench_NAME.py beside this file has `ABOUT` (a line) and `bench(b)`; b is a
Bench: it clocks commands with the C program drive.c, keeps rows and aims, and
prints them. Results also go to DIR/bench/results.json. An aim that is missed is
said, and fails the run only with --strict; a bench that cannot measure fails it
always. Stock library only.
"""
import argparse, importlib.util, json, os, platform, shutil, subprocess, sys, tempfile, time, traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
UNITS = {"ms": 1e6, "us": 1e3, "ns": 1}


def quantile(sorted_values, q):
    return sorted_values[min(len(sorted_values) - 1, int(q * len(sorted_values)))]


class Series:
    """What drive said of one subject, over all rounds."""

    def __init__(self):
        self.ns, self.launches, self.elapsed_ns = [], 0, 0

    def add(self, out, what):
        if out["failed"]:
            raise RuntimeError(f"{what}: {out['failed']} of {out['launches']} failed: {out['failure']}")
        self.ns += out["ns"]
        self.launches += out["launches"]
        self.elapsed_ns += out["elapsedNs"]

    def summary(self):
        ns = sorted(self.ns)
        return {"p50_ms": quantile(ns, .5) / 1e6, "p99_ms": quantile(ns, .99) / 1e6,
                "mean_ms": sum(ns) / len(ns) / 1e6, "count": len(ns),
                "per_second": self.launches / (self.elapsed_ns / 1e9)}


class Bench:
    def __init__(self, build, quick):
        self.build, self.quick = os.path.abspath(build), quick
        self.scratch = tempfile.mkdtemp(prefix="cordon-bench-")
        self.results, self.aims = {}, []

    def tool(self, name):
        """Compiles tests/bench/NAME.c; gives the program's path."""
        path = os.path.join(self.build, "bench", name)
        source = os.path.join(HERE, f"{name}.c")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
            subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-o", path, source], check=True)
        return path

    def compare(self, section, subjects, count, gap_ms=0, at_a_time=1, rounds=4):
        """Clocks {name: how}; how(drive_argv_prefix) gives a whole argv. Subjects take turns, so
        that what else the machine does meets all alike. Gives {name: summary}."""
        series = {name: Series() for name in subjects}
        each = max(at_a_time, count // rounds)
        prefix = [self.tool("drive"), "-n", str(each), "-g", str(gap_ms), "-c", str(at_a_time)]
        for _ in range(rounds):
            for name, how in subjects.items():
                p = subprocess.run(how(prefix), stdout=subprocess.PIPE, text=True)
                if p.returncode != 0:
                    raise RuntimeError(f"{name}: status {p.returncode}")
                series[name].add(json.loads(p.stdout), name)
        rows = {name: s.summary() for name, s in series.items()}
        self.table(section, rows)
        return rows

    def table(self, section, rows):
        """Prints and keeps {name: {column: number}}."""
        self.results.setdefault(section, {}).update(rows)
        columns = list(dict.fromkeys(c for r in rows.values() for c in r))
        width = max(len(n) for n in rows)
        print(f"\n{section}\n  {'':{width}}" + "".join(f"{c:>14}" for c in columns))
        for name, r in rows.items():
            cells = "".join(f"{r[c]:14.2f}" if isinstance(r.get(c), float) else f"{r.get(c, ''):>14}" for c in columns)
            print(f"  {name:{width}}{cells}")
        sys.stdout.flush()

    def aim(self, what, value, below=None, above=None):
        """A figure the project wants; said at the end."""
        met = value < below if below is not None else value > above
        self.aims.append({"what": what, "value": value, "below": below, "above": above, "met": met})


def load(names):
    found = sorted(f[6:-3] for f in os.listdir(HERE) if f.startswith("bench_") and f.endswith(".py"))
    for n in names or found:
        if n not in found:
            sys.exit(f"bench: no bench_{n}.py (there are: {', '.join(found)})")
        spec = importlib.util.spec_from_file_location(f"bench_{n}", os.path.join(HERE, f"bench_{n}.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield n, module


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    p.add_argument("--quick", action="store_true", help="fewer launches: to see that it works")
    p.add_argument("--strict", action="store_true", help="a missed aim fails")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    os.environ["CORDON_BUILD"] = os.path.abspath(a.build)
    b, failed = Bench(a.build, a.quick), []
    print(f"{platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.2f}, "
          f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())}Z")
    try:
        for name, module in load(a.names):
            print(f"\n=== {name}: {module.ABOUT}")
            try:
                module.bench(b)
            except Exception:
                traceback.print_exc()
                failed.append(name)
    finally:
        shutil.rmtree(b.scratch, ignore_errors=True)
    if b.aims:
        print("\naims")
    for m in b.aims:
        limit = f"< {m['below']}" if m["below"] is not None else f"> {m['above']}"
        print(f"  {'met   ' if m['met'] else 'MISSED'} {m['what']}: {m['value']:.2f} ({limit})")
    os.makedirs(f"{a.build}/bench", exist_ok=True)
    with open(f"{a.build}/bench/results.json", "w") as f:
        json.dump({"kernel": platform.release(), "cpus": os.cpu_count(), "quick": a.quick, "results": b.results,
                   "aims": b.aims, "failed": failed}, f, indent=1)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return bool(failed) or (a.strict and not all(m["met"] for m in b.aims))


if __name__ == "__main__":
    sys.exit(main())
