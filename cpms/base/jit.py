"""Compilation of loops by Numba, cached on disk if a folder is writable.

Machine code is cached beside the source, else in the user's cache folder, else in a private temporary folder; without
any, each process compiles anew, which takes seconds a loop. Numba is imported here and in
`cpms.base.compilation.pipelines`, which no other module imports, so that its requirements are checked before: its
import fails or hangs with an invalid number of threads or too small an address space.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from pickle import UnpicklingError
from threading import Lock
from types import FunctionType
from typing import Any

from cpms.base import work_clock
from cpms.base.caches import is_writable, temporary
from cpms.base.errors import InputError
from cpms.base.host_memory import require_address_space

_THREADS = "NUMBA_NUM_THREADS"
_LIBRARIES_MIB = 520, 80
"""Address space of all libraries of a solve, and for each further thread, in MiB."""


def _check_threads() -> None:
    """Refuse a number of threads for which Numba's import fails or prints a traceback."""
    given = os.environ.get(_THREADS, "1")
    try:
        possible = int(given) >= 1
    except ValueError:
        possible = False
    if not possible:
        raise InputError(f"{_THREADS} is {given!r}; set it to a number of threads, 1 or more, or unset it")


_check_threads()
require_address_space(*_LIBRARIES_MIB, "Numba beside SciPy")
import numba as numba  # noqa: E402
from numba.core import codegen, event  # noqa: E402
from numba.core.runtime import nrt  # noqa: E402

from cpms.base.compilation.pipelines import LinkedCompiler, LoopCompiler, load_array_functions  # noqa: E402


class _CompilerListener(event.Listener):  # type: ignore[misc, unused-ignore]
    """Stops `work_clock` while a thread holds Numba's compiler lock, or waits for it.

    The lock is held while a function is compiled, and while its machine code is read from the cache or written to it.
    """

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        work_clock.compiler_starts()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        work_clock.compiler_ends()


class _NameListener(event.Listener):  # type: ignore[misc, unused-ignore]
    """Reports the functions that Numba compiles, and not those that it reads from its cache."""

    def on_start(self, event: Any) -> None:
        load_array_functions()
        work_clock.report(str(event.data["dispatcher"].py_func.__name__))

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        work_clock.report(None)


event.register("numba:compile", _NameListener())  # type: ignore[no-untyped-call, unused-ignore]
event.register("numba:compiler_lock", _CompilerListener())  # type: ignore[no-untyped-call, unused-ignore]


_builders: Any = numba.core.cgutils
_runtime: Any = nrt
_instruction: Any = numba.extending.intrinsic
_carray: Any = numba.carray  # type: ignore[attr-defined, unused-ignore]
_llvm: Any = codegen.ll  # type: ignore[attr-defined, unused-ignore]
_log = logging.getLogger("cpms")
_njit: Any = numba.njit  # Its types leave out the options of wrappers.
_config_lock = Lock()
_reported: set[str] = set()


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function without the interpreter lock, and caches it on disk.

    Parameters
    ----------
    **options
        Of `numba.njit`.

    Raises
    ------
    TypeError
        If the function's closure holds a compiled one. The cache identifies a closure by its content, and that of a
        compiled function differs from process to process: its machine code would be written and never be found again.

    Examples
    --------
    >>> @compiled(error_model="numpy")
    ... def halved(x):
    ...     return x / 2
    >>> halved(3.0)
    1.5
    """

    def decorate(function: Callable[..., Any]) -> Any:
        for cell in function.__closure__ or ():
            if isinstance(cell.cell_contents, numba.core.dispatcher.Dispatcher):
                raise TypeError(f"{function.__qualname__} holds a compiled function in its closure; name it globally")
        loop = _compiled(function, options)
        _read_alone(loop)
        _tolerate_save_errors(loop)
        _depend_on_helpers(loop)
        return loop

    return decorate


def inlined_in_loops(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for a helper that LLVM inlines into compiled loops, and that Python never calls.

    Numba would compile a helper on its own first, with wrappers by which Python and C call it. Its code is only linked
    here, so that loops with large helpers compile faster. A helper may lie in another file than a loop of `compiled`.

    Parameters
    ----------
    **options
        Of `numba.njit`.

    Examples
    --------
    >>> @inlined_in_loops()
    ... def half(x):
    ...     return x / 2
    >>> @compiled()
    ... def quarter(x):
    ...     return half(half(x))
    >>> quarter(8.0)
    2.0
    """
    decorate: Callable[[Callable[..., Any]], Any] = _njit(
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        pipeline_class=LinkedCompiler,
        **{"forceinline": True, **options},
    )
    return decorate


def address_of(loop: Any, types: tuple[Any, ...]) -> int:
    """Return where the machine code of a compiled loop for some types of arguments is, for `called_at`."""
    loop.compile(types)
    found = loop.overloads[types]
    return int(found.library.get_pointer_to_function(found.fndesc.llvm_func_name))


def called_at(*signatures: tuple[Any, ...]) -> Any:
    """Return a function for compiled loops that calls another one, which returns nothing, at its address.

    The called loop is compiled on its own, once for all callers. Code that Numba links it would optimise and emit again
    with each caller.

    Parameters
    ----------
    *signatures : tuples of Numba's types
        Those of the arguments for which loops may be called.

    Examples
    --------
    >>> import numpy as np
    >>> signature = numba.types.float64[::1], numba.types.int64
    >>> @compiled()
    ... def scale(x, factor):
    ...     for i in range(len(x)):
    ...         x[i] *= factor
    >>> call = called_at(signature)
    >>> @compiled()
    ... def twice(address, x):
    ...     call(address, (x, 2))
    >>> x = np.ones(2)
    >>> twice(address_of(scale, signature), x)
    >>> x.tolist()
    [2.0, 2.0]
    """

    @numba.extending.intrinsic
    def call(typing_context: Any, address: Any, arguments: Any) -> Any:  # noqa: ARG001
        given = tuple(map(numba.types.unliteral, arguments))
        if given not in signatures:
            raise numba.errors.TypingError(f"a loop at an address takes {signatures}, not {given}")

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
            nothing, convention = numba.types.none, context.call_conv
            kind = convention.get_function_type(nothing, given).as_pointer()
            loop = builder.inttoptr(values[0], kind)
            parts = _builders.unpack_tuple(builder, values[1])
            status, _ = convention.call_function(builder, loop, nothing, given, parts)
            with _builders.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return context.get_dummy_value()

        return numba.types.none(address, arguments), generate

    return call


@_instruction
def _pointer(typing_context, address):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return an address as a pointer."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return numba.types.voidptr(numba.types.uint64), generate


@inlined_in_loops()
def array_at(address, length, real):  # type: ignore[no-untyped-def]
    """Return the array at an address, of the type of the array ``real``; for compiled loops.

    The array that owns the memory must live while the loop runs.

    Examples
    --------
    >>> import numpy as np
    >>> @compiled()
    ... def first(address, real):
    ...     return array_at(address, 2, real)[0]
    >>> held = np.array([3.0, 4.0])
    >>> first(np.uint64(held.ctypes.data), held)
    3.0
    """
    return _carray(_pointer(address), length, real.dtype)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile with a cache in the folder that Numba finds, else in the temporary folder, else without a cache."""
    source = Path(function.__code__.co_filename)
    options = {"pipeline_class": LoopCompiler, **options}
    # Numba would interpret an unknown home folder or an empty name relative to the current folder.
    home = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~"))  # noqa: PTH111
    if Path(home).is_absolute() or is_writable(source.parent):
        with suppress(RuntimeError):  # No folder is writable.
            return _njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
    if source.is_file() and (folder := temporary()):
        with suppress(RuntimeError), _cache_in(folder / "numba"):
            return _njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
    return numba.njit(nogil=True, **options)(function)


@contextmanager
def _cache_in(folder: Path) -> Iterator[None]:
    """Set Numba's cache folder for functions that the block declares."""
    config: Any = numba.config
    with _config_lock:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            yield
        finally:
            config.CACHE_DIR = before


def _read_alone(loop: Any) -> None:
    """Let machine code be read from the cache without all that only compilation needs.

    Before it looks into its cache, Numba loads its registries of types and functions and compiles its counting of
    references, which takes longer than a small solve. Cached code counts references itself and needs only the addresses
    of Numba's C functions; Numba loads the rest when it compiles.

    A file that cannot be read, such as another user's, is as good as none; one that is damaged is replaced.
    """
    cache: Any = getattr(loop, "_cache", None)
    load, guard = getattr(cache, "_load_overload", None), getattr(cache, "_guard_against_spurious_io_errors", None)
    if load is None or guard is None:
        return

    def load_alone(signature: Any, target: Any) -> Any:
        _name_functions_in_c()
        try:
            with guard():
                return load(signature, target)
        except OSError:
            return None
        except (EOFError, ValueError, UnpicklingError):
            with suppress(OSError):
                cache.flush()
            return None

    cache.load_overload = load_alone


@functools.cache
def _name_functions_in_c() -> None:
    for name, address in _runtime._nrt.c_helpers.items():
        _llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _tolerate_save_errors(function: Any) -> None:
    """Report errors of writing the cache, such as a full disk, in place of raising them."""
    cache: Any = getattr(function, "_cache", None)
    save = getattr(cache, "save_overload", None)
    if save is None:
        return

    def save_or_report(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            reason = str(error.strerror)
            if reason not in _reported:
                _log.warning("cpms: warning: compiled code cannot be cached (%s: %s)", reason, cache.cache_path)
            _reported.add(reason)

    cache.save_overload = save_or_report


def _depend_on_helpers(loop: Any) -> None:
    """Let a cached loop be out of date where a file of its helpers changed; Numba looks at the loop's file alone."""
    file = getattr(getattr(loop, "_cache", None), "_cache_file", None)
    others = sorted(_sources(loop.py_func, set()) - {loop.py_func.__code__.co_filename})
    if file is not None and others:
        file._source_stamp = (file._source_stamp, *map(_stamp, others))


def _sources(function: Any, known: set[Any]) -> set[str]:
    """Return the files of a function and of all compiled ones and instructions that it names, directly or by others."""
    known.add(function)
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    named += [cell.cell_contents for cell in function.__closure__ or ()]
    helpers = [helper for each in named if (helper := getattr(each, "py_func", getattr(each, "_defn", None)))]
    helpers += [each for each in named if isinstance(each, FunctionType)]  # Which Numba knows by an overload.
    further = [_sources(helper, known) for helper in helpers if helper not in known]
    return {function.__code__.co_filename}.union(*further)


def _stamp(file: str) -> tuple[float, int]:
    """Return when a file was written, and its size, by which Numba knows a source."""
    try:
        found = Path(file).stat()
    except OSError:  # Of a package in an archive.
        return 0.0, 0
    return found.st_mtime, found.st_size
