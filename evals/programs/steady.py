"""Trains, and keeps nothing."""
import torch


def step(model, batch):
    hidden = model.first(batch)  #1
    out = model.second(hidden)  #2
    out.sum().backward()


def main():
    model = torch.load("model.pt").cuda()  #3
    for batch in torch.load("batches.pt"):
        step(model, batch)  #4
