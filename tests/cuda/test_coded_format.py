"""Formats with a codec in CUDA: conversion, sweeps and products, on this machine's processor and on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import cpms
from cpms import UnsupportedError, check
from cpms.backends.cuda import device_engine
from cpms.backends.cuda.arrays import codec
from cpms.backends.cuda.product.operator import CudaProduct
from cpms.contracts.product_request import ProductRequest
from cpms.engines import cuda
from cpms.formats.fixed_point import FixedPointFormat
from cpms.formats.formats import format_named
from cpms.formats.minifloats import E4M3FNUZ, TF32
from cpms.formats.posits import POSIT16
from cpms.precision.controllers import Level
from cpms.problems.pagerank import Problem
from cpms.sparse.matrix import Matrix
from cpms.storage.device import to_device

FORMATS = (E4M3FNUZ, TF32, POSIT16, FixedPointFormat("q7.8-scaled", 16, 8, scaled=True))


def values_for(format):
    rng = np.random.default_rng(0)
    wild = rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64)
    near = rng.standard_normal(3000) * np.exp(rng.uniform(-20, 20, 3000))
    values = np.concatenate([wild, near, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    return values if format.has_nan else values[~np.isnan(values)]


def on_host(device, values):
    return np.asarray(device.to_host(values))


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_bytes_and_values_are_those_of_main_memory(device, format):
    values = values_for(format)
    stored, twin = codec.encode(to_device(values), format), cpms.encode(values, format)
    assert on_host(device, stored.memory).tobytes() == twin.memory.tobytes()
    assert stored.exponent == twin.exponent
    np.testing.assert_array_equal(on_host(device, codec.decode(stored)), twin.decode())


@pytest.mark.parametrize("layout", ["csr", "pattern"])
def test_sweeps_agree_with_the_reference(device, monkeypatch, layout):
    monkeypatch.setattr(device_engine, "missing", lambda: None)
    problem = Problem(cpms.generate("uniform:nodes=200,edges=900,seed=1"))
    check.sweeps_agree(cuda.ENGINES[0], problem, format_named("posit16"), layout, Level(1, 1))


@pytest.mark.parametrize("name", ["posit16", "e4m3fn"])
def test_products_keep_their_bound(device, name):
    dense = np.where(np.random.default_rng(1).random((40, 30)) < 0.2, np.random.default_rng(2).random((40, 30)), 0.0)
    source = Matrix.from_dense(dense)
    A = cpms.StoredMatrix(CudaProduct.of(source, ProductRequest(format_named(name))), source, engine="cuda")
    check.products_are_within_their_bound(A)


def test_groups_and_codecs_that_are_missing_are_refused(device):
    with pytest.raises(UnsupportedError, match="no groups of numbers as mxfp4 has; use cpu"):
        codec.encode(to_device(np.ones(3)), format_named("mxfp4"))
