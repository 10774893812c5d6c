"""The page of a report: its numbers are those of the rows, all text is escaped, and it needs no network."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cpms import InputError
from cpms.cli.main import main
from cpms.experiment.report.html.html_report import NUMBERS, html_report
from cpms.experiment.rows.flat import flatten, read_rows

HOSTILE = '</script><img src=x onerror="alert(1)">{{TITLE}}&amp;\u202e'
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Page(HTMLParser):
    """Collects the tables, scripts and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.heads, self.attributes, self.scripts, self.tags = [], [], [], [], []
        self._into = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "tr" and dict(attrs).get("data-cell"):
            self.lines.append([])
        if tag == "td":
            self.lines[-1].append("")
        if tag == "table":
            self.heads.append([])
        if tag == "th":
            self.heads[-1].append("")
        if tag == "script":
            self.scripts.append("")
        self._into = tag

    def handle_data(self, data):
        if self._into == "td":
            self.lines[-1][-1] += data
        elif self._into == "button" and self.heads:
            self.heads[-1][-1] += data
        elif self._into == "script":
            self.scripts[-1] += data

    def handle_endtag(self, tag):
        del tag
        self._into = None


def rows_of(name):
    return read_rows(name)


@cache
def page_of(name):
    """Return the page of a recorded experiment."""
    return html_report(rows_of(name))


def test_contestants_are_named_as_in_figures():
    row = {"experiment": "x", "status": "ok", "graph": "spd.mtx", "engine": "cpu", "solve_s": 1.0}
    rows = [
        {**row, "cell": f"{m} {rhs}", "method": m, "rhs": rhs} for m in ("cg", "gmres") for rhs in ("ones", "random")
    ]
    page = Page(html_report([*rows, {**row, "cell": "none", "method": "cg", "status": "bad input"}]))
    assert page.heads[0][:3] == ["graph", "contestant", "status"]
    assert [line[:2] for line in page.lines[:2]] == [["spd.mtx, rhs=ones", "cg"], ["spd.mtx, rhs=random", "cg"]]
    assert page.lines[-1][:2] == ["spd.mtx", "cpu cg"]


def test_a_solve_that_has_not_converged_is_not_called_ok():
    row = {"experiment": "x", "graph": "g", "engine": "cpu", "solve_s": 1.0}
    rows = [
        {**row, "cell": str(number), "status": status, "converged": converged}
        for number, (status, converged) in enumerate([("ok", True), ("ok", False), ("bad input", None)])
    ]
    page = Page(html_report(rows))
    assert [line[2] for line in page.lines] == ["ok", "not converged", "bad input"]


def test_numbers_of_the_page_are_those_of_the_rows():
    rows = rows_of("table2")
    page, table = Page(page_of("table2")), flatten(rows)
    numbers = [name for name in NUMBERS if name in table and table[name].notna().any()]
    assert [head.split(" [")[0] for head in page.heads[0]][3:] == numbers
    assert len(page.lines) == len(table)
    for cells, line in zip(page.lines, table.to_dict("records"), strict=True):
        for cell, name in zip(cells[3:], numbers, strict=True):
            assert float(cell) == line[name] if cell else math.isnan(line[name])


def test_the_provenance_of_each_line_is_on_the_page():
    rows = rows_of("table2")
    page = Page(page_of("table2"))
    recorded = provenance_of(page)
    for row in rows:
        found = recorded[f"table2/{row['cell']}"]
        assert found["git_commit"] == row["git_commit"]
        assert found["time_utc"] == row["time_utc"]
    assert [place for name, place in page.attributes if name == "data-cell"] == [str(k) for k in range(len(rows))]


def provenance_of(page):
    held = json.loads(page.scripts[0])
    return {name: {**held["common"][common], **own} for name, common, own in held["cells"]}


def test_the_page_needs_no_network():
    text = page_of("gpu_conversion")
    assert not re.search(r"(?:https?:)?//[\w.-]+\.\w", text)
    for name, value in Page(text).attributes:
        if name in ("src", "href", "xlink:href", "action", "data"):
            assert value.startswith(("#", "data:"))


def test_hostile_texts_stay_texts():
    rows = [
        {
            "cell": f"{k}{HOSTILE}",
            "experiment": "m" + HOSTILE,
            "status": "ok",
            "graph": HOSTILE + str(k),
            "cpu": HOSTILE,
        }
        | {"engine": engine, "solve_s": 0.5 + k, "storage": "fp64"}
        for k, engine in enumerate(["cpu", HOSTILE])
    ]
    page = Page(html_report(rows, title=HOSTILE))
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert len(page.scripts) == 2
    assert len(page.lines) == 2
    assert provenance_of(page)[f"{rows[0]['experiment']}/{rows[0]['cell']}"]["cpu"] == HOSTILE


def test_names_within_the_page_are_unique():
    ids = [value for name, value in Page(page_of("gpu_conversion")).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_a_baseline_of_one_experiment_leaves_others_their_own():
    one = [{"cell": s, "experiment": "one", "status": "ok", "graph": "g", "storage": s, "solve_s": t}
           for s, t in (("fp64", 1.0), ("cpms2", 2.0))]  # fmt: skip
    other = [{**row, "experiment": "other", "storage": s} for row, s in zip(one, ("bf16", "fp64"), strict=True)]
    page = html_report([*one, *other], baseline="cpms2")
    assert "over cpms2" in page
    assert "over fp64" in page
    with pytest.raises(InputError, match="no contestant is called 'posit'; there is fp64, cpms2, bf16"):
        html_report([*one, *other], baseline="posit")


def test_the_command_writes_the_page(tmp_path, capsys):
    assert main(["report", "gpu_conversion", "--output", str(tmp_path / "a.html"), "--title", "Mine"]) == 0
    assert "<title>Mine</title>" in (tmp_path / "a.html").read_text()
    assert main(["report", str(tmp_path / "none"), "--output", str(tmp_path / "b.html")]) == 2
    assert main(["report", "gpu_conversion", "--output", str(tmp_path / "no" / "b.html")]) == 2
    assert "Traceback" not in capsys.readouterr().err


PROBE = """<script>
const line = document.querySelector("tbody tr"), table = line.closest("table");
const column = [...table.tBodies[0].rows].map((row) => Number(row.cells[3].dataset.v));
table.querySelectorAll("th button")[3].click();
const sorted = [...table.tBodies[0].rows].map((row) => Number(row.cells[3].dataset.v));
const filter = document.querySelector("input");
filter.value = line.textContent.slice(0, 8);
filter.dispatchEvent(new Event("input"));
line.click();
const faults = [
  innerWidth === WIDTH || "the width is " + innerWidth,
  document.documentElement.scrollWidth <= innerWidth || "the page is " + document.documentElement.scrollWidth + " wide",
  String(sorted) === String(column.toSorted((a, b) => a - b)) || "a click on a head does not sort",
  table.querySelector("tr[hidden]") !== null || "the filter hides nothing",
  document.querySelector("dialog").open || "a click on a line shows nothing",
  document.querySelector("dl").textContent.includes("COMMIT") || "the commit is not shown",
  matchMedia("(prefers-color-scheme: dark)").matches === DARK || "the scheme is another one",
  getComputedStyle(document.body).backgroundColor === (DARK ? "rgb(22, 24, 27)" : "rgb(255, 255, 255)") || "background",
  parseFloat(getComputedStyle(document.querySelector("figcaption")).fontSize) >= 12 || "the text is small",
].filter((each) => each !== true);
parent.postMessage(faults.join("; ") || "no faults", "*");
</script>"""

FRAME = """<script>onmessage = (event) => { document.body.dataset.probed = event.data; };</script>
<body><iframe src="a.html" style="width: WIDTHpx; height: 900px; border: 0"></iframe></body>"""
"""A page around the page, since a window of Chromium is at least 500 pixels wide."""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1440, True)])
def test_a_browser_shows_it_on_a_phone_and_a_desk_in_light_and_dark(tmp_path, width, dark):
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    rows = rows_of("conversion_cpu")
    probe = PROBE.replace("WIDTH", str(width)).replace("DARK", str(dark).lower())
    probe = probe.replace("COMMIT", rows[0]["git_commit"])
    (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)))
    (tmp_path / "a.html").write_text(html_report(rows).replace("</body>", probe + "</body>"))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--dump-dom",
        "--virtual-time-budget=5000",
    )
    command = [browser, *options, scheme, "--window-size=1500,1000", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, (tmp_path / "frame.html").as_uri()], capture_output=True, text=True, timeout=240, check=True
    )
    assert "CONSOLE" not in done.stderr
    assert re.search('data-probed="([^"]*)"', done.stdout)[1] == "no faults"


@pytest.mark.slow
def test_the_page_of_all_recorded_rows_is_small():
    assert len(html_report(rows_of(Path("experiments/results"))).encode()) < 4e6
