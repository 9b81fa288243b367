"""What the recording scripts beside this file share: one fresh process per recording, limits, and what is written.

A script defines programs with `@mistake` or `@healthy` and ends with

    if __name__ == "__main__":
        run = recording.main(__file__)
        with run: run.result = run.program(*run.arguments)

`main` returns only in the processes that record, each forked before CUDA was touched (so that importing is paid once);
everything else (which runs, limits, the table of results) happens in the process that was started.

    SCRIPT OUT [--jobs 8] [--seconds 500] [NAME | NAME.bad | NAME.good]...

writes NAME.HOW.pickle.xz and NAME.HOW.truth.json (healthy programs: NAME.pickle.xz, NAME.truth.json), and skips what is there.
A program may bring its own kind of run (`Program.run`), folder and suffix (roles2.py, sizes.py), or conduct its runs itself.
With DEVICE=cpu nothing is recorded: every program runs once, and the table shows whether it works and its peak by the profiler.
RECORD_SPAWN=1 starts each process from scratch instead of forking it.
"""
import argparse, contextlib, inspect, json, lzma, os, pickle, re, signal, subprocess, sys, time, traceback

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # asking whether there is a GPU must not initialize CUDA here
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import torch

DEVICE = os.environ.get("DEVICE", "cuda")
LONGEST = 150 if DEVICE == "cuda" else 400  # seconds that one process may take
PROGRAMS = {}


class Program:
    def __init__(self, function, cause, kinds=(), limit=None, want=None, history=None):
        self.function, self.cause, self.kinds, self.limit, self.want, self.history = function, cause, list(kinds), limit, want, history or {}
        self.name, self.file = function.__name__, os.path.basename(inspect.getsourcefile(function))
        self.hows = ["bad", "good"] if cause != "healthy" else ["good"]
        self.run, self.conduct, self.folder, self.suffix, self.largest = Run, None, "", ".truth.json", 100

    def base(self, out, how):
        """What the names of a run's files begin with."""
        return os.path.join(out, self.folder, f"{self.name}.{how}" if self.cause != "healthy" else self.name)

    def lines(self):
        """The lines marked `# MISTAKE` in the program, and those marked `# MISTAKE(name)` anywhere in its file."""
        own, first = inspect.getsourcelines(self.function)
        lines = {first + i for i, s in enumerate(own) if s.rstrip().endswith("# MISTAKE")}
        for i, s in enumerate(open(inspect.getsourcefile(self.function)), 1):
            m = re.search(r"# MISTAKE\(([\w, ]+)\)\s*$", s)
            if m and self.name in m[1].replace(" ", "").split(","): lines.add(i)
        return sorted(lines)


def mistake(cause, *kinds, limit=None, want=None, history=None):
    """Registers `function(bad)`. limit: a share of the way from the good run's reserved peak to the bad one's, or bytes;
    want: "oom", "retries" or "fragmented" (out of memory with much of it idle), what the bad run must show under the limit: shares
    are tried until it does."""
    def register(f): PROGRAMS[f.__name__] = Program(f, cause, kinds, limit, want, history); return f
    return register


def healthy(limit=None, history=None):
    def register(f): PROGRAMS[f.__name__] = Program(f, "healthy", (), limit, None, history); return f
    return register


class Run:
    """One program in a process of its own. What the program returns lives until the snapshot is taken: pools that are gone are not in it."""

    def __init__(self, program, how, limit, out, record):
        self.about, self.how, self.limit, self.out, self.record = program, how, limit, out, record
        self.program, self.arguments = program.function, (how == "bad",) if program.cause != "healthy" else ()
        self.base = program.base(out, how); os.makedirs(os.path.dirname(self.base), exist_ok=True)

    def __enter__(self):
        torch.manual_seed(0); self.began = time.time()
        if DEVICE != "cuda":
            pretend_cuda(); torch.set_num_threads(1)
            self.profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True); self.profile.__enter__(); return
        torch.cuda.init(); total = torch.cuda.get_device_properties(0).total_memory
        if self.limit: torch.cuda.set_per_process_memory_fraction(self.limit / total); self.limit = int(self.limit / total * total)
        if self.record: torch.cuda.memory._record_memory_history(**{**dict(context="all", stacks="python", max_entries=2_000_000), **self.about.history})

    def __exit__(self, kind, value, where):
        oom = kind is not None and issubclass(kind, torch.OutOfMemoryError)
        report = dict(name=self.about.name, how=self.how, seconds=round(time.time() - self.began, 1), error="", limit=self.limit or 0, oom=oom)
        if kind is not None and not oom: report["error"] = "".join(traceback.format_exception(kind, value, where))[-3000:]
        elif DEVICE != "cuda":
            self.profile.__exit__(None, None, None); report.update(requested_peak=profiled_peak(self.profile), reserved_peak=0, retries=0)
        else:
            s = torch.cuda.memory_stats()
            report.update(idle=s["reserved_bytes.all.current"] - s["active_bytes.all.current"], retries=s["num_alloc_retries"], reserved_peak=s["reserved_bytes.all.peak"], requested_peak=s["requested_bytes.all.peak"], active_peak=s["active_bytes.all.peak"])
            if self.record: self.write(report)
        with open(self.base + ".report.json", "w") as f: json.dump(report, f)
        sys.stdout.flush(); sys.stderr.flush()
        os._exit(0)  # what workers, pools and interpreters do at their end is of no interest

    def write(self, report):
        p, snapshot = self.about, torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(enabled=None); neutral(snapshot)
        events = snapshot["device_traces"][0]; report["events"] = len(events); lines = p.lines()
        seen = {f["line"] for e in events for f in e.get("frames", []) if f["filename"].endswith("/" + p.file)}
        report["lines_seen"] = sorted(seen & set(lines)); count = lambda action: sum(e["action"] == action for e in events)
        pending = report["pending"] = 0; report["segments"] = [count("segment_alloc") + count("segment_map"), count("segment_free") + count("segment_unmap")]
        for e in events:
            pending += dict(free_requested=e["size"], free_completed=-e["size"]).get(e["action"], 0)
            if e["action"] == "alloc": report["pending"] = max(report["pending"], pending)
        truth = dict(case=p.name, how=self.how, cause=p.cause if self.how == "bad" else "healthy", lines=lines, file=p.file, oom=report["oom"], limit=self.limit or 0,
                     retries=report["retries"], reserved_peak=report["reserved_peak"], requested_peak=report["requested_peak"], kinds=p.kinds if self.how == "bad" else [])
        data = lzma.compress(pickle.dumps(snapshot, protocol=4), preset=9 | lzma.PRESET_EXTREME); report["kB"] = round(len(data) / 1000, 1)
        with open(self.base + ".pickle.xz", "wb") as f: f.write(data)
        with open(self.base + ".truth.json", "w") as f: json.dump(truth, f)


HERE = os.path.dirname(os.path.abspath(__file__))
STDLIB = os.path.dirname(os.__file__)


def neutral_path(path):
    if path.startswith(HERE): return "/home/user/train" + path[len(HERE):]
    if m := re.search(r"/(?:site|dist)-packages/(.*)", path): return "/home/user/.venv/lib/python3.12/site-packages/" + m[1]
    if path.startswith(STDLIB): return "/usr/lib/python3.12" + path[len(STDLIB):]
    path = re.sub(r"^/tmp/torchinductor_[^/]+", "/tmp/torchinductor_user", path)
    return re.sub(r"^/(root|home/[^/]+)/", "/home/user/", path)


def neutral(snapshot):
    """Only file names inside frames are rewritten; frames that are shared stay shared."""
    done, paths = set(), {}

    def rewrite(frames):
        for f in frames or ():
            if id(f) not in done:
                done.add(id(f)); p = f["filename"]; f["filename"] = paths.setdefault(p, sys.intern(neutral_path(p)))
    for trace in snapshot["device_traces"]:
        for e in trace: rewrite(e.get("frames"))
    for s in snapshot["segments"]:
        rewrite(s.get("frames"))
        for b in s["blocks"]: rewrite(b.get("frames"))


# Processes ----------------------------------------------------------------------------------------------------------


class Child(BaseException):
    """Raised in a forked process, so that it goes back to the script's own level and runs the program from there."""
    def __init__(self, run): self.run = run


def one(program, how, limit, out, record, script):
    """Runs one program in a process of its own and returns its report."""
    run = program.run(program, how, limit, out, record); log = run.base + ".log"
    with contextlib.suppress(FileNotFoundError): os.remove(run.base + ".report.json")
    if os.environ.get("RECORD_SPAWN"):
        cmd = [sys.executable, script, out, "--one", program.name, how, str(limit or 0), str(int(record))]
        p = subprocess.Popen(cmd, stdout=open(log, "w"), stderr=subprocess.STDOUT, start_new_session=True); pid, wait = p.pid, lambda: p.poll() is not None
    else:
        sys.stdout.flush(); sys.stderr.flush(); pid = os.fork()
        if pid == 0:
            os.setsid(); fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC); os.dup2(fd, 1); os.dup2(fd, 2); raise Child(run)
        wait = lambda: os.waitpid(pid, os.WNOHANG)[0] == pid
    t = time.time()
    while not wait():
        if time.time() - t > LONGEST: os.killpg(pid, signal.SIGKILL); t = float("inf")
        time.sleep(0.05)
    try: return json.load(open(run.base + ".report.json"))
    except FileNotFoundError: return dict(name=program.name, how=how, error="died or took too long:\n" + open(log, errors="replace").read()[-2000:])


def conduct(program, hows, out, script):
    """All runs of one program: first those that tell its limit, then those that are recorded."""
    if program.conduct: return program.conduct(program, out, script)
    go = lambda how, limit=0, record=False: one(program, how, limit, out, record, script)
    limit, reports = 0, []
    if DEVICE != "cuda": return [go(how) for how in hows]
    if program.limit == "healthy": r = go("good"); limit = int(r["reserved_peak"] * 1.1)  # full, and enough
    elif isinstance(program.limit, int): limit = program.limit
    elif program.limit:
        good, bad = go("good"), go("bad")
        if good["error"] or bad["error"]: return [good, bad]
        low, high = good["reserved_peak"], bad["reserved_peak"]; shares = [program.limit] + ([.05, .1, .2, .3, .4, .5, .6, .7, .8, .9] if program.want else [])
        for share in shares:
            limit = int(low + share * (high - low)) if high > low else low; r = go("bad", limit)
            shown = dict(oom=r.get("oom"), retries=r.get("retries", 0) > 3 and not r.get("oom"), fragmented=r.get("oom") and r["idle"] > 0.3 * r["reserved_peak"])
            if not program.want or shown[program.want]: break
        else: reports.append(dict(name=program.name, how="limit", error=f"no limit between {low} and {high} made it show {program.want}"))
    return reports + [go(how, limit, True) for how in hows]


def forking_works():
    """Whether a forked process can use CUDA: not if something that was imported has initialized it."""
    sys.stdout.flush(); pid = os.fork()
    if pid == 0:
        try: torch.zeros(1, device="cuda"); os._exit(0)
        except Exception: os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def main(script):
    a = argparse.ArgumentParser(); a.add_argument("out"); a.add_argument("names", nargs="*"); a.add_argument("--jobs", type=int, default=8); a.add_argument("--seconds", type=float, default=500)
    a.add_argument("--one", nargs=4); a = a.parse_intermixed_args(); os.makedirs(a.out, exist_ok=True)
    if a.one: return PROGRAMS[a.one[0]].run(PROGRAMS[a.one[0]], a.one[1], int(a.one[2]), a.out, a.one[3] == "1")
    wanted = {}; os.environ["RECORD_END"] = str(time.time() + a.seconds + 45)  # when those that conduct themselves must stop
    for p in PROGRAMS.values():
        for how in p.hows:
            done = p.base(a.out, how) + p.suffix
            if (not a.names or {p.name, p.name.split(".")[0], p.folder, f"{p.name}.{how}"} & set(a.names)) and not os.path.exists(done): wanted.setdefault(p.name, []).append(how)
    if DEVICE == "cuda" and not forking_works(): print("no process can be forked here: each starts from scratch", flush=True); os.environ["RECORD_SPAWN"] = "1"
    began, running, results, waiting = time.time(), {}, [], list(wanted)
    try:
        while waiting or running:
            while waiting and len(running) < a.jobs and time.time() - began < a.seconds:
                name = waiting.pop(0); answer = os.path.join(a.out, name + ".answer.json"); sys.stdout.flush(); pid = os.fork()
                if pid == 0:
                    try: reports = conduct(PROGRAMS[name], wanted[name], a.out, script)
                    except Exception: reports = [dict(name=name, how="all", error=traceback.format_exc())]
                    with open(answer, "w") as f: json.dump(reports, f)
                    os._exit(0)
                running[pid] = answer
            if not running: break
            pid, _ = os.wait()
            if pid in running:
                answer = running.pop(pid); reports = json.load(open(answer)); os.remove(answer); results += reports
                for r in reports: print(row(r), flush=True)
    except Child as c: return c.run
    summary(script, results, waiting); sys.exit(0)


def row(r):
    mb = lambda k: f"{r.get(k, 0) / 1e6:8.0f}"
    return (f"{r['name']:35s}{r['how']:5s} " + ("FAILED " + r["error"].strip().splitlines()[-1][:150] if r["error"] else
            f"{r['seconds']:5.1f} s {r.get('events', 0):6d} events {r.get('kB', 0):6.1f} kB  requested{mb('requested_peak')} reserved{mb('reserved_peak')} limit{mb('limit')} pending{mb('pending')} MB segments {r.get('segments', '')}"
            f"{' oom, idle' + mb('idle') if r['oom'] else ''}{' retries ' + str(r['retries']) if r['retries'] else ''} {r.get('note', '')}"))


def summary(script, results, waiting):
    """What somebody must look at before these recordings are used."""
    by = {(r["name"], r["how"]): r for r in results}; ok = [r for r in results if not r["error"]]
    print(f"\n{os.path.basename(script)}: {len(ok)} of {len(results)} runs, {sum(r.get('kB', 0) for r in ok):.0f} kB" + (f"; NO TIME LEFT FOR {' '.join(waiting)}" if waiting else ""))
    for r in results:
        p = PROGRAMS[r["name"]]; good = by.get((r["name"], "good")); note = r.get("notes", [])
        if r["error"]: print(f"--- {r['name']} {r['how']}\n{r['error']}"); continue
        if r["how"] == "bad":
            if DEVICE == "cuda" and not r["lines_seen"]: note.append("no marked line is in any stack")
            if p.want in ("oom", "fragmented") and DEVICE == "cuda" and not r["oom"]: note.append("did not run out of memory")
            if p.want == "retries" and DEVICE == "cuda" and (r["oom"] or not r["retries"]): note.append("no retries, or out of memory")
            if good and not good["error"] and not set(p.kinds) & {"driver_calls", "retries", "fragmentation", "private_pool", "pending_free", "out_of_memory"} and not r["oom"]:
                gain = 1 - good["requested_peak"] / max(r["requested_peak"], 1)
                if gain < 0.12: note.append(f"its peak is only {100 * gain:.0f} % above the good one's")
            if not p.lines(): note.append("has no marked lines")
            if DEVICE == "cuda" and good and not good["error"]:
                if "pending_free" in p.kinds and not (r["pending"] > 0.15 * r["requested_peak"] and good["pending"] < 0.08 * good["requested_peak"]): note.append("frees do not wait, or do in the good run")
                if "private_pool" in p.kinds and r["reserved_peak"] < 1.25 * good["reserved_peak"]: note.append("its pools are not larger")
                if "driver_calls" in p.kinds and not (r["segments"][1] > 4 > good["segments"][1]): note.append("driver calls are not the difference")
                if "fragmentation" in p.kinds and r["idle"] < 0.25 * r["reserved_peak"]: note.append("little is idle")
        elif DEVICE == "cuda" and (r["oom"] or r["retries"]) and p.limit != "healthy" and not p.want: note.append("the healthy run is out of memory or retries")
        if r.get("kB", 0) > p.largest: note.append(f"is large: {r['kB']} kB")
        if DEVICE != "cuda" and r["seconds"] > 40: note.append("is slow")
        if note: print(f"--- {r['name']} {r['how']}: " + "; ".join(note))


# Without a GPU ------------------------------------------------------------------------------------------------------


def profiled_peak(profile):
    events = sorted((e.start_ns(), e.nbytes()) for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"); now = peak = 0
    for _, n in events: now += n; peak = max(peak, now)
    return peak


def pretend_cuda():
    """Streams, graphs and pools that do nothing, so that every line of the programs can be tried without a GPU."""
    class Nothing(contextlib.nullcontext):
        def __init__(self, *a, **k): super().__init__()
        def __getattr__(self, name): return lambda *a, **k: Nothing()
        def query(self): return True
    c = torch.cuda
    for name in ("Stream", "Event", "CUDAGraph", "MemPool", "graph", "stream", "use_mem_pool", "current_stream", "default_stream"): setattr(c, name, type(name, (Nothing,), {}))
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", "set_stream"): setattr(c, name, lambda *a, **k: None)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"): setattr(c, name, lambda *a, **k: 0)
    c.graph_pool_handle = lambda: (0, 1); c.make_graphed_callables = lambda f, *a, **k: f
    torch.Tensor.record_stream = lambda self, stream: None; torch.Tensor.pin_memory = lambda self, *a: self


def allocator(settings):
    """What PYTORCH_CUDA_ALLOC_CONF would say, set before the first allocation."""
    if DEVICE == "cuda": torch.cuda.memory._set_allocator_settings(settings)
