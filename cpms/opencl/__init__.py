"""OpenCL devices and programs, for engine ``opencl``."""

from cpms.opencl.choice import Choice, chosen, current

__all__ = ["Choice", "chosen", "current"]
