"""Arrays and addresses for tests of conversion and product kernels."""

from cpms.formats.formats import SegmentFormat

ODD = SegmentFormat("odd", (8, 16, 8, 32), 3)


def upload(backend, values):
    return backend.arrays.asarray(values)


def as_bytes(backend, stored):
    return backend.to_host(stored.memory).tobytes()
