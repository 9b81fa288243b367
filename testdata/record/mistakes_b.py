"""Programs with one mistake each, and the same programs without it: the half that no rule was written on. Look at their
recordings only to measure. Each is `NAME(bad)`; the lines that a right finding may name end with `# MISTAKE`
(in code that programs share: `# MISTAKE(NAME)`).

    python mistakes_b.py OUT [NAME...]        on a GPU; see recording.py
    DEVICE=cpu python mistakes_b.py OUT       only tries whether everything runs
"""
import collections, contextlib, copy, functools, gc, math, queue, random, threading
import recording
from recording import DEVICE, mistake
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

device = torch.device(DEVICE)


# What several programs use ------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, inputs, hidden, outputs, depth=3):
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth - 1))
        self.last = nn.Linear(hidden, outputs)

    def forward(self, x):
        x = F.silu(self.first(x))
        for layer in self.layers:
            x = F.silu(layer(x))
        return self.last(x)


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a = nn.Conv2d(channels, channels, 3, padding=1)
        self.b = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.GroupNorm(8, channels)

    def forward(self, x):
        return x + self.b(F.silu(self.norm(self.a(x))))


class Encoder(nn.Module):
    def __init__(self, width=256, depth=4, heads=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Trainer:
    """A small trainer, as many projects have one: every line of a step goes through it."""

    def __init__(self, model, lr=1e-3, optimizer=torch.optim.AdamW, **options):
        self.model, self.optimizer = model, optimizer(model.parameters(), lr=lr, **options)

    def compute_loss(self, batch):
        x, y = batch
        out = self.model(x)
        return F.cross_entropy(out, y) if y.dtype == torch.long else F.mse_loss(out, y)

    def training_step(self, batch):
        self.optimizer.zero_grad()
        loss = self.compute_loss(batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def images(n, size=32, channels=3):
    return torch.rand(n, channels, size, size, device=device)


def labels(n, classes=10):
    return torch.randint(classes, (n,), device=device)


# kept_graph ---------------------------------------------------------------------------------------------------------


@mistake("graph kept", "kept_graph")
def wgan(bad):
    """Gradient penalty; retain_graph was added to silence an error, and the penalties are collected for a plot."""
    critic, generator = Net(128, 512, 1).to(device), Net(64, 512, 128).to(device)
    optimizer_c, optimizer_g = torch.optim.Adam(critic.parameters(), lr=1e-4), torch.optim.Adam(generator.parameters(), lr=1e-4)
    penalties = []
    for iteration in range(9):
        real, z = torch.randn(2048, 128, device=device), torch.randn(2048, 64, device=device)
        with torch.no_grad():
            fake = generator(z)
        mixed = torch.lerp(real, fake, torch.rand(2048, 1, device=device)).requires_grad_()
        score = critic(mixed)  # MISTAKE
        gradient, = torch.autograd.grad(score.sum(), mixed, create_graph=True)  # MISTAKE
        penalty = 10 * (gradient.norm(dim=1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + penalty  # MISTAKE
        loss.backward(retain_graph=bad)  # MISTAKE
        optimizer_c.step()
        optimizer_c.zero_grad()
        penalties.append(penalty if bad else penalty.item())
        if iteration % 2:
            (-critic(generator(z)).mean()).backward()
            optimizer_g.step()
            optimizer_g.zero_grad()
            optimizer_c.zero_grad()


@mistake("graph kept", "kept_graph")
def maml(bad):
    """Meta-learning: the losses of all tasks of a meta-batch wait for one backward pass."""
    w1 = (torch.randn(64, 512, device=device) / 8).requires_grad_()
    w2 = (torch.randn(512, 512, device=device) / 22).requires_grad_()
    w3 = (torch.randn(512, 1, device=device) / 22).requires_grad_()
    weights = [w1, w2, w3]

    def predict(x, a, b, c):
        return torch.tanh(torch.tanh(x @ a) @ b) @ c

    for meta_step in range(6):
        meta_loss = 0.0
        for task in range(6):
            x, y = torch.randn(2048, 64, device=device), torch.randn(2048, 1, device=device)
            inner = F.mse_loss(predict(x, *weights), y)  # MISTAKE
            gradients = torch.autograd.grad(inner, weights, create_graph=True)  # MISTAKE
            adapted = [w - 0.1 * g for w, g in zip(weights, gradients)]  # MISTAKE
            outer = F.mse_loss(predict(x + 0.1, *adapted), y) / 6  # MISTAKE
            if bad:
                meta_loss = meta_loss + outer
            else:
                outer.backward()
        if bad:
            meta_loss.backward()  # MISTAKE
        with torch.no_grad():
            for w in weights:
                w -= 0.01 * w.grad
                w.grad = None


@mistake("graph kept", "kept_graph", "growth")
def feature_hooks(bad):
    """Forward hooks collect features for a study of the network, with their graphs and on the GPU."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), ResidualBlock(16), ResidualBlock(16), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10)).to(device)
    features = collections.defaultdict(list)

    def collect(name):
        def hook(module, inputs, output):
            features[name].append(output if bad else output.detach().mean((0, 2, 3)).cpu())
        return hook

    for name, module in model.named_modules():
        if isinstance(module, ResidualBlock):
            module.register_forward_hook(collect(name))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(12):
        loss = F.cross_entropy(model(images(96)), labels(96))  # MISTAKE
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@mistake("graph kept", "kept_graph")
def world_model(bad):
    """Plain tensors; the latent state is carried over batches with its history. Weights are changed through .data, so autograd does not complain."""
    shapes = dict(wx=(128, 512), wh=(512, 512), wo=(512, 128))
    p = {k: (torch.randn(s, device=device) / s[0] ** 0.5).requires_grad_() for k, s in shapes.items()}
    h = torch.zeros(2048, 512, device=device)
    for batch in range(12):
        x = torch.randn(3, 2048, 128, device=device)
        loss = 0.0
        for t in range(2):
            h = torch.tanh(x[t] @ p["wx"] + h @ p["wh"])  # MISTAKE
            loss = loss + (h @ p["wo"] - x[t + 1]).square().mean()  # MISTAKE
        if bad:
            loss.backward(retain_graph=True)  # MISTAKE
        else:
            loss.backward()
            h = h.detach()
        for w in p.values():
            w.data -= 0.01 * w.grad.data
            w.grad = None


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum, self.count = self.sum + value * n, self.count + n


@mistake("graph kept", "kept_graph", "no_grad")
def validation_meter(bad):
    """The validation loss goes into a meter with its graph: all batches of an epoch add up."""
    model = Net(256, 768, 100, depth=4).to(device)
    trainer = Trainer(model)
    for epoch in range(4):
        model.train()
        for step in range(3):
            trainer.training_step((torch.randn(2048, 256, device=device), labels(2048, 100)))
        model.eval()
        meter = AverageMeter()
        for step in range(6):
            x, y = torch.randn(2048, 256, device=device), labels(2048, 100)
            if bad:
                loss = trainer.compute_loss((x, y))  # MISTAKE
            else:
                with torch.no_grad():
                    loss = trainer.compute_loss((x, y))
            meter.update(loss, len(x))  # MISTAKE
        print(epoch, float(meter.sum) / meter.count)


@mistake("graph kept", "kept_graph", "no_grad")
def compiled_validation(bad):
    """A compiled model; the loss of every validation batch is kept, with its graph, in a list of the epoch."""
    model = nn.Sequential(Encoder(256, 2), nn.Linear(256, 256)).to(device)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(3):
        for step in range(3):
            x = torch.randn(8, 128, 256, device=device)
            loss = F.mse_loss(compiled(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses = []
        for step in range(5):
            x = torch.randn(8, 128, 256, device=device)
            with contextlib.nullcontext() if bad else torch.no_grad():
                out = compiled(x)  # MISTAKE
                losses.append(F.mse_loss(out, x))  # MISTAKE
        print(epoch, torch.stack(losses).mean().item())


# no_grad ------------------------------------------------------------------------------------------------------------


@mistake("no_grad missing", "no_grad")
def soft_actor_critic(bad):
    """Targets are computed by target networks with gradients and detached when they are used."""
    actor, q1, q2 = Net(48, 512, 16, 4), Net(64, 512, 1, 4), Net(64, 512, 1, 4)
    actor, q1, q2 = actor.to(device), q1.to(device), q2.to(device)
    t1, t2 = copy.deepcopy(q1), copy.deepcopy(q2)
    q_optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=3e-4)
    for update in range(9):
        s, a, r, s2 = (torch.randn(2048, n, device=device) for n in (48, 16, 1, 48))
        with torch.set_grad_enabled(bad):
            a2 = torch.tanh(actor(s2))  # MISTAKE
            both = torch.cat([s2, a2], 1)
            target = r + 0.99 * torch.minimum(t1(both), t2(both))  # MISTAKE
        sa = torch.cat([s, a], 1)
        loss = F.mse_loss(q1(sa), target.detach()) + F.mse_loss(q2(sa), target.detach())
        loss.backward()
        q_optimizer.step()
        q_optimizer.zero_grad()


@mistake("no_grad missing", "no_grad")
def perceptual_loss(bad):
    """Features of the target picture are computed with gradients, of a network whose weights were not frozen."""
    vgg = nn.Sequential(*[m for a, b in [(3, 32), (32, 32), (32, 64), (64, 64)] for m in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU())]).to(device).eval()
    restore = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 3, padding=1)).to(device)
    optimizer = torch.optim.Adam(restore.parameters(), lr=1e-3)
    for step in range(8):
        sharp = images(16, 96)
        blurred = F.avg_pool2d(sharp, 5, 1, 2)
        guess = restore(blurred)
        if bad:
            wanted = vgg(sharp)  # MISTAKE
        else:
            with torch.no_grad():
                wanted = vgg(sharp)
        loss = F.l1_loss(vgg(guess), wanted.detach()) + F.l1_loss(guess, sharp)
        gradients = torch.autograd.grad(loss, list(restore.parameters()))
        for p, g in zip(restore.parameters(), gradients):
            p.grad = g
        optimizer.step()


@mistake("no_grad missing", "no_grad", limit=0.5, want="oom")
def reward_scoring(bad):
    """Policy optimization; the reward model scores all candidates of a prompt with gradients and the scores are kept for the baseline. Ends out of memory."""
    policy, head = Encoder(depth=2).to(device), nn.Linear(256, 500).to(device)
    reward = nn.Sequential(Encoder(depth=5), nn.Linear(256, 1)).to(device).eval()
    optimizer = torch.optim.AdamW([*policy.parameters(), *head.parameters()], lr=1e-5)
    embed = torch.randn(500, 256, device=device)
    for step in range(5):
        prompts = torch.randint(500, (4, 96), device=device)
        scores, log_probs = [], []
        for candidate in range(2 + step):
            logits = head(policy(embed[prompts]))
            sampled = torch.distributions.Categorical(logits=logits).sample()
            if bad:
                score = reward(embed[sampled])[:, -1, 0]  # MISTAKE
            else:
                with torch.no_grad():
                    score = reward(embed[sampled])[:, -1, 0]
            scores.append(score)  # MISTAKE
            log_probs.append(logits.log_softmax(-1).gather(2, sampled[..., None]).squeeze(2).mean(1))
        scores = torch.stack(scores)
        advantage = (scores - scores.mean(0)).detach()
        loss = -(advantage * torch.stack(log_probs)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss, log_probs, logits


@mistake("no_grad missing", "no_grad", "kept_graph")
def decoding_loop(bad):
    """Inference only, plain tensors: a decoding loop with a cache, with gradients on; each token hangs on all before."""
    blocks = [tuple((torch.randn(a, b, device=device) / a ** 0.5).requires_grad_() for a, b in [(256, 768), (256, 256), (256, 1024), (1024, 256)]) for _ in range(2)]
    unembed = torch.randn(256, 2000, device=device, requires_grad=True)

    def step(x, cache):
        for i, (qkv, out, up, down) in enumerate(blocks):
            q, k, v = (x @ qkv).unflatten(2, (3, 4, 64)).permute(2, 0, 3, 1, 4)  # MISTAKE
            if i in cache:
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)  # MISTAKE
            cache[i] = k, v
            x = x + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ out  # MISTAKE
            x = x + F.gelu(x @ up) @ down  # MISTAKE
        return (x[:, -1:] @ unembed).argmax(-1)

    table = torch.randn(2000, 256, device=device)
    for request in range(3):
        cache, ids = {}, torch.randint(2000, (32, 64), device=device)
        with torch.set_grad_enabled(bad):
            for n in range(14):
                ids = step(table[ids], cache)  # MISTAKE


# growth -------------------------------------------------------------------------------------------------------------


@mistake("objects kept", "growth")
def recommender(bad):
    """Hard negatives: the item vectors of every user that came are remembered on the GPU."""
    users, items = nn.Embedding(20000, 64).to(device), nn.Embedding(20000, 64).to(device)
    tower = Net(64, 256, 64).to(device)
    optimizer = torch.optim.Adagrad([*users.parameters(), *items.parameters(), *tower.parameters()], lr=0.05)
    seen = {}
    for batch in range(16):
        u, i = torch.randint(20000, (1024,), device=device), torch.randint(20000, (1024, 40), device=device)
        vectors = items(i)
        score = torch.einsum("bd,bnd->bn", tower(users(u)), vectors)
        F.cross_entropy(score, labels(1024, 40)).backward()
        optimizer.step()
        optimizer.zero_grad()
        hard = vectors.detach()[torch.arange(1024, device=device)[:, None], score.topk(20).indices]  # MISTAKE
        seen[batch] = hard  # MISTAKE
        if not bad and len(seen) > 2:
            del seen[min(seen)]
        del vectors, score, hard


class Metric:
    """A curve needs all scores, so the metric has lists of them; reset() is for the end of an epoch."""

    def __init__(self):
        self.scores, self.targets = [], []

    def update(self, scores, targets):
        self.scores.append(scores.detach().float())  # MISTAKE(metric_collection)
        self.targets.append(F.one_hot(targets, scores.shape[1]).float())  # MISTAKE(metric_collection)

    def compute(self):
        return sum((s * t).mean() for s, t in zip(self.scores, self.targets)) / len(self.scores)

    def reset(self):
        self.scores.clear(), self.targets.clear()


@mistake("objects kept", "growth")
def metric_collection(bad):
    """A collection of metrics that is never reset."""
    model = Net(128, 512, 1000).to(device)
    trainer, metric = Trainer(model), Metric()
    for epoch in range(5):
        for step in range(3):
            x, y = torch.randn(1024, 128, device=device), labels(1024, 1000)
            trainer.training_step((x, y))
            with torch.no_grad():
                metric.update(model(x), y)  # MISTAKE
        print(epoch, float(metric.compute()))
        if not bad:
            metric.reset()


class Pairs(Dataset):
    def __len__(self):
        return 64 * 12

    def __getitem__(self, i):
        return torch.randn(128, generator=torch.Generator().manual_seed(i)), i % 500


@mistake("objects kept", "growth")
def lightning_outputs(bad):
    """Lightning: what validation_step collects is never cleared. The loader has workers."""
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.outputs = Net(128, 512, 4000, depth=2), []

        def training_step(self, batch, n):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, n):
            logits = self.net(batch[0])  # MISTAKE
            self.outputs.append(dict(logits=logits, labels=batch[1]))  # MISTAKE

        def on_validation_epoch_end(self):
            print(sum((o["logits"].argmax(1) == o["labels"]).float().mean().item() for o in self.outputs))
            if not bad:
                self.outputs.clear()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    trainer = lightning.Trainer(max_epochs=4, accelerator="gpu" if DEVICE == "cuda" else "cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, num_sanity_val_steps=0, limit_train_batches=2, limit_val_batches=3)
    load = DataLoader(Pairs(), batch_size=256, num_workers=2)
    trainer.fit(Classifier(), load, load)  # MISTAKE


@mistake("objects kept", "growth")
def sampler_previews(bad):
    """Diffusion: pictures of the way from noise to picture are collected for a film, over all prompts."""
    unet = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), ResidualBlock(32), ResidualBlock(32), nn.Conv2d(32, 4, 3, padding=1)).to(device).eval()
    film = []

    @torch.no_grad()
    def sample(n):
        x = torch.randn(n, 4, 64, 64, device=device)
        for t in torch.linspace(1, 0.1, 6).tolist():
            x = x - 0.1 * t * unet(x)
            film.append(x.clone() if bad else x[:1].cpu())  # MISTAKE
        return x

    for prompt in range(10):
        pictures = sample(32)  # MISTAKE
        pictures.clamp(-1, 1).mean().item()


@functools.lru_cache(maxsize=None)
def unbounded_grid(h, w):
    y, x = torch.meshgrid(torch.linspace(-1, 1, h, device=device), torch.linspace(-1, 1, w, device=device), indexing="ij")
    return torch.cat([f(2 ** k * math.pi * c)[None] for k in range(6) for c in (x, y) for f in (torch.sin, torch.cos)])  # MISTAKE(super_resolution)


@mistake("objects kept", "growth", limit=0.7, want="oom")
def super_resolution(bad):
    """Positional grids by size of the picture, in a cache without a bound; ends out of memory."""
    grid = unbounded_grid if bad else unbounded_grid.__wrapped__
    model = nn.Sequential(nn.Conv2d(27, 32, 1), nn.SiLU(), nn.Conv2d(32, 3, 1)).to(device)
    optimizer, r = torch.optim.Adam(model.parameters(), lr=1e-3), random.Random(2)
    for step in range(24):
        h, w = r.randrange(300, 420), r.randrange(300, 420)
        with torch.no_grad():
            places = grid(h, w)  # MISTAKE
        picture = torch.rand(1, 3, h, w, device=device)
        loss = F.l1_loss(model(torch.cat([picture, places[None]], 1)), picture)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss, places


# copies -------------------------------------------------------------------------------------------------------------


@mistake("copies of weights", "copies", "doubled_weights", "growth")
def staged_unfreezing(bad):
    """A new optimizer and schedule for each stage; the list of schedules keeps the old optimizers and their state."""
    model = Net(512, 1536, 100, depth=4).to(device)
    schedules, optimizer = [], None
    for stage in range(5):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 / (stage + 1))
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
        if bad:
            schedules.append(schedule)  # MISTAKE
        for step in range(3):
            loss = F.cross_entropy(model(torch.randn(256, 512, device=device)), labels(256, 100))
            loss.backward()
            optimizer.step()  # MISTAKE
            optimizer.zero_grad()
            schedule.step()


@mistake("copies of weights", "copies", "doubled_weights")
def population_training(bad):
    """The best worker of every generation goes into a hall of fame, on the GPU."""
    workers = [Net(128, 1024, 10).to(device) for _ in range(2)]
    optimizers = [torch.optim.SGD(w.parameters(), lr=lr) for w, lr in zip(workers, (0.1, 0.01))]
    hall = []
    for generation in range(8):
        losses = []
        for worker, optimizer in zip(workers, optimizers):
            for step in range(2):
                loss = F.cross_entropy(worker(torch.randn(512, 128, device=device)), labels(512))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        best = workers[losses.index(min(losses))]
        hall.append(copy.deepcopy(best) if bad else {k: v.cpu() for k, v in best.state_dict().items()})  # MISTAKE


@mistake("copies of weights", "copies", "doubled_weights", limit=0.6, want="oom")
def merged_adapters(bad):
    """Inference only: each tenant's adapter is merged into full weights of its own; ends out of memory with the seventh or so."""
    base = [torch.randn(2048, 2048, device=device) / 45 for _ in range(4)]
    adapters = {n: [(torch.randn(2048, 8, device=device) * 0.01, torch.randn(8, 2048, device=device) * 0.01) for _ in base] for n in range(10)}
    merged = {}
    with torch.inference_mode():
        for request in range(30):
            n, x = request // 3, torch.randn(64, 2048, device=device)
            if bad:
                if n not in merged:
                    merged[n] = [w + a @ b for w, (a, b) in zip(base, adapters[n])]  # MISTAKE
                for w in merged[n]:
                    x = F.gelu(x @ w)
            else:
                for w, (a, b) in zip(base, adapters[n]):
                    x = F.gelu(x @ w + x @ a @ b)
            x.argmax(1).cpu()


# huge_tensor --------------------------------------------------------------------------------------------------------


@mistake("one huge tensor", "huge_tensor", "attention_scores", limit=0.4, want="oom")
def ranking_metrics(bad):
    """After training, all users are scored against all items at once; ends out of memory."""
    users, items = nn.Embedding(20000, 64).to(device), nn.Embedding(15000, 64).to(device)
    optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.1)
    for step in range(8):
        u, i, j = torch.randint(20000, (8192,), device=device), torch.randint(15000, (8192,), device=device), torch.randint(15000, (8192,), device=device)
        score = (users(u) * (items(i) - items(j))).sum(1)
        loss = -F.logsigmoid(score).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del loss, score
    with torch.no_grad():
        if bad:
            scores = users.weight @ items.weight.T  # MISTAKE
            best = scores.topk(10).indices  # MISTAKE
        else:
            best = torch.cat([(part @ items.weight.T).topk(10).indices for part in users.weight.split(1000)])
    best.cpu()


@mistake("one huge tensor", "huge_tensor", "attention_scores")
def graph_convolution(bad):
    """A graph of 12 000 nodes and 60 000 edges as a dense matrix."""
    n = 12000
    edges = torch.randint(n, (2, 60000), device=device)
    x, y = torch.randn(n, 64, device=device), labels(n, 7)
    if bad:
        adjacency = torch.zeros(n, n, device=device)  # MISTAKE
        adjacency[edges[0], edges[1]] = 1.0
    else:
        adjacency = torch.sparse_coo_tensor(edges, torch.ones(60000, device=device), (n, n)).coalesce()
    first, second = nn.Linear(64, 128).to(device), nn.Linear(128, 7).to(device)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
    for epoch in range(8):
        hidden = F.relu(adjacency @ first(x))
        loss = F.cross_entropy(adjacency @ second(hidden), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@mistake("one huge tensor", "huge_tensor", "attention_scores")
def label_smoothing(bad):
    """Label smoothing written with one_hot: eight bytes for each token and word of the vocabulary."""
    vocab = 12000
    embed, encoder, head = nn.Embedding(vocab, 128).to(device), Encoder(128, 1).to(device), nn.Linear(128, vocab).to(device)
    optimizer = torch.optim.AdamW([*embed.parameters(), *encoder.parameters(), *head.parameters()], lr=1e-3)
    for step in range(8):
        ids = torch.randint(vocab, (8, 129), device=device)
        hidden = encoder(embed(ids[:, :-1]))
        target = ids[:, 1:]
        if bad:
            smooth = F.one_hot(target, vocab) * 0.9 + 0.1 / vocab  # MISTAKE
            loss = -(smooth * head(hidden).log_softmax(-1)).sum(-1).mean()  # MISTAKE
        else:
            at = target[:, ::4].flatten()
            loss = F.cross_entropy(head(hidden[:, ::4]).flatten(0, 1), at, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


# gradients_kept -----------------------------------------------------------------------------------------------------


@mistake("gradients kept", "gradients_kept")
def plain_regression(bad):
    """Plain tensors with a hand-written step; gradients are set to zero in place."""
    w = [(torch.randn(a, b, device=device) / a ** 0.5).requires_grad_() for a, b in [(512, 4096), (4096, 4096), (4096, 16)]]
    for step in range(12):
        x, y = torch.randn(1024, 512, device=device), torch.randn(1024, 16, device=device)
        h = torch.relu(torch.relu(x @ w[0]) @ w[1])
        loss = (h @ w[2] - y).square().mean()
        loss.backward()  # MISTAKE
        with torch.no_grad():
            for p in w:
                p -= 0.01 * p.grad
                if bad:
                    p.grad.zero_()  # MISTAKE
                else:
                    p.grad = None


@mistake("gradients kept", "gradients_kept")
def dcgan(bad):
    """The generator's step leaves gradients in the discriminator, and both are only set to zero."""
    d, g = Net(784, 2048, 1, 3).to(device), Net(64, 2048, 784, 3).to(device)
    optimizers = {n: torch.optim.SGD(m.parameters(), lr=2e-4, momentum=0.5) for n, m in (("d", d), ("g", g))}

    def clear():
        for optimizer in optimizers.values():
            optimizer.zero_grad(set_to_none=not bad)  # MISTAKE

    for step in range(9):
        real, z = torch.rand(1024, 784, device=device), torch.randn(1024, 64, device=device)
        fake = g(z)
        loss_d = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        loss_d.backward()  # MISTAKE
        optimizers["d"].step()
        clear()  # MISTAKE
        d.requires_grad_(bad)
        loss_g = F.softplus(-d(fake)).mean()
        loss_g.backward()  # MISTAKE
        d.requires_grad_(True)
        optimizers["g"].step()
        clear()  # MISTAKE


@mistake("gradients kept", "gradients_kept")
def sentence_pairs(bad):
    """zero_grad() between forward and backward pass: the old gradients live through the forward pass."""
    tower = nn.Sequential(nn.EmbeddingBag(60000, 256), nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 256)).to(device)
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.01)
    for step in range(10):
        a, b = torch.randint(60000, (1536, 16), device=device), torch.randint(60000, (1536, 16), device=device)
        if not bad:
            optimizer.zero_grad()
        scores = F.normalize(tower(a)) @ F.normalize(tower(b)).T * 20
        loss = F.cross_entropy(scores, torch.arange(1536, device=device))
        if bad:
            optimizer.zero_grad()  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step()


# optimizer_temporaries ----------------------------------------------------------------------------------------------


@mistake("optimizer temporaries", "optimizer_temporaries")
def radam_tower(bad):
    """RAdam on all tensors at once."""
    model = Net(512, 2048, 512, depth=4).to(device)
    trainer = Trainer(model, optimizer=torch.optim.RAdam, weight_decay=0.01, foreach=None if bad else False)
    trainer.training_step = lambda batch: train_once(trainer, batch)
    for step in range(9):
        trainer.training_step((torch.randn(128, 512, device=device), torch.randn(128, 512, device=device)))


def train_once(trainer, batch):
    trainer.compute_loss(batch).backward()
    trainer.optimizer.step()  # MISTAKE(radam_tower, adadelta_speech)
    trainer.optimizer.zero_grad()


@mistake("optimizer temporaries", "optimizer_temporaries")
def adadelta_speech(bad):
    """Adadelta, as in old speech recipes, for-each."""
    trainer = Trainer(Net(80, 2048, 40, depth=4).to(device), lr=1.0, optimizer=torch.optim.Adadelta, weight_decay=1e-6, foreach=None if bad else False)
    for step in range(8):
        train_once(trainer, (torch.randn(256, 80, device=device), labels(256, 40)))


@mistake("optimizer temporaries", "optimizer_temporaries")
def lamb(bad):
    """An optimizer of one's own: all updates are made before the first is applied."""
    class Lamb(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-3):
            super().__init__(params, dict(lr=lr))

        @torch.no_grad()
        def step(self):
            params = [p for group in self.param_groups for p in group["params"]]
            if bad:
                updates = [self.direction(p) for p in params]  # MISTAKE
                updates = [u * (p.norm() / (u.norm() + 1e-6)) for p, u in zip(params, updates)]  # MISTAKE
                for p, u in zip(params, updates):
                    p.sub_(u, alpha=1e-3)
            else:
                for p in params:
                    u = self.direction(p)
                    p.sub_(u.mul_(p.norm() / (u.norm() + 1e-6)), alpha=1e-3)

        def direction(self, p):
            s = self.state[p]
            if not s:
                s["m"], s["v"] = torch.zeros_like(p), torch.zeros_like(p)
            s["m"].lerp_(p.grad, 0.1)
            s["v"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
            return s["m"] / s["v"].sqrt().add_(1e-6)  # MISTAKE

    model = Net(512, 2048, 100, depth=4).to(device)
    optimizer = Lamb(model.parameters())
    for step in range(9):
        F.cross_entropy(model(torch.randn(128, 512, device=device)), labels(128, 100)).backward()
        optimizer.step()  # MISTAKE
        optimizer.zero_grad()


# precision ----------------------------------------------------------------------------------------------------------


@mistake("wrong precision", "precision")
def message_passing(bad):
    """Edge weights that came as float64 make every message float64. No modules."""
    n, edges = 20000, torch.randint(20000, (2, 100000), device=device)
    weight = torch.from_numpy(np.random.default_rng(0).random(100000)).to(device)  # MISTAKE
    if not bad:
        weight = weight.float()
    w1 = torch.randn(64, 64, device=device, requires_grad=True)
    w2 = torch.randn(64, 8, device=device, requires_grad=True)
    x = torch.randn(n, 64, device=device)

    def spread(h):
        messages = h[edges[0]] * weight[:, None]  # MISTAKE
        return torch.zeros(n, h.shape[1], dtype=messages.dtype, device=device).index_add(0, edges[1], messages)  # MISTAKE

    for epoch in range(8):
        h = torch.relu(spread(x @ w1))  # MISTAKE
        out = spread(h @ w2.to(h.dtype))  # MISTAKE
        loss = out.square().mean()  # MISTAKE
        loss.backward()  # MISTAKE
        with torch.no_grad():
            for w in (w1, w2):
                w -= 1e-3 * w.grad
                w.grad = None


@mistake("wrong precision", "precision")
def half_model_in_full(bad):
    """Inference: the weights came in bfloat16 and are served in float32."""
    model = nn.Sequential(Encoder(512, 4, 8), nn.Linear(512, 2000)).to(device, torch.bfloat16).eval()
    if bad:
        model = model.float()  # MISTAKE
    with torch.inference_mode():
        for request in range(10):
            x = torch.randn(16, 256, 512, device=device, dtype=torch.float32 if bad else torch.bfloat16)  # MISTAKE
            model(x)[:, -1].argmax(-1).tolist()  # MISTAKE


@mistake("wrong precision", "precision")
def time_series(bad):
    """The windows of a time series are float64 from NumPy; nn.LSTM was made double for them."""
    series = np.cumsum(np.random.default_rng(0).normal(size=(512, 400)), axis=1)
    lstm, head = nn.LSTM(1, 128, batch_first=True).to(device), nn.Linear(128, 1).to(device)
    if bad:
        lstm, head = lstm.double(), head.double()  # MISTAKE
    else:
        series = series.astype(np.float32)
    optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=1e-3)
    for start in range(0, 320, 40):
        window = torch.as_tensor(series[:, start:start + 65], device=device)  # MISTAKE
        hidden, _ = lstm(window[:, :-1, None])  # MISTAKE
        loss = F.mse_loss(head(hidden).squeeze(2), window[:, 1:])  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step()
        optimizer.zero_grad()


# reference_cycle ----------------------------------------------------------------------------------------------------


def check_finite(loss):
    if not loss.item() < 0.0:
        raise FloatingPointError(f"loss is {loss.item()}")


@mistake("reference cycle", "reference_cycle")
def guarded_steps(bad):
    """An exception is stored in a local variable; its traceback holds the frame, which holds the step's activations."""
    model = Net(256, 1024, 64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(x):
        hidden = F.silu(model.first(x))  # MISTAKE
        out = model.last(hidden)  # MISTAKE
        loss = out.square().mean()
        problem = None
        try:
            check_finite(loss)
        except FloatingPointError as error:
            problem = error if bad else str(error)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return problem is None

    skipped = 0
    for n in range(24):
        skipped += step(torch.randn(2048, 256, device=device))  # MISTAKE
        if n % 8 == 7:
            gc.collect()


class Node:
    """A node of the search tree."""

    def __init__(self, state, parent=None):
        self.state, self.parent, self.children = state, parent, []

    def expand(self, dynamics, n):
        for child in range(n):
            noise = torch.randn_like(self.state)
            self.children.append(Node(torch.tanh(dynamics(self.state + noise)), self))  # MISTAKE(tree_search)


@mistake("reference cycle", "reference_cycle")
def tree_search(bad):
    """Inference only: planning with a tree whose nodes know their parents, a new tree for each move."""
    dynamics = Net(256, 512, 256).to(device)
    with torch.no_grad():
        for move in range(24):
            root = Node(torch.randn(512, 256, device=device))
            root.expand(dynamics, 4)  # MISTAKE
            for child in root.children:
                child.expand(dynamics, 4)  # MISTAKE
            best = max(root.children, key=lambda c: c.state.mean().item())
            if not bad:
                for node in [root, *root.children]:
                    node.parent = None
                    if node is not root: node.children.clear()
                root.children.clear()
            if move % 8 == 7:
                gc.collect()


# private_pool -------------------------------------------------------------------------------------------------------


@mistake("a pool per graph", "private_pool")
def captured_unet(bad):
    """Diffusion at several resolutions, each captured for itself."""
    unet = nn.Sequential(nn.Conv2d(4, 64, 3, padding=1), ResidualBlock(64), ResidualBlock(64), nn.Conv2d(64, 4, 3, padding=1)).to(device).eval()
    captured, shared = {}, None
    with torch.no_grad():
        for size in [128, 112, 96, 80, 64]:
            x = torch.randn(8, 4, size, size, device=device)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                unet(x)
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=shared):  # MISTAKE
                y = unet(x)  # MISTAKE
            if not bad:
                shared = graph.pool()
            captured[size] = graph, x, y
        for step in range(12):
            graph, x, y = captured[random.Random(step).choice(list(captured))]
            x.normal_()
            graph.replay()
            y.mean().item()
    return captured


@mistake("a pool per tenant", "private_pool")
def tenant_pools(bad):
    """A memory pool for each tenant of a service, which keeps what it ever needed."""
    model = Net(512, 2048, 512).to(device).eval()
    pools = [torch.cuda.MemPool() for _ in range(6 if bad else 1)]
    r = random.Random(4)
    with torch.inference_mode():
        for request in range(24):
            tenant = r.randrange(6) if request >= 6 else request
            with torch.cuda.use_mem_pool(pools[tenant % len(pools)]):  # MISTAKE
                x = torch.randn(2048, 512, device=device)  # MISTAKE
                y = model(x)  # MISTAKE
            y.argmax(1).cpu()
            del x, y
    return pools


# fragmentation ------------------------------------------------------------------------------------------------------


@mistake("fragmentation", "fragmentation", limit=0.5, want="fragmented")
def graph_dataset(bad):
    """All graphs of a data set are put on the GPU, then those of the other folds are dropped; what is left has no room for a batch."""
    r = random.Random(9)
    graphs = []
    for n in range(90):
        nodes = torch.randn(r.randrange(8000, 18000), 128, device=device)  # MISTAKE
        if bad or n % 3 == 0:
            graphs.append((n % 3, nodes))
        del nodes
    graphs = [(fold, nodes) for fold, nodes in graphs if fold == 0]
    w = (torch.randn(128, 256, device=device) / 11).requires_grad_()
    for batch in range(6):
        x = torch.cat([nodes for _, nodes in graphs[batch * 3:batch * 3 + 3]])  # MISTAKE
        out = torch.tanh(x @ w)  # MISTAKE
        out.square().mean().backward()  # MISTAKE
        with torch.no_grad():
            w -= 0.01 * w.grad
            w.grad = None
        del x, out


@mistake("fragmentation", "fragmentation", limit=0.5, want="fragmented")
def best_of_rollouts(bad):
    """Rollouts of different lengths are collected, the best third is kept, then the update needs large blocks."""
    r, dynamics = random.Random(11), torch.randn(256, 256, device=device) / 16
    if not bad:
        recording.allocator("expandable_segments:True")
    rollouts = []
    with torch.no_grad():
        for episode in range(100):
            states = torch.tanh(torch.randn(r.randrange(1200, 8000), 256, device=device) @ dynamics)  # MISTAKE
            rollouts.append((r.random(), states))
            del states
        rollouts.sort(key=lambda x: x[0], reverse=True)
        del rollouts[30:]
    value = Net(256, 768, 1, depth=2).to(device)
    optimizer = torch.optim.SGD(value.parameters(), lr=0.01)
    for update in range(4):
        batch = torch.cat([states for _, states in rollouts[update * 6:update * 6 + 6]])  # MISTAKE
        loss = value(batch).square().mean()  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step()
        optimizer.zero_grad()
        del loss, batch


# driver_calls -------------------------------------------------------------------------------------------------------


def flush(bad):
    gc.collect()
    if bad:
        torch.cuda.empty_cache()  # MISTAKE(style_gan, captioning)


@mistake("empty_cache", "driver_calls")
def style_gan(bad):
    """A clean-up between the two halves of each step."""
    d, g = Net(512, 1024, 1).to(device), Net(128, 1024, 512).to(device)
    od, og = torch.optim.Adam(d.parameters(), lr=1e-4), torch.optim.Adam(g.parameters(), lr=1e-4)
    for step in range(8):
        real, z = torch.randn(2048, 512, device=device), torch.randn(2048, 128, device=device)
        (d(g(z).detach()).mean() - d(real).mean()).backward()
        od.step()
        od.zero_grad()
        flush(bad)  # MISTAKE
        (-d(g(z)).mean()).backward()
        og.step()
        og.zero_grad()
        od.zero_grad()
        flush(bad)  # MISTAKE


@mistake("empty_cache", "driver_calls")
def captioning(bad):
    """Inference only: a service that cleans up after every request, in a finally."""
    model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), ResidualBlock(32), nn.Conv2d(32, 64, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 1000)).to(device).eval()
    for request in range(16):
        try:
            with torch.inference_mode():
                words = model(images(24, 128)).topk(5).indices.tolist()
        finally:
            flush(bad)  # MISTAKE


# pending_free -------------------------------------------------------------------------------------------------------


class Loader(threading.Thread):
    """Batches are brought to the GPU by a thread."""

    def __init__(self, steps, size):
        super().__init__(daemon=True)
        self.steps, self.size, self.ready = steps, size, queue.Queue(maxsize=2)

    def run(self):
        for step in range(self.steps):
            self.ready.put(torch.randn(self.size, 1024).to(device))
        self.ready.put(None)


@mistake("frees that wait", "pending_free")
def augmenting_thread(bad):
    """A heavy augmentation runs on a side stream over batches that the main stream has let go of."""
    aug, main, done = torch.cuda.Stream(), torch.cuda.current_stream(), 0
    filters = [torch.randn(4096, 4096, device=device) / 64 for _ in range(2)]
    loader = Loader(24, 4096)
    loader.start()
    pool = torch.zeros(4096, device=device)
    while (batch := loader.ready.get()) is not None:
        wide = batch.repeat(1, 4)  # MISTAKE
        aug.wait_stream(main)
        with torch.cuda.stream(aug):
            for _ in range(14 if DEVICE == "cuda" else 1):
                pool += (wide @ filters[0] @ filters[1])[0]  # MISTAKE
        if bad:
            wide.record_stream(aug)  # MISTAKE
        else:
            main.wait_stream(aug)
        del wide, batch  # MISTAKE
    torch.cuda.synchronize()


@mistake("frees that wait", "pending_free")
def gathered_weights(bad):
    """As in sharded training: the full weights of each layer are gathered on a stream for communication and freed before it is done."""
    communication, compute = torch.cuda.Stream(), torch.cuda.current_stream()
    shards = [torch.randn(1024, 4096, device=device) / 64 for _ in range(5)]
    mix = torch.randn(4096, 4096, device=device) / 64
    x = torch.randn(256, 4096, device=device)
    with torch.no_grad():
        for step in range(5):
            for shard in shards:
                full = torch.empty(4096, 4096, device=device)  # MISTAKE
                communication.wait_stream(compute)
                with torch.cuda.stream(communication):
                    for part in full.split(1024):
                        part.copy_(shard)
                    for _ in range(10 if DEVICE == "cuda" else 1):
                        full.copy_(full @ mix)  # MISTAKE
                if bad:
                    full.record_stream(communication)  # MISTAKE
                    x = torch.tanh(x * 0.5)
                else:
                    compute.wait_stream(communication)
                    x = torch.tanh(x @ full)
                del full  # MISTAKE
    torch.cuda.synchronize()


# retries ------------------------------------------------------------------------------------------------------------


@mistake("retries", "retries", limit=0.4, want="retries")
def multi_scale_detection(bad):
    """Pictures of another size in every batch, near the limit; the other way uses two sizes, the larger first."""
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), ResidualBlock(32), ResidualBlock(32), nn.Conv2d(32, 8, 1)).to(device)
    optimizer, r = torch.optim.SGD(model.parameters(), lr=0.01), random.Random(6)
    sizes = [16 * r.randrange(6, 17) for _ in range(14)]
    if not bad:
        sizes = [256] + [256 if s > 176 else 176 for s in sizes[1:]]
    for size in sizes:
        out = model(images(8, size))  # MISTAKE
        loss = out.square().mean()  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step()
        optimizer.zero_grad()
        del out, loss


@mistake("retries", "retries", limit=0.4, want="retries")
def growing_history(bad):
    """Inference only, plain tensors: the history is extended by cat, so that each request needs a new, larger block."""
    w = torch.randn(512, 512, device=device) / 22
    history, used = (None if bad else torch.empty(24, 2048, 512, device=device)), 0
    with torch.inference_mode():
        for request in range(24):
            new = torch.tanh(torch.randn(2048, 512, device=device) @ w)
            if bad:
                history = new[None] if history is None else torch.cat([history, new[None]])  # MISTAKE
                answer = (history * 0.5).sum(0)  # MISTAKE
            else:
                history[used] = new
                answer = sum(part.mul(0.5) for part in history[: used + 1])
            used += 1
            answer.mean().item()


# out_of_memory ------------------------------------------------------------------------------------------------------


@mistake("too much for the device", "out_of_memory", "will_not_fit", limit=0.5, want="oom")
def progressive_growing(bad):
    """The resolution doubles every three steps while the batch stays."""
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), ResidualBlock(32), ResidualBlock(32), nn.Conv2d(32, 3, 3, padding=1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for size, n in [(16, 16), (32, 16), (64, 16), (128, 16)] if bad else [(16, 16), (32, 16), (64, 16), (128, 4)]:
        for step in range(3):
            x = images(n, size)
            loss = F.mse_loss(model(x), x)  # MISTAKE
            loss.backward()  # MISTAKE
            optimizer.step()
            optimizer.zero_grad()
            del loss


@mistake("too much for the device", "out_of_memory", "will_not_fit", limit=0.45, want="oom")
def state_comes_late(bad):
    """The first forward and backward pass fit; the state of the optimizer, made in the first step, does not."""
    model = Net(1024, 4096, 1024, depth=3).to(device)
    if bad:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, foreach=False)
    for step in range(6):
        x = torch.randn(256, 1024, device=device)
        loss = F.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()  # MISTAKE
        optimizer.zero_grad()


@mistake("too much for the device", "out_of_memory", "huge_tensor", "will_not_fit", limit=0.5, want="oom")
def packed_sequences(bad):
    """Samples are packed until the loader's bag is empty: the last pack is many times larger."""
    encoder, head, r = Encoder(256, 3).to(device), nn.Linear(256, 500).to(device), random.Random(3)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=1e-4)
    packs = [r.randrange(6, 9) for _ in range(8)] + [44]
    for n in packs:
        x = torch.randn(n if bad else min(n, 8), 160, 256, device=device)
        loss = head(encoder(x)).logsumexp(-1).mean()  # MISTAKE
        loss.backward()  # MISTAKE
        optimizer.step()
        optimizer.zero_grad()
        del loss


if __name__ == "__main__":
    run = recording.main(__file__)
    with run:
        run.result = run.program(*run.arguments)
