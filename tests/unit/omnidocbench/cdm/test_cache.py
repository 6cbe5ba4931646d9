"""The cache: whole entries or none, whoever else writes, breaks or fills the disk."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.omnidocbench.result_cache import Cache, default_cache_dir, digest_key


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.cdm"))


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.put(digest_key("a"), b"content")
    assert Cache(tmp_path).get(digest_key("a")) == b"content"
    assert cache.get(digest_key("b")) is None


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 64])
def test_a_broken_entry_is_absent_and_goes_away(tmp_path: Path, damage: bytes) -> None:
    cache = Cache(tmp_path)
    cache.put(digest_key("a"), b"content")
    entries(tmp_path)[0].write_bytes(damage)
    assert cache.get(digest_key("a")) is None
    assert cache.corrupt == 1
    assert entries(tmp_path) == []


def test_one_flipped_bit_is_noticed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put(digest_key("a"), b"content")
    path = entries(tmp_path)[0]
    stored = bytearray(path.read_bytes())
    stored[-1] ^= 1
    path.write_bytes(stored)
    assert cache.get(digest_key("a")) is None


def test_a_full_disk_costs_the_entry_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: Path, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = Cache(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", full)
    assert not cache.put(digest_key("a"), b"content")
    assert cache.unwritten == 1
    assert cache.get(digest_key("a")) is None
    assert list(tmp_path.glob("*/*")) == []


def test_a_folder_that_cannot_be_made_costs_the_entry_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file")
    assert not cache.put(digest_key("a"), b"content")
    assert cache.get(digest_key("a")) is None
    assert cache.trim() == 0


def test_trim_removes_the_oldest_down_to_three_quarters(tmp_path: Path) -> None:
    cache = Cache(tmp_path, max_bytes=1000)
    for number in range(12):
        key = digest_key(str(number))
        cache.put(key, b"x" * 68)  # 100 bytes with its digest
        path = tmp_path / key[:2] / f"{key[2:]}.cdm"
        os.utime(path, ns=(number, number))
    assert cache.trim() == 500
    assert [cache.get(digest_key(str(number))) is not None for number in range(12)] == [False] * 5 + [
        True
    ] * 7
    assert cache.trim() == 0


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_keys_are_equal_only_for_equal_parts(one: list[str], other: list[str]) -> None:
    assert (digest_key(*one) == digest_key(*other)) == (one == other)


def test_processes_that_share_a_folder_only_ever_see_whole_entries(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from gravbench.omnidocbench.result_cache import Cache, digest_key\n"
        "cache = Cache(Path(sys.argv[1]))\n"
        "for number in range(150):\n"
        "    for key in range(5):\n"
        "        content = cache.get(digest_key(str(key)))\n"
        "        assert content in (None, str(key).encode() * 5000), content[:20]\n"
        "        cache.put(digest_key(str(key)), str(key).encode() * 5000)\n"
        "assert cache.corrupt == 0\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert len(entries(tmp_path)) == 5


def test_the_default_folder_belongs_to_the_user_and_the_program() -> None:
    assert default_cache_dir().parts[-2:] == ("gravbench", "cdm")
