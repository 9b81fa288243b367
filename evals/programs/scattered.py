"""Builds an index: each document leaves one small vector between large buffers."""
import torch


def index(documents):
    vectors, buffers = [], []
    for document in documents:
        buffers.append(document.cuda())  #1
        vectors.append(buffers[-1].mean(0))  #2
    buffers.clear()  #3
    return torch.stack(vectors)


def main():
    index(torch.load("documents.pt"))  #4
    torch.empty(600 << 20, dtype=torch.uint8, device="cuda")  #5
