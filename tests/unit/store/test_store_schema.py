from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from run_support import gen_record, run_identity, with_piece

from gravbench.errors import DataError
from gravbench.records import Rounds
from gravbench.store.files import parse_record
from gravbench.store.schema import (
    GenRecord,
    Manifest,
    PlanEntry,
    ScoreRecord,
    record_bytes,
    sha256_of,
    sha256_text,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(text=TEXT, ids=st.lists(st.integers(0, 60_000), min_size=1, max_size=30), accepted=st.integers(0, 8))
def test_generation_survives_write_read_write_byte_for_byte(text: str, ids: list[int], accepted: int) -> None:
    written = record_bytes(gen_record(text=text, token_ids=tuple(ids), block=8, accepted=accepted))
    assert record_bytes(parse_record(written, GenRecord, where="x")) == written


@given(value=st.floats(0, 1), edits=st.floats(0, 1e6))
def test_score_survives_write_read_write_byte_for_byte(value: float, edits: float) -> None:
    score = ScoreRecord(
        sample_id="a",
        arm="ar",
        task="text",
        metric="text_ned",
        signature="s",
        value=value,
        counts={"edits": edits},
        prediction_sha="p",
        reference_sha="r",
    )
    written = record_bytes(score)
    assert record_bytes(parse_record(written, ScoreRecord, where="x")) == written


def test_unknown_key_is_refused_with_its_place() -> None:
    data = orjson.loads(record_bytes(gen_record()))
    data["surprise"] = 1
    with pytest.raises(DataError, match=r"gen/000\.jsonl:7: surprise"):
        parse_record(orjson.dumps(data), GenRecord, where="gen/000.jsonl:7")


def test_a_record_of_the_schema_before_this_one_is_refused_by_its_name() -> None:
    data = orjson.loads(record_bytes(gen_record()))
    data["schema"] = "gravbench.gen/2"
    del data["pieces"]  # as the lines of then have none
    with pytest.raises(DataError, match=r"schema.*gravbench\.gen/2") as caught:
        parse_record(orjson.dumps(data), GenRecord, where="gen/000.jsonl:1")
    assert caught.value.hint is not None
    assert "another version" in caught.value.hint


def test_an_engine_may_hide_its_rounds_and_keeps_its_totals() -> None:
    data = orjson.loads(record_bytes(gen_record(block=4, accepted=1)))
    trace = data["pieces"][0]["trace"]
    trace["rounds"] = None
    record = GenRecord.model_validate(data)
    assert record.counters is not None and record.counters.draft_accepted > 0
    trace["counters"]["draft_accepted"] = trace["counters"]["draft_offered"] + 1
    with pytest.raises(ValidationError, match="offered drafts"):
        GenRecord.model_validate(data)


def test_newer_schema_is_refused() -> None:
    data = orjson.loads(record_bytes(gen_record()))
    data["schema"] = "gravbench.gen/4"
    with pytest.raises(DataError, match=r"gravbench\.gen/4") as caught:
        parse_record(orjson.dumps(data), GenRecord, where="x")
    assert caught.value.hint is not None
    assert "another version" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"max_new_tokens": 2}, "budget"),
        ({"stop_reason": "error"}, "stop by error"),
        ({"text": "other"}, "text_sha"),
        ({"done_ns": 0, "submit_ns": 5}, "before submit_ns"),
        ({"error": {"kind": "K", "message": "m", "stage": "s"}}, "status is 'ok'"),
    ],
)
def test_inconsistent_generation_is_refused(change: dict[str, object], complaint: str) -> None:
    data = orjson.loads(record_bytes(gen_record()))
    with pytest.raises(ValidationError, match=complaint):
        GenRecord.model_validate({**data, **change})


@pytest.mark.parametrize(
    ("change", "complaint"), [({"token_ids": [1, 2]}, "token ids"), ({"trace": None}, "needs a trace")]
)
def test_inconsistent_piece_is_refused(change: dict[str, object], complaint: str) -> None:
    data = orjson.loads(record_bytes(gen_record()))
    with pytest.raises(ValidationError, match=complaint):
        GenRecord.model_validate(with_piece(data, **change))


def test_stage_times_beyond_the_total_are_refused() -> None:
    data = orjson.loads(record_bytes(gen_record()))
    data["pieces"][0]["trace"]["times"]["total_ns"] = 10
    with pytest.raises(ValidationError, match="the whole request 10 ns"):
        GenRecord.model_validate(data)


def test_draft_counters_must_equal_the_rounds() -> None:
    data = orjson.loads(record_bytes(gen_record(block=4, accepted=1)))
    data["pieces"][0]["trace"]["counters"]["draft_accepted"] = 0
    with pytest.raises(ValidationError, match="counters say"):
        GenRecord.model_validate(data)


def stored_manifest() -> dict[str, Any]:
    identity = run_identity()
    manifest = Manifest(
        run_id="r",
        created_utc="now",
        argv=(),
        identity=identity,
        identity_sha=sha256_of(identity.document()),
        plan=(PlanEntry(slot=0, sample_id="a", arm="ar"),),
        model={},
        environment={},
        protocol={},
    )
    data: dict[str, Any] = orjson.loads(record_bytes(manifest))
    return data


def test_edited_manifest_is_refused() -> None:
    data = stored_manifest()
    assert parse_record(orjson.dumps(data), Manifest, where="manifest.json").arms == ("ar",)
    data["identity"]["seed"] = 1
    with pytest.raises(DataError, match="edited"):
        parse_record(orjson.dumps(data), Manifest, where="manifest.json")


def test_run_of_an_older_version_is_refused_in_one_line_that_says_so() -> None:
    data = {**stored_manifest(), "schema": "gravbench.run/1"}
    data["identity"] |= {"in_flight": 1, "schema": "gravbench.run/1"}
    with pytest.raises(DataError, match=r"manifest\.json: schema: .* found 'gravbench.run/1'") as caught:
        parse_record(orjson.dumps(data), Manifest, where="manifest.json")
    assert caught.value.hint is not None and "another version of gravbench" in caught.value.hint


def test_text_hash_is_of_utf8_bytes() -> None:
    assert sha256_text("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_columns_of_equal_counts_are_shared_between_requests() -> None:
    first, second = (
        Rounds(
            offered=(0,) * 9, accepted=(0,) * 9, committed=(1,) * 9, seeds=(0,) * 9, extra=(1,) * 9,
            forwards={"verify": (1,) * 9},
        )
        for _ in range(2)
    )  # fmt: skip
    assert first.offered is second.offered
    assert first.forwards["verify"] is second.forwards["verify"]
    assert first.committed == (1,) * 9
