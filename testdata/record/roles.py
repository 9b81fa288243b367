"""Records what memory was for: at marks, the address, bytes, role and name of every storage that PyTorch knows a role of.
Usage: roles.py OUT_DIR [CASE...] (needs a GPU and transformers; each case runs in a process of its own).

Writes CASE.pickle and CASE.roles.json, as roles_check.py reads them.
"""
import json, os, subprocess, sys, time, weakref

CASES = "bert_accum vit_checkpoint t5_adafactor lora fsdp2 moe_generate late_inference state_only accum_late cpp_stacks sgd_plain".split()


class Recorder:
    def __init__(self, torch):
        self.torch, self.marks, self.models, self.optimizers, self.caches, self.inputs, self.saved = torch, [], [], [], [], [], []

    def hooks(self):
        def pack(t):
            if t.is_cuda: self.saved.append(weakref.ref(t))
            return t
        return self.torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)

    def mark(self, label):
        self.torch.cuda.synchronize(); now = time.time_ns(); roles = {}

        def add(t, role, name):
            t = getattr(t, "_local_tensor", t)
            if t is None or not t.is_cuda: return
            s = t.untyped_storage()
            if s.nbytes(): roles.setdefault(s.data_ptr(), [s.data_ptr(), s.nbytes(), role, name])
        for m in self.models:
            for n, p in m.named_parameters(): add(p.data, "parameter", n)
            for n, b in m.named_buffers(): add(b, "buffer", n)
            for n, p in m.named_parameters():
                if p.grad is not None: add(p.grad, "gradient", n)
        for o in self.optimizers:
            for state in o.state.values():
                for k, v in state.items():
                    if self.torch.is_tensor(v): add(v, "optimizer", k)
        for c in self.caches:
            for i, layer in enumerate(getattr(c, "layers", [])):
                add(getattr(layer, "keys", None), "kv_cache", f"{i}.keys"); add(getattr(layer, "values", None), "kv_cache", f"{i}.values")
        for t in self.inputs: add(t, "input", "input")
        self.saved = [r for r in self.saved if r() is not None]
        for r in self.saved: add(r(), "activation", "saved")
        self.marks.append(dict(label=label, time_ns=now, roles=list(roles.values())))


def start(torch, **how):
    torch.cuda.memory._record_memory_history(**{**dict(context="all", stacks="python", max_entries=1_000_000), **how})


def llama(T, layers=4):
    return T.LlamaForCausalLM(T.LlamaConfig(vocab_size=8000, hidden_size=384, intermediate_size=1024, num_hidden_layers=layers, num_attention_heads=6, num_key_value_heads=6))


def train(torch, r, model, optimizer, batch, steps=3, accumulate=1, late=0, how={}):
    if not late: start(torch, **how)
    model = model().cuda(); r.models.append(model); model.train()
    opt = optimizer([p for p in model.parameters() if p.requires_grad]); r.optimizers.append(opt)
    for step in range(steps + late):
        if late and step == late: start(torch, **how)
        on = step >= late
        for micro in range(accumulate):
            b = batch(); r.inputs = list(b.values())
            with r.hooks(): out = model(**b); loss = out.loss if hasattr(out, "loss") else out
            if on: r.mark(f"step{step}.{micro}.forward")
            (loss / accumulate).backward(); del out, loss
            if on: r.mark(f"step{step}.{micro}.backward")
        opt.step()
        if on: r.mark(f"step{step}.optimizer")
        opt.zero_grad(set_to_none=True)


def text(torch, vocab=8000, n=4, length=256):
    def make():
        x = torch.randint(0, vocab, (n, length), device="cuda"); return dict(input_ids=x, labels=x)
    return make


def bert_accum(torch, r):
    import transformers as T
    c = T.BertConfig(vocab_size=8000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)
    train(torch, r, lambda: T.BertForMaskedLM(c), lambda p: torch.optim.AdamW(p, lr=1e-4), text(torch), accumulate=3)


def vit_checkpoint(torch, r):
    import transformers as T
    c = T.ViTConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, image_size=96, num_labels=100)

    def model():
        m = T.ViTForImageClassification(c); m.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False)); return m
    train(torch, r, model, lambda p: torch.optim.AdamW(p, lr=1e-4), lambda: dict(pixel_values=torch.randn(16, 3, 96, 96, device="cuda"), labels=torch.randint(0, 100, (16,), device="cuda")))


def t5_adafactor(torch, r):
    import transformers as T
    c = T.T5Config(vocab_size=8000, d_model=384, d_ff=1024, num_layers=3, num_heads=6, d_kv=64, decoder_start_token_id=0)
    train(torch, r, lambda: T.T5ForConditionalGeneration(c), lambda p: torch.optim.Adafactor(p, lr=1e-3), text(torch, length=128))


def lora(torch, r):
    import transformers as T
    nn = torch.nn

    class Adapted(nn.Module):
        def __init__(self, base, rank=8):
            super().__init__(); self.base = base; self.a = nn.Linear(base.in_features, rank, bias=False); self.b = nn.Linear(rank, base.out_features, bias=False)

        def forward(self, x): return self.base(x) + self.b(self.a(x))

    def model():
        m = llama(T)
        for p in m.parameters(): p.requires_grad_(False)
        for layer in m.model.layers:
            layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj); layer.self_attn.v_proj = Adapted(layer.self_attn.v_proj)
        return m.bfloat16()
    train(torch, r, model, lambda p: torch.optim.AdamW(p, lr=1e-4), text(torch))


def fsdp2(torch, r):
    import transformers as T, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK="0", WORLD_SIZE="1"); dist.init_process_group("nccl")

    def model():
        m = llama(T).cuda(); policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        for layer in m.model.layers: fully_shard(layer, mp_policy=policy)
        fully_shard(m, mp_policy=policy); return m
    train(torch, r, model, lambda p: torch.optim.AdamW(p, lr=1e-4), text(torch))


def generate(torch, r, model, steps, late=False):
    if not late: start(torch)
    m = model().cuda().eval(); r.models.append(m); x = torch.randint(0, 8000, (4, 64), device="cuda")
    import transformers as T
    with torch.no_grad():
        if late: m(x); start(torch)
        for turn in range(2):
            cache = T.DynamicCache(); r.caches = [cache]; ids = x; r.inputs = [x]
            for n in range(steps):
                out = m(ids, past_key_values=cache, use_cache=True); ids = out.logits[:, -1:].argmax(-1); del out
                if n % 12 == 11: r.mark(f"turn{turn}.token{n}")
            r.caches = []; del cache


def moe_generate(torch, r):
    import transformers as T
    c = T.MixtralConfig(vocab_size=8000, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, num_local_experts=4)
    generate(torch, r, lambda: T.MixtralForCausalLM(c), 36)


def late_inference(torch, r):
    import transformers as T
    generate(torch, r, lambda: llama(T), 36, late=True)


def state_only(torch, r):
    import transformers as T
    train(torch, r, lambda: llama(T), lambda p: torch.optim.AdamW(p, lr=1e-4), text(torch), steps=2, how=dict(enabled="state", context="state"))
    with r.hooks(): out = r.models[0](**text(torch)())
    r.marks.clear(); r.inputs = []; r.mark("end"); r.keep = out


def accum_late(torch, r):
    import transformers as T
    train(torch, r, lambda: llama(T), lambda p: torch.optim.AdamW(p, lr=1e-4), text(torch), accumulate=2, late=2)


def cpp_stacks(torch, r):
    import transformers as T
    train(torch, r, lambda: llama(T, 3), lambda p: torch.optim.AdamW(p, lr=1e-4), text(torch), steps=2, how=dict(stacks="all"))


def sgd_plain(torch, r):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__(); self.m = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()) for _ in range(8)])

        def forward(self, x): return self.m(x).square().mean()
    train(torch, r, Net, lambda p: torch.optim.SGD(p, lr=1e-3), lambda: dict(x=torch.randn(512, 1024, device="cuda")))


def child(case, out):
    import torch
    torch.manual_seed(0); r = Recorder(torch); globals()[case](torch, r)
    name = os.path.join(out, case); torch.cuda.memory._dump_snapshot(name + ".pickle")
    json.dump(dict(case=case, torch=torch.__version__, device=torch.cuda.get_device_name(), marks=r.marks), open(name + ".roles.json", "w"))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--child": child(*sys.argv[2:])
    else:
        os.makedirs(sys.argv[1], exist_ok=True)
        for case in sys.argv[2:] or CASES:
            t = time.time(); p = subprocess.run([sys.executable, __file__, "--child", case, sys.argv[1]])
            print(case, "ok" if p.returncode == 0 else f"failed {p.returncode}", round(time.time() - t), "s", flush=True)
