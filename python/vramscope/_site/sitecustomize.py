"""Python runs this at its start when ``vramscope run`` put this folder on PYTHONPATH: records once torch is imported.

It imports nothing that Python has not loaded already, so a program without torch pays microseconds. An existing
``sitecustomize`` still runs.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _chain() -> None:
    """Imports the ``sitecustomize`` that this one hides."""
    here = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) == _FOLDER]
    for entry in here:
        sys.path.remove(entry)
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if ours is not None:
            sys.modules["sitecustomize"] = ours


class _WaitForTorch:
    """Finds torch as the other finders do, and attaches after it has run."""

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != "torch":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        try:
            spec = find_spec("torch")
        finally:
            sys.meta_path.insert(0, self)
        loader = getattr(spec, "loader", None)
        run = getattr(loader, "exec_module", None)
        if loader is None or run is None:
            return spec

        def exec_module(module):  # type: ignore[no-untyped-def]
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                _attach()

        loader.exec_module = exec_module
        return spec


def _attach() -> None:
    try:
        if "vramscope" not in sys.modules:
            _load()
        from vramscope.attach import from_environment

        from_environment()
    except Exception as error:  # The program runs without a recording rather than not at all.
        print(f"vramscope: cannot record: {error}", file=sys.stderr)


def _load() -> None:
    """The package that this file is part of, also for a Python of another environment."""
    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.dirname(_FOLDER)
    spec = spec_from_file_location(
        "vramscope", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["vramscope"] = module
        spec.loader.exec_module(module)


if os.environ.get("VRAMSCOPE_RECORD"):
    sys.meta_path.insert(0, _WaitForTorch())
_chain()
