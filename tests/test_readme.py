"""What the README shows runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_its_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)  # noqa: S102  # the project's own
    names["test_mine"]()
