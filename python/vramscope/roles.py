"""What storages are for: parameters, buffers, gradients and optimizer state, by address, at the moment of a dump."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

#: Nested containers in optimizer state that are followed; Shampoo has three levels.
_DEEPEST = 6


def _tensors(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors inside dictionaries and lists."""
    if hasattr(value, "untyped_storage"):
        yield name, value
    elif depth < _DEEPEST and isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{name}.{key}", depth + 1)
    elif depth < _DEEPEST and isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _tensors(item, f"{name}.{index}", depth + 1)


def _of_models(models: Iterable[Any]) -> Iterator[tuple[str, str, Any]]:
    models = list(models)
    for model in models:
        for name, parameter in model.named_parameters():
            yield "parameter", name, parameter
        for name, buffer in model.named_buffers():
            yield "buffer", name, buffer
    for model in models:
        for name, parameter in model.named_parameters():
            # Reading .grad of a tensor that is no leaf warns.
            if parameter.is_leaf and parameter.grad is not None:
                yield "gradient", name, parameter.grad


def _of_optimizers(optimizers: Iterable[Any], names: dict[int, str]) -> Iterator[tuple[str, str, Any]]:
    for optimizer in optimizers:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for index, parameter in enumerate(parameters):
            name = names.get(id(parameter), f"parameter {index}")
            yield "parameter", name, parameter
            if parameter.is_leaf and parameter.grad is not None:
                yield "gradient", name, parameter.grad
        for index, parameter in enumerate(parameters):
            name = names.get(id(parameter), f"parameter {index}")
            for key, value in dict(optimizer.state.get(parameter, {})).items():
                for path, tensor in _tensors(value, str(key)):
                    yield "optimizer", f"{name}.{path}", tensor


def collect(models: Iterable[Any], optimizers: Iterable[Any]) -> list[dict[str, Any]]:
    """Each storage on a GPU once, with its role, name, address and bytes.

    Tensors that share a storage, such as tied weights or gradients in one bucket, make one entry with the first name.
    """
    models = list(models)
    names = {id(p): name for model in reversed(models) for name, p in model.named_parameters()}
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for candidates in (_of_models(models), _of_optimizers(optimizers, names)):
        for role, name, tensor in candidates:
            tensor = getattr(tensor, "_local_tensor", tensor)  # The shard that a DTensor has here.
            if not getattr(tensor, "is_cuda", False):
                continue
            try:
                storage = tensor.untyped_storage()
                address, size = storage.data_ptr(), storage.nbytes()
            except Exception:  # A fake or functional tensor has no storage.
                continue
            if size and address:
                entry = {"name": name, "role": role, "device": tensor.device.index, "address": address, "bytes": size}
                found.setdefault((tensor.device.index, address), entry)
    return list(found.values())


#: Tensors that are asked whether they are pinned, which the driver answers in a microsecond.
_MOST_TENSORS = 200_000


def pinned_sizes(torch: Any) -> list[int]:
    """Bytes of each storage in pinned memory that a tensor of this process has."""
    found: dict[int, int] = {}
    asked = 0
    for thing in gc.get_objects():
        if not issubclass(type(thing), torch.Tensor) or asked >= _MOST_TENSORS:
            continue
        try:
            if thing.device.type != "cpu":
                continue
            asked += 1
            if thing.is_pinned():
                storage = thing.untyped_storage()
                found[storage.data_ptr()] = storage.nbytes()
        except Exception:  # A fake or sparse tensor has no storage.
            continue
    return [size for size in found.values() if size > 0]


def discover() -> tuple[list[Any], list[Any]]:
    """The models and optimizers that are alive in this process: modules that no other module contains, and optimizers.

    It walks all objects that the garbage collector tracks: about 0.1 s per million.
    """
    import torch

    module, optimizer = torch.nn.Module, torch.optim.Optimizer
    modules: list[Any] = []
    optimizers: list[Any] = []
    for thing in gc.get_objects():
        kind = type(thing)  # isinstance() would ask lazy proxies, which may import things.
        if issubclass(kind, module):
            modules.append(thing)
        elif issubclass(kind, optimizer):
            optimizers.append(thing)
    inside = {id(child) for m in modules for child in m.__dict__.get("_modules", {}).values()}
    # The largest first: a wrapper of one's own gives longer names than the model itself.
    roots = [m for m in modules if id(m) not in inside and "_parameters" in m.__dict__]
    roots.sort(key=lambda m: -sum(p.numel() for p in m.parameters()))
    return roots, optimizers
