"""The notebooks run from first to last cell, and each cell shows something."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
NAMES = {"formats_and_their_bits", "precision_switching_live"} | {path.stem for path in FOLDER.glob("*.ipynb")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(NAMES))
def test_notebook_runs(name):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    silent = [cell.source for cell in notebook.cells if cell.cell_type == "code" and not cell.outputs]
    assert silent == []
