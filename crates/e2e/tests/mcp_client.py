"""The MCP server as the official client library sees it: list, call, resources, roots, bad input, progress, cancel."""
import asyncio
import sys
import time
from pathlib import Path

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

program, recordings, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
big = folder / "big.pickle"
inside = folder / "oom.pickle.xz"
inside.write_bytes((recordings / "oom.pickle.xz").read_bytes())
(folder / "leak.pickle.xz").write_bytes((recordings / "leak_graph.pickle.xz").read_bytes())


def text(result):
    return "\n".join(block.text for block in result.content)


def running(path):
    """Whether a process works on a file."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(path.resolve()).encode() in words:
            return True
    return False


async def main():
    server = StdioServerParameters(command=program, args=["mcp", "--root", str(folder)], env={"XDG_CACHE_HOME": str(folder / "cache")})
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        started = await session.initialize()
        assert started.server_info.name == "vramscope", started
        assert "vramscope oom FILE" in started.instructions

        tools = (await session.list_tools()).tools
        names = [tool.name for tool in tools]
        assert len(names) <= 8 and {"doctor", "insights", "oom", "show", "whatif", "ask"} <= set(names), names
        assert all(tool.annotations.read_only_hint for tool in tools)

        # Every tool, as an agent would call it; relative paths are below the root.
        calls = [
            ("doctor", {"path": "oom.pickle.xz"}, "vramscope oom"),
            ("insights", {"path": str(inside)}, "f:out_of_memory-1"),
            ("oom", {"path": "oom.pickle.xz"}, "modeling_llama.py:67"),
            ("churn", {"path": "oom.pickle.xz"}, "107 segments acquired"),
            ("show", {"handle": "e:11822", "path": "oom.pickle.xz"}, "oom"),
            ("diff", {"before": "oom.pickle.xz", "after": "leak.pickle.xz", "by": "category"}, "activations"),
            ("whatif", {"path": "oom.pickle.xz", "set": ["expandable_segments:True"]}, "gets past event"),
            ("ask", {"verb": "steps", "path": "oom.pickle.xz", "options": ["--limit=3"]}, "peaks double"),
        ]
        assert sorted(name for name, _, _ in calls) == sorted(names)
        for name, arguments, part in calls:
            result = await session.call_tool(name, arguments)
            assert not result.is_error and part in text(result), (name, text(result))
            assert len(text(result)) < 8000, (name, len(text(result)))
        small = await session.call_tool("insights", {"path": "oom.pickle.xz", "budget": 200})
        assert "left out" in text(small) and len(text(small)) < 1200, text(small)

        # What is outside of the roots, what would write, what does not exist.
        for name, arguments, part in [
            ("oom", {"path": str(recordings / "oom.pickle.xz")}, "only files below"),
            ("oom", {"path": "../../../../etc/passwd"}, "only files below"),
            ("oom", {"path": "missing.pickle"}, "missing.pickle"),
            ("oom", {}, "needs"),
            ("oom", {"path": "oom.pickle.xz", "number": "x"}, "number"),
            ("ask", {"verb": "export", "path": "oom.pickle.xz"}, "verbs"),
            ("ask", {"verb": "top", "path": "oom.pickle.xz", "options": ["-o", "x"]}, "not an option"),
            ("show", {"handle": "nonsense", "path": "oom.pickle.xz"}, "Handles are"),
        ]:
            result = await session.call_tool(name, arguments)
            assert result.is_error and part in text(result), (name, arguments, text(result))
        try:
            await session.call_tool("remove", {})
            raise AssertionError("there is no such tool")
        except MCPError as error:
            assert "remove" in str(error), error

        resources = (await session.list_resources()).resources
        findings = [str(one.uri) for one in resources if "findings" in str(one.uri) and "oom" in str(one.uri)]
        assert findings, resources
        read_back = (await session.read_resource(findings[0])).contents[0]
        assert read_back.mime_type == "application/json" and "out_of_memory" in read_back.text
        report = (await session.read_resource(findings[0].replace("findings", "report"))).contents[0]
        assert "11 823 events" in report.text, report.text
        assert len((await session.list_resource_templates()).resource_templates) == 2
        try:
            await session.read_resource("vramscope://findings/etc/passwd")
            raise AssertionError("outside of the roots")
        except MCPError as error:
            assert "passwd" in str(error), error

        # A long call tells that it goes on, and ends when it is cancelled.
        heard = []

        async def progress(done, total, message):
            heard.append(message)

        long = {"path": "big.pickle", "set": ["max_split_size_mb:32", "expandable_segments:True", ""]}
        task = asyncio.create_task(session.call_tool("whatif", long, progress_callback=progress))
        while not heard and not task.done():
            await asyncio.sleep(0.05)
        assert heard and "whatif" in heard[0], heard
        before = time.monotonic()
        assert task.done() or running(big), "the call has a process of its own"
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        while running(big) and time.monotonic() - before < 60:
            await asyncio.sleep(0.05)
        assert not running(big), "the process of a cancelled call goes on"
        again = await session.call_tool("doctor", {"path": "oom.pickle.xz"})
        assert not again.is_error, text(again)
        print(f"{len(names)} tools, cancelled and answered again after {time.monotonic() - before:.1f} s")


asyncio.run(main())
