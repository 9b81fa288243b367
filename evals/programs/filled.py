"""Loads shards until there is no room."""
import torch


def load(paths):
    shards = []
    for path in paths:
        shards.append(torch.load(path).cuda())  #1
    return shards


def main():
    load([f"shard{number}.pt" for number in range(100)])  #2
