"""Platforms and devices by name, and sub-devices of some of their cores."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cpms.backends.opencl.choice import DEVICE_VARIABLE, Choice
from cpms.backends.opencl.program import build
from cpms.base import threads
from cpms.base.caches import redirect
from cpms.base.errors import UnavailableError


def missing(choice: Choice) -> str | None:
    """Return the reason why OpenCL kernels cannot run here with a choice, as a sentence; None if they can.

    Examples
    --------
    >>> missing(Choice()) is None or missing(Choice()).endswith(".")
    True
    """
    try:
        device(choice)
    except UnavailableError as error:
        return str(error)
    return None


def device(choice: Choice) -> Any:
    """Return the chosen device, or a sub-device with the chosen number of cores.

    Raises
    ------
    UnavailableError
        If PyOpenCL, its loader, a platform, such a device or its compiler is missing, or the cores cannot be had.
    """
    return _with_cores(_named(choice.device_text), choice.cores)


def _named(text: str) -> Any:
    found = _devices()
    platform, _, name = text.partition(":")
    platforms = _matching(list(dict.fromkeys(platform for platform, _ in found)), platform)
    devices = [
        device for each in platforms for device in _matching([device for owner, device in found if owner == each], name)
    ]
    if not devices:
        known = "; ".join(f"{platform.name.strip()}:{device.name.strip()}" for platform, device in found)
        raise UnavailableError(
            f"no OpenCL device is called {text!r}; here are {known}; name one as PLATFORM or PLATFORM:DEVICE, "
            f"in a Choice or in the environment variable {DEVICE_VARIABLE}."
        )
    devices.sort(key=lambda device: not is_of_type(device, "GPU"))
    faults = []
    for device in devices:
        fault = _compiler_fault(device)
        if fault is None:
            return device
        faults.append(f"{device.name} ({device.platform.version}): {fault}")
    raise UnavailableError(
        f"no compiler of an OpenCL device works: {'; '.join(faults)}; another version of the driver may, "
        "for instance of Debian's package pocl-opencl-icd."
    )


@lru_cache(maxsize=32)
def _compiler_fault(device: Any) -> str | None:
    """Return the error of a device's compiler for an empty kernel, since it may not support the processor."""
    import pyopencl

    try:
        build(pyopencl.Context([device]), "kernel void nothing() {}", [])
    except UnavailableError as error:
        lines = str(error).splitlines()
        return next((line for line in lines if line.startswith("error")), lines[0])
    return None


def _devices() -> list[tuple[Any, Any]]:
    """Return all pairs of a platform and one of its devices."""
    install = "pip install 'cpms[opencl]' brings PoCL for processors, a GPU's driver brings its own"
    redirect("pyopencl")
    try:
        import pyopencl
    except ImportError as error:
        raise UnavailableError(f"PyOpenCL or the OpenCL loader is not installed ({error}); {install}.") from None
    try:
        platforms = pyopencl.get_platforms()
    except pyopencl.Error as error:
        raise UnavailableError(f"the OpenCL loader finds no platform ({error}); {install}.") from None
    found = []
    for platform in platforms:
        try:
            found += [(platform, device) for device in platform.get_devices()]
        except pyopencl.Error:  # A driver without its device; the others may have one.
            continue
    if not found:
        names = ", ".join(platform.name.strip() for platform in platforms)
        raise UnavailableError(f"no OpenCL platform has a device ({names or 'there is no platform'}); {install}.")
    return found


def _matching(things: list[Any], text: str) -> list[Any]:
    """Return the items whose name contains the text, or the item of that number."""
    if text.isdecimal():
        return things[int(text) : int(text) + 1]
    return [thing for thing in things if text.lower() in thing.name.lower()]


def is_of_type(device: Any, kind: str) -> bool:
    """Return whether a device is of a type, "GPU" or "CPU"."""
    import pyopencl

    return bool(device.type & getattr(pyopencl.device_type, kind))


def _with_cores(device: Any, cores: int | None) -> Any:
    units = device.max_compute_units
    requested = cores or (min(threads.available(), units) if is_of_type(device, "CPU") else units)
    if requested == units:
        return device
    if requested > units:
        raise UnavailableError(
            f"OpenCL device {device.name} has {units} cores, not {requested}; choose at most {units}."
        )
    part = _sub_device(device, requested)
    if part is None and cores is not None:
        raise UnavailableError(
            f"OpenCL device {device.name} makes no sub-devices, so all its {units} cores work; choose no cores."
        )
    return part or device


@lru_cache(maxsize=32)
def _sub_device(device: Any, cores: int) -> Any | None:
    import pyopencl

    by_counts, end = pyopencl.device_partition_property.BY_COUNTS, 0
    try:
        return device.create_sub_devices([by_counts, cores, end])[0]
    except pyopencl.Error:
        return None
