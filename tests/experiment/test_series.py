"""Series of contestants differ in their bits alone, and are drawn whole with the float64 contestant most like them."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpms.experiment.report.page.series import chosen_series, series_of
from cpms.experiment.report.palette import colour

BITS = {"fp64": [64], "cpms2": [32, 64], "cpms4": [16, 32, 48, 64]}
PRODUCTS = {
    f"{engine} {storage} {layout} read={read}": bits
    for engine, layout, (storage, each) in itertools.product(("cuda", "cuda_rows"), ("csr", "ell"), BITS.items())
    for read, bits in enumerate(each, 1)
}
FORMATS = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "bfp16": 16, "e5m2": 8}
"""Three formats have one colour."""


def found_of(bits, graphs=1):
    return pd.DataFrame(
        {"called": name, "case": f"g{graph}", "fewest_bits": each}
        for name, each in bits.items()
        for graph in range(graphs)
    )


def test_levels_of_a_format_and_formats_of_a_kernel_are_series():
    series = series_of(found_of(PRODUCTS))
    assert series["cuda cpms4 csr read=3"] == "cuda cpms4 csr read=1..4"
    assert series["cuda fp64 csr read=1"] == "cuda fp64 csr read=1"
    assert series_of(found_of({"f read=1": 16, "f read=3": 48}))["f read=3"] == "f read=1,3"
    apart = {f"a {name} b": bits for name, bits in FORMATS.items() if name not in ("bf16", "bfp16")}
    assert series_of(found_of(apart))["a fp16 b"] == "a fp64..e5m2 b"
    several = {"A fp64 vectors fp64": 64, "A fp64 vectors fp32": 32}
    assert series_of(found_of(several)) == {name: name for name in several}


def test_of_formats_that_share_a_colour_those_of_one_kind_are_a_series():
    formats = {**FORMATS, "cpms2": 32, "cpms4": 16, "cpms2-nearest": 32, "cpms4-nearest": 16, "e4m3": 8, "e6m9": 16}
    series = series_of(found_of(formats))
    joined = {name for name in formats if series[name] != name}
    assert {series[name] for name in ("fp64", "fp32", "fp16")} == {"fp64/fp32/fp16"}
    assert series["cpms2"] == series["cpms4"] == "cpms2/cpms4"
    assert series["cpms2-nearest"] == series["cpms4-nearest"] == "cpms2-nearest/cpms4-nearest"
    assert joined == {"fp64", "fp32", "fp16", "cpms2", "cpms4", "cpms2-nearest", "cpms4-nearest"}


def test_contestants_that_have_one_colour_on_some_graph_are_no_series():
    found = found_of({"fp64": 64, "fp16": 16}, graphs=2)
    found.loc[3, "fewest_bits"] = 64
    assert series_of(found) == {"fp64": "fp64", "fp16": "fp16"}


NAMES = st.builds(
    lambda *words: " ".join(words),
    st.sampled_from(["cuda", "cpu", "scipy"]),
    st.sampled_from([*FORMATS, "auto"]),
    st.sampled_from(["csr", "ell", "coo"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=30, unique=True), st.integers(2, 12), st.data())
def test_series_are_chosen_whole_with_their_reference_and_those_that_stay(names, most, data):
    found = found_of({name: FORMATS.get(name.split()[1], 64) for name in names})
    staying = data.draw(st.sets(st.sampled_from(names), max_size=2))
    chosen, series = chosen_series(found, {*staying, None}, most), series_of(found)
    assert staying <= {*chosen}
    assert chosen == [name for name in names if name in chosen]
    assert len(names) > most or chosen == names
    kept = {series[name] for name in chosen}
    assert {name for name in names if series[name] in kept and series[name] != name} <= {*chosen}
    for each in kept:
        held = [name for name in names if series[name] == each]
        assert len({*map(colour, found.fewest_bits[found.called.isin(held)])}) == len(held)


@pytest.mark.parametrize("most", [6, 9, 12])
def test_the_longest_series_has_float64_of_its_engine_and_layout(most):
    chosen = chosen_series(found_of(PRODUCTS), {"cuda fp64 ell read=1"}, most)
    assert {"cuda fp64 ell read=1", *(f"cuda cpms4 csr read={read}" for read in range(1, 5))} <= {*chosen}
    assert len(chosen) <= most
    for name in chosen:
        engine, _, layout, _ = name.split()
        assert f"{engine} fp64 {layout} read=1" in chosen


def test_a_reference_comes_with_its_series_or_not_at_all():
    bits = {"cuda fp32 csr": 32, "cuda fp16 csr": 16, "cpu fp64 csr": 64, "cpu fp32 csr": 32}
    assert chosen_series(found_of(bits), set(), 3) == ["cpu fp64 csr", "cpu fp32 csr"]


def test_of_series_of_one_length_those_of_engines_with_few_contestants_are_chosen():
    bits = {"lib fp64 a": 64, **{f"own fp16 {k}": 16 for k in range(5)}, "lib fp16 sell": 16}
    assert {"lib fp64 a", "lib fp16 sell"} <= {*chosen_series(found_of(bits), {"lib fp64 a"}, 5)}


def test_contestants_of_64_bits_alone_are_left_out_unless_all_are():
    bits = {"a fp64": 64, "b auto": 64, "c auto": 64, "d fp32": 32}
    assert chosen_series(found_of(bits), {"a fp64"}, 3) == ["a fp64", "d fp32"]
    assert chosen_series(found_of(dict.fromkeys(bits, 64)), {"a fp64"}, 3) == ["a fp64", "b auto", "c auto"]
