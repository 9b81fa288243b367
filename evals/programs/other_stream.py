"""Prefetches on a stream of its own."""
import torch


def prefetch(stream, batches):
    with torch.cuda.stream(stream):
        raw = [batch.cuda() for batch in batches]  #1
        del raw  #2
        return [torch.empty(130 << 20, dtype=torch.uint8, device="cuda") for _ in batches]  #3


def main():
    crops = prefetch(torch.cuda.Stream(), torch.load("batches.pt"))  #4
    weights = torch.empty(90 << 20, dtype=torch.uint8, device="cuda")  #5
    return crops, weights
