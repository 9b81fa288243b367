"""A callback for Lightning.

::

    from vramscope.hooks.lightning import VramscopeCallback
    Trainer(..., callbacks=[VramscopeCallback("run/")])
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ..recorder import Recorder


class VramscopeCallback(Callback):  # type: ignore[misc]
    """Records from its creation to the end of training."""

    def __init__(self, folder: str = "vramscope-out", **options: Any) -> None:
        self.recorder = Recorder(folder, **options).start()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        optimizers = [getattr(optimizer, "optimizer", optimizer) for optimizer in trainer.optimizers]
        self.recorder.watch(pl_module, optimizers)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        self.recorder.step(trainer.global_step)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self.recorder.stop()
