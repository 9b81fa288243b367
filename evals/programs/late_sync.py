"""Copies results on another stream and never waits for it."""
import torch


def offload(stream, result):
    result.record_stream(stream)
    with torch.cuda.stream(stream):
        result.to("cpu", non_blocking=True)


def main():
    stream = torch.cuda.Stream()
    for batch in torch.load("batches.pt"):
        result = batch.cuda() * 2  #1
        offload(stream, result)
        del result  #2
