"""Ordinary programs without a mistake: no finding of high or medium severity is right for them.

    python healthy.py OUT [NAME...]        on a GPU; see recording.py
    DEVICE=cpu python healthy.py OUT       only tries whether everything runs
"""
import collections, contextlib, copy, functools, itertools, math, os, random
import recording
from recording import DEVICE, healthy
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
import torch_geometric.nn, torchdiffeq, torchvision, transformers as T
from transformers import (BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM,
                          T5Config, T5ForConditionalGeneration, ViTConfig, ViTForImageClassification)

GPU = DEVICE == "cuda"


# What many programs use ---------------------------------------------------------------------------------------------


def mlp(*widths, act=nn.ReLU):
    layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1]).to(DEVICE)


def normal(*shape): return torch.randn(*shape, device=DEVICE)


def integers(n, *shape): return torch.randint(0, n, shape, device=DEVICE)


def fit(model, optimizer, loss, steps=6, schedule=None):
    """The loop of most programs: loss(model) makes a batch and the loss for it."""
    model.train()
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
        if schedule: schedule.step()
        del value


def classify(x, classes): return lambda model: F.cross_entropy(model(normal(*x)), integers(classes, x[0]))


def text_loss(n, length, vocab=2000):
    def loss(model): ids = integers(vocab, n, length); return model(input_ids=ids, labels=ids).loss
    return loss


def gpt2(layers=2, width=128): return GPT2LMHeadModel(GPT2Config(vocab_size=2000, n_embd=width, n_layer=layers, n_head=4, n_positions=256)).to(DEVICE)


def llama(layers=2, width=256): return LlamaForCausalLM(LlamaConfig(vocab_size=2000, hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2)).to(DEVICE)


def cnn(classes=10, width=32):
    block = lambda a, b, s: [nn.Conv2d(a, b, 3, s, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*block(3, width, 1), *block(width, width, 2), *block(width, 2 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes)).to(DEVICE)


class Block(nn.Module):
    def __init__(self, width=256, heads=4):
        super().__init__(); self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask=None):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def transformer(depth=3, width=256): return nn.Sequential(*[Block(width) for _ in range(depth)]).to(DEVICE)


# Models and optimizers ----------------------------------------------------------------------------------------------


@healthy()
def mlp_sgd(): m = mlp(512, 512, 512, 10); fit(m, torch.optim.SGD(m.parameters(), lr=0.1), classify((4096, 512), 10), 10)


@healthy()
def mlp_momentum(): m = mlp(512, 768, 768, 10); fit(m, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), classify((8192, 512), 10), 8)


@healthy()
def mlp_adamw(): m = mlp(256, 512, 512, 512, 10); fit(m, torch.optim.AdamW(m.parameters()), classify((8192, 256), 10), 8)


@healthy()
def mlp_adam_fused(): m = mlp(512, 1024, 1024, 10, act=nn.GELU); fit(m, torch.optim.Adam(m.parameters(), fused=GPU), classify((4096, 512), 10), 8)


@healthy()
def mlp_rmsprop(): m = mlp(256, 512, 512, 10, act=nn.Tanh); fit(m, torch.optim.RMSprop(m.parameters(), lr=1e-3), classify((8192, 256), 10), 8)


@healthy()
def mlp_lbfgs():
    model, x, y = mlp(32, 256, 256, 1, act=nn.Tanh), normal(8192, 32), normal(8192, 1); optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=5)

    def closure(): optimizer.zero_grad(); loss = F.mse_loss(model(x), y); loss.backward(); return loss
    for step in range(5): optimizer.step(closure)


@healthy()
def cnn_momentum(): m = cnn(); fit(m, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), classify((64, 3, 64, 64), 10), 8)


@healthy()
def resnet18():
    m = torchvision.models.resnet18(num_classes=100).to(DEVICE); fit(m, torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4), classify((32, 3, 96, 96), 100), 5)


@healthy()
def vit_classifier():
    m = ViTForImageClassification(ViTConfig(hidden_size=192, num_hidden_layers=3, num_attention_heads=3, intermediate_size=768, image_size=64, patch_size=8, num_labels=50)).to(DEVICE)
    fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), lambda m: m(pixel_values=normal(32, 3, 64, 64), labels=integers(50, 32)).loss)


@healthy()
def bert_masked():
    m = BertForMaskedLM(BertConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024)).to(DEVICE)
    fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), text_loss(16, 128))


@healthy()
def gpt2_text(): m = gpt2(); fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), text_loss(16, 128))


@healthy()
def llama_bfloat16(): m = llama().bfloat16(); fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), text_loss(16, 128))


@healthy()
def t5_summaries():
    m = T5ForConditionalGeneration(T5Config(vocab_size=2000, d_model=256, d_ff=512, num_layers=2, num_heads=4, d_kv=64, decoder_start_token_id=0)).to(DEVICE)
    fit(m, torch.optim.Adafactor(m.parameters(), lr=1e-3), text_loss(8, 96))


@healthy()
def mixtral_experts():
    m = MixtralForCausalLM(MixtralConfig(vocab_size=2000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, num_local_experts=4)).to(DEVICE)
    fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), text_loss(8, 128), 5)


@healthy()
def own_transformer(): m = transformer(); fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), lambda m: m(normal(16, 128, 256)).square().mean(), 8)


@healthy()
def masked_transformer():
    """Attention with a mask that is made for each batch."""
    block, head = Block().to(DEVICE), nn.Linear(256, 20).to(DEVICE); optimizer = torch.optim.AdamW([*block.parameters(), *head.parameters()], lr=1e-4)
    for step in range(8):
        x, lengths = normal(16, 128, 256), integers(100, 16) + 28
        mask = (torch.arange(128, device=DEVICE)[None] < lengths[:, None])[:, None, None]
        loss = F.cross_entropy(head(block(x, mask).mean(1)), integers(20, 16)); loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss


class Tagger(nn.Module):
    def __init__(self, rnn): super().__init__(); self.embed, self.rnn, self.head = nn.Embedding(2000, 128), rnn, nn.Linear(256, 30)
    def forward(self, ids): return self.head(self.rnn(self.embed(ids))[0])


@healthy()
def lstm_tagger():
    m = Tagger(nn.LSTM(128, 128, 2, batch_first=True, bidirectional=True)).to(DEVICE)
    fit(m, torch.optim.Adam(m.parameters()), lambda m: F.cross_entropy(m(integers(2000, 64, 64)).flatten(0, 1), integers(30, 64 * 64)))


@healthy()
def gru_windows():
    """Truncated backpropagation through time, with the state detached."""
    rnn, head = nn.GRU(64, 256, batch_first=True).to(DEVICE), nn.Linear(256, 64).to(DEVICE); optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()]); state = None
    for window in range(10):
        x = normal(128, 49, 64); h, state = rnn(x[:, :-1], state); loss = F.mse_loss(head(h), x[:, 1:])
        loss.backward(); optimizer.step(); optimizer.zero_grad(); state = state.detach()


@healthy()
def packed_lstm():
    """Sentences of different lengths, packed."""
    embed, rnn, head = nn.Embedding(2000, 128).to(DEVICE), nn.LSTM(128, 256, batch_first=True).to(DEVICE), nn.Linear(256, 4).to(DEVICE); r = random.Random(0)
    optimizer = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()])
    for step in range(8):
        lengths = sorted((r.randrange(10, 64) for _ in range(64)), reverse=True); ids = integers(2000, 64, lengths[0])
        packed = nn.utils.rnn.pack_padded_sequence(embed(ids), lengths, batch_first=True); _, (h, _) = rnn(packed)
        loss = F.cross_entropy(head(h[-1]), integers(4, 64)); loss.backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def speech_ctc():
    """Convolutions, a recurrent net, CTC, utterances of different lengths."""
    net = nn.Sequential(nn.Conv1d(40, 128, 5, 2, 2), nn.ReLU(), nn.Conv1d(128, 128, 5, 2, 2), nn.ReLU()).to(DEVICE); rnn, head = nn.GRU(128, 128, batch_first=True).to(DEVICE), nn.Linear(128, 30).to(DEVICE)
    optimizer = torch.optim.AdamW([*net.parameters(), *rnn.parameters(), *head.parameters()]); r = random.Random(1)
    for step in range(8):
        n = 4 * r.randrange(60, 120); h = rnn(net(normal(32, 40, n)).transpose(1, 2))[0]
        loss = F.ctc_loss(head(h).log_softmax(-1).transpose(0, 1), integers(29, 32, 20) + 1, torch.full((32,), h.shape[1]), torch.full((32,), 20)); loss.backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def gcn():
    edges, x, y = integers(20000, 2, 80000), normal(20000, 64), integers(7, 20000); first, second = torch_geometric.nn.GCNConv(64, 128).to(DEVICE), torch_geometric.nn.GCNConv(128, 7).to(DEVICE)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
    for epoch in range(10):
        optimizer.zero_grad(); F.cross_entropy(second(first(x, edges).relu(), edges), y).backward(); optimizer.step()


@healthy()
def graph_attention():
    """Batches of small graphs of different sizes."""
    conv, head, r = torch_geometric.nn.GATConv(32, 32, heads=4).to(DEVICE), nn.Linear(128, 3).to(DEVICE), random.Random(2); optimizer = torch.optim.Adam([*conv.parameters(), *head.parameters()])
    for step in range(10):
        n = r.randrange(6000, 12000); edges, graph = integers(n, 2, 5 * n), torch.arange(n, device=DEVICE) // 50
        h = torch_geometric.nn.global_mean_pool(conv(normal(n, 32), edges).relu(), graph); loss = F.cross_entropy(head(h), integers(3, len(h))); loss.backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def point_clouds():
    local, whole = mlp(3, 64, 256), mlp(256, 256, 40); optimizer = torch.optim.Adam([*local.parameters(), *whole.parameters()])
    for step in range(8): optimizer.zero_grad(); F.cross_entropy(whole(local(normal(32, 1024, 3)).amax(1)), integers(40, 32)).backward(); optimizer.step()


@healthy()
def matrix_factors():
    """Large embeddings with sparse gradients."""
    users, items = nn.Embedding(100000, 64, sparse=True).to(DEVICE), nn.Embedding(50000, 64, sparse=True).to(DEVICE); optimizer = torch.optim.SparseAdam([*users.parameters(), *items.parameters()])
    for step in range(10):
        u, i, j = integers(100000, 8192), integers(50000, 8192), integers(50000, 8192); loss = -F.logsigmoid((users(u) * (items(i) - items(j))).sum(1)).mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def click_prediction():
    bags, dense, top = nn.ModuleList(nn.EmbeddingBag(5000, 32) for _ in range(6)).to(DEVICE), mlp(13, 128, 32), mlp(7 * 32, 512, 256, 1); optimizer = torch.optim.Adagrad([*bags.parameters(), *dense.parameters(), *top.parameters()], lr=0.01)
    for step in range(8):
        features = torch.cat([dense(normal(8192, 13))] + [bag(integers(5000, 8192, 5)) for bag in bags], dim=1)
        loss = F.binary_cross_entropy_with_logits(top(features).squeeze(1), torch.rand(8192, device=DEVICE).round()); loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, features


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__(); self.into, self.down, self.middle, self.up, self.out = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ConvTranspose2d(2 * width, width, 2, 2), nn.Conv2d(2 * width, 3, 3, 1, 1)
        self.time = nn.Linear(1, 2 * width)

    def forward(self, x, t):
        a = F.silu(self.into(x)); b = F.silu(self.down(a)) + self.time(t[:, None])[:, :, None, None]
        return self.out(torch.cat([a, F.silu(self.up(F.silu(self.middle(b))))], dim=1))


def diffusion_loss(unet, n=32):
    x, noise, t = normal(n, 3, 64, 64), normal(n, 3, 64, 64), torch.rand(n, device=DEVICE); a = t[:, None, None, None]
    return F.mse_loss(unet((1 - a).sqrt() * x + a.sqrt() * noise, t), noise)


@healthy()
def diffusion_unet(): m = UNet().to(DEVICE); fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), diffusion_loss, 8)


@healthy()
def diffusion_sampling():
    """Inference only: twelve steps from noise to picture, three times."""
    unet = UNet(64).to(DEVICE).eval()
    for prompt in range(3):
        with torch.no_grad():
            x = normal(16, 3, 64, 64)
            for n in range(12): t = torch.full((16,), 1 - n / 12, device=DEVICE); x = x - unet(x, t) / 12
            x.clamp(-1, 1).cpu()


@healthy()
def vae():
    encoder = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 40)).to(DEVICE)
    decoder = nn.Sequential(nn.Linear(20, 3136), nn.Unflatten(1, (64, 7, 7)), nn.ConvTranspose2d(64, 32, 2, 2), nn.ReLU(), nn.ConvTranspose2d(32, 1, 2, 2)).to(DEVICE); optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
    for step in range(8):
        x = torch.rand(512, 1, 28, 28, device=DEVICE); mean, spread = encoder(x).chunk(2, 1); z = mean + torch.randn_like(mean) * (spread / 2).exp()
        loss = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum") / 512 - 0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean(); loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss


@healthy()
def gan():
    d, g = mlp(784, 512, 512, 1, act=nn.SiLU), mlp(64, 512, 512, 784, act=nn.SiLU); od, og = torch.optim.Adam(d.parameters(), lr=2e-4), torch.optim.Adam(g.parameters(), lr=2e-4)
    for step in range(8):
        real, z = torch.rand(4096, 784, device=DEVICE), normal(4096, 64)
        with torch.no_grad(): fake = g(z)
        loss = F.softplus(-d(real)).mean() + F.softplus(d(fake)).mean(); loss.backward(); od.step(); od.zero_grad()
        d.requires_grad_(False); loss = F.softplus(-d(g(z))).mean(); loss.backward(); og.step(); og.zero_grad(); d.requires_grad_(True); del loss


@healthy()
def gradient_penalty():
    critic = mlp(128, 512, 512, 1, act=nn.SiLU); optimizer = torch.optim.Adam(critic.parameters())
    for step in range(8):
        real, fake = normal(2048, 128), normal(2048, 128); mixed = torch.lerp(real, fake, torch.rand(2048, 1, device=DEVICE)).requires_grad_()
        slope, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True); loss = critic(fake).mean() - critic(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, slope


# Reinforcement learning ---------------------------------------------------------------------------------------------


@healthy()
def ppo():
    policy, value = mlp(64, 256, 256, 8, act=nn.Tanh), mlp(64, 256, 256, 1, act=nn.Tanh); optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-4)
    for iteration in range(3):
        with torch.no_grad():
            states = [normal(1024, 64)]; actions, olds = [], []
            for t in range(8):
                p = torch.distributions.Categorical(logits=policy(states[-1])); actions.append(p.sample()); olds.append(p.log_prob(actions[-1])); states.append(0.9 * states[-1] + 0.1 * normal(1024, 64))
            s, a, old = torch.cat(states[:-1]), torch.cat(actions), torch.cat(olds); returns = (a == 3).float(); advantage = returns - value(s).squeeze(1)
        for index in torch.randperm(len(s), device=DEVICE).split(4096):
            p = torch.distributions.Categorical(logits=policy(s[index])); ratio = (p.log_prob(a[index]) - old[index]).exp()
            loss = -torch.minimum(ratio * advantage[index], ratio.clamp(0.8, 1.2) * advantage[index]).mean() + F.mse_loss(value(s[index]).squeeze(1), returns[index]) - 0.01 * p.entropy().mean()
            loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, p, ratio


@healthy()
def dqn():
    """A replay buffer of fixed size, made in the beginning."""
    net = mlp(128, 256, 256, 6); target = copy.deepcopy(net); optimizer = torch.optim.Adam(net.parameters()); s, s2, a, r = normal(60000, 128), normal(60000, 128), integers(6, 60000), normal(60000)
    for step in range(16):
        at = slice(step * 256, step * 256 + 256); s[at] = normal(256, 128)
        with torch.no_grad(): a[at] = net(s[at]).argmax(1)
        i = integers(60000, 2048)
        with torch.no_grad(): wanted = r[i] + 0.99 * target(s2[i]).amax(1)
        loss = F.smooth_l1_loss(net(s[i]).gather(1, a[i, None]).squeeze(1), wanted); loss.backward(); optimizer.step(); optimizer.zero_grad()
        if step % 8 == 7: target.load_state_dict(net.state_dict())


@healthy()
def reinforce():
    policy = mlp(32, 256, 256, 4, act=nn.Tanh); optimizer = torch.optim.Adam(policy.parameters())
    for episode in range(6):
        state, log_probs, rewards = normal(1024, 32), [], []
        for t in range(8):
            p = torch.distributions.Categorical(logits=policy(state)); action = p.sample(); log_probs.append(p.log_prob(action)); rewards.append((action == 1).float()); state = 0.9 * state + 0.1 * normal(1024, 32)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0); loss = -(torch.stack(log_probs) * (returns - returns.mean())).mean(); loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, log_probs, p


@healthy()
def soft_actor():
    """Three optimizers, target networks without gradients."""
    actor, q, target = mlp(32, 512, 512, 8), mlp(40, 512, 512, 1), mlp(40, 512, 512, 1); oa, oq = torch.optim.Adam(actor.parameters()), torch.optim.Adam(q.parameters())
    for step in range(8):
        s, a, r, s2 = normal(4096, 32), normal(4096, 8), normal(4096, 1), normal(4096, 32)
        with torch.no_grad(): wanted = r + 0.99 * target(torch.cat([s2, torch.tanh(actor(s2))], 1))
        loss = F.mse_loss(q(torch.cat([s, a], 1)), wanted); loss.backward(); oq.step(); oq.zero_grad()
        q.requires_grad_(False); loss = -q(torch.cat([s, torch.tanh(actor(s))], 1)).mean(); loss.backward(); oa.step(); oa.zero_grad(); q.requires_grad_(True); del loss
        with torch.no_grad():
            for p, t in zip(q.parameters(), target.parameters()): t.lerp_(p, 0.005)


@healthy()
def group_policy():
    """GRPO with a reference model without gradients and a rollout without gradients."""
    policy = gpt2(); reference = copy.deepcopy(policy).eval().requires_grad_(False); optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
    score = lambda m, ids: m(input_ids=ids).logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None]).squeeze(2)
    for step in range(4):
        with torch.no_grad():
            ids = policy.generate(integers(2000, 8, 16), max_new_tokens=6, min_new_tokens=6, do_sample=True, pad_token_id=0, eos_token_id=1); old, ref = score(policy, ids), score(reference, ids)
        advantage = normal(8, 1); new = score(policy, ids); loss = (-(new - old).exp() * advantage + 0.04 * (ref - new)).mean(); loss.backward(); optimizer.step(); optimizer.zero_grad(); del new, loss


# Representations ----------------------------------------------------------------------------------------------------


@healthy()
def simclr():
    m = mlp(256, 512, 512, 128); optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for step in range(8):
        x = normal(1024, 256); z = F.normalize(m(torch.cat([x + 0.1 * normal(1024, 256), x + 0.1 * normal(1024, 256)])), dim=1)
        loss = F.cross_entropy((z @ z.T / 0.1).fill_diagonal_(-1e9), torch.arange(2048, device=DEVICE).roll(1024)); loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, z


@healthy()
def image_text_towers():
    picture, words, scale = cnn(128), nn.Sequential(nn.EmbeddingBag(2000, 256), nn.Linear(256, 128)).to(DEVICE), nn.Parameter(torch.tensor(2.0, device=DEVICE)); optimizer = torch.optim.AdamW([*picture.parameters(), *words.parameters(), scale])
    for step in range(8):
        a, b = F.normalize(picture(normal(128, 3, 32, 32)), dim=1), F.normalize(words(integers(2000, 128, 20)), dim=1); logits = scale.exp() * a @ b.T; y = torch.arange(128, device=DEVICE)
        loss = (F.cross_entropy(logits, y) + F.cross_entropy(logits.T, y)) / 2; loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, logits


@healthy()
def triplets():
    m = cnn(64); optimizer = torch.optim.Adam(m.parameters())
    for step in range(8): optimizer.zero_grad(); F.triplet_margin_loss(m(normal(64, 3, 32, 32)), m(normal(64, 3, 32, 32)), m(normal(64, 3, 32, 32))).backward(); optimizer.step()


@healthy()
def queue_of_keys():
    """Momentum contrast, done right."""
    q, k = mlp(256, 512, 128), mlp(256, 512, 128).requires_grad_(False); optimizer = torch.optim.SGD(q.parameters(), lr=0.1); queue, at = F.normalize(normal(16384, 128), dim=1), 0
    for step in range(10):
        x = normal(1024, 256)
        with torch.no_grad(): key = F.normalize(k(x), dim=1)
        z = F.normalize(q(x), dim=1); loss = F.cross_entropy(torch.cat([(z * key).sum(1, keepdim=True), z @ queue.T], 1) / 0.07, torch.zeros(1024, dtype=torch.long, device=DEVICE))
        loss.backward(); optimizer.step(); optimizer.zero_grad(); queue[at:at + 1024] = key; at = (at + 1024) % 16384
        with torch.no_grad():
            for a, b in zip(q.parameters(), k.parameters()): b.lerp_(a, 0.01)


@healthy()
def sentence_encoder():
    """Inference only: embeddings of sentences of different lengths, the result on the CPU."""
    m = T.BertModel(BertConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=1024)).to(DEVICE).eval(); r, found = random.Random(0), []
    with torch.inference_mode():
        for batch in range(12): found.append(F.normalize(m(input_ids=integers(2000, 32, r.randrange(16, 128))).last_hidden_state.mean(1), dim=1).cpu())


@healthy()
def nearest_neighbours():
    """Inference only: a search in parts."""
    base, queries = normal(100000, 128), normal(2000, 128)
    with torch.no_grad():
        for part in queries.split(200): (part @ base.T).topk(10).indices.cpu()


# Adaptation, teachers, averages -------------------------------------------------------------------------------------


class Adapted(nn.Module):
    def __init__(self, base, rank=8): super().__init__(); self.base, self.a, self.b = base, nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
    def forward(self, x): return self.base(x) + self.b(self.a(x))


@healthy()
def lora():
    m = llama().requires_grad_(False)
    for layer in m.model.layers: layer.self_attn.q_proj, layer.self_attn.v_proj = Adapted(layer.self_attn.q_proj).to(DEVICE), Adapted(layer.self_attn.v_proj).to(DEVICE)
    fit(m, torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], lr=1e-4), text_loss(8, 128))


@healthy()
def teacher_and_student():
    teacher, student = transformer(4).eval(), transformer(2); optimizer = torch.optim.AdamW(student.parameters())
    for step in range(8):
        x = normal(16, 128, 256)
        with torch.no_grad(): wanted = teacher(x)
        loss = F.mse_loss(student(x), wanted); loss.backward(); optimizer.step(); optimizer.zero_grad(); del loss, wanted


@healthy()
def ema():
    m = cnn(); averaged = copy.deepcopy(m).requires_grad_(False); optimizer = torch.optim.AdamW(m.parameters())
    for step in range(8):
        F.cross_entropy(m(normal(64, 3, 48, 48)), integers(10, 64)).backward(); optimizer.step(); optimizer.zero_grad()
        with torch.no_grad():
            for a, b in zip(averaged.parameters(), m.parameters()): a.lerp_(b, 0.01)


@healthy()
def averaged_model():
    m = mlp(512, 1024, 1024, 10); swa = torch.optim.swa_utils.AveragedModel(m); optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for epoch in range(4):
        fit(m, optimizer, classify((4096, 512), 10), 3); swa.update_parameters(m)
        with torch.no_grad(): swa(normal(4096, 512)).argmax(1).cpu()


@healthy()
def frozen_backbone():
    backbone, head = torchvision.models.resnet18().to(DEVICE).eval().requires_grad_(False), nn.Linear(1000, 10).to(DEVICE); optimizer = torch.optim.Adam(head.parameters())
    for step in range(8): optimizer.zero_grad(); F.cross_entropy(head(backbone(normal(16, 3, 96, 96))), integers(10, 16)).backward(); optimizer.step()


@healthy()
def gradual_thawing():
    """First the head, then everything, with a new optimizer."""
    m = mlp(512, 1024, 1024, 10)
    for layer in m[:-1]: layer.requires_grad_(False)
    fit(m, torch.optim.AdamW(m[-1].parameters()), classify((4096, 512), 10), 5); m.requires_grad_(True); fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), classify((4096, 512), 10), 6)


@healthy()
def best_weights_on_cpu():
    m = mlp(512, 1024, 1024, 10); optimizer = torch.optim.AdamW(m.parameters()); best = None
    for epoch in range(4):
        fit(m, optimizer, classify((4096, 512), 10), 3)
        with torch.no_grad(): F.cross_entropy(m(normal(4096, 512)), integers(10, 4096)).item()
        best = {k: v.cpu() for k, v in m.state_dict().items()}
    m.load_state_dict(best)


# Techniques ---------------------------------------------------------------------------------------------------------


@healthy()
def half_with_scaler():
    m = cnn(width=64); optimizer, scaler = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9), torch.amp.GradScaler(DEVICE)
    for step in range(8):
        with torch.autocast(DEVICE, torch.float16 if GPU else torch.bfloat16): loss = F.cross_entropy(m(normal(64, 3, 48, 48)), integers(10, 64))
        scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update(); optimizer.zero_grad()


@healthy()
def autocast_bfloat16():
    m = transformer(); optimizer = torch.optim.AdamW(m.parameters(), lr=1e-4)
    for step in range(6):
        with torch.autocast(DEVICE, torch.bfloat16): loss = m(normal(16, 128, 256)).float().square().mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def accumulated():
    m = gpt2(); optimizer, loss = torch.optim.AdamW(m.parameters(), lr=1e-4), text_loss(8, 128)
    for step in range(4):
        for micro in range(4): (loss(m) / 4).backward()
        optimizer.step(); optimizer.zero_grad()


@healthy()
def checkpointed():
    blocks = nn.ModuleList(transformer(4)); optimizer = torch.optim.AdamW(blocks.parameters(), lr=1e-4)
    for step in range(6):
        x = normal(16, 128, 256)
        for block in blocks: x = checkpoint(block, x, use_reentrant=False)
        x.square().mean().backward(); optimizer.step(); optimizer.zero_grad(); del x


@healthy()
def checkpointed_reentrant():
    m = mlp(512, *[512] * 8, act=nn.GELU); optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for step in range(8):
        x = normal(8192, 512).requires_grad_(); checkpoint_sequential(m, 3, x, use_reentrant=True).square().mean().backward(); optimizer.step(); optimizer.zero_grad(); del x


@healthy()
def llama_checkpointed(): m = llama(4); m.gradient_checkpointing_enable(); fit(m, torch.optim.AdamW(m.parameters(), lr=1e-4), text_loss(16, 128), 5)


@healthy()
def compiled_mlp(): m = mlp(512, 1024, 1024, 10, act=nn.GELU); c = torch.compile(m); fit(c, torch.optim.AdamW(m.parameters()), classify((4096, 512), 10), 8)


@healthy()
def compiled_transformer(): m = transformer(2); c = torch.compile(m); fit(c, torch.optim.AdamW(m.parameters()), lambda m: m(normal(16, 128, 256)).square().mean(), 8)


@healthy()
def compiled_graphs():
    """CUDA graph trees."""
    m = mlp(512, 1024, 1024, 512, act=nn.GELU).eval(); c = torch.compile(m, mode="reduce-overhead" if GPU else None)
    with torch.no_grad():
        for step in range(10): c(normal(2048, 512)).argmax(1).cpu()
    return c


@healthy()
def captured_inference():
    m, x = mlp(512, 2048, 2048, 512).eval(), normal(2048, 512); side = torch.cuda.Stream()
    with torch.no_grad():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side): m(x); m(x)
        torch.cuda.current_stream().wait_stream(side); graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph): y = m(x)
        for request in range(10): x.copy_(normal(2048, 512)); graph.replay(); y.argmax(1).cpu()
    return graph, y


@healthy()
def captured_training():
    """A whole step in one graph, with a capturable optimizer."""
    m, x = mlp(256, 512, 512, 256), normal(8192, 256); optimizer = torch.optim.AdamW(m.parameters(), capturable=GPU); side = torch.cuda.Stream(); side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3): optimizer.zero_grad(); F.mse_loss(m(x), x).backward(); optimizer.step()
    torch.cuda.current_stream().wait_stream(side); graph = torch.cuda.CUDAGraph(); optimizer.zero_grad()
    with torch.cuda.graph(graph): loss = F.mse_loss(m(x), x); loss.backward(); optimizer.step()
    for step in range(10): x.normal_(); graph.replay()
    loss.item(); return graph, loss


@healthy()
def shared_pool_graphs():
    """Graphs for five batch sizes in one pool, the largest first."""
    m, x, graphs, pool = mlp(512, 2048, 512).eval(), normal(2048, 512), {}, None; side = torch.cuda.Stream()
    with torch.no_grad():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side): m(x)
        torch.cuda.current_stream().wait_stream(side)
        for n in [2048, 1536, 1024, 512, 256]:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool): y = m(x[:n]).argmax(1)
            pool = pool or graph.pool(); graphs[n] = graph, y
        for request in range(10): graph, y = graphs[random.Random(request).choice(list(graphs))]; graph.replay(); y.cpu()
    return graphs


@healthy()
def two_streams():
    """A copy stream prefetches the next batch, with events and record_stream as it should be."""
    m = mlp(512, 1024, 1024, 10); optimizer, copies = torch.optim.SGD(m.parameters(), lr=0.1), torch.cuda.Stream(); host = [torch.randn(4096, 512).pin_memory() for _ in range(3)]

    def fetch(n):
        with torch.cuda.stream(copies): return host[n % 3].to(DEVICE, non_blocking=True)
    following = fetch(0)
    for step in range(10):
        torch.cuda.current_stream().wait_stream(copies); x = following; x.record_stream(torch.cuda.current_stream()); following = fetch(step + 1)
        F.cross_entropy(m(x), integers(10, 4096)).backward(); optimizer.step(); optimizer.zero_grad(); torch.cuda.synchronize()


@healthy()
def loader_with_workers():
    data = TensorDataset(torch.randn(8192, 512), torch.randint(0, 10, (8192,))); m = mlp(512, 1024, 1024, 10); optimizer = torch.optim.AdamW(m.parameters())
    for x, y in DataLoader(data, batch_size=1024, shuffle=True, num_workers=2, pin_memory=GPU):
        x, y = x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True); F.cross_entropy(m(x), y).backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def clipped_gradients():
    m = transformer(2); optimizer = torch.optim.AdamW(m.parameters())
    for step in range(6): optimizer.zero_grad(); m(normal(16, 128, 256)).square().mean().backward(); nn.utils.clip_grad_norm_(m.parameters(), 1.0); optimizer.step()


@healthy()
def parameter_groups():
    m = transformer(2); decay, rest = [p for p in m.parameters() if p.ndim > 1], [p for p in m.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)], lr=1e-4); schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=10)
    fit(m, optimizer, lambda m: m(normal(16, 128, 256)).square().mean(), 6, schedule)


@healthy()
def annotated():
    """record_function around the parts of a step."""
    m = mlp(512, 1024, 1024, 10); optimizer = torch.optim.AdamW(m.parameters())
    for step in range(8):
        with torch.profiler.record_function(f"step {step}"):
            with torch.profiler.record_function("forward"): loss = F.cross_entropy(m(normal(4096, 512)), integers(10, 4096))
            with torch.profiler.record_function("backward"): loss.backward()
            with torch.profiler.record_function("optimizer"): optimizer.step(); optimizer.zero_grad()


@healthy()
def epochs_with_evaluation():
    m = cnn(); optimizer = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9); history = []
    for epoch in range(3):
        fit(m, optimizer, classify((64, 3, 48, 48), 10), 4); m.eval(); right = 0
        with torch.no_grad():
            for batch in range(4): right += (m(normal(128, 3, 48, 48)).argmax(1) == integers(10, 128)).sum().item()
        history.append(right / 512)


@healthy()
def confusion_counts():
    """Evaluation that keeps predictions of one epoch on the GPU, small ones, and lets them go."""
    m = mlp(512, 1024, 100).eval()
    for epoch in range(3):
        seen, wanted = [], []
        with torch.no_grad():
            for batch in range(6): seen.append(m(normal(4096, 512)).argmax(1)); wanted.append(integers(100, 4096))
        (torch.cat(seen) == torch.cat(wanted)).float().mean().item()


@healthy()
def changing_lengths():
    m = transformer(2); r = random.Random(3); fit(m, torch.optim.AdamW(m.parameters()), lambda m: m(normal(8, r.randrange(64, 256), 256)).square().mean(), 8)


@healthy()
def save_on_cpu():
    m = mlp(512, *[512] * 5, act=nn.GELU); optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    for step in range(5):
        with torch.autograd.graph.save_on_cpu(pin_memory=GPU): loss = m(normal(8192, 512)).square().mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()


@healthy()
def step_in_backward():
    """The optimizer steps for each parameter as soon as its gradient is there."""
    m = mlp(512, 2048, 2048, 10); optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in m.parameters()}

    def hook(p): optimizers[p].step(); optimizers[p].zero_grad()
    for p in m.parameters(): p.register_post_accumulate_grad_hook(hook)
    for step in range(8): F.cross_entropy(m(normal(2048, 512)), integers(10, 2048)).backward()


@healthy()
def plain_tensors():
    w = [(normal(a, b) / a ** 0.5).requires_grad_() for a, b in [(256, 512), (512, 512), (512, 1)]]
    for step in range(12):
        x, y = normal(4096, 256), normal(4096, 1); loss = (torch.relu(torch.relu(x @ w[0]) @ w[1]) @ w[2] - y).square().mean(); loss.backward()
        with torch.no_grad():
            for p in w: p -= 0.01 * p.grad; p.grad = None


@healthy()
def own_optimizer():
    """Momentum by hand, tensor by tensor."""
    m = mlp(512, 1024, 1024, 10); momenta = {p: torch.zeros_like(p) for p in m.parameters()}
    for step in range(8):
        F.cross_entropy(m(normal(4096, 512)), integers(10, 4096)).backward()
        with torch.no_grad():
            for p, v in momenta.items(): v.mul_(0.9).add_(p.grad); p.add_(v, alpha=-0.01); p.grad = None


@healthy()
def ode():
    field = mlp(64, 256, 64, act=nn.Tanh); optimizer = torch.optim.Adam(field.parameters())
    for step in range(5): end = torchdiffeq.odeint(lambda t, y: field(y), normal(2048, 64), torch.tensor([0.0, 1.0], device=DEVICE), method="rk4", options=dict(step_size=0.25))[-1]; end.square().mean().backward(); optimizer.step(); optimizer.zero_grad(); del end


@healthy()
def functional_ensemble():
    members = [mlp(128, 256, 10) for _ in range(4)]; params, buffers = torch.func.stack_module_state(members); base = copy.deepcopy(members[0]).to("meta"); optimizer = torch.optim.Adam(list(params.values()))
    call = lambda p, b, x: torch.func.functional_call(base, (p, b), (x,))
    for step in range(6): out = torch.vmap(call, (0, 0, None))(params, buffers, normal(4096, 128)); F.cross_entropy(out.flatten(0, 1), integers(10, 4 * 4096)).backward(); optimizer.step(); optimizer.zero_grad(); del out


@healthy()
def inner_loop():
    """First-order meta-learning, task by task."""
    m = mlp(64, 256, 256, 1); optimizer = torch.optim.Adam(m.parameters())
    for step in range(4):
        for task in range(4):
            fast = dict(m.named_parameters())
            for _ in range(2):
                loss = F.mse_loss(torch.func.functional_call(m, fast, (normal(4096, 64),)), normal(4096, 1)); grads = torch.autograd.grad(loss, list(fast.values())); fast = {k: v - 0.1 * g for (k, v), g in zip(fast.items(), grads)}
            F.mse_loss(torch.func.functional_call(m, fast, (normal(4096, 64),)), normal(4096, 1)).backward()
        optimizer.step(); optimizer.zero_grad(); del fast, grads, loss


# Inference and frameworks -------------------------------------------------------------------------------------------


@healthy()
def classify_pictures():
    m = torchvision.models.resnet18().to(DEVICE).eval()
    with torch.inference_mode():
        for batch in range(12): m(normal(32, 3, 96, 96)).argmax(1).tolist()


@healthy()
def generate_gpt2():
    m = gpt2().eval()
    for request in range(2): m.generate(integers(2000, 8, 32), max_new_tokens=24, min_new_tokens=24, do_sample=False, pad_token_id=0, eos_token_id=1)


@healthy()
def generate_static():
    m = llama().eval()
    with torch.no_grad():
        for request in range(2):
            cache = T.StaticCache(config=m.config, max_cache_len=64); ids = integers(2000, 8, 32)
            for n in range(16): at = torch.arange(32 + n - ids.shape[1] + (1 if n else 0), 32 + n + (1 if n else 0), device=DEVICE); ids = m(ids, past_key_values=cache, cache_position=at, use_cache=True).logits[:, -1:].argmax(-1)
            del cache


@healthy()
def paged_cache():
    """A cache of pages that is made once; requests get pages and give them back."""
    pages, free, w = normal(128, 2, 4, 64, 64), list(range(128)), normal(256, 768) / 16
    with torch.no_grad():
        for request in range(12):
            mine = [free.pop() for _ in range(8)]
            for n in range(4):
                q, k, v = (normal(8, 256) @ w).unflatten(1, (3, 4, 64)).unbind(1); pages[mine[n], 0, :, :8] = k.transpose(0, 1); pages[mine[n], 1, :, :8] = v.transpose(0, 1)
                keys, values = pages[mine][:, 0].transpose(0, 1).flatten(1, 2), pages[mine][:, 1].transpose(0, 1).flatten(1, 2); F.scaled_dot_product_attention(q.transpose(0, 1), keys, values)
            free += mine


@healthy()
def lru_of_adapters():
    """Merged weights of the last two tenants only."""
    base, adapters, merged = normal(2048, 2048), [(normal(2048, 8), normal(8, 2048)) for _ in range(6)], collections.OrderedDict()
    with torch.no_grad():
        for request in range(24):
            n = random.Random(request).randrange(6)
            if n not in merged: merged[n] = base + adapters[n][0] @ adapters[n][1]
            merged.move_to_end(n)
            if len(merged) > 2: merged.popitem(last=False)
            (normal(256, 2048) @ merged[n]).argmax(1).cpu()


class Words(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): x = torch.randint(0, 2000, (128,), generator=torch.Generator().manual_seed(i)); return dict(input_ids=x, labels=x)


@healthy()
def hf_trainer():
    about = T.TrainingArguments("/tmp/hf_trainer", max_steps=6, per_device_train_batch_size=8, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=not GPU, logging_steps=2)
    T.Trainer(gpt2(), about, train_dataset=Words()).train()


@healthy()
def hf_trainer_evaluates():
    about = T.TrainingArguments("/tmp/hf_trainer_evaluates", max_steps=6, eval_strategy="steps", eval_steps=3, per_device_train_batch_size=8, per_device_eval_batch_size=8, gradient_accumulation_steps=2, bf16=GPU, report_to=[],
                                save_strategy="no", disable_tqdm=True, use_cpu=not GPU, prediction_loss_only=True)
    T.Trainer(gpt2(), about, train_dataset=Words(), eval_dataset=Words()).train()


@healthy()
def lightning_fit():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self): super().__init__(); self.net = mlp(512, 1024, 1024, 10)
        def training_step(self, batch, n): loss = F.cross_entropy(self.net(batch[0]), batch[1]); self.log("loss", loss); return loss
        def validation_step(self, batch, n): self.log("validation", F.cross_entropy(self.net(batch[0]), batch[1]))
        def configure_optimizers(self): return torch.optim.AdamW(self.parameters())
    load = DataLoader(TensorDataset(torch.randn(8192, 512), torch.randint(0, 10, (8192,))), batch_size=2048)
    lightning.Trainer(max_epochs=2, accelerator="gpu" if GPU else "cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).fit(Module(), load, load)


@healthy()
def accelerate_loop():
    import accelerate
    a = accelerate.Accelerator(cpu=not GPU, mixed_precision="bf16", gradient_accumulation_steps=2); m = mlp(512, 1024, 1024, 10)
    m, optimizer, load = a.prepare(m, torch.optim.AdamW(m.parameters()), DataLoader(TensorDataset(torch.randn(16384, 512), torch.randint(0, 10, (16384,))), batch_size=2048))
    for x, y in load:
        with a.accumulate(m): loss = F.cross_entropy(m(x), y); a.backward(loss); a.clip_grad_norm_(m.parameters(), 1.0) if a.sync_gradients else None; optimizer.step(); optimizer.zero_grad()


@healthy()
def distributed_alone():
    """DistributedDataParallel with one process; gradients are views of its buckets."""
    import torch.distributed as dist
    dist.init_process_group("nccl" if GPU else "gloo", init_method=f"file:///tmp/distributed_alone.{os.getpid()}", rank=0, world_size=1); m = nn.parallel.DistributedDataParallel(mlp(512, 1024, 1024, 10), gradient_as_bucket_view=True)
    fit(m, torch.optim.AdamW(m.parameters()), classify((4096, 512), 10), 8)


if __name__ == "__main__":
    run = recording.main(__file__)
    with run: run.result = run.program(*run.arguments)
