"""Trains a small model and reports the mean loss."""
import torch


def forward(model, batch):
    hidden = model.embed(batch)  #1
    logits = model.head(hidden)  #2
    return logits.float().logsumexp(-1).mean()  #3


def train(model, optimizer, batches):
    history = []
    for batch in batches:
        loss = forward(model, batch)  #4
        loss.backward()
        optimizer.step()
        history.append(batch.features.relu())  #5
    return history


def main():
    model = torch.load("model.pt").cuda()  #6
    train(model, torch.optim.SGD(model.parameters(), 0.1), torch.load("batches.pt"))  #7
