"""The notebooks are kept with their outputs, and run from first to last cell; two of them in the default run."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
QUICK = {"edge_list_to_figure", "formats_and_their_bits"}
SLOW = {"own_format", "poisson_live", "precision_switching_live"} | {
    path.stem for path in FOLDER.glob("*.ipynb")
} - QUICK


def kept(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def printed(notebook):
    """Return what cells print; a kernel may send it in several parts."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


def silent(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code" and not cell.outputs]


@pytest.mark.parametrize("name", sorted(QUICK | SLOW))
def test_notebooks_are_kept_with_outputs_and_without_errors_or_addresses(name):
    notebook = kept(name)
    assert silent(notebook) == []
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert "/home/" not in str(outputs)
    assert "/tmp/" not in str(outputs)  # noqa: S108


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [*sorted(QUICK), *(pytest.param(name, marks=pytest.mark.slow) for name in sorted(SLOW))]
)
def test_notebook_runs(name):
    notebook = kept(name)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert silent(notebook) == []
    assert printed(notebook) == printed(kept(name))
