"""The OpenCL options of a user: the device, the work-group size, and the number of cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cpms.base.errors import InputError

DEVICE_VARIABLE = "PYOPENCL_CTX"
"""PyOpenCL's own environment variable; it names the device if the program does not."""


@dataclass(frozen=True)
class Choice:
    """How to run OpenCL kernels.

    Parameters
    ----------
    device : str, optional
        ``PLATFORM`` or ``PLATFORM:DEVICE``, each a part of a name in any case, or a number from 0. By default what the
        environment variable ``PYOPENCL_CTX`` says in the same form; without it the first GPU, or else the first device.
    work_group : int, optional
        Work-items in a work-group, for the kernels of the three stages. None lets the driver choose, of the divisors of
        the number of nodes or edges: of a prime number that is 1, and slow.
    cores : int, optional
        Use so many compute units, by a sub-device. By default all, or of a processor as many as
        `cpms.base.threads` allows, where its driver makes sub-devices.

    Raises
    ------
    InputError
        If a number is below 1.

    Examples
    --------
    >>> Choice(work_group=0)
    Traceback (most recent call last):
    cpms.base.errors.InputError: work_group is 0; give at least 1, or None
    """

    device: str | None = None
    work_group: int | None = 64
    cores: int | None = None

    def __post_init__(self) -> None:
        for name in ("work_group", "cores"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise InputError(f"{name} is {given}; give at least 1, or None")

    @property
    def device_text(self) -> str:
        """The name of the device, from this choice or the environment; empty if there is none."""
        return self.device if self.device is not None else os.environ.get(DEVICE_VARIABLE, "")


_current: ContextVar[Choice | None] = ContextVar("choice", default=None)


def current() -> Choice:
    """Return the present choice."""
    return _current.get() or Choice()


@contextmanager
def chosen(choice: Choice) -> Iterator[None]:
    """Use this choice for graphs that engine ``opencl`` prepares within the block.

    Examples
    --------
    >>> with chosen(Choice(work_group=256, cores=1)):
    ...     current().cores
    1
    """
    token = _current.set(choice)
    try:
        yield
    finally:
        _current.reset(token)
