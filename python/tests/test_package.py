"""Importing costs nothing, and the program is found."""

from __future__ import annotations

import subprocess
import sys

import pytest
from vramscope import program


def test_importing_loads_neither_torch_nor_pyarrow() -> None:
    code = "import sys, vramscope; print([m for m in ('torch', 'pyarrow', 'numpy', 'ctypes') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_every_public_name_exists() -> None:
    import vramscope

    assert all(callable(getattr(vramscope, name)) for name in vramscope.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        vramscope.nonsense  # noqa: B018


def test_what_the_program_refuses_is_an_error_with_its_message(tmp_path) -> None:
    path = tmp_path / "model.pickle"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(program.VramscopeError, match="zip"):
        program.ask(["summary", str(path)])


def test_a_missing_program_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setenv("VRAMSCOPE_BIN", "/nonexistent/vramscope")
    with pytest.raises(program.VramscopeError, match="cannot start the vramscope program"):
        program.run(["--version"])


def test_other_commands_go_to_the_program() -> None:
    printed = subprocess.check_output([sys.executable, "-m", "vramscope", "--version"], text=True)
    assert printed.startswith("vramscope ")
