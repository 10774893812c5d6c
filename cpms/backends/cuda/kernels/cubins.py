"""Compiled kernels that come with the package, found by their content: the first call on a GPU need not compile them.

A cubin is named by a digest of all that its bytes depend on: the text with its includes, the options, the architecture
and the major version of NVRTC. A changed source has another name and is compiled, so no stale cubin is ever taken; a
card, or a major version, without cubins is served by NVRTC as before. ``python -m cpms.backends.cuda.kernels.cubins``
makes them for wheels: NVRTC needs no driver for that, but ``cuda-bindings``, and minutes of a processor.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from cpms.backends.cuda.kernels import template
from cpms.backends.cuda.kernels.units import common_units
from cpms.base import package_data
from cpms.base.atomic_files import replacing
from cpms.base.errors import CpmsError, UnavailableError
from cpms.base.text.terminal import say

OPTIONS = ("-std=c++17",)
"""Options that kernels are compiled with; CuPy adds `_ADDED` of its own."""
_ADDED = ("-ftz=true", "--device-as-default-execution-space")
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""Architectures that wheels carry cubins of."""


def folder() -> Path:
    """Return the folder of the cubins, which need not exist."""
    return package_data.shipped_folder() / "cubins"


def name(text: str, architecture: str, nvrtc_major: int) -> str:
    """Return the file name of a compiled text.

    Examples
    --------
    >>> name("a", "sm_90", 13) == name("a", "sm_90", 13), name("a", "sm_90", 13) == name("b", "sm_90", 13)
    (True, False)
    """
    parts = architecture, str(nvrtc_major), *OPTIONS, *_ADDED, text
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{architecture}_{digest[:32]}.cubin"


def shipped(text: str, architecture: str, nvrtc_major: int) -> Path | None:
    """Return the cubin of a text that came with the package; None if there is none."""
    wanted = name(text, architecture, nvrtc_major)
    return folder() / wanted if wanted in _held(folder()) else None


def described() -> str:
    """Return what came with the package, for people.

    Examples
    --------
    >>> described().startswith(("none", "sm_"))
    True
    """
    held = _held(folder())
    counts = {arch: sum(each.startswith(f"{arch}_") for each in held) for arch in ARCHITECTURES}
    return ", ".join(f"{arch}: {count}" for arch, count in counts.items() if count) or "none: NVRTC compiles kernels"


@cache
def _held(place: Path) -> frozenset[str]:
    return frozenset(path.name for path in place.glob("*.cubin"))


def build(into: Path, architectures: Iterable[str], nvrtc: Nvrtc) -> list[Path]:
    """Compile the common units for some architectures by all processors; files that are there remain.

    Cubins of earlier sources are removed, so that a wheel carries no others.
    """
    into.mkdir(parents=True, exist_ok=True)
    texts = [template.program(unit) for unit in common_units()]
    major, compiled = nvrtc
    wanted = {into / name(text, arch, major): (text, arch) for arch in architectures for text in texts}
    for stale in set(into.glob("*.cubin")) - wanted.keys():
        stale.unlink()

    def make(path: Path) -> None:
        if not path.exists():
            text, arch = wanted[path]
            with replacing(path) as whole:  # A file that is there is never compiled again.
                whole.write_bytes(compiled(text, (f"-arch={arch}", *OPTIONS, *_ADDED)))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, wanted))
    return list(wanted)


Nvrtc = tuple[int, Callable[[str, tuple[str, ...]], bytes]]
"""The major version of NVRTC, and its call: a cubin of a text and options."""


def installed_nvrtc() -> Nvrtc:
    """Return the NVRTC of ``cuda-bindings``.

    Raises
    ------
    CpmsError
        From its call, if a text does not compile.
    UnavailableError
        If ``cuda-bindings`` is not installed.
    """
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
    except ImportError:
        raise UnavailableError(
            "kernels are compiled by NVRTC: pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-cccl"
        ) from None

    def compiled(text: str, options: tuple[str, ...]) -> bytes:
        _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if int(status):
            log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1] + 2)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CpmsError(f"kernels do not compile:\n{log.decode(errors='replace')}")
        size = nvrtc.nvrtcGetCUBINSize(program)[1]
        binary = bytes(size + 2)  # NVRTC writes into it, and Python shares bytes of length 1.
        nvrtc.nvrtcGetCUBIN(program, binary)
        nvrtc.nvrtcDestroyProgram(program)
        return binary[:size]

    return int(nvrtc.nvrtcVersion()[1]), compiled


def _main() -> None:
    parser = argparse.ArgumentParser(description="Compile the common kernels for wheels.")
    parser.add_argument("architectures", nargs="*", default=ARCHITECTURES, metavar="sm_XX")
    parser.add_argument("--into", type=Path, default=folder())
    arguments = parser.parse_args()
    try:
        nvrtc = installed_nvrtc()
    except UnavailableError as error:
        raise SystemExit(f"error: {error}") from None
    made = build(arguments.into, arguments.architectures, nvrtc)
    size = sum(path.stat().st_size for path in made)
    say(f"{len(made)} cubins of {size:,} bytes in {arguments.into}")


if __name__ == "__main__":
    _main()
