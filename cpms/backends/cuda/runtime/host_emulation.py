"""The backend of host emulation: kernels compiled as C++, each CUDA thread a fiber, for tests without a GPU.

Misaligned words and indices out of bounds trap, as on a device or more strictly. Blocks run one after the other, so a
persistent kernel runs in one block.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from cpms.backends.cuda.kernels import source
from cpms.backends.cuda.kernels import template as kernels
from cpms.backends.cuda.kernels.launch_shape import BLOCKING_SHARED_BYTES, Shape
from cpms.backends.cuda.kernels.template import Variant
from cpms.backends.cuda.runtime.backend import THREADS, Backend
from cpms.backends.cuda.runtime.kernel_arguments import Struct
from cpms.base import work_clock
from cpms.base.atomic_files import replacing
from cpms.base.errors import CpmsError, UnavailableError
from cpms.base.types import Floats

# -Og: small kernels, which are launched often, take as long to compile as without an optimiser and run as with -O1.
_OPTIONS = ("-std=c++20", "-Og", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", "-Wno-unknown-pragmas")
# A device faults on a misaligned word; x86 does so with this sanitiser alone.
_CHECKS = ("-fsanitize=alignment,bounds,shift,integer-divide-by-zero", "-fsanitize-undefined-trap-on-error")


def compiler() -> str | None:
    """Return a C++ compiler of this machine, or None."""
    return next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)


class HostBackend(Backend):
    """Arrays in main memory, and each CUDA thread as a fiber of ``host/host_emulation.hpp``.

    Parameters
    ----------
    folder : Path
        Where shared libraries are built; a library that is there is not built again.

    Raises
    ------
    UnavailableError
        If there is no C++ compiler.
    """

    def __init__(self, folder: Path) -> None:
        found = compiler()
        if found is None:
            raise UnavailableError("there is no C++ compiler; install g++")
        self._compiler = found
        self._folder = folder
        self._functions: dict[str, Any] = {}
        self.arrays = SimpleNamespace(
            ndarray=np.ndarray,
            empty=np.empty,
            zeros=np.zeros,
            ones=np.ones,
            full=np.full,
            asarray=np.array,
            ascontiguousarray=np.ascontiguousarray,
            where=np.where,
            isfinite=np.isfinite,
            absolute=np.absolute,
            maximum=np.maximum,
            minimum=np.minimum,
            multiply=np.multiply,
            cumsum=np.cumsum,
            arange=np.arange,
            searchsorted=np.searchsorted,
            argsort=np.argsort,
            sort=np.sort,
            concatenate=np.concatenate,
            bincount=np.bincount,
            unique=np.unique,
        )
        self.out_of_memory = MemoryError
        self.processors = 2
        self.cache_bytes = 1 << 20
        self.memory_bandwidth = 0.0
        self.max_shared_bytes = BLOCKING_SHARED_BYTES

    def compile(self, variants: Iterable[Variant]) -> None:
        """Build a shared library with all of these, unless all are ready."""
        distinct = list(dict.fromkeys(variants))
        if all(variant.symbol in self._functions for variant in distinct):
            return
        with work_clock.compiling():
            library = ctypes.CDLL(str(self._built(self._program(distinct))))
        for variant in distinct:
            self._functions[variant.symbol] = getattr(library, f"launch_{variant.symbol}")

    def run(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Run the blocks one after the other."""
        self._run(variant, blocks, THREADS, arguments)

    def persistent_blocks(self, shape: Shape) -> int:  # noqa: ARG002
        """Return one: blocks run one after the other."""
        return 1

    def max_blocks(self, variant: Variant) -> int:  # noqa: ARG002
        """Return one, as well."""
        return 1

    def run_persistent(self, variant: Variant, blocks: int, arguments: tuple[Any, ...]) -> None:
        """Run the one block; grid barriers wait for no other."""
        self._run(variant, blocks, variant.shape.threads, arguments)

    def _run(self, variant: Variant, blocks: int, threads: int, arguments: tuple[Any, ...]) -> None:
        self.compile([variant])
        held = [_held(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(held))(
            *(a.ctypes.data if isinstance(a, np.ndarray) else ctypes.addressof(a) for a in held)
        )
        self._functions[variant.symbol](ctypes.c_uint(blocks), ctypes.c_uint(threads), pointers)

    def synchronize(self) -> None:
        """Do nothing: launches are synchronous."""

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """Copy."""
        return np.array(array)

    def _copy_async(self, numbers: Any) -> Callable[[], Floats]:
        """Copy at once: launches are synchronous."""
        copied = np.array(numbers)
        return lambda: copied

    def clear(self, array: Any) -> None:
        """Fill."""
        array.fill(0)

    def address(self, array: Any) -> int:
        """Return the address."""
        return int(array.ctypes.data)

    def free_bytes(self) -> int:
        """Return more than any test needs."""
        return 1 << 40

    def _program(self, variants: list[Variant]) -> str:
        launchers = "\n".join(
            f'extern "C" void launch_{v.symbol}(unsigned blocks, unsigned threads, void** arguments) '
            f"{{ host::launch({v.symbol}, blocks, threads, arguments); }}"
            for v in variants
        )
        return kernels.program(variants) + "using namespace cpms;\n" + launchers + "\n"

    def _built(self, text: str) -> Path:
        """Return the library of a program, which begins with the header of the emulation."""
        header = (source.folder() / "host/host_emulation.hpp").read_text()
        library = self._folder / f"{_digest(header + text)}.so"
        if not library.exists():
            self._compile(text, library, "-include", str(self._precompiled(header)))
        return library

    def _precompiled(self, text: str) -> Path:
        """Return where a compiler's ``-include`` finds this header parsed, once for all programs of a folder."""
        header = self._folder / f"{_digest(text)}.hpp"
        parsed = header.with_suffix(".hpp.gch")
        if not parsed.exists():
            with replacing(header) as own:
                own.write_text(text)
            self._compile(text, parsed, "-x", "c++-header")
        return header

    def _compile(self, text: str, output: Path, *options: str) -> None:
        # Other processes may build the same file, each in a folder of its own; the last one replaces the others.
        with tempfile.TemporaryDirectory(dir=self._folder) as own:
            code, built = Path(own) / "kernels.cpp", Path(own) / output.name
            code.write_text(text)
            command = [self._compiler, *_OPTIONS, *_CHECKS, *options, str(code), "-o", str(built)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                raise CpmsError(f"the kernels do not compile as C++:\n{done.stderr[:4000]}")
            built.replace(output)


def _digest(text: str) -> str:
    return source.digest(" ".join((*_OPTIONS, *_CHECKS)) + text)


def _held(argument: Any) -> Any:
    """Return memory that holds an argument: a pointer to an array, a struct, or a number."""
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, Struct):
        return ctypes.create_string_buffer(argument.packed, len(argument.packed))
    return np.asarray(argument)
