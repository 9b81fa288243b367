"""A callback for the ``Trainer`` of transformers.

::

    from vramscope.hooks.transformers import VramscopeCallback
    Trainer(..., callbacks=[VramscopeCallback("run/")])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..recorder import Recorder


class VramscopeCallback(TrainerCallback):  # type: ignore[misc]
    """Records from its creation to the end of training. Create it before the model to record its weights, too."""

    def __init__(self, folder: str = "vramscope-out", **options: Any) -> None:
        self.recorder = Recorder(folder, **options).start()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.recorder.watch(kwargs.get("model"), kwargs.get("optimizer"))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.recorder.step(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.recorder.stop()
