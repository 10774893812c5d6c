"""Memory at hand: what the machine, the control groups and the address space leave, the least of them."""

from __future__ import annotations

import psutil
import pytest

from cpms.base import host_memory

VERSIONS = {
    1: (
        "memory/",
        "4:memory:/job/step\n1:name=systemd:/\n",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_",
    ),
    2: ("", "0::/job/step\n", "memory.max", "memory.current", ""),
}


def group(folder, names, limit, used, reclaimed):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[2]).write_text(f"{limit}\n")
    (folder / names[3]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[4]}inactive_file {reclaimed}\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_each_group_above_a_process_counts_and_cached_files_are_free(tmp_path, version):
    names = VERSIONS[version]
    (tmp_path / "process").write_text(names[1])
    top = tmp_path / "groups" / names[0]
    group(top / "job", names, 1000, 400, 100)
    group(top / "job" / "step", names, "max", 300, 100)
    group(top / "other", names, 1, 1, 0)
    assert sorted(host_memory.group_bytes(tmp_path / "groups", tmp_path / "process")) == [700]
    group(top / "job" / "step", names, 600, 300, 0)
    assert sorted(host_memory.group_bytes(tmp_path / "groups", tmp_path / "process")) == [300, 700]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_group_of_a_container_is_the_top_one(tmp_path, version):
    names = VERSIONS[version]
    (tmp_path / "process").write_text(names[1].replace("/job/step", "/../../elsewhere"))
    group(tmp_path / "groups" / names[0], names, 1000, 400, 100)
    assert list(host_memory.group_bytes(tmp_path / "groups", tmp_path / "process")) == [700]


def test_without_groups_nothing_is_limited(tmp_path):
    assert list(host_memory.group_bytes(tmp_path, tmp_path / "process")) == []


def test_the_least_counts(monkeypatch):
    monkeypatch.setattr(host_memory, "group_bytes", lambda: iter([1 << 62, 1000]))
    assert host_memory.free_bytes() == 1000
    monkeypatch.setattr(host_memory, "group_bytes", lambda: iter([-5]))
    assert host_memory.free_bytes() == 0
    monkeypatch.setattr(host_memory, "group_bytes", lambda: iter([]))
    monkeypatch.setattr(host_memory, "limit_bytes", lambda: psutil.Process().memory_info().vms + (1 << 20))
    assert host_memory.free_bytes() <= 1 << 20


def test_the_machine_states_its_free_memory_or_psutil_does(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:     3 kB\n")
    assert host_memory._available_bytes(tmp_path / "meminfo") == 3 << 10
    assert 0 < host_memory._available_bytes(tmp_path / "none") <= psutil.virtual_memory().total
