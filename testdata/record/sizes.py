"""The same program at several sizes: three training steps from a fresh process at each batch and length, and the largest batch that fits.

    python sizes.py OUT [PROGRAM | PROGRAM.bB_sS.CONF | PROGRAM.largest.CONF]...      on a GPU; see recording.py
    DEVICE=cpu python sizes.py OUT gpt2.b2_s64.default ...                           only tries whether it runs

Writes PROGRAM.bB_sS.CONF.pickle.xz with .oracle.json (the allocator's own counters after each step), and PROGRAM.largest.CONF.json: the
largest batch at `length` that really ran three steps under `limit` bytes, found by bisection in fresh processes, with those runs
(FITS or OOM, and how often the allocator had to retry). Sizes are SIZES; what `length` means is said beside each program.
"""
import json, math, os, re, sys, time
import recording
from recording import DEVICE
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
import transformers as T

PROBES, TARGETS = [(2, 64), (2, 128), (3, 192)], [(8, 256), (16, 512), (4, 1024)]
SETTINGS = {"default": "", "expandable": "expandable_segments:True"}
LIMIT = 4_000_000_000
BUILD = {}


class SizesRun(recording.Run):
    """Stops after three steps; at the end of each the allocator's counters are noted."""

    def __enter__(self):
        if DEVICE == "cuda" and self.about.settings: torch.cuda.memory._set_allocator_settings(self.about.settings)
        self.marks, self.arguments = [], (self,); super().__enter__(); self.mark("recording")

    def mark(self, label):
        if DEVICE != "cuda": return
        torch.cuda.synchronize(); now = time.time_ns(); s = torch.cuda.memory_stats(); time.sleep(0.002); m = dict(label=label, time_ns=now)
        for k in ("allocated", "active", "reserved", "requested"): m[k], m[k + "_peak"] = s.get(f"{k}_bytes.all.current", 0), s.get(f"{k}_bytes.all.peak", 0)
        for k, n in dict(segments="segment.all.current", ooms="num_ooms", retries="num_alloc_retries", inactive_split="inactive_split_bytes.all.current", device_alloc="num_device_alloc", device_free="num_device_free").items(): m[k] = s.get(n, 0)
        self.marks.append(m)

    def write(self, report):
        self.mark("dump"); snapshot = torch.cuda.memory._snapshot(); torch.cuda.memory._record_memory_history(enabled=None); recording.neutral(snapshot); p = self.about
        oracle = dict(program=p.program, variant="base", batch=p.size[0], length=p.size[1], config=p.config, alloc_conf=p.settings, oom=report["oom"], torch=torch.__version__, total=torch.cuda.get_device_properties(0).total_memory, marks=self.marks)
        data = recording.lzma.compress(recording.pickle.dumps(snapshot, protocol=4), preset=9 | recording.lzma.PRESET_EXTREME)
        report.update(events=len(snapshot["device_traces"][0]), kB=round(len(data) / 1000, 1), lines_seen=[], pending=0, notes=[])
        if len(self.marks) != 5: report["notes"].append("did not take three steps")
        if snapshot.get("allocator_settings", {}).get("expandable_segments", False) != bool(p.settings): report["notes"].append("other settings")
        with open(self.base + ".pickle.xz", "wb") as f: f.write(data)
        with open(self.base + ".oracle.json", "w") as f: json.dump(oracle, f)


def bisect(about, out, script):
    """The largest batch under the limit; runs that were made before are not made again."""
    began, runs, memory = time.time(), {}, about.base(out, "") + ".runs.json"
    if os.path.exists(memory): runs = json.load(open(memory))

    def fits(n):
        if str(n) not in runs:
            if time.time() > float(os.environ["RECORD_END"]): raise TimeoutError
            p = register_one(about.program, (n, about.length), about.config, f".largest.{about.config}.b{n}", "tries"); r = recording.one(p, "good", LIMIT, out, False, script)
            if r["error"]: raise RuntimeError(f"batch {n}: {r['error']}")
            runs[str(n)] = ["OOM" if r["oom"] else "FITS", str(r["retries"])]
            with open(memory, "w") as f: json.dump(runs, f)
        return runs[str(n)][0] == "FITS"
    r = dict(name=about.name, how="good", error="", oom=False, retries=0, limit=LIMIT)
    try:
        good, bad = 0, 16
        while fits(bad): good, bad = bad, 2 * bad
        while bad - good > 1:
            n = (good + bad) // 2
            if fits(n): good = n
            else: bad = n
    except TimeoutError: return [dict(r, error=f"NOT FINISHED, start again: {runs}")]
    with open(about.base(out, "") + ".json", "w") as f: json.dump(dict(program=about.program, config=about.config, length=about.length, limit=LIMIT, largest=good, runs=runs), f)
    return [dict(r, seconds=round(time.time() - began, 1), note=f"largest {good}, {len(runs)} runs", notes=[] if good else ["nothing fits"])]


def register_one(program, size, config, name, folder=""):
    build, scale = BUILD[program]
    p = recording.Program(lambda run: train(run, build, size), "healthy"); p.name = program + name; p.program, p.size, p.config, p.settings = program, size, config, SETTINGS[config]
    p.run, p.suffix, p.folder, p.largest = SizesRun, ".oracle.json", folder, 100; recording.PROGRAMS[p.name] = p; return p


def sized(length):
    """Registers `build(batch, length)`, which gives the model, its optimizer and a function that makes a batch and its loss (or the whole step's).
    length: at which the largest batch is looked for."""
    def register(f): BUILD[f.__name__] = f, length; return f
    return register


def register_all():
    for program, (build, length) in BUILD.items():
        for config in SETTINGS:  # these take longest, so they come first
            p = recording.Program(build, "healthy"); p.name, p.program, p.config, p.length, p.conduct, p.suffix = f"{program}.largest.{config}", program, config, length, bisect, ".json"; recording.PROGRAMS[p.name] = p
    for program in BUILD:
        for b, s in PROBES + TARGETS:
            for config in SETTINGS: register_one(program, (b, s), config, f".b{b}_s{s}.{config}")
    for a in sys.argv:  # a process of a bisection that was not forked
        if m := re.fullmatch(r"(\w+)\.largest\.(\w+)\.b(\d+)", a): register_one(m[1], (int(m[3]), BUILD[m[1]][1]), m[2], f".largest.{m[2]}.b{m[3]}", "tries")


def train(run, build, size):
    model, optimizer, loss = build(*size); model.train(); r = run
    for step in range(3):
        value = loss()
        if value is not None: value.backward(); del value
        optimizer.step(); optimizer.zero_grad(); r.mark(f"step{step}")
    r.keep = model, optimizer


def normal(*shape): return torch.randn(*shape, device=DEVICE)


def integers(n, *shape): return torch.randint(0, n, shape, device=DEVICE)


def language(model, b, s, vocab):
    def loss(): ids = integers(vocab, b, s); return model(input_ids=ids, labels=ids).loss
    return loss


# length: tokens -----------------------------------------------------------------------------------------------------


@sized(512)
def gpt2(b, s): m = T.GPT2LMHeadModel(T.GPT2Config(vocab_size=5000, n_embd=320, n_layer=3, n_head=5, n_positions=1024)).to(DEVICE); return m, torch.optim.AdamW(m.parameters(), 1e-4), language(m, b, s, 5000)


@sized(512)
def llama_gqa(b, s):
    """Four heads share each key; no keys are kept; SGD with momentum."""
    m = T.LlamaForCausalLM(T.LlamaConfig(vocab_size=6016, hidden_size=384, intermediate_size=1040, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2, use_cache=False)).to(DEVICE)
    return m, torch.optim.SGD(m.parameters(), 1e-3, momentum=0.9), language(m, b, s, 6016)


@sized(512)
def qwen_bf16(b, s):
    """All in bf16, tied embeddings, norms on queries and keys, fused AdamW."""
    m = T.Qwen3ForCausalLM(T.Qwen3Config(vocab_size=8000, hidden_size=256, intermediate_size=896, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=80, tie_word_embeddings=True)).to(DEVICE).bfloat16()
    return m, torch.optim.AdamW(m.parameters(), 1e-4, fused=True), language(m, b, s, 8000)


@sized(512)
def t5_gated(b, s):
    """The answer has half the length of the question."""
    m = T.T5ForConditionalGeneration(T.T5Config(vocab_size=4000, d_model=256, d_kv=32, d_ff=640, num_layers=2, num_heads=8, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)).to(DEVICE)
    return m, torch.optim.Adam(m.parameters(), 1e-4), lambda: m(input_ids=integers(4000, b, s), labels=integers(4000, b, s // 2)).loss


@sized(512)
def opt_autocast(b, s):
    """Under autocast, with a scheduler's and a clipper's work."""
    m = T.OPTForCausalLM(T.OPTConfig(vocab_size=7000, hidden_size=288, ffn_dim=1152, num_hidden_layers=3, num_attention_heads=6, max_position_embeddings=1100, word_embed_proj_dim=288)).to(DEVICE); inner = torch.optim.AdamW(m.parameters(), 1e-4, foreach=False)

    def loss():
        ids = integers(7000, b, s)
        with torch.autocast(DEVICE, torch.bfloat16): value = m(input_ids=ids, labels=ids).loss
        value.backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    return m, inner, loss


@sized(512)
def bert_ckpt_accum(b, s):
    """Checkpointed, two micro-batches of b a step."""
    m = T.BertForSequenceClassification(T.BertConfig(vocab_size=5000, hidden_size=320, num_hidden_layers=4, num_attention_heads=5, intermediate_size=1280, max_position_embeddings=1024)).to(DEVICE)
    m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))

    def loss():
        for part in range(2): (m(input_ids=integers(5000, b, s), labels=integers(2, b)).loss / 2).backward()
    return m, torch.optim.AdamW(m.parameters(), 1e-4), loss


@sized(512)
def albert_span(b, s):
    """One layer used four times; a mask; an answer's begin and end."""
    m = T.AlbertForQuestionAnswering(T.AlbertConfig(vocab_size=6000, embedding_size=96, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1024, max_position_embeddings=1024)).to(DEVICE)
    return m, torch.optim.Adamax(m.parameters(), 1e-4), lambda: m(input_ids=integers(6000, b, s), attention_mask=(torch.arange(s, device=DEVICE) < s - 3).long().expand(b, s), start_positions=integers(s, b), end_positions=integers(s, b)).loss


@sized(512)
def lstm_reviews(b, s):
    class Classifier(nn.Module):
        def __init__(self): super().__init__(); self.e, self.rnn, self.out = nn.Embedding(10000, 200), nn.LSTM(200, 256, 2, batch_first=True, dropout=0.2, bidirectional=True), nn.Linear(512, 5)
        def forward(self, ids): return self.out(self.rnn(self.e(ids))[0].max(1).values)
    m = Classifier().to(DEVICE); return m, torch.optim.RMSprop(m.parameters(), 1e-3), lambda: F.cross_entropy(m(integers(10000, b, s)), integers(5, b))


@sized(512)
def hand_made_decoder(b, s):
    """Attention without a fused kernel, norms by hand, two losses; nothing of a library."""
    class Layer(nn.Module):
        def __init__(self, w=256, heads=4): super().__init__(); self.heads, self.scale = heads, nn.Parameter(torch.ones(2, w)); self.qkv, self.out, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((w, 3 * w), (w, w), (w, 4 * w), (2 * w, w)))
        def forward(self, x, mask):
            norm = lambda x, i: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale[i]
            q, k, v = self.qkv(norm(x, 0)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4); a = F.dropout((q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask).softmax(-1), 0.1)
            x = x + self.out((a @ v).transpose(1, 2).flatten(2)); g, u = self.up(norm(x, 1)).chunk(2, -1); return x + self.down(F.silu(g) * u)

    class Decoder(nn.Module):
        def __init__(self): super().__init__(); self.e, self.layers, self.head = nn.Embedding(3000, 256), nn.ModuleList(Layer() for _ in range(3)), nn.Linear(256, 3000)
        def forward(self, ids):
            x, mask = self.e(ids), torch.full((ids.shape[1],) * 2, -1e9, device=DEVICE).triu(1)
            for l in self.layers: x = l(x, mask)
            return self.head(x)
    m = Decoder().to(DEVICE)

    def loss(): ids = integers(3000, b, s); out = m(ids); return F.cross_entropy(out[:, :-1].transpose(1, 2), ids[:, 1:]) + 1e-4 * out.logsumexp(-1).square().mean()
    return m, torch.optim.AdamW(m.parameters(), 1e-4), loss


# length: how many things a user has seen ----------------------------------------------------------------------------


@sized(512)
def recommender(b, s):
    """Bags of the things seen, two more fields, products of all pairs; b counts hundreds of users."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__(); self.seen, self.seq = nn.EmbeddingBag(50000, 64, mode="mean"), nn.Embedding(50000, 32); self.fields = nn.ModuleList(nn.Embedding(n, 64) for n in (1000, 200)); self.dense = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 64)); self.weigh = nn.Linear(32, 1); self.top = nn.Sequential(nn.Linear(64 + 32 + 6, 256), nn.ReLU(), nn.Linear(256, 1))
        def forward(self, ids, fields, dense):
            e = self.seq(ids[:len(ids) // 4]); pooled = (self.weigh(e).softmax(1) * e).sum(1).repeat_interleave(4, 0); d = self.dense(dense); x = torch.stack([self.seen(ids), d] + [f(i) for f, i in zip(self.fields, fields.T)], 1)
            i, j = torch.triu_indices(4, 4, 1, device=x.device); return self.top(torch.cat([d, pooled, (x @ x.transpose(1, 2))[:, i, j]], 1))[:, 0]
    m, n = Net().to(DEVICE), 100 * b; return m, torch.optim.Adagrad(m.parameters(), 0.01), lambda: F.binary_cross_entropy_with_logits(m(integers(50000, n, s), integers(200, n, 2), normal(n, 13)), torch.rand(n, device=DEVICE))


# length: a picture's side -------------------------------------------------------------------------------------------


@sized(256)
def vit_pictures(b, s):
    m = T.ViTForImageClassification(T.ViTConfig(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=768, image_size=s, patch_size=16, num_labels=100)).to(DEVICE)
    return m, torch.optim.AdamW(m.parameters(), 1e-4), lambda: m(pixel_values=normal(b, 3, s, s), labels=integers(100, b)).loss


@sized(256)
def cnn(b, s):
    block = lambda i, o, k: [nn.Conv2d(i, o, 3, k, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True)]
    m = nn.Sequential(*block(3, 24, 2), *block(24, 48, 2), *block(48, 48, 1), *block(48, 96, 2), *block(96, 96, 1), nn.MaxPool2d(2), *block(96, 192, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(192, 200)).to(DEVICE)
    return m, torch.optim.SGD(m.parameters(), 0.05, momentum=0.9, weight_decay=1e-4, nesterov=True), lambda: F.cross_entropy(m(normal(b, 3, s, s)), integers(200, b), label_smoothing=0.1)


@sized(256)
def diffusion_unet(b, s):
    """Attention at an eighth of the side; an average of the weights."""
    class Res(nn.Module):
        def __init__(self, i, o): super().__init__(); self.a, self.b, self.n1, self.n2, self.t = nn.Conv2d(i, o, 3, 1, 1), nn.Conv2d(o, o, 3, 1, 1), nn.GroupNorm(8, i), nn.GroupNorm(8, o), nn.Linear(64, o); self.skip = nn.Conv2d(i, o, 1)
        def forward(self, x, t): return self.skip(x) + self.b(F.silu(self.n2(self.a(F.silu(self.n1(x))) + self.t(t)[:, :, None, None])))

    class UNet(nn.Module):
        def __init__(self, w=16):
            super().__init__(); self.enter, self.leave = nn.Conv2d(3, w, 3, 1, 1), nn.Conv2d(w, 3, 3, 1, 1); ws = [w, w, 2 * w, 4 * w]; self.qkv, self.out = nn.Linear(4 * w, 12 * w), nn.Linear(4 * w, 4 * w)
            self.down, self.up = nn.ModuleList(Res(i, o) for i, o in zip(ws, ws[1:])), nn.ModuleList(Res(2 * o, i) for i, o in reversed(list(zip(ws, ws[1:])))); self.middle = Res(4 * w, 4 * w)
        def forward(self, x, t):
            t = torch.cat([f(t[:, None] * torch.exp(-torch.arange(32, device=DEVICE) / 4)) for f in (torch.sin, torch.cos)], 1); x = self.enter(x); kept = []
            for d in self.down: x = d(x, t); x = F.avg_pool2d(x, 2); kept.append(x)
            q, k, v = self.qkv(x.flatten(2).transpose(1, 2)).unflatten(2, (3, 2, -1)).permute(2, 0, 3, 1, 4); x = self.middle(x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)).transpose(1, 2).unflatten(2, x.shape[2:]), t)
            for u in self.up: x = F.interpolate(u(torch.cat([x, kept.pop()], 1), t), scale_factor=2)
            return self.leave(x)
    m = UNet().to(DEVICE); mean = [p.detach().clone() for p in m.parameters()]; inner = torch.optim.AdamW(m.parameters(), 1e-4)

    def loss():
        torch._foreach_lerp_(mean, list(p.detach() for p in m.parameters()), 0.01); x, e, t = normal(b, 3, s, s), normal(b, 3, s, s), torch.rand(b, device=DEVICE); a = t[:, None, None, None]; return F.mse_loss(m(x * (1 - a) + e * a, t), e - x)
    return m, inner, loss


if __name__ == "__main__":
    register_all()
    run = recording.main(__file__)
    with run: run.result = run.program(*run.arguments)
