"""Forty names that break writers of text, and rows whose graphs have them."""

import json
from itertools import zip_longest
from pathlib import Path

KINDS = {
    "LaTeX": [
        r"100% & \textbf{bold} #1",
        r"\input{/etc/passwd}",
        r"\end{document}",
        "{unbalanced",
        "a_b^c~d",
        "[3pt] after a line's end",
        "* star",
        "?` -- ``quotes'' <<x>>",
        r"trailing\\",
    ],
    "mathtext": [
        "cost_$a_$",
        r"$\frac{1}$",
        r"\$ and $",
        "$$",
    ],
    "Markdown": [
        "pipe|name",
        "[link](javascript:alert(1))",
        "`code` **bold** _em_",
        "![image](https://example.org/x.png)",
        "# heading",
        "10. item",
    ],
    "HTML": [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "&lt;b&gt; &amp; &#x41;",
        "<!-- comment --",
    ],
    "terminal": [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;title\x07",
        "web\nconverged: residual 1e-99",
        "50%\rcpms: error: forged",
        "\x9b2J\x85\u2028next",
        "nul\x00byte\x7f\x08",
    ],
    "CSV": [
        "=HYPERLINK(\"http://example.org\",\"x\")",
        "+1+1",
        "-1+cmd|' /C calc'!A0",
        "@SUM(1,2)",
        "\t=1+1",
        'quote"comma,semicolon;',
    ],
    "scripts": [
        "グラフ_é ß",
        "\u202egnp.hparg\u202c",
        "רשת גרף شبكة",
        "👩\u200d💻🕸️ network \U000e0041",
    ],
    "length": [
        "long" * 1250,
    ],
}  # fmt: skip
NAMES = [name for names in zip_longest(*KINDS.values()) for name in names if name is not None]
"""One of each kind in turn, so that few graphs have many kinds."""


def renamed(source: Path, target: Path) -> None:
    """Copy rows, whose graphs get hostile names instead, each its own."""
    names: dict[str, str] = {}
    for path in sorted(source.glob("*.jsonl")):
        lines = []
        for line in path.read_text().splitlines():
            row = json.loads(line)
            for part in (row, *(result for result in row.get("results", []) if isinstance(result, dict))):
                for key in ("graph", "graph_name"):
                    if key in part:
                        part[key] = names.setdefault(part[key], _name(len(names)))
            if row.get("stand_in_for"):
                row["stand_in_for"] = names.setdefault(row["stand_in_for"], _name(len(names)))
            lines.append(json.dumps(row))
        (target / path.name).write_text("\n".join(lines) + "\n")


def _name(count: int) -> str:
    turn, place = divmod(count, len(NAMES))
    return NAMES[place] + (f" {turn}" if turn else "")
