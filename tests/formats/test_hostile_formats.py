"""Formats of users that return or claim what they must not: a sentence each, which names the format and the plug-in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cpms
from cpms import InputError
from cpms.check import check_format

SOUND = """
import cpms, numpy as np

class Sound(cpms.Format):
    name, has_nan, has_infinity, has_negative_zero = "sixteenths", False, False, False
    def bits(self, read=None): return 16
    def unit_roundoff(self, read=None): return 2.0**-5
    def encode(self, values): return np.clip(np.rint(16 * values) + 32768, 0, 65535).astype(np.uint16)
    def decode(self, codes, read=None): return (codes.astype(float) - 32768) / 16

class Own(Sound):
"""
ENCODED = r"must return uint16 of shape \(3,\)"
HOSTILE = {
    "def encode(self, values): return [0] * len(values)": rf"returns \[0, 0, 0\]; it {ENCODED}",
    "def encode(self, values): return None": f"returns None; it {ENCODED}",
    "def encode(self, values): return super().encode(values)[1:]": rf"returns uint16 of shape \(2,\); it {ENCODED}",
    "def encode(self, values): return super().encode(values).astype('>u2')": "returns >u2 of shape",
    "def encode(self, values): raise KeyError('k')": r"encode of .* fails \(KeyError: 'k', own.py line 12\)",
    "def encode(self, values): raise SystemExit(7)": r"encode of .* fails \(SystemExit: 7, own.py line 12\)",
    "def encode(self, values): values[...] = 0; return super().encode(values)": "destination is read-only",
    "def encode(self, values): return cpms.encode(values, self).units": "fails .RecursionError",
    "def decode(self, codes, read=None): return codes": "returns uint16 of shape .*; it must return float64",
    "def bits(self, read=None): return '16'": "returns '16'; it must be a whole number from 1 on",
    "def unit_roundoff(self, read=None): return float('nan')": "returns nan; it must be a number from 0 on",
    "group = 'many'": "group of .* is 'many'; it must be a whole number",
    "group, group_bytes = 4, -8": "group_bytes of .* is -8; it must be a whole number",
    "has_nan = None": "has_nan of .* is None; it must be True or False",
    "max_finite = property(lambda self: 1 / 0)": "max_normal of .* fails .ZeroDivisionError",
    "def exponent_of(self, values): return values.nothing": "exponent_of of .* fails .AttributeError",
    "def exponent_of(self, values): return 10**9": "exponent_of of .* is 1000000000; it must be from -4096 to 4096",
    "def numba_codec(self): return 3": "the numba_codec of .* does not compile",
    "def numba_codec(self): return self.nothing": "numba_codec of .* fails .AttributeError",
}


@pytest.mark.parametrize("line", HOSTILE)
def test_a_codec_that_breaks_the_protocol_names_its_plug_in(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(f"{SOUND}    {line}\n")
    with pytest.raises(InputError, match=HOSTILE[line]) as error:
        cpms.encode([1.0, 0.5, -2.0], "own.py:Own").decode()
    assert r"sixteenths (plug-in own.py:Own)" in str(error.value)


def test_values_of_the_caller_stay_and_numpy_warns_of_nothing(tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(f"{SOUND}    def encode(self, values): return super().encode(values / 0.0 * values)\n")
    values = np.array([0.0, 1.0, -2.0])
    cpms.encode(values, "own.py:Own")
    assert values.tolist() == [0.0, 1.0, -2.0]
    assert not [each for each in recwarn if each.category is RuntimeWarning]
    assert not check_format("own.py:Own", patterns=100).holds


def test_formats_are_values_and_files_name_what_they_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(f"{SOUND}    __hash__ = None\n")
    for name, says in {
        "own.py:Own": "class Own has no hash; give it __hash__, or make it a dataclass with frozen=True",
        "own.py:Mine": "there is no attribute 'Mine'; it has Sound, Own",
        "own:Own": "cannot be imported .ModuleNotFoundError: .*; name the file, as in own.py:Own",
        "own.py": "own.py is a file; name an attribute of it, as in own.py:NAME",
    }.items():
        with pytest.raises(InputError, match=says):
            cpms.encode([1.0], cpms.format_named(name))
