"""How Numba compiles the loops of this package: one optimisation of each, and array functions without SciPy's BLAS.

Numba optimises a function by itself, then with its helpers cheaply, so that counts of references are pruned, and then
in full. The last pass repeats the work of the others, and loops of this package count few references: each is optimised
once here, together with its helpers. `cpms.base.jit` loads this module after its checks. It relies on internals of
Numba, which are alike from 0.60 to 0.68.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from numba.core import codegen, compiler

_Library: Any = codegen.JITCodeLibrary
_passes: Any = compiler.DefaultPassBuilder


class _LoopLibrary(_Library):  # type: ignore[misc, unused-ignore]
    """The code of a loop, which is optimised once all of it is linked."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes = self._codegen._module_pass_manager()
        if isinstance(passes, tuple):
            manager, builder = passes
            manager.run(self._final_module, builder)
        else:  # Before Numba 0.62.
            super()._optimize_final_module()


class _NoEnvironment:
    """Takes the environment of a function without machine code; only exceptions with values of their own read one."""

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing."""


class _LinkedLibrary(_LoopLibrary):
    """The code of a helper before optimisation and without machine code: its callers link and optimise it."""

    codegen: Any = _NoEnvironment()

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        self._ensure_finalized()
        return 0


class LoopCompiler(compiler.CompilerBase):  # type: ignore[misc, unused-ignore]
    """The compiler of loops that Python calls, or others at their addresses."""

    code: Any = _LoopLibrary

    def define_pipelines(self) -> list[Any]:
        """Return Numba's passes, with a library of this module for the code."""
        state = self.state
        state.library = self.code(state.targetctx.codegen(), state.func_id.func_qualname)
        if self.code is _LoopLibrary:
            state.library.enable_object_caching()
        return [_passes.define_nopython_pipeline(state)]


class LinkedCompiler(LoopCompiler):
    """The compiler of helpers that LLVM inlines."""

    code: Any = _LinkedLibrary


class _LaterBlas:
    """Whether SciPy has the BLAS that compiled products of matrices call, found when one is compiled."""

    def __init__(self, has_blas: Any) -> None:
        self._has_blas = has_blas

    def __bool__(self) -> bool:
        return bool(self._has_blas())


def load_array_functions() -> None:
    """Let Numba load its array functions without SciPy's linear algebra, which it imports to see whether there is BLAS.

    Numba loads them when it first compiles. That import takes longer than all else that it loads then.
    """
    blas, functions = "scipy.linalg.cython_blas", "numba.np.arraymath"
    if blas in sys.modules or functions in sys.modules:
        return
    sys.modules[blas] = None  # type: ignore[assignment]
    try:
        loaded: Any = import_module(functions)
    finally:
        del sys.modules[blas]
    if not getattr(loaded, "_HAVE_BLAS", True):
        loaded._HAVE_BLAS = _LaterBlas(loaded._check_blas)
