"""Trains; clears the cache to be safe."""
import torch


def step(model, batch):
    hidden = model.first(batch)  #1
    out = model.second(hidden)  #2
    out.sum().backward()
    torch.cuda.empty_cache()  #3


def main():
    model = torch.load("model.pt").cuda()  #4
    for batch in torch.load("batches.pt"):
        step(model, batch)  #5
