"""Scores all pairs."""
import torch


def score(queries, keys):
    return queries @ keys.T  #1


def main():
    queries = torch.load("queries.pt").cuda()  #2
    keys = torch.load("keys.pt").cuda()  #3
    score(queries, keys)  #4
