"""Makes public.txt.gz, the names that `vramscope report --redact` keeps.

    pip download torch --no-deps && python3 public.py torch-*.whl public.txt.gz

Sections begin with `#`: files of PyTorch and of this Python's standard library, the functions in them, PyTorch's
operators, C++ headers, and functions of Python's C API.
"""

import ast
import gzip
import os
import re
import subprocess
import sys
import sysconfig
import zipfile

TORCH_SKIP = ("torch/testing/", "torch/onnx/", "torch/_vendor/", "torch/ao/", "torch/quantization/", "torch/_export/",
              "torch/_lazy/")
PYTHON_SKIP = ("test/", "idlelib/", "lib2to3/", "ensurepip/", "site-packages/", "turtledemo/", "tkinter/", "config-")


def functions(source):
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def main(wheel, out):
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    torch = [name for name in names if name.endswith(".py") and name.startswith(("torch/", "functorch/"))
             and not name.startswith(TORCH_SKIP) and "/test" not in name]
    root = sysconfig.get_path("stdlib")
    paths = [os.path.relpath(os.path.join(folder, file), root).replace(os.sep, "/")
             for folder, _, files in os.walk(root) for file in files]
    python = [path for path in paths if path.endswith(".py") and not path.startswith(PYTHON_SKIP) and "/test" not in path]
    called = {"<module>", "<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}
    for name in torch:
        called |= functions(archive.read(name))
    for path in python:
        with open(os.path.join(root, path), "rb") as file:
            called |= functions(file.read())
    operators = archive.read(next(name for name in names if name.endswith("native_functions.yaml"))).decode()
    headers = r"torch/include/(?:ATen(?!/ops)|c10|caffe2|torch/csrc)/(?:.*/)?([^/]+\.(?:h|cuh|hpp))"
    libpython = os.path.join(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY"))
    binary = libpython if libpython.endswith(".so") else sys.executable
    symbols = subprocess.run(["nm", "-D", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
    sections = {
        "torch files": torch,
        "python files": python,
        "functions": called,
        "operators": re.findall(r"^- func: (\w+)", operators, re.M),
        "headers": [found.group(1) for found in map(re.compile(headers).fullmatch, names) if found],
        "python api": re.findall(r" T (_?Py\w+)$", symbols, re.M),
    }
    text = "".join(f"# {title}\n" + "".join(f"{line}\n" for line in sorted(set(lines)))
                   for title, lines in sections.items())
    with open(out, "wb") as file:
        file.write(gzip.compress(text.encode(), 9, mtime=0))


main(*sys.argv[1:])
