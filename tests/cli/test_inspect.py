"""``cpms inspect``: the bits of a value, and what is no value."""

import numpy as np
import pytest
from cli_runs import refused, run

import cpms


def test_a_stored_file_is_not_shown_in_another_format(capsys, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5.0))
    assert "leave out --storage" in refused(capsys, "inspect", tmp_path / "x.npy", "--storage", "cpms2")


@pytest.mark.parametrize("ending", [".cpms", ".npz"])
def test_a_stored_file_is_shown(capsys, tmp_path, ending):
    np.save(tmp_path / "x.npy", np.arange(5.0))
    run(capsys, "convert", tmp_path / "x.npy", tmp_path / f"x{ending}", "--storage", "cpms4")
    assert "5 values in cpms4, 40 bytes: 0.0, 1.0" in run(capsys, "inspect", tmp_path / f"x{ending}")[1]


def test_inspect_shows_segments_and_reads(capsys):
    _, out, _ = run(capsys, "inspect", "0.1", "--storage", "cpms4")
    assert "3fb9" in out
    assert "0.09765625" in out
    assert "e6m9" in refused(capsys, "inspect", "0.1", "--storage", "nonsense")
    assert "neither" in refused(capsys, "inspect", "tenth")


def test_inspect_shows_packed_floats_and_special_values(capsys):
    assert "0.0999755859375" in run(capsys, "inspect", "0.1", "--storage", "fp16")[1]
    assert "inf" in run(capsys, "inspect", "inf")[1]


@pytest.mark.parametrize("value", ["-1e-5", "-0.1", "-inf", "-.5E+3"])
def test_inspect_takes_negative_numbers_for_values(capsys, value):
    for arguments in ([value, "--storage", "fp16"], ["--storage", "fp16", value], ["--storage=fp16", "--", value]):
        code, out, _ = run(capsys, "inspect", *arguments)
        assert code == 0
        assert out.startswith(f"{float(value)!r} = 1 ")
    with pytest.raises(SystemExit):
        run(capsys, "inspect", "0.1", "-1x")


def test_inspect_stores_as_solves_do(capsys):
    assert "1.000444171950221e-09" in run(capsys, "inspect", "1e-9", "--storage", "fp16-scaled")[1]
    assert "inf" in run(capsys, "inspect", "1" * 400)[1]


def test_inspect_says_what_is_no_stored_array(capsys, tmp_path):
    (tmp_path / "f.csv").write_text("a\n")
    assert "pickle" not in refused(capsys, "inspect", tmp_path / "f.csv")


def test_inspect_takes_the_bits_of_a_value(capsys):
    assert run(capsys, "inspect", "0x3fb999999999999a") == run(capsys, "inspect", "0.1")
    assert "-2.0 = 1 " in run(capsys, "inspect", "0XC000000000000000")[1]
    assert "7ff0" in run(capsys, "inspect", "0x7ff0000000000001")[1]
    assert "16 digits" in refused(capsys, "inspect", "0x3f")


SIGNS_OF_12_BITS = """
import cpms, numpy as np


class Signs(cpms.Format):
    name = "twelve"

    def bits(self, read=None):
        return 12

    def unit_roundoff(self, read=None):
        return 0.5

    def encode(self, values):
        return np.where(np.signbit(values), 0x803, 0x003).astype(np.uint16)

    def decode(self, codes, read=None):
        return np.where(codes > 2047, -1.0, 1.0)
"""


def test_inspect_shows_the_bits_of_a_format_of_ones_own(capsys, tmp_path):
    (tmp_path / "own.py").write_text(SIGNS_OF_12_BITS)
    name = f"{tmp_path / 'own.py'}:Signs"
    assert run(capsys, "inspect", "-1", "--storage", name)[1].split()[-4:-1] == ["12", "100000000011", "-1.0"]
    assert "12, stored in 16" in run(capsys, "formats", name)[1]


def test_inspect_takes_the_format_of_a_file(capsys, tmp_path):
    (tmp_path / "own.py").write_text(SIGNS_OF_12_BITS)
    name, file = f"{tmp_path / 'own.py'}:Signs", tmp_path / "x.cpms"
    cpms.encode([1.0, -1.0, 1.0], cpms.format_named(name)).save(file)
    assert "give its format: --of NAME" in refused(capsys, "inspect", file)
    assert "3 values in twelve, 6 bytes: 1.0, -1.0, 1.0" in run(capsys, "inspect", file, "--of", name)[1]
    assert "use --storage" in refused(capsys, "inspect", "0.1", "--of", name)


def test_formats_count_mantissa_bits_in_one_way(capsys):
    rows = {line.split()[0]: line.split() for line in run(capsys, "formats")[1].splitlines()[1:]}
    for first, second in (("e4m3", "e4m3fn"), ("fp16", "tf32")):
        assert rows[first][-2:] == rows[second][-2:]
    assert rows["tf32"][1:5] == ["1+8+10,", "stored", "in", "32"]
