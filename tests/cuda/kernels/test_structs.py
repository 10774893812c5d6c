"""Structs that kernels take by value have one layout in Python and in C++, and kernels take few arguments."""

import re
import subprocess

import kernel_catalogue
import numpy as np
import pytest

from cpms.backends.cuda.kernels import source, structs, template
from cpms.backends.cuda.runtime import current
from cpms.backends.cuda.runtime.host_emulation import compiler
from cpms.backends.cuda.runtime.structs import pack

MOST_ARGUMENTS = 12
LAYOUTS = structs.every()


@pytest.fixture(scope="module")
def cpp():
    """Call g++ on a text; return the process, which has failed or not."""
    found = compiler()
    if found is None:
        pytest.skip("there is no C++ compiler")
    return lambda text, *options: subprocess.run(
        [found, "-x", "c++", "-std=c++20", "-w", *options, "-"], input=text, capture_output=True, text=True, check=False
    )


def asserted(layout):
    """Return the assertions of a struct's size and of the offset and the size of each field, in C++."""
    name, fields = f"cpms::{layout.name}", layout.dtype.fields
    yield f'static_assert(sizeof({name}) == {layout.dtype.itemsize}, "{layout.name}");'
    for field, (dtype, offset, *_) in fields.items():
        same = f"offsetof({name}, {field}) == {offset} && sizeof({name}::{field}) == {dtype.itemsize}"
        yield f'static_assert({same}, "{layout.name}.{field}");'


def program(layouts):
    """Return C++ that compiles if these structs are laid out so."""
    shim = f'#include <cstddef>\n#include "{source.folder() / "host/host_emulation.hpp"}"\n'
    files = dict.fromkeys(layout.file for layout in layouts)
    return "\n".join([shim, source.assemble(files), *(line for layout in layouts for line in asserted(layout))])


def test_layouts_are_those_of_the_compiler(cpp):
    checked = cpp(program(LAYOUTS), "-fsyntax-only")
    assert checked.returncode == 0, checked.stderr[:2000]


def test_a_wrong_offset_would_be_seen(cpp):
    swapped = structs.Layout("Columns", "batch/batch.cuh", np.dtype([("used", np.uint32), ("stride", np.uint32)]))
    checked = cpp(program([swapped]), "-fsyntax-only")
    assert "Columns.used" in checked.stderr


def test_every_struct_that_a_kernel_takes_is_described(cpp):
    described = {layout.name.partition("<")[0] for layout in LAYOUTS}
    taken = {
        kind
        for arguments in kernel_parameters(cpp).values()
        for kind in re.findall(r"(?:cpms::)?\b([A-Z]\w+)[^,*]* \w+", arguments)
    }
    assert len(taken) > 20
    assert taken <= described


def test_no_kernel_takes_more_than_twelve_arguments(cpp):
    counts = {kernel: 1 + arguments.count(",") for kernel, arguments in kernel_parameters(cpp).items()}
    assert {kernel: count for kernel, count in counts.items() if count > MOST_ARGUMENTS} == {}


def kernel_parameters(cpp):
    """Return the parameters of a variant of each kernel, as text."""
    variants = {}
    for variant in (variant for family in kernel_catalogue.every().values() for variant in family):
        variants.setdefault(variant.kernel, variant)
    assert variants.keys() == template._FILES.keys()
    text = re.sub(r"^#include <.*$", "", template.program(variants.values()), flags=re.MULTILINE)
    expanded = cpp(text, "-E", "-P").stdout
    kernels = re.findall(
        r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\))?\s*(\w+?)(?:__\w+)?\(([^)]*)\)', expanded
    )
    found = {kernel: arguments.replace("\n", " ") for kernel, arguments in kernels}
    assert found.keys() == variants.keys()
    return found


def test_packed_fields_lie_where_the_layout_says(host_backend):
    with current.using(host_backend):
        array = np.arange(3.0)
        vectors = [pack(structs.SHARED_VECTOR, memory=array, values_to=each) for each in (1, 2)]
        packed = pack(structs.RANKS, x=vectors)
    fields = np.frombuffer(packed.packed, structs.RANKS.dtype)[0]["x"]
    assert fields["memory"].tolist() == 2 * [array.ctypes.data]
    assert (fields["values_to"].tolist(), packed.packed[-8:]) == ([1, 2], bytes(8))
    assert all(held is array for held in packed.held)


def test_a_field_that_does_not_exist_is_named():
    with pytest.raises(TypeError, match=r"struct PowerRequest has no field tol; it has tolerance, norm, max_sweeps"):
        pack(structs.POWER_REQUEST, tol=1.0)
