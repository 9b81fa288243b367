"""Records what the reruns in testdata/whatif lack: long kernels on side streams, several pools, garbage collection with
limits, newer options. Usage: whatif_more.py OUT_DIR [PROGRAM...] (needs a GPU; each recording runs in a process of its own).

Writes PROGRAM.CONFIG.pickle and PROGRAM.CONFIG.oracle.json, as whatif_check.py and crates/simulate/tests read them.
"""
import json, os, random, subprocess, sys, time

CONFIGS = {
    "default": ("", 0), "expandable": ("expandable_segments:True", 0), "limit": ("", 1), "gc5": ("garbage_collection_threshold:0.5", 1),
    "gc9": ("garbage_collection_threshold:0.9", 1), "gcsplit": ("garbage_collection_threshold:0.7,max_split_size_mb:32", 1),
    "rounding": ("max_split_size_mb:32,max_non_split_rounding_mb:100", 0), "largeseg": ("large_segment_size_mb:64", 0),
    "explarge": ("expandable_segments:True,large_segment_size_mb:64", 0), "explimit": ("expandable_segments:True", 1),
}
LIMITS = {"side_streams": 1_500_000_000, "many_pools": 1_200_000_000, "gc_pressure": 900_000_000}


KEPT = []


def side_streams(torch, mark):
    """Kernels on side streams that outlast the step: frees wait until its end, in every run."""
    r = random.Random(1); streams = [torch.cuda.Stream() for _ in range(3)]
    for step in range(20):
        for s in streams:
            with torch.cuda.stream(s): torch.cuda._sleep(200_000_000)
        keep = []
        for _ in range(12):
            x = torch.empty(r.choice([3, 9, 15, 24, 40]) << 18, device="cuda"); s = r.choice(streams)
            with torch.cuda.stream(s): x.add_(1)
            x.record_stream(s)
            if r.random() < 0.3: keep.append(x)
            del x
        torch.cuda.synchronize(); del keep; mark(f"step{step}")


def many_pools(torch, mark):
    """MemPools and graphs beside the default pool, graphs that share a pool."""
    r = random.Random(2); pools = [torch.cuda.MemPool() for _ in range(3)]; held = []
    for n in range(12):
        with torch.cuda.use_mem_pool(r.choice(pools)):
            held += [torch.empty(r.randrange(1, 30) << 18, device="cuda") for _ in range(6)]
        held += [torch.empty(r.randrange(1, 30) << 18, device="cuda") for _ in range(6)]
        r.shuffle(held); del held[len(held) // 2:]; mark(f"pool{n}")
    w = torch.randn(512, 512, device="cuda"); x = torch.randn(512, 512, device="cuda"); shared = None; graphs = []
    (x @ w).relu() @ w; torch.cuda.synchronize()  # cuBLAS sets itself up, which a capture forbids
    for n in range(4):
        g = torch.cuda.CUDAGraph(); extra = torch.empty((n + 1) << 22, device="cuda")
        with torch.cuda.graph(g, pool=shared): y = (x @ w).relu() @ w
        shared = shared or (g.pool() if n >= 1 else None); graphs.append((g, y)); del extra; mark(f"graph{n}")
    KEPT.extend([pools, graphs, held])  # a pool that is gone before the dump is not in the file


def gc_pressure(torch, mark):
    """Sizes that drift, so that old segments are never used again."""
    r = random.Random(3)
    for step in range(40):
        live = [torch.empty(int((8 + step * 0.7 + r.random() * 4) * (1 << 18)), device="cuda") for _ in range(10)]
        small = [torch.empty(r.randrange(1, 1 << 16), device="cuda") for _ in range(40)]
        del live, small
        if step % 13 == 12: torch.cuda.empty_cache()
        mark(f"step{step}")


def child(program, config, out):
    conf, limited = CONFIGS[config]; limit = LIMITS[program] if limited else 0
    import torch
    torch.cuda.init(); total = torch.cuda.get_device_properties(0).total_memory
    if limit: torch.cuda.set_per_process_memory_fraction(limit / total)
    limit = int((limit / total) * total) if limit else 0
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=10_000_000)
    marks = []

    def mark(label):
        s = torch.cuda.memory_stats(); now = time.time_ns(); g = lambda k: s.get(k, 0)
        m = {"label": label, "time_ns": now}
        for k in ("allocated", "active", "reserved", "requested"):
            m[k] = g(f"{k}_bytes.all.current"); m[k + "_peak"] = g(f"{k}_bytes.all.peak")
        m.update(segments=g("segment.all.current"), ooms=g("num_ooms"), retries=g("num_alloc_retries"), inactive_split=g("inactive_split_bytes.all.current"),
                 device_alloc=g("num_device_alloc"), device_free=g("num_device_free"))
        marks.append(m)

    oom = False; mark("recording")
    try: globals()[program](torch, mark)
    except torch.OutOfMemoryError: oom = True; mark("after oom")
    mark("dump"); name = os.path.join(out, f"{program}.{config}")
    torch.cuda.memory._dump_snapshot(name + ".pickle")
    json.dump(dict(program=program, config=config, alloc_conf=conf, limit=limit, oom=oom, torch=torch.__version__, device=torch.cuda.get_device_name(), total=total, marks=marks),
              open(name + ".oracle.json", "w"), indent=1)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "--child": child(*sys.argv[2:])
    else:
        os.makedirs(sys.argv[1], exist_ok=True)
        for program in sys.argv[2:] or LIMITS:
            for config, (conf, _) in CONFIGS.items():
                r = subprocess.run([sys.executable, __file__, "--child", program, config, sys.argv[1]], env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=conf))
                print(program, config, "ok" if r.returncode == 0 else f"failed {r.returncode}", flush=True)
