"""Source lines come from the project only."""

from __future__ import annotations

from vramscope.source import collect


def test_lines_around_frames_of_the_project_and_nothing_else(tmp_path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    installed = project / "venv" / "site-packages"
    for folder in (installed, other):
        folder.mkdir(parents=True)
    for path in (project / "train.py", other / "secret.py", installed / "library.py"):
        path.write_text("".join(f"line {n}\n" for n in range(1, 21)))
    (project / "link.py").symlink_to(other / "secret.py")

    def frame(path: str, line: int) -> dict:
        return {"filename": str(path), "line": line, "name": "f"}

    paths = [project / "train.py", other / "secret.py", installed / "library.py", project / "link.py"]
    frames = [frame(path, 10) for path in paths] + [frame(project / "../other/secret.py", 10), frame("??", 0)]
    found = collect({"device_traces": [[{"frames": frames}, {}]]}, str(project))
    assert found == {str(project / "train.py"): {str(n): f"line {n}" for n in range(7, 14)}}
