"""What memory was for: programs recorded with the role of every storage that PyTorch knows one of, at three to six marks each.

    python roles2.py OUT [NAME | a | b]...         on a GPU; see recording.py
    DEVICE=cpu python roles2.py OUT                only tries whether everything runs (OUT gets NAME.marks.json)

Writes a/NAME.pickle.xz and a/NAME.roles.json for the list A (looked at while rules are written), b/… for the list B (looked at
only to measure), as roles_check.py reads them. Roles: parameter, buffer, gradient, optimizer, activation (saved for backward),
input, kv_cache; and two that nobody judges: `bucket` (DDP's own, where gradients are no views of it), `master` (weights in
full precision beside those the model computes with). A second model's weights (averaged, teacher, reference) are parameters.
"""
import bisect, copy, json, os, time, weakref
import recording
from recording import DEVICE
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
import transformers as T

GPU = DEVICE == "cuda"
MARKS = "0.backward 1.forward 1.backward 1.step 2.forward"
BUCKETS_KNOWN = "1.backward 2.forward 2.backward 2.step 3.forward"  # DDP makes them anew in the second forward pass


# The recorder -------------------------------------------------------------------------------------------------------


class Roles:
    """What a program tells of its tensors, and the marks. `known(role, name, get)`: get() gives tensors now, or a dict of them."""

    def __init__(self, run): self.run, self.marks, self.sources, self.inputs, self.saved, self.on, self.wanted = run, [], [], [], [], not run.about.late, MARKS

    def start(self, **how):
        if GPU: torch.cuda.memory._record_memory_history(**{**dict(context="all", stacks="python", max_entries=2_000_000), **how})
        self.on = True

    def limit(self, mb):
        """The process gets no more than this, and what there is when it wants more is a mark."""
        if not GPU: return
        total = torch.cuda.get_device_properties(0).total_memory; torch.cuda.set_per_process_memory_fraction(mb * 1e6 / total); self.run.limit = int(mb * 1e6)
        torch._C._cuda_attach_out_of_memory_observer(lambda *_: self.mark("oom") if sum(m["label"] == "oom" for m in self.marks) < 2 else None)

    def known(self, role, name, get):
        def source():
            got = get() if callable(get) else get
            if torch.is_tensor(got): got = [got]
            for k, t in (got.items() if isinstance(got, dict) else enumerate(got)): yield t, role, f"{name}{k}"
        self.sources.append(source); return get

    def model(self, m, name=""):
        def source():
            for module in m.modules():  # FSDP 2 registers either the shards or the whole weights
                if not hasattr(module, "_get_fsdp_state"): continue
                for p in getattr(module._get_fsdp_state()._fsdp_param_group, "fsdp_params", ()):
                    yield p.sharded_param, "parameter", "shard"
                    for t in [getattr(p, "_unsharded_param", None), *p.all_gather_outputs]: yield t, "parameter", "whole"
            for n, p in m.named_parameters(): yield p.data, "parameter", name + n
            for n, b in m.named_buffers(): yield b, "buffer", name + n
            for n, p in m.named_parameters(): yield p.grad, "gradient", name + n
        self.sources.append(source); return m

    def optimizer(self, o):
        def source():
            for state in list(o.state.values()):
                for k, v in state.items():
                    for t in v if isinstance(v, (list, tuple)) else [v]: yield t, "optimizer", str(k)
        self.sources.append(source); return o

    def cache(self, c):
        """A cache of transformers; the one before it is gone."""
        c = weakref.ref(c)
        def source():
            for i, layer in enumerate(getattr(c(), "layers", ())):
                yield getattr(layer, "keys", None), "kv_cache", f"{i}.keys"; yield getattr(layer, "values", None), "kv_cache", f"{i}.values"
        self.sources.append(source)

    def input(self, t): self.inputs.append(weakref.ref(t)); return t

    def hooks(self):
        def pack(t):
            if t.device.type == DEVICE: self.saved.append(weakref.ref(t))
            return t
        return torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)

    def at(self, label):
        if label in self.wanted.split(): self.mark(label)

    def mark(self, label):
        if not self.on: return
        if GPU: torch.cuda.synchronize()
        time.sleep(0.003); now = time.time_ns(); time.sleep(0.003); found = {}

        def add(t, role, name):
            t = getattr(t, "_local_tensor", t)
            if not torch.is_tensor(t) or t.device.type != DEVICE: return
            s = t.untyped_storage()
            if s.nbytes() and s.data_ptr(): found.setdefault(s.data_ptr(), [s.data_ptr(), s.nbytes(), role, name])
        for source in self.sources:
            for t, role, name in source(): add(t, role, name)
        for ref in self.inputs: add(ref(), "input", "")
        self.saved = [ref for ref in self.saved if ref() is not None]
        for ref in self.saved:
            try: add(ref(), "activation", "")
            except RuntimeError: pass  # a graph's pool has taken it back
        self.marks.append(dict(label=label, time_ns=now, allocated=torch.cuda.memory_allocated(), roles=list(found.values())))


class RolesRun(recording.Run):
    def __enter__(self):
        self.roles = Roles(self); self.arguments = (self.roles,); record, self.record = self.record, self.record and not self.about.late
        super().__enter__(); self.record = record

    def __exit__(self, kind, value, where):
        if not GPU and kind is None:
            with open(self.base + ".marks.json", "w") as f: self.tell(f)
        super().__exit__(kind, value, where)

    def tell(self, f):
        marks = [{k: v for k, v in m.items() if k != "allocated"} for m in self.roles.marks]
        json.dump(dict(case=self.about.name, list=self.about.folder, torch=torch.__version__, device=torch.cuda.get_device_name() if GPU else "cpu",
                       total=torch.cuda.get_device_properties(0).total_memory if GPU else 0, limit=self.limit or 0, marks=marks), f, separators=(",", ":"))
        return f.tell()

    def write(self, report):
        notes, marks, p = [], self.roles.marks, self.about; snapshot = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(enabled=None); recording.neutral(snapshot)
        if not marks: notes.append("no marks")
        if p.want == "oom" and not (report["oom"] and marks and marks[-1]["label"] == "oom"): notes.append("did not run out of memory")
        if p.want != "oom" and report["oom"]: notes.append("ran out of memory")
        notes += astray(snapshot, marks); data = recording.lzma.compress(recording.pickle.dumps(snapshot, protocol=4), preset=9 | recording.lzma.PRESET_EXTREME)
        report.update(events=len(snapshot["device_traces"][0]), kB=round(len(data) / 1000, 1), notes=notes, lines_seen=[], pending=0)
        with open(self.base + ".pickle.xz", "wb") as f: f.write(data)
        with open(self.base + ".roles.tmp", "w") as f: size = self.tell(f)
        os.rename(self.base + ".roles.tmp", self.base + ".roles.json")
        if size > 100_000: notes.append(f"its roles take {size // 1000} kB")
        m = max(marks, key=lambda m: m["allocated"], default=dict(roles=[], allocated=0)); by = {}
        for a, n, role, name in m["roles"]: by[role] = by.get(role, 0) + n
        if sum(by.values()) < 0.5 * m["allocated"]: notes.append("most of what was allocated had no role")
        report["note"] = f"{len(marks)} marks {size // 1000} kB: " + " ".join(f"{k} {v / 1e6:.1f}" for k, v in by.items()) + f" of {m['allocated'] / 1e6:.1f} MB"


def astray(snapshot, marks):
    """Goes back from the end to each mark and looks whether every role lies in memory that was allocated then."""
    live, notes = {}, []
    for s in snapshot["segments"]:
        a = s["address"]
        for b in s["blocks"]:
            if b["state"] != "inactive": live[b.get("address", a)] = b["size"]
            a += b["size"]
    events, missing = list(snapshot["device_traces"][0]), 0
    if not events: marks = marks[-1:]
    for m in reversed(marks):
        while events and events[-1]["time_us"] > m["time_ns"] // 1000:
            e = events.pop()
            if e["action"] == "alloc": missing += live.pop(e["addr"], None) is None
            elif e["action"] == "free_completed": live[e["addr"]] = e["size"]
        starts = sorted(live); out = 0
        for a, n, role, name in m["roles"]:
            i = bisect.bisect_right(starts, a) - 1; out += n * (i < 0 or a >= starts[i] + live[starts[i]])
        if out: notes.append(f"at {m['label']} roles of {out} bytes lie in nothing that was allocated")
    return notes + ([f"{missing} allocations are not there when going back"] if missing else [])


def roles(group, late=False, want=None, **history):
    """Registers `program(r)`. late: the program starts the recording itself; history: how it is recorded."""
    def register(f):
        p = recording.PROGRAMS[f.__name__] = recording.Program(f, "healthy", history=history)
        p.run, p.folder, p.suffix, p.late, p.want, p.largest = RolesRun, group.lower(), ".roles.json", late, want, 60
        return f
    return register


# What many programs use ---------------------------------------------------------------------------------------------


def many(n): return n if GPU else max(2, n // 8)


def normal(*shape, **k): return torch.randn(*shape, device=DEVICE, **k)


def integers(n, *shape): return torch.randint(0, n, shape, device=DEVICE)


def fit(r, loss, optimizer, steps=3, parts=1, after=None, amp=None):
    """loss() makes a batch and its loss. Marks are taken at those of r.wanted."""
    for step in range(steps):
        for part in range(parts):
            with r.hooks(), torch.autocast(DEVICE, torch.bfloat16, enabled=bool(amp)): value = loss()
            if part == parts - 1: r.at(f"{step}.forward")
            value.backward(); del value
        r.at(f"{step}.backward"); optimizer.step()
        if after: after()
        r.at(f"{step}.step"); optimizer.zero_grad()


def adamw(r, model, lr=1e-3, **how): return r.optimizer(torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr, **how))


def sgd(r, model, **how): return r.optimizer(torch.optim.SGD(model.parameters(), lr=0.01, **how))


class Block(nn.Module):
    def __init__(self, width=256, heads=4):
        super().__init__(); self.heads = heads; self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out, self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x): x = x + self.attend(x); return x + self.down(F.gelu(self.up(self.norm2(x))))


class Words(nn.Module):
    """A small language model without a library."""
    def __init__(self, vocab=2000, width=256, depth=3, length=512):
        super().__init__(); self.words, self.places = nn.Embedding(vocab, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth)); self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[:ids.shape[1]]
        for b in self.blocks: x = b(x)
        return self.head(self.norm(x))


def next_word(r, model, n=16, length=256, vocab=2000):
    def loss(): ids = r.input(integers(vocab, many(n), length)); return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    return loss


def cnn(classes=100, width=32, depth=3):
    block = lambda a, b, s: [nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    layers = block(3, width, 1) + [m for i in range(depth) for m in block(width << i, width << i + 1, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width << depth, classes))


def classify(r, model, shape, classes=100):
    def loss(): return F.cross_entropy(model(r.input(normal(many(shape[0]), *shape[1:]))), r.input(integers(classes, many(shape[0]))))
    return loss


def mlp(*widths): return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.GELU())][:-1])


def llama(layers=2, width=256, **how): return T.LlamaForCausalLM(T.LlamaConfig(vocab_size=2000, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=1024, **how))


def alone(backend):
    """A process group of one."""
    import torch.distributed as dist
    os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo"); os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(backend if GPU else "gloo", store=dist.HashStore(), rank=0, world_size=1); return dist


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__(); conv = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, 1, 1), nn.GroupNorm(8, b), nn.SiLU())
        self.time = nn.Sequential(nn.Linear(1, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width)); self.enter, self.down1, self.down2 = conv(3, width), conv(width, 2 * width), conv(2 * width, 4 * width)
        self.middle = Block(4 * width); self.up2, self.up1, self.leave = conv(8 * width, 2 * width), conv(4 * width, width), nn.Conv2d(2 * width, 3, 3, 1, 1)

    def forward(self, x, t):
        a = self.enter(x); b = self.down1(F.avg_pool2d(a, 2)); c = self.down2(F.avg_pool2d(b, 2)); d = c + self.time(t[:, None])[:, :, None, None]
        d = self.middle(d.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, d.shape[2:]); d = F.interpolate(self.up2(torch.cat([c, d], 1)), scale_factor=2)
        d = F.interpolate(self.up1(torch.cat([b, d], 1)), scale_factor=2); return self.leave(torch.cat([a, d], 1))


def denoise(r, model, n=16, side=64):
    def loss(): x, t, e = r.input(normal(many(n), 3, side, side)), torch.rand(many(n), device=DEVICE), normal(many(n), 3, side, side); return F.mse_loss(model(x + t[:, None, None, None] * e, t), e)
    return loss


# A ------------------------------------------------------------------------------------------------------------------


@roles("A")
def averaged_cnn(r):
    model = r.model(cnn().to(DEVICE)); mean = r.model(torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99), use_buffers=True), "mean.")
    fit(r, classify(r, model, (64, 3, 64, 64)), sgd(r, model, momentum=0.9), after=lambda: mean.update_parameters(model))


@roles("A")
def teacher_student(r):
    teacher = r.model(mlp(512, 2048, 2048, 100).to(DEVICE).eval().requires_grad_(False), "teacher."); model = r.model(mlp(512, 512, 512, 100).to(DEVICE))

    def loss():
        x = r.input(normal(many(4096), 512)); out = model(x)
        with torch.no_grad(): want = teacher(x).softmax(1)
        return F.cross_entropy(out, want)
    fit(r, loss, adamw(r, model))


@roles("A")
def compiled_words(r):
    model = r.model(Words(depth=2).to(DEVICE)); run = torch.compile(model, **({} if GPU else dict(backend="aot_eager"))); fit(r, next_word(r, run), adamw(r, model), steps=4); r.keep = run


@roles("A")
def ddp_view_bucket(r):
    dist = alone("nccl"); model = r.model(Words(depth=2).to(DEVICE)); d = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=2)
    fit(r, next_word(r, d), adamw(r, model)); r.keep = d


@roles("A")
def ddp_copy_bucket(r):
    """No views: a communication hook that does what DDP does without one tells where the buckets are."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    dist = alone("nccl"); model = r.model(cnn(width=48).to(DEVICE)); d = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1); buckets = {}

    def hook(state, bucket): buckets[bucket.index()] = weakref.ref(bucket.buffer()); return allreduce_hook(state, bucket)
    d.register_comm_hook(None, hook); r.known("bucket", "bucket", lambda: {k: b() for k, b in buckets.items()}); r.wanted = BUCKETS_KNOWN; fit(r, classify(r, d, (64, 3, 64, 64)), sgd(r, model, momentum=0.9), 4); r.keep = d


@roles("A")
def flat_by_hand(r):
    """All weights in one buffer, all gradients in another, momentum in a third."""
    model = Words(depth=2).to(DEVICE); ps = list(model.parameters()); sizes = [p.numel() for p in ps]; weights = torch.cat([p.data.flatten() for p in ps]); grads, momentum = torch.zeros_like(weights), torch.zeros_like(weights)
    for p, w, g in zip(ps, weights.split(sizes), grads.split(sizes)): p.data, p.grad = w.view(p.shape), g.view(p.shape)
    r.model(model); r.known("optimizer", "momentum", momentum); r.wanted = "0.backward 1.forward 1.backward 2.forward"; del p, w, g
    loss = next_word(r, model)
    for step in range(3):
        with r.hooks(): value = loss()
        r.at(f"{step}.forward"); value.backward(); del value; r.at(f"{step}.backward"); momentum.mul_(0.9).add_(grads); weights.add_(momentum, alpha=-0.01); grads.zero_()


@roles("A")
def fsdp2_layers(r):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    alone("nccl"); mesh = init_device_mesh(DEVICE, (1,)); model = Words(depth=3).to(DEVICE)
    for b in model.blocks: fully_shard(b, mesh=mesh)
    fully_shard(model, mesh=mesh); r.model(model); fit(r, next_word(r, model), adamw(r, model))


@roles("A")
def plain_tensors(r):
    """No module and no optimizer: tensors in a list, their gradients by torch.autograd.grad, momentum by hand."""
    widths = [256, 1024, 1024, 1024, 64]; ws = [(normal(a, b) / a ** 0.5).requires_grad_() for a, b in zip(widths, widths[1:])]; vs = [torch.zeros_like(w) for w in ws]; gs = []
    r.known("parameter", "w", lambda: ws); r.known("optimizer", "v", lambda: vs); r.known("gradient", "g", lambda: gs)
    for step in range(4):
        with r.hooks():
            x = r.input(normal(many(4096), 256))
            for w in ws: x = torch.tanh(x @ w)
            value = x.square().mean()
        r.at(f"{step}.forward"); gs = list(torch.autograd.grad(value, ws)); del value, x; r.at(f"{step}.backward")
        with torch.no_grad():
            for w, g, v in zip(ws, gs, vs): v.mul_(0.9).add_(g); w.sub_(v, alpha=0.01)
        r.at(f"{step}.step"); gs = []; del w, g, v


@roles("A")
def adam_one_by_one(r): model = r.model(Words(depth=2).to(DEVICE)); fit(r, next_word(r, model), adamw(r, model, foreach=False, amsgrad=True))


@roles("A")
def adam_fused(r): model = r.model(llama().to(DEVICE)); fit(r, lambda: model(input_ids=(x := r.input(integers(2000, many(16), 256))), labels=x).loss, adamw(r, model, fused=True))


def to_bytes(x): b = x.view(-1, 256); s = b.abs().amax(1, keepdim=True).clamp_min(1e-12); return (b / s * 127 + 128).round().to(torch.uint8), s


def from_bytes(q, s): return (q.float() - 128) / 127 * s


class AdamBytes(torch.optim.Optimizer):
    """Both moments in eight bits with a scale for each 256 values; small tensors stay as they are."""
    def __init__(self, params, lr=1e-3): super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None: continue
                s = self.state[p]; small = p.numel() % 256 or p.numel() < 4096
                if not s: s["m"], s["v"] = (torch.zeros_like(p), torch.zeros_like(p)) if small else (to_bytes(torch.zeros_like(p)), to_bytes(torch.zeros_like(p)))
                m, v = (s["m"], s["v"]) if small else (from_bytes(*s["m"]).view_as(p), from_bytes(*s["v"]).view_as(p).abs())
                m.lerp_(p.grad, 0.1); v.lerp_(p.grad.square(), 0.01); p.addcdiv_(m, v.sqrt() + 1e-8, value=-group["lr"])
                if not small: s["m"], s["v"] = to_bytes(m), to_bytes(v)


@roles("A")
def adam_bytes(r): model = r.model(mlp(512, 2048, 2048, 256).to(DEVICE)); fit(r, classify(r, model, (4096, 512), 256), r.optimizer(AdamBytes(model.parameters())))


@roles("A")
def lstm_words(r):
    model = r.model(nn.ModuleDict(dict(e=nn.Embedding(4000, 256), rnn=nn.LSTM(256, 384, 2, batch_first=True, dropout=0.1), head=nn.Linear(384, 4000))).to(DEVICE))

    def loss(): ids = r.input(integers(4000, many(32), 64)); return F.cross_entropy(model["head"](model["rnn"](model["e"](ids))[0]).flatten(0, 1), ids.flatten())
    fit(r, loss, adamw(r, model))


class LowRank(nn.Module):
    def __init__(self, base, rank=8): super().__init__(); self.base = base.requires_grad_(False); self.down, self.up = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x): return self.base(x) + self.up(self.down(x))


@roles("A")
def adapters_on_blocks(r):
    model = Words().requires_grad_(False)
    for b in model.blocks: b.qkv, b.up = LowRank(b.qkv), LowRank(b.up)
    r.model(model.to(DEVICE)); fit(r, next_word(r, model), adamw(r, model))


@roles("A")
def diffusion_averaged(r):
    model = r.model(UNet().to(DEVICE)); mean = [p.detach().clone() for p in model.parameters()]; r.known("parameter", "mean.", lambda: mean)
    fit(r, denoise(r, model), adamw(r, model), after=lambda: torch._foreach_lerp_(mean, [p.detach() for p in model.parameters()], 0.001))


@roles("A")
def two_optimizers_gan(r):
    make, judge = r.model(mlp(128, 1024, 2048, 784).to(DEVICE), "g."), r.model(mlp(784, 2048, 512, 1).to(DEVICE), "d."); a, b = r.optimizer(torch.optim.Adam(make.parameters(), 1e-4)), r.optimizer(torch.optim.Adam(judge.parameters(), 1e-4, betas=(0.0, 0.99)))
    for step in range(3):
        with r.hooks(): fake = make(normal(many(2048), 128)); value = F.softplus(judge(fake.detach())).mean() + F.softplus(-judge(r.input(normal(many(2048), 784)))).mean()
        if step: r.mark(f"{step}.d.forward")
        value.backward(); b.step(); b.zero_grad()
        with r.hooks(): value = F.softplus(-judge(fake)).mean()
        value.backward(); del fake, value
        if step: r.mark(f"{step}.g.backward")
        a.step(); a.zero_grad(); judge.zero_grad()


def continue_text(r, model, cache, turns=2, tokens=8, prompt=64, n=8):
    """Greedy by hand, so that the cache is in view."""
    with torch.no_grad():
        for turn in range(turns):
            c = cache(); r.cache(c); ids = r.input(integers(2000, many(n), prompt))
            for i in range(tokens):
                out = model(ids, past_key_values=c, use_cache=True); ids = out.logits[:, -1:].argmax(-1); del out
                if i in (0, tokens - 1): r.mark(f"turn{turn}.token{i}")
            del c, ids


@roles("A")
def generate_growing(r): model = r.model(llama(3).to(DEVICE).eval()); continue_text(r, model, T.DynamicCache)


class Paged:
    """Keys and values in blocks of 16 tokens; each sequence has a table of its blocks."""
    def __init__(self, blocks, layers, heads=4, width=64, dtype=torch.float32): self.k, self.v = ([torch.zeros(blocks, 16, heads, width, device=DEVICE, dtype=dtype) for _ in range(layers)] for _ in "kv"); self.free, self.table, self.length = list(range(blocks)), {}, {}

    def room(self, seq):
        n = self.length.get(seq, 0); t = self.table.setdefault(seq, [])
        if n % 16 == 0: t.append(self.free.pop())
        self.length[seq] = n + 1; return t[n // 16], n % 16

    def write(self, layer, where, k, v): b, i = where; self.k[layer][b, i] = k; self.v[layer][b, i] = v

    def read(self, layer, seqs):
        t = torch.tensor([self.table[s] for s in seqs], device=DEVICE); return self.k[layer][t].flatten(1, 2).transpose(1, 2), self.v[layer][t].flatten(1, 2).transpose(1, 2)


@roles("A")
def generate_paged(r):
    model = r.model(Words(depth=2).to(DEVICE).eval()); n = many(8); cache = Paged(512, 2); r.known("kv_cache", "k", lambda: cache.k); r.known("kv_cache", "v", lambda: cache.v)
    with torch.no_grad():
        ids = r.input(integers(2000, n))
        for token in range(24):
            where = [cache.room(s) for s in range(n)]; block, place = torch.tensor(where, device=DEVICE).T; x = model.words(ids) + model.places.weight[token]
            for i, b in enumerate(model.blocks):
                q, k, v = b.qkv(b.norm1(x)).unflatten(1, (3, 4, 64)).unbind(1); cache.write(i, (block, place), k, v); k, v = cache.read(i, range(n))
                k, v = k[:, :, :token + 1], v[:, :, :token + 1]; x = x + b.out(F.scaled_dot_product_attention(q[:, :, None], k, v).flatten(1)); x = x + b.down(F.gelu(b.up(b.norm2(x))))
            ids = model.head(model.norm(x)).argmax(-1)
            if token in (0, 15, 23): r.mark(f"token{token}")


@roles("A")
def infer_pictures(r):
    model = r.model(cnn(width=64).to(DEVICE).eval())
    with torch.inference_mode():
        for i in range(6):
            x = r.input(normal(many(64), 3, 128, 128))
            with torch.autocast(DEVICE, torch.bfloat16): out = model(x).softmax(1)
            if i in (0, 2, 5): r.mark(f"batch{i}")


@roles("A")
def checkpointed_reentrant(r):
    class Saving(Words):
        def forward(self, ids):
            x = self.words(ids) + self.places.weight[:ids.shape[1]]
            for b in self.blocks: x = checkpoint(b, x, use_reentrant=True)
            return self.head(self.norm(x))
    model = r.model(Saving(depth=4).to(DEVICE)); fit(r, next_word(r, model), adamw(r, model))


@roles("A")
def offloaded_activations(r):
    model = r.model(mlp(1024, 2048, 2048, 2048, 100).to(DEVICE)); loss = classify(r, model, (4096, 1024))

    def offloading():
        with torch.autograd.graph.save_on_cpu(pin_memory=GPU): return loss()
    fit(r, offloading, adamw(r, model))


@roles("A", late=True)
def late_words(r):
    """The recording starts before the third of six steps."""
    model = r.model(Words(depth=2).to(DEVICE)); loss, optimizer = next_word(r, model), adamw(r, model); fit(r, loss, optimizer, 2); r.start(); r.wanted = "0.forward 1.forward 1.backward 1.step 3.forward"; fit(r, loss, optimizer, 4)


@roles("A", late=True)
def late_within_a_step(r):
    """The recording starts after a forward pass and ends before the next one: no whole step is in it."""
    model = r.model(llama().to(DEVICE)); optimizer = adamw(r, model); r.wanted = ""; loss = lambda: model(input_ids=(x := r.input(integers(2000, many(16), 256))), labels=x).loss; fit(r, loss, optimizer, 2)
    with r.hooks(): value = loss()
    r.start(); r.mark("begin"); value.backward(); del value; r.mark("backward"); optimizer.step(); r.mark("step")


@roles("A", context=None)
def no_stacks(r): model = r.model(Words(depth=2).to(DEVICE)); fit(r, next_word(r, model), adamw(r, model))


@roles("A", context="alloc")
def stacks_of_allocations(r): model = r.model(cnn().to(DEVICE)); fit(r, classify(r, model, (64, 3, 64, 64)), sgd(r, model, momentum=0.9, nesterov=True))


@roles("A", want="oom")
def full_in_forward(r):
    r.wanted = "0.backward 1.forward 1.step"; model = r.model(Words().to(DEVICE)); optimizer = adamw(r, model); fit(r, next_word(r, model), optimizer, 2); r.limit(1000)
    with r.hooks(): value = next_word(r, model, 256, 512 if GPU else 64)()


# B ------------------------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, a, b, stride=1):
        super().__init__(); self.conv1, self.conv2 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False); self.norm1, self.norm2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
        self.skip = nn.Conv2d(a, b, 1, stride, bias=False) if a != b else nn.Identity()

    def forward(self, x): return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + self.skip(x), inplace=True)


def resnet(classes=50, width=48): return nn.Sequential(nn.Conv2d(3, width, 5, 2, 2), Residual(width, width), Residual(width, 2 * width, 2), Residual(2 * width, 4 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes))


def bert(layers=2, **how): return T.BertConfig(vocab_size=3000, hidden_size=256, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=1024, **how)


def gpt2(layers=2, width=256): return T.GPT2LMHeadModel(T.GPT2Config(vocab_size=2000, n_embd=width, n_layer=layers, n_head=4, n_positions=512))


def language(r, model, n=16, length=192):
    def loss(): ids = r.input(integers(2000, many(n), length)); return model(input_ids=ids, labels=ids).loss
    return loss


@roles("B")
def shadow_weights(r):
    """A running average in a dict, made after the first step, one tensor at a time."""
    model = r.model(resnet().to(DEVICE)); shadow = {}; r.known("parameter", "shadow.", lambda: shadow)

    @torch.no_grad()
    def average():
        for n, t in model.state_dict().items():
            if n not in shadow: shadow[n] = t.clone()
            elif t.is_floating_point(): shadow[n].mul_(0.99).add_(t, alpha=0.01)
            else: shadow[n].copy_(t)
    fit(r, classify(r, model, (64, 3, 96, 96), 50), r.optimizer(torch.optim.RMSprop(model.parameters(), 1e-3, momentum=0.9)), after=average)


@roles("B")
def bootstrap_views(r):
    """A momentum encoder beside the trained one."""
    online = r.model(resnet(128).to(DEVICE)); target = r.model(copy.deepcopy(online).requires_grad_(False), "target."); head = r.model(mlp(128, 512, 128).to(DEVICE), "head.")

    def loss():
        x = r.input(normal(many(64), 3, 64, 64))
        with torch.no_grad(): want = target(x.flip(3))
        return -F.cosine_similarity(head(online(x)), want).mean()

    @torch.no_grad()
    def follow():
        for a, b in zip(target.parameters(), online.parameters()): a.lerp_(b, 0.01)
    fit(r, loss, r.optimizer(torch.optim.Adam([*online.parameters(), *head.parameters()])), after=follow)


@roles("B")
def preferences_with_reference(r):
    model = r.model(gpt2().to(DEVICE)); reference = r.model(gpt2().to(DEVICE).bfloat16().eval().requires_grad_(False), "reference.")

    def score(m, ids): return m(input_ids=ids).logits[:, :-1].float().log_softmax(-1).gather(2, ids[:, 1:, None]).sum((1, 2))

    def loss():
        a, b = (r.input(integers(2000, many(8), 128)) for _ in "ab")
        with torch.no_grad(): base = score(reference, a) - score(reference, b)
        return -F.logsigmoid(0.1 * (score(model, a) - score(model, b) - base)).mean()
    fit(r, loss, adamw(r, model))


@roles("B")
def compiled_residual(r):
    model = r.model(resnet().to(DEVICE)); run = torch.compile(model, **({} if GPU else dict(backend="aot_eager"))); fit(r, classify(r, run, (64, 3, 64, 64), 50), sgd(r, model, momentum=0.9), steps=4, amp=True); r.keep = run


@roles("B")
def compiled_graph_trees(r):
    model = r.model(mlp(512, 1024, 1024, 1024, 100).to(DEVICE)); run = torch.compile(model, **(dict(mode="reduce-overhead") if GPU else dict(backend="aot_eager"))); r.wanted = "0.backward 3.forward 3.backward 3.step 5.forward"

    def step(i):
        torch.compiler.cudagraph_mark_step_begin(); x, y = r.input(normal(many(4096), 512)), integers(100, many(4096))
        with r.hooks(): value = F.cross_entropy(run(x), y)
        r.at(f"{i}.forward"); value.backward(); r.at(f"{i}.backward")
    optimizer = adamw(r, model)
    for i in range(6): step(i); optimizer.step(); r.at(f"{i}.step"); optimizer.zero_grad(set_to_none=True)
    r.keep = run


@roles("B")
def ddp_gloo_bucket(r):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    alone("gloo"); model = r.model(gpt2().to(DEVICE)); d = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4); buckets = {}

    def hook(state, bucket): buckets[bucket.index()] = weakref.ref(bucket.buffer()); return allreduce_hook(state, bucket)
    d.register_comm_hook(None, hook); r.known("bucket", "bucket", lambda: {k: b() for k, b in buckets.items()}); r.wanted = BUCKETS_KNOWN; fit(r, language(r, d), adamw(r, model), 4); r.keep = d


@roles("B")
def ddp_gloo_view_bucket(r):
    alone("gloo"); model = r.model(resnet().to(DEVICE)); d = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True); fit(r, classify(r, d, (64, 3, 64, 64), 50), sgd(r, model, momentum=0.9)); r.keep = d


@roles("B")
def flat_shards_gathered(r):
    """As FSDP 1: each block's weights are one flat parameter, made whole in bf16 for the forward pass and again for the backward pass."""
    class Sharded(nn.Module):
        def __init__(self, module):
            super().__init__(); named = list(module.named_parameters()); self.names, self.shapes = [n for n, _ in named], [p.shape for _, p in named]
            self.flat = nn.Parameter(torch.cat([p.data.flatten() for _, p in named])); self.inner = [module.to("meta")]

        def whole(self, x):
            parts = self.flat.to(torch.bfloat16).split([s.numel() for s in self.shapes]); return torch.func.functional_call(self.inner[0], {n: p.view(s) for n, p, s in zip(self.names, parts, self.shapes)}, (x,))

        def forward(self, x): return checkpoint(self.whole, x, use_reentrant=False)
    model = r.model(nn.Sequential(*[Sharded(Block(384)) for _ in range(4)]).to(DEVICE)); r.wanted = "0.backward 1.forward 1.backward 1.step 2.forward"
    fit(r, lambda: model(r.input(normal(many(16), 256, 384, dtype=torch.bfloat16))).float().square().mean(), adamw(r, model, fused=GPU))


@roles("B")
def flat_master_copy(r):
    """As ZeRO 1: weights in bf16, all in one buffer; gradients in one; the optimizer sees a copy in full precision."""
    model = gpt2(3).to(DEVICE).bfloat16(); ps = list(model.parameters()); sizes = [p.numel() for p in ps]; low = torch.cat([p.data.flatten() for p in ps]); grads = torch.zeros_like(low)
    for p, w, g in zip(ps, low.split(sizes), grads.split(sizes)): p.data, p.grad = w.view(p.shape), g.view(p.shape)
    del p, w, g; r.model(model); master = nn.Parameter(low.float()); r.known("master", "master", master.data); r.known("gradient", "master", lambda: [master.grad]); optimizer = r.optimizer(torch.optim.Adam([master], 1e-4)); loss = language(r, model)
    for step in range(3):
        with r.hooks(): value = loss()
        r.at(f"{step}.forward"); value.backward(); del value; r.at(f"{step}.backward"); master.grad = grads.float(); optimizer.step(); low.copy_(master.data); r.at(f"{step}.step"); master.grad = None; grads.zero_()


@roles("B")
def fsdp2_mixed(r):
    from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
    from torch.distributed.device_mesh import init_device_mesh
    alone("nccl"); mesh, policy = init_device_mesh(DEVICE, (1,)), MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32); model = llama(3).to(DEVICE)
    for layer in model.model.layers: fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, mp_policy=policy); r.model(model); fit(r, language(r, model), r.optimizer(torch.optim.AdamW(model.parameters(), 1e-3)))


@roles("B")
def adam_over_a_dict(r):
    """Weights, gradients and moments in dicts; gradients by torch.func; updates that make new tensors."""
    base = Words(depth=2).to(DEVICE); w = {n: p.detach().clone() for n, p in base.named_parameters()}; base.to("meta"); m, v, g = {n: torch.zeros_like(t) for n, t in w.items()}, {n: torch.zeros_like(t) for n, t in w.items()}, {}
    for role, name, get in (("parameter", "w.", lambda: w), ("optimizer", "m.", lambda: m), ("optimizer", "v.", lambda: v), ("gradient", "g.", lambda: g)): r.known(role, name, get)

    def loss(w, ids): return F.cross_entropy(torch.func.functional_call(base, w, (ids,))[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    for step in range(3):
        g = torch.func.grad(loss)(w, r.input(integers(2000, many(16), 256))); r.at(f"{step}.backward"); m = {n: 0.9 * m[n] + 0.1 * g[n] for n in g}; v = {n: 0.99 * v[n] + 0.01 * g[n].square() for n in g}
        w = {n: w[n] - 1e-3 * m[n] / (v[n].sqrt() + 1e-8) for n in g}; r.at(f"{step}.step"); g = {}; r.at(f"{step}.forward")


@roles("B")
def adam_capturable(r): model = r.model(gpt2().to(DEVICE)); fit(r, language(r, model), r.optimizer(torch.optim.Adam(model.parameters(), 1e-3, capturable=GPU)))


@roles("B")
def several_kinds_of_steps(r):
    """Adagrad for the embeddings, a fused SGD for the rest, one by one."""
    model = r.model(gpt2().to(DEVICE)); slow, rest = [p for n, p in model.named_parameters() if "wte" in n or "wpe" in n], [p for n, p in model.named_parameters() if "wte" not in n and "wpe" not in n]
    a, b = r.optimizer(torch.optim.Adagrad(slow, foreach=False)), r.optimizer(torch.optim.SGD(rest, 0.01, momentum=0.9, fused=True))

    class Both:
        def step(self): a.step(); b.step()
        def zero_grad(self): a.zero_grad(); b.zero_grad(set_to_none=False)
    fit(r, language(r, model), Both())


class LionBytes(torch.optim.Optimizer):
    """One moment in eight bits, rounded over rows."""
    def __init__(self, params, lr=1e-4): super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            s, rows = self.state[p], p.grad.reshape(len(p), -1)
            if not s: s["moment"], s["scale"] = torch.full(rows.shape, 128, dtype=torch.uint8, device=p.device), torch.ones(len(p), 1, device=p.device)
            m = (s["moment"].float() - 128) * s["scale"]; p.sub_((0.9 * m + 0.1 * rows).sign_().view_as(p), alpha=self.param_groups[0]["lr"]); m.mul_(0.99).add_(rows, alpha=0.01)
            s["scale"].copy_(m.abs().amax(1, keepdim=True).clamp_min_(1e-12) / 127); s["moment"].copy_((m / s["scale"] + 128).round_())


@roles("B")
def lion_bytes(r): model = r.model(resnet(width=64).to(DEVICE)); fit(r, classify(r, model, (64, 3, 64, 64), 50), r.optimizer(LionBytes(model.parameters())))


@roles("B")
def gru_both_ways(r):
    class Tagger(nn.Module):
        def __init__(self): super().__init__(); self.rnn, self.out = nn.GRU(80, 256, 3, bidirectional=True), nn.Linear(512, 60)
        def forward(self, x): return self.out(self.rnn(x)[0])
    model = r.model(Tagger().to(DEVICE)); fit(r, lambda: F.cross_entropy(model(r.input(normal(64, many(64), 80))).flatten(0, 1), integers(60, 64 * many(64))), sgd(r, model, momentum=0.9))


class Lora(nn.Linear):
    """A frozen matrix in bf16 and, beside it, two thin ones in full precision."""
    def __init__(self, old, rank=16):
        nn.Module.__init__(self); self.in_features, self.out_features, self.weight, self.bias = old.in_features, old.out_features, nn.Parameter(old.weight.data.bfloat16(), requires_grad=False), None
        self.a, self.b = nn.Parameter(torch.randn(rank, old.in_features) / 64), nn.Parameter(torch.zeros(old.out_features, rank))

    def forward(self, x): return F.linear(x, self.weight) + (F.linear(F.linear(x.float(), self.a), self.b)).to(x.dtype)


@roles("B")
def adapters_on_llama(r):
    model = llama(3).bfloat16().requires_grad_(False)
    for layer in model.model.layers:
        for n in ("q_proj", "k_proj", "v_proj", "o_proj"): setattr(layer.self_attn, n, Lora(getattr(layer.self_attn, n)))
    r.model(model.to(DEVICE)); fit(r, language(r, model), adamw(r, model), parts=2)


@roles("B")
def diffusion_in_latents(r):
    """A frozen encoder, a U-Net under autocast, and an average of its weights as a second model."""
    encode = r.model(nn.Sequential(nn.Conv2d(3, 64, 4, 4), nn.SiLU(), nn.Conv2d(64, 3, 3, 1, 1)).to(DEVICE).eval().requires_grad_(False), "encode."); model = r.model(UNet(48).to(DEVICE)); mean = r.model(copy.deepcopy(model).requires_grad_(False), "mean.")

    def loss():
        with torch.no_grad(): z = encode(r.input(normal(many(16), 3, 128, 128)))
        t, e = torch.rand(len(z), device=DEVICE), torch.randn_like(z); return F.mse_loss(model(z * (1 - t)[:, None, None, None] + e * t[:, None, None, None], t).float(), e - z)

    @torch.no_grad()
    def average(): torch._foreach_mul_(ps := list(mean.parameters()), 0.99); torch._foreach_add_(ps, list(model.parameters()), alpha=0.01)
    fit(r, loss, adamw(r, model), after=average, amp=True)


@roles("B")
def gan_of_pictures(r):
    up = lambda a, b: [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ReLU()]; down = lambda a, b: [nn.utils.parametrizations.spectral_norm(nn.Conv2d(a, b, 4, 2, 1)), nn.LeakyReLU(0.2)]
    make = r.model(nn.Sequential(nn.Linear(64, 128 * 16), nn.Unflatten(1, (128, 4, 4)), *up(128, 64), *up(64, 32), nn.ConvTranspose2d(32, 3, 4, 2, 1), nn.Tanh()).to(DEVICE), "g."); judge = r.model(nn.Sequential(*down(3, 64), *down(64, 128), nn.Flatten(), nn.Linear(128 * 64, 1)).to(DEVICE), "d.")
    a, b = r.optimizer(torch.optim.RMSprop(make.parameters(), 1e-4)), r.optimizer(torch.optim.RMSprop(judge.parameters(), 1e-4))
    for step in range(4):
        for critic in range(2):
            with torch.no_grad(): fake = make(normal(many(128), 64))
            with r.hooks(): value = judge(fake).mean() - judge(r.input(normal(many(128), 3, 32, 32))).mean()
            value.backward(); del value, fake
            if step == 2 and critic: r.mark("2.d.backward")
            b.step(); b.zero_grad()
        judge.requires_grad_(False)
        with r.hooks(): value = -judge(make(normal(many(128), 64))).mean()
        if step in (0, 3): r.mark(f"{step}.g.forward")
        value.backward(); del value; judge.requires_grad_(True); a.step()
        if step == 1: r.mark("1.g.step")
        a.zero_grad()


@roles("B")
def generate_static(r):
    model = r.model(llama(3).to(DEVICE).bfloat16().eval()); continue_text(r, model, lambda: T.StaticCache(config=model.config, max_cache_len=256), tokens=10)


@roles("B")
def generate_growing_gpt2(r): model = r.model(gpt2(3).to(DEVICE).eval()); continue_text(r, model, lambda: T.DynamicCache(config=model.config), turns=3, tokens=6, prompt=96)


@roles("B")
def serve_paged_pool(r):
    """One pool for all layers, keys and values; requests come and go."""
    model = r.model(Words(depth=2).to(DEVICE).bfloat16().eval()); pool = torch.zeros(2, 2, 256, 16, 4, 64, device=DEVICE, dtype=torch.bfloat16); r.known("kv_cache", "pool", pool); free = list(range(256)); running = []
    with torch.inference_mode():
        for turn in range(20):
            while len(running) < many(8) and len(free) > 8: running.append(dict(blocks=[], n=0, goal=6 + 5 * (turn % 3), word=turn))
            for q in running:
                if q["n"] % 16 == 0: q["blocks"].append(free.pop())
            block, place = (torch.tensor(t, device=DEVICE) for t in ([q["blocks"][-1] for q in running], [q["n"] % 16 for q in running])); most = max(len(q["blocks"]) for q in running)
            table = torch.tensor([q["blocks"] + [0] * (most - len(q["blocks"])) for q in running], device=DEVICE); past = torch.tensor([q["n"] for q in running], device=DEVICE); mask = (torch.arange(16 * most, device=DEVICE) <= past[:, None])[:, None, None]
            x = model.words(torch.tensor([q["word"] for q in running], device=DEVICE)) + model.places(past)
            for i, b in enumerate(model.blocks):
                q_, k, v = b.qkv(b.norm1(x)).unflatten(1, (3, 4, 64)).unbind(1); pool[i, 0, block, place], pool[i, 1, block, place] = k, v; k, v = (pool[i, j][table].flatten(1, 2).transpose(1, 2) for j in (0, 1))
                x = x + b.out(F.scaled_dot_product_attention(q_[:, :, None], k, v, attn_mask=mask).flatten(1)); x = x + b.down(F.gelu(b.up(b.norm2(x))))
            for q, word in zip(running, model.head(model.norm(x)).argmax(-1).tolist()): q["n"] += 1; q["word"] = word
            for q in [q for q in running if q["n"] >= q["goal"]]: free += q["blocks"]; running.remove(q)
            if turn in (0, 8, 19): r.mark(f"turn{turn}")


@roles("B")
def embed_documents(r):
    model = r.model(T.BertModel(bert(3)).to(DEVICE).bfloat16().eval()); kept = []
    with torch.no_grad():
        for i in range(5):
            ids = r.input(integers(3000, many(32), 64 + 32 * i)); kept.append(F.normalize(model(ids).last_hidden_state.mean(1).float(), dim=1)); del ids
            if i in (0, 2, 4): r.mark(f"batch{i}")


@roles("B")
def checkpointed_pieces(r):
    """Transformers' own checkpointing, two micro-batches a step."""
    r.wanted = "1.forward 1.backward 2.forward"; model = r.model(T.BertForSequenceClassification(bert(4)).to(DEVICE)); model.train(); model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    fit(r, lambda: model(input_ids=r.input(integers(3000, many(16), 192)), labels=integers(2, many(16))).loss / 2, adamw(r, model), parts=2)


@roles("B")
def offloaded_in_part(r):
    """Only the convolutions' activations go to the CPU."""
    model = r.model(resnet().to(DEVICE))

    def loss():
        x = r.input(normal(many(64), 3, 96, 96))
        with torch.autograd.graph.save_on_cpu(): x = model[:3](x)
        return F.cross_entropy(model[3:](x), integers(50, many(64)))
    fit(r, loss, r.optimizer(torch.optim.NAdam(model.parameters(), 1e-3)))


@roles("B", late=True)
def late_residual(r):
    model = r.model(resnet().to(DEVICE)); loss, optimizer = classify(r, model, (64, 3, 64, 64), 50), adamw(r, model); r.wanted = ""; fit(r, loss, optimizer, 3); r.start(); r.wanted = "0.backward 1.forward 1.step 2.forward"; fit(r, loss, optimizer, 3)


@roles("B", late=True)
def late_in_backward(r):
    """The recording starts between forward and backward of the second step, and the third's forward pass is the last in it."""
    model = r.model(gpt2().to(DEVICE)); optimizer = sgd(r, model, momentum=0.9); loss = language(r, model); r.wanted = ""; fit(r, loss, optimizer, 1)
    with r.hooks(): value = loss()
    r.start(); value.backward(); del value; r.mark("backward"); optimizer.step(); r.mark("step"); optimizer.zero_grad()
    with r.hooks(): r.keep = loss()
    r.mark("forward")


@roles("B", late=True)
def late_generation(r):
    model = r.model(gpt2(3).to(DEVICE).eval()); on, r.on = r.on, False; continue_text(r, model, T.DynamicCache, turns=1, tokens=2); r.start(); continue_text(r, model, T.DynamicCache)


@roles("B", context=None)
def no_stacks_averaged(r):
    model = r.model(resnet().to(DEVICE)); mean = r.model(torch.optim.swa_utils.AveragedModel(model), "mean."); fit(r, classify(r, model, (64, 3, 64, 64), 50), adamw(r, model), after=lambda: mean.update_parameters(model))


@roles("B", context="state")
def stacks_of_the_state(r): model = r.model(gpt2().to(DEVICE)); fit(r, language(r, model), adamw(r, model))


@roles("B", enabled="state", context="state")
def only_the_state(r): r.wanted = "2.forward"; model = r.model(Words(depth=2).to(DEVICE)); loss, optimizer = next_word(r, model), adamw(r, model); fit(r, loss, optimizer, 2); r.keep = hold(r, loss)


def hold(r, loss):
    """A forward pass whose graph stays."""
    with r.hooks(): value = loss()
    r.mark("end"); return value


@roles("B", want="oom")
def full_in_the_optimizer(r):
    """Weights and gradients fit; the moments of the first step do not."""
    r.wanted = "0.forward 0.backward"; r.limit(225); model = r.model(mlp(1024, 2048, 2048, 2048, 1024, 100).to(DEVICE)); fit(r, classify(r, model, (128, 1024)), adamw(r, model, foreach=False), 1)


@roles("B", want="oom")
def full_in_backward(r):
    r.wanted = "0.backward 0.step"; model = r.model(resnet(width=64).to(DEVICE)); optimizer = sgd(r, model, momentum=0.9); fit(r, classify(r, model, (32, 3, 64, 64), 50), optimizer, 1)
    with r.hooks(): value = classify(r, model, (256, 3, 128, 128), 50)()
    r.mark("forward"); torch.cuda.empty_cache(); r.limit((torch.cuda.memory_reserved() + 20e6) / 1e6); value.backward()


if __name__ == "__main__":
    run = recording.main(__file__)
    with run: run.result = run.program(*run.arguments)
