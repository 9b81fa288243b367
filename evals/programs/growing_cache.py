"""Serves requests; remembers the embedding of every prompt."""
import torch

CACHE = {}


def embed(model, prompt):
    tokens = model.tokenize(prompt)  #1
    if prompt not in CACHE:
        CACHE[prompt] = model.encode(tokens)  #2
    return CACHE[prompt]


def answer(model, prompt):
    hidden = embed(model, prompt)  #3
    return model.decode(hidden)  #4


def serve(prompts):
    model = torch.load("model.pt").cuda()  #5
    for prompt in prompts:
        answer(model, prompt)  #6
