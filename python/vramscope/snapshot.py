"""A snapshot file, asked from Python: every answer is the program's own, by the names of its JSON."""

from __future__ import annotations

import base64
import html
import os
import tempfile
from typing import TYPE_CHECKING, Any

from . import program
from .program import Answer

if TYPE_CHECKING:
    import pyarrow


class Snapshot:
    """One snapshot file.

    Methods are commands of the program and take its options: ``at(oom=True)`` is ``vramscope at --oom``. Answers are
    dictionaries whose fields are attributes too; docs/json.md describes them. A command that answers for each device
    gives one answer if there is one device, and otherwise ``devices``; ``device=0`` picks one.

    >>> snapshot = Snapshot("run/memory_rank0.pickle")
    >>> snapshot
    Snapshot('run/memory_rank0.pickle')
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Snapshot({self.path!r})"

    def ask(self, command: str, **options: Any) -> Any:
        """The JSON answer to any command that takes a snapshot."""
        return program.ask([command, self.path, *program.arguments(options)])

    def text(self, command: str = "summary", **options: Any) -> str:
        """What a command prints for people."""
        words = [command, self.path, "--color", "never", *program.arguments(options)]
        return program.run(words).decode("utf-8", "replace")

    def summary(self, **options: Any) -> Answer:
        """Verdict, peaks, what was live at the peak, phases and findings; ``.devices`` has one of each."""
        file: Answer = self.ask("summary", **options).files[0]
        return file

    def insights(self, **options: Any) -> list[Answer]:
        """Findings, worst first: ``what``, ``bytes``, ``severity``, ``line``, ``advice``."""
        findings: list[Answer] = self.ask("insights", **options).files[0].findings
        return findings

    def at(self, **options: Any) -> Answer:
        """What was live at a moment: ``peak=True`` (the default), ``oom=True``, ``event=N``, ``at="..."``."""
        answer: Answer = self.ask("at", **options)
        return answer

    def categories(self, **options: Any) -> Answer:
        """What memory is for: parameters, gradients, optimizer state, activations and so on."""
        answer: Answer = self.ask("categories", **options)
        return answer

    def top(self, **options: Any) -> Answer:
        """Lines, stacks or allocations, ranked: ``of="lines"``, ``by="live"``, ``limit=20``."""
        answer: Answer = self.ask("top", **options)
        return answer

    def tree(self, **options: Any) -> Answer:
        """The call tree of bytes at a moment."""
        answer: Answer = self.ask("tree", **options)
        return answer

    def phases(self, **options: Any) -> Answer:
        """Annotated phases: peak, growth and allocations of each."""
        answer: Answer = self.ask("phases", **options)
        return answer

    def pools(self, **options: Any) -> Answer:
        """What the pools of CUDA graphs and MemPools hold, use and leave idle."""
        answer: Answer = self.ask("pools", **options)
        return answer

    def segments(self, **options: Any) -> Answer:
        """The allocator's map at a moment: segments, blocks and holes."""
        answer: Answer = self.ask("segments", **options)
        return answer

    def fragmentation(self, **options: Any) -> Answer:
        """How fragmented free memory is, over time."""
        answer: Answer = self.ask("fragmentation", **options)
        return answer

    def doctor(self, **options: Any) -> Answer:
        """What this recording can tell, which commands will help, and how to record a better one."""
        answer: Answer = self.ask("doctor", **options)
        return answer

    def whatif(self, **options: Any) -> Answer:
        """The same run under other allocator settings: ``set="expandable_segments:True"``."""
        answer: Answer = self.ask("whatif", **options)
        return answer

    def diff(self, after: Snapshot | str | os.PathLike[str], **options: Any) -> Answer:
        """What changed from this snapshot to another one. With ``fail_on``, ``exceeded`` lists the limits exceeded."""
        other = after.path if isinstance(after, Snapshot) else os.fspath(after)
        words = ["diff", self.path, other, *program.arguments(options)]
        answer: Answer = program.ask(words, accept=(0, 1))
        return answer

    def table(self, name: str = "allocations", **options: Any) -> pyarrow.Table:
        """A table of docs/tables.md as Arrow: ``allocations``, ``events``, ``stacks``, ``frames``, ``segments``,
        ``annotations``. pandas, polars and DuckDB take it without copying. Needs pyarrow."""
        try:
            from pyarrow import ipc, memory_map
        except ImportError:
            raise ImportError("Snapshot.table() needs pyarrow: pip install pyarrow") from None
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "table.arrow")
            chosen = program.arguments({"table": name, "format": "arrow", "output_file": path, **options})
            program.run(["export", self.path, *chosen])
            if os.name == "nt":  # An open file cannot be removed there.
                with open(path, "rb") as file:
                    return ipc.open_file(file.read()).read_all()
            # The columns lie in the mapping, which outlives the file's name.
            return ipc.open_file(memory_map(path)).read_all()

    def report(self, path: str | os.PathLike[str], **options: Any) -> str:
        """Writes one HTML file with the viewer and the data. Returns its path."""
        target = os.fspath(path)
        program.run(["report", self.path, *program.arguments({"output_file": target, **options})])
        return target

    def show(self, height: int = 800, **options: Any) -> Frame:
        """The viewer inside a notebook's output."""
        page = program.run(["report", self.path, *program.arguments(options)])
        return Frame(page.decode("utf-8", "replace"), height)

    def _repr_html_(self) -> str:
        """The summary and the flame graph at the peak. A picture of its own, so no script of a file can run."""
        parts = [f"<pre>{html.escape(self.text())}</pre>"]
        try:
            svg = program.run(["tree", self.path, "--format", "svg"])
        except program.VramscopeError:  # A file without events has no tree.
            svg = b""
        if svg:
            data = base64.b64encode(svg).decode("ascii")
            parts.append(f'<img alt="memory at the peak, by call" src="data:image/svg+xml;base64,{data}">')
        return "".join(parts)


class Frame:
    r"""A page inside a notebook, cut off from the notebook's own.

    >>> "srcdoc=\"&lt;p&gt;1 &amp; 2&lt;/p&gt;\"" in Frame("<p>1 & 2</p>", 300)._repr_html_()
    True
    """

    def __init__(self, page: str, height: int) -> None:
        self.page, self.height = page, height

    def _repr_html_(self) -> str:
        page = html.escape(self.page, quote=True)
        style = f"width:100%;height:{self.height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
