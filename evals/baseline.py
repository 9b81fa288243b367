"""What an agent does without vramscope: unpickle, and write the obvious loops. Prints what it would read; the last line is
its conclusion. For comparison only: a pickle runs code from its file."""
import collections
import lzma
import pickle
import sys

path = sys.argv[1]
with (lzma.open if path.endswith(".xz") else open)(path, "rb") as file:
    snapshot = pickle.load(file)
if isinstance(snapshot, list):
    snapshot = {"segments": snapshot, "device_traces": [[]]}


def place(frames):
    for frame in frames:
        if "/torch/" not in frame["filename"] and frame["filename"].endswith(".py"):
            return f"{frame['filename'].rsplit('/')[-1]}:{frame['line']} {frame['name']}"
    return "?"


trace = max(snapshot["device_traces"], key=len, default=[])
print("segments", len(snapshot["segments"]), "events", len(trace))
print(collections.Counter(event["action"] for event in trace))
ooms = [event for event in trace if event["action"] == "oom"]
live, size, quarters = {}, collections.Counter(), []
for number, event in enumerate(trace):
    if event["action"] == "alloc":
        live[event["addr"]] = event
        size[place(event.get("frames", []))] += event["size"]
    elif event["action"] in ("free", "free_completed"):
        old = live.pop(event["addr"], None)
        if old:
            size[place(old.get("frames", []))] -= old["size"]
    if trace and number in (len(trace) // 4, len(trace) // 2, 3 * len(trace) // 4, len(trace) - 1):
        quarters.append(dict(size))
        print(f"after event {number}")
        for line, bytes in size.most_common(10):
            print(f"  {bytes / 2**20:10.1f} MiB  {line}")
for event in ooms[:5]:
    print("out of memory:", event["size"], "free on the device", event.get("device_free"))
    for frame in event.get("frames", [])[:20]:
        print("   ", frame["filename"], frame["line"], frame["name"])
free = sum(b["size"] for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "inactive")
print("free in blocks at the end:", free)
if ooms:
    cause = "fragmentation" if free >= ooms[-1]["size"] else "lack"
    print(f"{cause}: {place(ooms[-1].get('frames', []))}")
elif quarters:
    grown = {line: quarters[3].get(line, 0) - quarters[1].get(line, 0) for line in quarters[-1]}
    line = max(grown, key=grown.get, default="?")
    print(f"leak: {line}" if grown.get(line, 0) > 2**20 else "healthy")
else:
    print("not recorded")
