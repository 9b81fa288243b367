"""The truth of the cases that are recordings, worked out from the pickle alone.

    python3 evals/truth.py            # checks every recording of cases.json; needs nothing but Python

Uses no output of vramscope: what PyTorch wrote is unpickled and counted here. Each function says why what it counts is
the cause. Cases that are made from a program (`made:`) have their truth in the program itself.
"""

import collections
import json
import lzma
import pathlib
import pickle
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def load(path):
    with lzma.open(path) as file:
        return pickle.load(file)


def place(frame):
    return f"{pathlib.PurePosixPath(frame['filename']).name}:{frame['line']}"


def lines(event):
    """All Python lines of a stack, innermost first: any of them is where the request comes from."""
    return [place(frame) for frame in event.get("frames") or [] if frame["filename"].endswith(".py")]


def events(snapshot):
    return [event for trace in snapshot["device_traces"] for event in trace]


def rounded(size):
    """How PyTorch rounds a request without settings: to 512 bytes."""
    return max(512, (size + 511) // 512 * 512)


def at_error(snapshot):
    """The last failed request; at that moment what was free in segments, the largest free piece, and all segments.

    Blocks and segments are followed from the final state backwards to the error, by the events in between.
    """
    trace = max(snapshot["device_traces"], key=len)
    at = max(i for i, event in enumerate(trace) if event["action"] == "oom")
    used, held = {}, {}
    for segment in snapshot["segments"]:
        held[segment["address"]] = segment["total_size"]
        address = segment["address"]
        for block in segment["blocks"]:
            start = block.get("address", address)
            if block["state"] != "inactive":
                used[start] = block["size"]
            address = start + block["size"]
    for event in reversed(trace[at + 1 :]):
        action, addr, size = event["action"], event.get("addr"), event["size"]
        if action == "alloc":
            used.pop(addr, None)
        elif action == "free_completed":
            used[addr] = rounded(size)
        elif action in ("segment_alloc", "segment_map"):
            held.pop(addr, None)
        elif action in ("segment_free", "segment_unmap"):
            held[addr] = size
    free = largest = 0
    for start, size in held.items():
        cursor, end = start, start + size
        for address in sorted(a for a in used if start <= a < end):
            free, largest = free + address - cursor, max(largest, address - cursor)
            cursor = address + used[address]
        free, largest = free + end - cursor, max(largest, end - cursor)
    error = trace[at]
    return error, free, largest, sum(held.values())


def out_of_memory(snapshot):
    """Fragmentation: enough is free in segments, but not in one piece. Memory is lacking if it is not enough, or if 95 % of
    what is held is in use: then no order of allocations would have gone on for long."""
    error, free, largest, held = at_error(snapshot)
    size = rounded(error["size"])
    cause = "fragmentation" if free >= size > largest and free >= held / 20 else "lack"
    words = f"asked {size}, free in segments {free} of {held}, largest piece {largest}"
    return cause, lines(error), words


def kept(snapshot):
    """A leak: the line whose allocations of all parts of the run are still there when most is in use."""
    trace = max(snapshot["device_traces"], key=len)
    alive, level, peak, at = {}, 0, 0, 0
    for i, event in enumerate(trace):
        level += {"alloc": event["size"], "free_completed": -event["size"]}.get(event["action"], 0)
        if level > peak:
            peak, at = level, i
    for i, event in enumerate(trace[: at + 1]):
        if event["action"] == "alloc":
            alive[event["addr"]] = (i, event)
        elif event["action"] == "free_completed":
            alive.pop(event["addr"], None)
    # Eight parts of the run: what is made once stays in one of them.
    parts, size = collections.defaultdict(set), collections.Counter()
    for i, event in alive.values():
        for line in set(lines(event)):
            parts[line].add(8 * i // len(trace))
            size[line] += event["size"]
    found = [line for line in size if len(parts[line]) >= 5]
    found.sort(key=lambda line: (-len(parts[line]), -size[line]))
    return ("leak" if found else "healthy"), found, f"{[(line, len(parts[line]), size[line]) for line in found[:4]]}"


def driver_calls(snapshot):
    """Churn: segments are released in every part of the run. The line is the one that releases them."""
    trace = max(snapshot["device_traces"], key=len)
    parts, releases = collections.defaultdict(set), collections.Counter()
    for i, event in enumerate(trace):
        if event["action"] in ("segment_free", "segment_unmap"):
            for line in set(lines(event)):
                parts[line].add(8 * i // len(trace))
                releases[line] += 1
    found = [line for line in releases if len(parts[line]) >= 6]
    return ("churn" if found else "healthy"), found, f"{releases.most_common(4)}"


def late_frees(snapshot):
    """Frees that wait for another stream: what is requested to be freed is freed later than by the next event."""
    trace = max(snapshot["device_traces"], key=len)
    waits = requests = 0
    for before, event in zip(trace, trace[1:]):
        if before["action"] == "free_requested":
            requests += 1
            waits += not (event["action"] == "free_completed" and event["addr"] == before["addr"])
    return ("pending_free" if waits > 0 else "healthy"), [], f"{waits} of {requests} frees wait"


def healthy(snapshot):
    """No failed request, no segment released, no line that keeps memory from every part of the run."""
    actions = collections.Counter(event["action"] for event in events(snapshot))
    quiet = actions["oom"] == 0 and actions["segment_free"] == 0
    cause, found, words = kept(snapshot)
    return ("healthy" if quiet and not found else cause), [], f"{dict(actions)} {words}"


def not_recorded(snapshot):
    """No event and no block has a stack."""
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    stacks = sum(bool(thing.get("frames")) for thing in events(snapshot) + blocks)
    return ("not_recorded" if stacks == 0 else "healthy"), [], f"{stacks} stacks"


METHODS = {method.__name__: method for method in (out_of_memory, kept, driver_calls, late_frees, healthy, not_recorded)}


def main():
    wrong = 0
    for case in json.loads((ROOT / "evals/cases.json").read_text()):
        method = METHODS.get(case["truth"]["source"])
        if method is None:
            continue
        cause, found, words = method(load(ROOT / case["recording"]))
        truth = case["truth"]
        right = cause in truth["causes"] and (not truth["lines"] or any(line in found for line in truth["lines"]))
        wrong += not right
        print(f"{'right' if right else 'WRONG'}  {case['id']:20} {cause:14} {' '.join(found[:3])}  ({words})")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
