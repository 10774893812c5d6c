"""OpenCL devices and programs, for engine ``opencl``."""

from cpms.backends.opencl.choice import Choice, chosen, current

__all__ = ["Choice", "chosen", "current"]
