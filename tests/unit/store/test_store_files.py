import errno
import json
import os
from pathlib import Path

import pytest
from run_support import gen_record

from gravbench.errors import DataError, EngineError, UsageError
from gravbench.store.files import (
    LineWriter,
    cut_torn_tail,
    disk_error,
    make_folder,
    parse_record,
    read_records,
    write_atomic,
)
from gravbench.store.schema import GenRecord, Manifest, record_bytes


def test_torn_last_line_is_cut_and_kept_aside(tmp_path: Path) -> None:
    shard = tmp_path / "000.jsonl"
    shard.write_bytes(b'{"a":1}\n{"b":')
    assert cut_torn_tail(shard) == b'{"b":'
    assert shard.read_bytes() == b'{"a":1}\n'
    assert (tmp_path / "000.jsonl.torn").read_bytes() == b'{"b":\n'
    assert cut_torn_tail(shard) == b""


def test_reading_leaves_a_torn_line_out_and_names_a_bad_one(tmp_path: Path) -> None:
    shard = tmp_path / "000.jsonl"
    good = record_bytes(gen_record())
    shard.write_bytes(good + b"\n" + good[:20])
    assert len(list(read_records(shard, GenRecord))) == 1
    shard.write_bytes(good + b"\nnot json\n")
    with pytest.raises(DataError, match=r"000\.jsonl:2"):
        list(read_records(shard, GenRecord))


def test_full_disk_takes_the_partial_line_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = LineWriter(tmp_path / "000.jsonl")
    writer.append(b"first")
    real, calls = os.write, []

    def short_write(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, bytes(data[:3]))

    monkeypatch.setattr(os, "write", short_write)
    with pytest.raises(EngineError, match="No space left on device"):
        writer.append(b"second")
    monkeypatch.undo()
    assert (tmp_path / "000.jsonl").read_bytes() == b"first\n"
    writer.append(b"third")
    writer.close()
    assert (tmp_path / "000.jsonl").read_bytes() == b"first\nthird\n"


def test_failed_replacement_keeps_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "state.json"
    write_atomic(target, b"old")

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(EngineError):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_a_file_where_a_folder_belongs_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="/dev/null: is a file"):
        make_folder(Path("/dev/null/run"))


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, 4), (errno.EDQUOT, 4), (errno.EROFS, 2), (errno.EACCES, 2), (errno.EIO, 4)],
)
def test_exit_code_follows_what_the_disk_said(number: int, code: int) -> None:
    assert disk_error(OSError(number, os.strerror(number)), Path("x")).exit_code == code


def test_a_name_of_255_bytes_can_be_written(tmp_path: Path) -> None:
    for name in ("n" * 255, "ü" * 127):
        write_atomic(tmp_path / name, b"x")
        assert (tmp_path / name).read_bytes() == b"x"


def test_a_fault_of_a_whole_record_does_not_spell_the_record() -> None:
    fields = {f"field-{i}": "x" * 50 for i in range(40)}
    with pytest.raises(DataError) as caught:
        parse_record(json.dumps([fields]).encode(), Manifest, where="m")
    assert len(caught.value.message) < 120


def test_the_hint_names_the_option_that_chose_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as no_folder:
        make_folder(tmp_path / "file" / "x", option="--junit")
    with pytest.raises(UsageError) as no_file:
        write_atomic(tmp_path / "none" / "x", b"", option="--junit")
    assert no_folder.value.hint == no_file.value.hint == "Choose another place with --junit."
