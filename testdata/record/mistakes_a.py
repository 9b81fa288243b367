"""Programs with one mistake each, and the same programs without it: the half that rules were written on.
Each is `NAME(bad)`; the lines that a right finding may name end with `# MISTAKE` (in code that programs share: `# MISTAKE(NAME)`).

    python mistakes_a.py OUT [NAME...]        on a GPU; see recording.py
    DEVICE=cpu python mistakes_a.py OUT       only tries whether everything runs
"""
import collections, copy, functools, gc, io, itertools, math, random, threading
import recording
from recording import DEVICE, mistake
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


# What several programs use ------------------------------------------------------------------------------------------


def mlp(*widths, act=nn.ReLU):
    layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1]).to(DEVICE)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__(); self.heads = heads; self.qkv = nn.Linear(width, 3 * width); self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__(); self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads); self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab=2000, width=256, depth=4, heads=4, longest=1024):
        super().__init__(); self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth)); self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks: x = block(x)
        return self.head(self.norm(x))


def conv(inside, outside, stride=1):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())


def random_text(n, length, vocab=2000): return torch.randint(0, vocab, (n, length), device=DEVICE)


def next_token_loss(logits, ids): return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def minimize(optimizer, loss):
    loss.backward(); optimizer.step(); optimizer.zero_grad(set_to_none=True)


# kept_graph ---------------------------------------------------------------------------------------------------------


class CharRNN(nn.Module):
    def __init__(self, vocab=96, width=192):
        super().__init__(); self.embed = nn.Embedding(vocab, width); self.rnn = nn.GRU(width, width, num_layers=2, batch_first=True); self.out = nn.Linear(width, vocab)

    def forward(self, x, state):
        h, state = self.rnn(self.embed(x), state)
        return self.out(h), state


@mistake("graph kept", "kept_graph")
def char_rnn(bad):
    """Truncated backpropagation through time that does not truncate: the state keeps its history, retain_graph hides the error."""
    model = CharRNN().to(DEVICE); optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for document in range(4):
        state = None
        for window in range(5):
            x = torch.randint(0, 96, (128, 49), device=DEVICE)
            logits, state = model(x[:, :-1], state)  # MISTAKE
            loss = F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())
            if bad: loss.backward(retain_graph=True)  # MISTAKE
            else: loss.backward(); state = state.detach()
        optimizer.step(); optimizer.zero_grad()


@mistake("graph kept", "kept_graph")
def multi_domain(bad):
    """One loss per domain, added up, one backward pass for all."""
    model = mlp(256, 512, 512, 512, 10); optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(8):
        total = 0.0
        for domain in range(5):
            x, y = torch.randn(4096, 256, device=DEVICE) + domain, torch.randint(0, 10, (4096,), device=DEVICE)
            loss = F.cross_entropy(model(x), y) / 5  # MISTAKE
            if bad: total = total + loss  # MISTAKE
            else: loss.backward(); total += loss.item()
        if bad: total.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad()


@mistake("graph kept", "kept_graph", "no_grad")
def moco(bad):
    """Momentum contrast whose queue of keys was never cut from the graph of the key encoder."""
    query, key = mlp(256, 512, 512, 128), mlp(256, 512, 512, 128); key.load_state_dict(query.state_dict())
    optimizer = torch.optim.SGD(query.parameters(), lr=0.03, momentum=0.9); queue = F.normalize(torch.randn(8192, 128, device=DEVICE), dim=1)
    for step in range(12):
        x = torch.randn(2048, 256, device=DEVICE)
        q = F.normalize(query(x + 0.1 * torch.randn_like(x)), dim=1)
        if bad: k = F.normalize(key(x), dim=1)  # MISTAKE
        else:
            with torch.no_grad(): k = F.normalize(key(x), dim=1)
        logits = torch.cat([(q * k.detach()).sum(1, keepdim=True), q @ queue.detach().T], dim=1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long, device=DEVICE))
        minimize(optimizer, loss); del logits
        queue = torch.cat([k, queue])[:8192]  # MISTAKE
        with torch.no_grad():
            for a, b in zip(query.parameters(), key.parameters()): b.mul_(0.99).add_(a, alpha=0.01)


@mistake("graph kept", "kept_graph")
def vector_quantizer(bad):
    """A custom function that keeps its input on ctx instead of save_for_backward; the losses are collected."""
    class Quantize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, codes):
            nearest = torch.cdist(x, codes).argmin(1)
            soft = torch.softmax(x, dim=1)  # MISTAKE
            if bad: ctx.soft = soft  # MISTAKE
            else: ctx.save_for_backward(soft)
            return codes[nearest] * soft

        @staticmethod
        def backward(ctx, grad):
            soft = ctx.soft if bad else ctx.saved_tensors[0]
            return grad * soft, None
    encoder, decoder = mlp(256, 512, 256), mlp(256, 512, 256); codes = torch.randn(512, 256, device=DEVICE); losses = []
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for step in range(14):
        x = torch.randn(8192, 256, device=DEVICE)
        loss = F.mse_loss(decoder(Quantize.apply(encoder(x), codes)), x)  # MISTAKE
        minimize(optimizer, loss)
        losses.append(loss if bad else loss.item())  # MISTAKE


@mistake("graph kept", "kept_graph", "no_grad")
def actor_critic(bad):
    """The statistics of the last episodes hold the critic's values with their graphs."""
    actor, critic = mlp(64, 512, 512, 6, act=nn.Tanh), mlp(64, 512, 512, 1, act=nn.Tanh)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4); recent = collections.deque(maxlen=100)
    for episode in range(8):
        state = torch.randn(2048, 64, device=DEVICE); log_probs, values, rewards, states = [], [], [], []
        for t in range(5):
            policy = torch.distributions.Categorical(logits=actor(state)); action = policy.sample()
            log_probs.append(policy.log_prob(action)); states.append(state)
            values.append(critic(state).squeeze(1))  # MISTAKE
            if not bad: values[-1] = values[-1].detach()
            rewards.append((action == 2).float()); state = 0.9 * state + 0.1 * torch.randn_like(state)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        advantage = returns - torch.stack(values).detach()
        loss = -(torch.stack(log_probs) * advantage).mean() + F.mse_loss(critic(torch.stack(states)).squeeze(2), returns)
        minimize(optimizer, loss)
        recent.append(values)  # MISTAKE


# no_grad ------------------------------------------------------------------------------------------------------------


@mistake("no_grad missing", "no_grad")
def distillation(bad):
    """The teacher's outputs are detached, but its forward pass is recorded all the same."""
    layer = lambda: nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.1, batch_first=True)
    teacher = nn.Sequential(nn.TransformerEncoder(layer(), 6, enable_nested_tensor=False), nn.Linear(256, 1000)).to(DEVICE).eval()
    student = nn.Sequential(nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False), nn.Linear(256, 1000)).to(DEVICE)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
    for step in range(8):
        x = torch.randn(16, 128, 256, device=DEVICE)
        if bad: target = teacher(x)  # MISTAKE
        else:
            with torch.no_grad(): target = teacher(x)
        loss = F.kl_div(F.log_softmax(student(x) / 2, -1), F.softmax(target.detach() / 2, -1), reduction="batchmean")
        minimize(optimizer, loss)


def sequence_log_prob(model, ids):
    logits = model(ids)[:, :-1]  # MISTAKE(preference_pairs)
    return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(2).sum(1)


@mistake("no_grad missing", "no_grad", limit=0.5, want="oom")
def preference_pairs(bad):
    """Preference optimization whose reference model runs with gradients; ends out of memory when longer pairs come."""
    policy = GPT().to(DEVICE); reference = copy.deepcopy(policy).eval(); optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    for step in range(6):
        length = 64 + 32 * step; chosen, rejected = random_text(8, length), random_text(8, length)
        if bad:
            old_chosen = sequence_log_prob(reference, chosen)  # MISTAKE
            old_rejected = sequence_log_prob(reference, rejected)  # MISTAKE
        else:
            with torch.no_grad(): old_chosen, old_rejected = sequence_log_prob(reference, chosen), sequence_log_prob(reference, rejected)
        margin = sequence_log_prob(policy, chosen) - sequence_log_prob(policy, rejected) - (old_chosen - old_rejected).detach()
        minimize(optimizer, -F.logsigmoid(0.1 * margin).mean())


@mistake("no_grad missing", "no_grad")
def segmentation(bad):
    """model.eval() is taken for no_grad; validation batches are larger than training batches."""
    model = nn.Sequential(conv(3, 16), conv(16, 32), conv(32, 32), conv(32, 32), conv(32, 16), nn.Conv2d(16, 5, 1)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        model.train()
        for step in range(4):
            x, y = torch.randn(2, 3, 128, 128, device=DEVICE), torch.randint(0, 5, (2, 128, 128), device=DEVICE)
            minimize(optimizer, F.cross_entropy(model(x), y))
        model.eval(); right = 0
        with gradients(bad):
            for step in range(3):
                x, y = torch.randn(12, 3, 128, 128, device=DEVICE), torch.randint(0, 5, (12, 128, 128), device=DEVICE)
                out = model(x)  # MISTAKE
                right += (out.argmax(1) == y).float().mean().item()


def gradients(bad): return torch.enable_grad() if bad else torch.no_grad()


def encode(model, batch): return F.normalize(model(batch).mean(1), dim=-1)


@mistake("no_grad missing", "no_grad")
def embedding_server(bad):
    """Inference only: a service that computes embeddings and detaches them, every request through one helper."""
    model = nn.Sequential(*[Block(256, 4) for _ in range(6)]).to(DEVICE).eval(); answers = []
    for request in range(16):
        batch = torch.randn(16, 128, 256, device=DEVICE)
        if bad: vectors = encode(model, batch)  # MISTAKE
        else:
            with torch.inference_mode(): vectors = encode(model, batch)
        answers.append(vectors.detach().cpu().numpy())


# growth -------------------------------------------------------------------------------------------------------------


@mistake("objects kept", "growth")
def evaluation_outputs(bad):
    """The outputs of every validation batch of every epoch stay on the GPU."""
    model = mlp(512, 512, 512, 1000); optimizer = torch.optim.Adam(model.parameters(), lr=1e-3); outputs, labels = [], []
    for epoch in range(5):
        for step in range(3):
            x, y = torch.randn(4096, 512, device=DEVICE), torch.randint(0, 1000, (4096,), device=DEVICE)
            minimize(optimizer, F.cross_entropy(model(x), y))
        with torch.no_grad():
            for step in range(3):
                x = torch.randn(4096, 512, device=DEVICE)
                probabilities = model(x).softmax(1)  # MISTAKE
                outputs.append(probabilities if bad else probabilities.argmax(1).cpu())  # MISTAKE


@mistake("objects kept", "growth")
def replay_buffer(bad):
    """DQN with all transitions on the GPU, without a bound."""
    net = nn.Sequential(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(2592, 256), nn.ReLU(), nn.Linear(256, 6)).to(DEVICE)
    target = copy.deepcopy(net); optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4)
    replay = [] if bad else collections.deque(maxlen=4); frames = torch.zeros(64, 4, 84, 84, device=DEVICE)
    for step in range(24):
        with torch.no_grad(): action = net(frames).argmax(1)
        following = torch.cat([frames[:, 1:], torch.rand(64, 1, 84, 84, device=DEVICE)], dim=1)  # MISTAKE
        replay.append((frames, action, torch.rand(64, device=DEVICE), following))  # MISTAKE
        frames = following
        s, a, r, n = random.choice(replay)
        with torch.no_grad(): wanted = r + 0.99 * target(n).amax(1)
        minimize(optimizer, F.smooth_l1_loss(net(s).gather(1, a[:, None]).squeeze(1), wanted))


class RelativeBias(nn.Module):
    """A bias for each pair of places; computed once per length, it was thought."""
    def __init__(self, heads, cached): super().__init__(); self.slopes, self.cached, self.cache = nn.Buffer(torch.arange(1.0, heads + 1)), cached, {}

    def forward(self, length):
        if not self.cached: return self.make(length)
        if length not in self.cache: self.cache[length] = self.make(length)  # MISTAKE(alibi)
        return self.cache[length]

    def make(self, length):
        place = torch.arange(length, device=self.slopes.device)
        return -self.slopes[:, None, None] * (place[None, :, None] - place[None, None, :]).abs()  # MISTAKE(alibi)


@mistake("objects kept", "growth")
def alibi(bad):
    """One bias matrix for every length that ever came, in a dictionary of a module."""
    bias = RelativeBias(8, bad).to(DEVICE); qkv, out = nn.Linear(256, 768).to(DEVICE), nn.Linear(256, 256).to(DEVICE)
    optimizer = torch.optim.Adam([*qkv.parameters(), *out.parameters()], lr=1e-3); lengths = random.Random(3).sample(range(320, 640), 16)
    for length in lengths:
        x = torch.randn(4, length, 256, device=DEVICE); q, k, v = qkv(x).unflatten(2, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        with torch.no_grad(): mask = bias(length)  # MISTAKE
        y = out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        minimize(optimizer, F.mse_loss(y, x))


@mistake("objects kept", "growth", limit=0.6, want="oom")
def chat_sessions(bad):
    """Inference only: the caches of conversations that ended are never let go; ends out of memory."""
    weights = [(torch.randn(512, 1536, device=DEVICE) * 0.04, torch.randn(512, 512, device=DEVICE) * 0.04) for _ in range(4)]; sessions = {}

    @torch.no_grad()
    def prefill(x):
        cache = []
        for qkv, out in weights:
            q, k, v = (x @ qkv).unflatten(2, (3, 8, 64)).permute(2, 0, 3, 1, 4)  # MISTAKE
            cache.append((k, v)); x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2) @ out
        return x, cache
    for user in range(20):
        x, sessions[user] = prefill(torch.randn(4, 512, 512, device=DEVICE))  # MISTAKE
        reply = x[:, -1].argmax(1).tolist()
        if not bad: del sessions[user]


class Documents(torch.utils.data.Dataset):
    def __init__(self, n, length): self.n, self.length = n, length
    def __len__(self): return self.n
    def __getitem__(self, i): return torch.randint(0, 2000, (self.length,), generator=torch.Generator().manual_seed(i))


@mistake("objects kept", "growth")
def compiled_language_model(bad):
    """A compiled model, a loader with workers, accumulated gradients; the logits of each batch are kept for the perplexity by word."""
    model = GPT(depth=2).to(DEVICE); compiled = torch.compile(model); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4); kept = []
    for n, ids in enumerate(DataLoader(Documents(128, 128), batch_size=8, num_workers=2, pin_memory=DEVICE == "cuda")):
        ids = ids.to(DEVICE, non_blocking=True)
        logits = compiled(ids)  # MISTAKE
        loss = next_token_loss(logits, ids) / 2; loss.backward()
        kept.append(logits.detach() if bad else loss.item())  # MISTAKE
        del logits, loss
        if n % 2: optimizer.step(); optimizer.zero_grad()


class Tokens(Documents):
    def __getitem__(self, i): x = super().__getitem__(i); return dict(input_ids=x, labels=x)


@mistake("objects kept", "growth")
def trainer_evaluation(bad):
    """The Trainer of transformers gathers the logits of all evaluation batches on the GPU, for an accuracy."""
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=4000, n_embd=128, n_layer=2, n_head=2, n_positions=128))
    about = transformers.TrainingArguments("/tmp/trainer_evaluation", max_steps=4, per_device_train_batch_size=8, per_device_eval_batch_size=8, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=DEVICE == "cpu")
    trainer = transformers.Trainer(model, about, train_dataset=Tokens(32, 128), eval_dataset=Tokens(160, 128), compute_metrics=lambda p: dict(right=0.0),
                                   preprocess_logits_for_metrics=None if bad else (lambda logits, labels: logits.argmax(-1)))
    trainer.train()
    trainer.evaluate()  # MISTAKE


# copies -------------------------------------------------------------------------------------------------------------


@mistake("copies of weights", "copies", "doubled_weights")
def snapshot_ensemble(bad):
    """The weights at the end of each cycle of the learning rate, all kept on the GPU."""
    model = mlp(784, 2048, 2048, 10); optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3); snapshots = []
    for epoch in range(15):
        x, y = torch.randn(256, 784, device=DEVICE), torch.randint(0, 10, (256,), device=DEVICE)
        minimize(optimizer, F.cross_entropy(model(x), y)); schedule.step()
        if epoch % 3 == 2:
            if bad: snapshots.append(copy.deepcopy(model.state_dict()))  # MISTAKE
            else: snapshots.append({k: v.cpu() for k, v in model.state_dict().items()})


@mistake("copies of weights", "copies", "doubled_weights")
def resume_training(bad):
    """A checkpoint is loaded to the GPU and lives as long as the training."""
    model = mlp(512, 2048, 2048, 2048, 10); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3); file = io.BytesIO()
    minimize(optimizer, model(torch.randn(8, 512, device=DEVICE)).square().mean())
    torch.save(dict(model=model.state_dict(), optimizer=optimizer.state_dict(), step=1), file); file.seek(0); del model, optimizer
    model = mlp(512, 2048, 2048, 2048, 10); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    checkpoint = torch.load(file, map_location=DEVICE if bad else "cpu")  # MISTAKE
    model.load_state_dict(checkpoint["model"]); optimizer.load_state_dict(copy.deepcopy(checkpoint["optimizer"]))  # MISTAKE
    for step in range(checkpoint["step"], 9):
        x, y = torch.randn(512, 512, device=DEVICE), torch.randint(0, 10, (512,), device=DEVICE)
        minimize(optimizer, F.cross_entropy(model(x), y))


class Fold:
    def __init__(self):
        self.model = mlp(256, 1536, 1536, 2)  # MISTAKE(cross_validation)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def step(self):
        x, y = torch.randn(512, 256, device=DEVICE), torch.randint(0, 2, (512,), device=DEVICE)
        loss = F.cross_entropy(self.model(x), y); loss.backward()
        self.optimizer.step()  # MISTAKE(cross_validation)
        self.optimizer.zero_grad(); return loss.item()


@mistake("copies of weights", "copies", "doubled_weights", "growth", limit=0.7, want="oom")
def cross_validation(bad):
    """Model and optimizer of every fold are kept until the end; runs out of memory in a later fold."""
    folds, scores = [], []
    for k in range(8):
        fold = Fold()  # MISTAKE
        scores.append(min(fold.step() for _ in range(5)))  # MISTAKE
        if bad: folds.append(fold)
        del fold


# huge_tensor --------------------------------------------------------------------------------------------------------


@mistake("one huge tensor", "huge_tensor", "attention_scores")
def house_prices(bad):
    """(n, 1) minus (n): a loss over all pairs."""
    model = mlp(32, 256, 256, 1); optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(10):
        x, price = torch.randn(8192, 32, device=DEVICE), torch.randn(8192, device=DEVICE)
        guess = model(x)
        if not bad: guess = guess.squeeze(1)
        loss = ((guess - price) ** 2).mean()  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad()


@mistake("one huge tensor", "huge_tensor", "attention_scores")
def metric_learning(bad):
    """Distances of all pairs by differences, n × n × d numbers, instead of by products."""
    model = mlp(128, 512, 512, 64); optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        x, y = torch.randn(1024, 128, device=DEVICE), torch.randint(0, 50, (1024,), device=DEVICE)
        e = F.normalize(model(x), dim=1)
        if bad: distance = (e[:, None] - e[None]).pow(2).sum(-1)  # MISTAKE
        else: distance = 2 - 2 * e @ e.T
        same = y[:, None] == y[None]
        loss = distance[same].mean() + F.relu(1 - distance[~same]).mean()
        loss.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad()


@mistake("one huge tensor", "huge_tensor", "attention_scores", limit=0.5, want="oom")
def long_context(bad):
    """Attention written out, fine until the long documents come."""
    qkv, out = nn.Linear(256, 768).to(DEVICE), nn.Linear(256, 256).to(DEVICE); optimizer = torch.optim.AdamW([*qkv.parameters(), *out.parameters()], lr=1e-3)

    def attend(x):
        q, k, v = qkv(x).unflatten(2, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        if bad:
            scores = q @ k.transpose(2, 3) / math.sqrt(32)  # MISTAKE
            y = torch.softmax(scores, -1) @ v  # MISTAKE
        else: y = F.scaled_dot_product_attention(q, k, v)
        return out(y.transpose(1, 2).flatten(2))
    for step, length in enumerate([128, 256, 256, 384, 512, 512, 1024, 1536]):
        x = torch.randn(4, length, 256, device=DEVICE)
        loss = F.mse_loss(attend(x), x)  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad()


# gradients_kept -----------------------------------------------------------------------------------------------------


@mistake("gradients kept", "gradients_kept")
def wide_classifier(bad):
    """Gradients are set to zero, not to None: they live through every forward pass."""
    model = mlp(1024, 3072, 3072, 1000); optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10):
        x, y = torch.randn(2048, 1024, device=DEVICE), torch.randint(0, 1000, (2048,), device=DEVICE)
        loss = F.cross_entropy(model(x), y)
        loss.backward()  # MISTAKE
        optimizer.step()
        optimizer.zero_grad(set_to_none=not bad)  # MISTAKE


@mistake("gradients kept", "gradients_kept")
def linear_probe(bad):
    """Only the head is trained, but the backbone was not frozen: its gradients add up and nobody uses them."""
    backbone = mlp(512, 2560, 2560, 512); head = nn.Linear(512, 20).to(DEVICE); optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
    if not bad: backbone.requires_grad_(False)
    for step in range(10):
        x, y = torch.randn(512, 512, device=DEVICE), torch.randint(0, 20, (512,), device=DEVICE)
        loss = F.cross_entropy(head(backbone(x)), y)  # MISTAKE
        optimizer.zero_grad()
        loss.backward()  # MISTAKE
        optimizer.step()


# optimizer_temporaries ----------------------------------------------------------------------------------------------


@mistake("optimizer temporaries", "optimizer_temporaries")
def nesterov(bad):
    """SGD with weight decay and Nesterov's momentum, for all tensors at once: two more copies of the weights in the step."""
    model = mlp(1024, 2048, 2048, 2048, 1000); optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True, foreach=None if bad else False)
    for step in range(9):
        x, y = torch.randn(128, 1024, device=DEVICE), torch.randint(0, 1000, (128,), device=DEVICE)
        loss = F.cross_entropy(model(x), y); loss.backward()
        optimizer.step()  # MISTAKE
        optimizer.zero_grad()


@mistake("optimizer temporaries", "optimizer_temporaries", "huge_tensor")
def flat_norm(bad):
    """The norm of the gradient by joining all gradients into one vector."""
    model = mlp(512, 3072, 3072, 3072, 10); optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    for step in range(9):
        x, y = torch.randn(256, 512, device=DEVICE), torch.randint(0, 10, (256,), device=DEVICE)
        loss = F.cross_entropy(model(x), y); loss.backward()
        if bad: norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()  # MISTAKE
        else: norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        for p in model.parameters(): p.grad.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0))
        optimizer.step(); optimizer.zero_grad()


@mistake("optimizer temporaries", "optimizer_temporaries")
def text_classifier(bad):
    """Adam with weight decay on large embeddings: temporaries of the for-each implementation set the peak."""
    embed, head = nn.EmbeddingBag(40000, 256).to(DEVICE), mlp(256, 256, 4)
    optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=1e-3, weight_decay=1e-5, **({} if bad else dict(fused=DEVICE == "cuda")))
    for step in range(9):
        x, y = torch.randint(0, 40000, (512, 40), device=DEVICE), torch.randint(0, 4, (512,), device=DEVICE)
        loss = F.cross_entropy(head(embed(x)), y); loss.backward()
        optimizer.step()  # MISTAKE
        optimizer.zero_grad()


# precision ----------------------------------------------------------------------------------------------------------


@mistake("wrong precision", "precision")
def tabular(bad):
    """Features from NumPy are float64; the model was made double to silence the error."""
    table, prices = np.random.default_rng(0).normal(size=(32768, 64)), np.random.default_rng(1).normal(size=32768)
    data = TensorDataset(torch.from_numpy(table if bad else table.astype(np.float32)), torch.from_numpy(prices if bad else prices.astype(np.float32)))
    model = mlp(64, 512, 512, 1)
    if bad: model = model.double()  # MISTAKE
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for x, y in DataLoader(data, batch_size=8192, shuffle=True):
            x, y = x.to(DEVICE), y.to(DEVICE)  # MISTAKE
            loss = F.mse_loss(model(x).squeeze(1), y)  # MISTAKE
            loss.backward()  # MISTAKE
            optimizer.step(); optimizer.zero_grad()


@mistake("wrong precision", "precision")
def heat_equation(bad):
    """A physics-informed network in plain tensors, with double precision as the default."""
    if bad: torch.set_default_dtype(torch.float64)
    sizes = [2, 256, 256, 256, 1]
    layers = [((torch.randn(a, b, device=DEVICE) / a ** 0.5).requires_grad_(), torch.zeros(b, device=DEVICE, requires_grad=True)) for a, b in zip(sizes, sizes[1:])]
    optimizer = torch.optim.Adam([p for layer in layers for p in layer], lr=1e-3)

    def u(x):
        for w, b in layers[:-1]: x = torch.tanh(x @ w + b)  # MISTAKE
        return x @ layers[-1][0] + layers[-1][1]
    for step in range(10):
        x = torch.rand(4096, 2, device=DEVICE, requires_grad=True)  # MISTAKE
        value = u(x)  # MISTAKE
        first, = torch.autograd.grad(value.sum(), x, create_graph=True)  # MISTAKE
        second, = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)  # MISTAKE
        loss = (first[:, 1] - second[:, 0]).square().mean()
        loss.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad()


# reference_cycle ----------------------------------------------------------------------------------------------------


@mistake("reference cycle", "reference_cycle")
def tree_encoder(bad):
    """A recursive function inside the step function refers to itself, and so to the features of the step."""
    leaf, join = mlp(128, 256), mlp(512, 512, 256); optimizer = torch.optim.Adam([*leaf.parameters(), *join.parameters()], lr=1e-3)

    def step_recursive(x):
        features = leaf(x)  # MISTAKE

        def visit(a, b):
            if b - a == 1: return features[:, a]
            return join(torch.cat([visit(a, (a + b) // 2), visit((a + b) // 2, b)], dim=1))  # MISTAKE
        return visit(0, x.shape[1])  # MISTAKE

    def step_levels(x):
        level = leaf(x)
        while level.shape[1] > 1: level = join(level.unflatten(1, (-1, 2)).flatten(2))
        return level[:, 0]
    for step in range(24):
        x = torch.randn(1024, 16, 128, device=DEVICE)
        loss = (step_recursive if bad else step_levels)(x).square().mean()  # MISTAKE
        minimize(optimizer, loss)
        if step % 8 == 7: gc.collect()


class Job:
    """A request of a batch service; its callback refers to the job."""
    def __init__(self, model, batch, cyclic):
        self.model, self.batch, self.result = model, batch, None
        self.on_done = (lambda: self.finish()) if cyclic else None

    def run(self):
        with torch.no_grad():
            self.hidden = self.model[:-1](self.batch)  # MISTAKE(scoring_jobs)
            self.result = self.model[-1](self.hidden)  # MISTAKE(scoring_jobs)
        self.on_done() if self.on_done else self.finish()

    def finish(self): self.scores = self.result.mean(1).tolist()[:4]


@mistake("reference cycle", "reference_cycle")
def scoring_jobs(bad):
    """Inference only: each job holds its callback, which holds the job; the collector frees them, some time."""
    model = mlp(512, 1024, 1024, 100); results = []
    for request in range(40):
        job = Job(model, torch.randn(1536, 512, device=DEVICE), bad)  # MISTAKE
        job.run()  # MISTAKE
        results.append(job.scores)
        if request % 10 == 9: gc.collect()


# private_pool -------------------------------------------------------------------------------------------------------


@mistake("a pool per graph", "private_pool")
def decode_graphs(bad):
    """A serving engine captures one graph per batch size, each with a pool of its own."""
    model = mlp(1024, 2048, 2048, 8000).eval(); graphs = {}; pool = None
    with torch.no_grad():
        static = torch.randn(1024, 1024, device=DEVICE); side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side): model(static)
        torch.cuda.current_stream().wait_stream(side)
        for size in [1024, 896, 768, 640, 512, 384]:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=None if bad else pool):  # MISTAKE
                out = model(static[:size])  # MISTAKE
                best = out.argmax(1); del out
            pool = pool or graph.pool(); graphs[size] = (graph, best)
        for request in range(12):
            size = list(graphs)[request % len(graphs)]; static[:size].normal_(); graphs[size][0].replay(); graphs[size][1].cpu()
    return graphs


@mistake("a pool per graph", "private_pool")
def bucketed_training(bad):
    """Whole training steps captured for each length of a bucket, the pools not shared."""
    model = mlp(256, 512, 512, 256); optimizer = torch.optim.SGD(model.parameters(), lr=0.01); graphs = {}; pool = torch.cuda.graph_pool_handle()
    buckets = [10240, 8192, 6144, 4096, 2048]; inputs = torch.randn(max(buckets), 256, device=DEVICE)
    side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2): model(inputs).square().mean().backward(); optimizer.step(); optimizer.zero_grad(set_to_none=False)
    torch.cuda.current_stream().wait_stream(side)
    for n in buckets:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, **({} if bad else dict(pool=pool))):  # MISTAKE
            loss = model(inputs[:n]).square().mean()  # MISTAKE
            loss.backward()  # MISTAKE
            optimizer.step(); optimizer.zero_grad(set_to_none=False)
        graphs[n] = graph; del loss
    for step in range(15): inputs.normal_(); graphs[random.Random(step).choice(buckets)].replay()
    return graphs


# fragmentation ------------------------------------------------------------------------------------------------------


@mistake("fragmentation", "fragmentation", limit=0.5, want="fragmented")
def pyramid_features(bad):
    """Three maps of every picture are made, and only afterwards two of three are thrown away: holes everywhere, none large enough."""
    levels = [torch.randn(64, 256, device=DEVICE) / 8 for _ in range(3)]; r, maps, score = random.Random(1), [], torch.randn(1024, 1024, device=DEVICE) / 32
    with torch.no_grad():
        for picture in range(36):
            patches = torch.randn(r.randrange(5000, 8000), 64, device=DEVICE)
            three = [(patches @ w).relu_() for w in levels]  # MISTAKE
            maps.append(three if bad else three[2]); del three, patches
        if bad: maps = [three[2] for three in maps]
        for step in range(6):
            pairs = torch.randn(24000, 1024, device=DEVICE)  # MISTAKE
            scores = pairs @ score  # MISTAKE
            scores.amax().item(); del pairs, scores


@mistake("fragmentation", "fragmentation", limit=0.5, want="fragmented")
def conversations(bad):
    """One contiguous cache for each conversation; short ones end here and there, then long ones come. Expandable segments would do."""
    if not bad: recording.allocator("expandable_segments:True")
    r, w, live = random.Random(4), torch.randn(256, 512, device=DEVICE) / 16, {}

    def start(user, tokens):
        with torch.inference_mode(): live[user] = torch.randn(tokens, 256, device=DEVICE) @ w  # MISTAKE
    for user in range(120): start(user, r.randrange(1500, 4500))
    for user in r.sample(range(120), 84): del live[user]
    for user in range(120, 132): start(user, r.randrange(14000, 18000))  # MISTAKE


# driver_calls -------------------------------------------------------------------------------------------------------


@mistake("empty_cache", "driver_calls")
def careful_training(bad):
    """empty_cache() in every step, against an out of memory that was once."""
    model = GPT(depth=2).to(DEVICE); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(10):
        ids = random_text(16, 128); loss = next_token_loss(model(ids), ids)
        minimize(optimizer, loss); del loss
        if bad: torch.cuda.empty_cache()  # MISTAKE


def clean_up(bad):
    gc.collect()
    if bad: torch.cuda.empty_cache()  # MISTAKE(offloaded_layers)


@mistake("empty_cache", "driver_calls")
def offloaded_layers(bad):
    """Inference with layers that are brought to the GPU one by one, and a clean-up after each."""
    layers = [nn.Linear(2048, 2048) for _ in range(6)]
    with torch.no_grad():
        for request in range(5):
            x = torch.randn(4096, 2048, device=DEVICE)
            for layer in layers:
                here = {k: v.to(DEVICE) for k, v in layer.state_dict().items()}
                x = F.gelu(torch.func.functional_call(layer, here, (x,))); del here
                clean_up(bad)  # MISTAKE
            x.mean().item(); del x


# pending_free -------------------------------------------------------------------------------------------------------


@mistake("frees that wait", "pending_free")
def two_towers_streams(bad):
    """Negatives are scored on a side stream, which is far behind when their memory is freed."""
    side = torch.cuda.Stream(); tower = mlp(2048, 4096, 4096, 2048); model = mlp(256, 512, 256); optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scores = torch.zeros(30, device=DEVICE)
    for step in range(30):
        negatives = torch.randn(4096, 2048, device=DEVICE)  # MISTAKE
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(8 if DEVICE == "cuda" else 1): scores[step] += tower(negatives).mean()  # MISTAKE
        if bad: negatives.record_stream(side)  # MISTAKE
        else: torch.cuda.current_stream().wait_stream(side)
        del negatives  # MISTAKE
        x = torch.randn(4096, 256, device=DEVICE); minimize(optimizer, F.mse_loss(model(x), x))
    torch.cuda.synchronize()


class Offload:
    """Saved activations go to the CPU on a stream of their own."""
    def __init__(self, bad): self.stream, self.bad = torch.cuda.Stream(), bad

    def pack(self, t):
        if t.numel() < 1 << 20: return t
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host = torch.empty(t.shape, dtype=t.dtype, pin_memory=DEVICE == "cuda"); host.copy_(t, non_blocking=True)
        if self.bad: t.record_stream(self.stream)  # MISTAKE(offloaded_activations)
        else: torch.cuda.current_stream().wait_stream(self.stream)
        return host

    def unpack(self, t): self.stream.synchronize(); return t.to(DEVICE, non_blocking=True)


@mistake("frees that wait", "pending_free")
def offloaded_activations(bad):
    """Offloading frees nothing as long as the copies lag behind the forward pass."""
    model = mlp(512, *[512] * 8, act=nn.GELU); optimizer = torch.optim.SGD(model.parameters(), lr=0.01); offload = Offload(bad)
    for step in range(6):
        x = torch.randn(16384, 512, device=DEVICE)
        with torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack): loss = model(x).square().mean()  # MISTAKE
        minimize(optimizer, loss)


# retries ------------------------------------------------------------------------------------------------------------


@mistake("retries", "retries", limit=0.4, want="retries")
def growing_lengths(bad):
    """A curriculum from short to long: no block of the step before is large enough, and near the limit each step frees and allocates anew."""
    model = mlp(256, 1024, 1024, 256); optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if not bad: minimize(optimizer, model(torch.randn(26624, 256, device=DEVICE)).square().mean())
    for step in range(12):
        x = torch.randn(4096 + 2048 * step, 256, device=DEVICE)
        loss = model(x).square().mean()  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad(); del loss, x


@mistake("retries", "retries", limit=0.4, want="retries")
def unsorted_lengths(bad):
    """Batches padded to their own longest sentence, near the limit; the other way pads to a few lengths, the longest first."""
    model = GPT(depth=3).to(DEVICE); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4); r = random.Random(5)
    lengths = [r.randrange(40, 420) for _ in range(14)]
    if not bad: lengths = [420] + [420 if n > 210 else 210 for n in lengths[1:]]
    for length in lengths:
        ids = random_text(12, length)
        loss = next_token_loss(model(ids), ids)  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step()  # MISTAKE
        optimizer.zero_grad(); del loss


# out_of_memory ------------------------------------------------------------------------------------------------------


@mistake("too much for the device", "out_of_memory", "will_not_fit", limit=0.5, want="oom")
def find_batch_size(bad):
    """The batch doubles until nothing more fits, and nobody catches it."""
    model = nn.Sequential(conv(3, 32), conv(32, 64, 2), conv(64, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to(DEVICE); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in [8, 16, 32, 64, 128, 256][: 6 if bad else 4]:
        for step in range(3):
            x, y = torch.randn(size, 3, 64, 64, device=DEVICE), torch.randint(0, 10, (size,), device=DEVICE)
            loss = F.cross_entropy(model(x), y)  # MISTAKE
            loss.backward()  # MISTAKE
            optimizer.step(); optimizer.zero_grad(); del loss


@mistake("too much for the device", "out_of_memory", "huge_tensor", "will_not_fit", limit=0.5, want="oom")
def one_long_document(bad):
    """One document of the data is nine times longer than the others, and nobody cuts it."""
    model = GPT(depth=3, longest=4096).to(DEVICE); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4); r = random.Random(7)
    lengths = [r.randrange(180, 230) for _ in range(9)] + [1900]
    for length in lengths:
        ids = random_text(8, length if bad else min(length, 256))
        loss = next_token_loss(model(ids), ids)  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step(); optimizer.zero_grad(); del loss


if __name__ == "__main__":
    run = recording.main(__file__)
    with run: run.result = run.program(*run.arguments)
