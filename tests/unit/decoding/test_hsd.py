"""`hsd` drafts from texts that were supplied for a sample."""

import json
from pathlib import Path

import pytest
from strategy_support import LONG, on_toy

from gravbench.backends.toy import EOS, encode
from gravbench.cli.app import run_command_line
from gravbench.decoding.hsd import _Text
from gravbench.decoding.protocols import ModelInfo
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.texts import texts_digest, texts_of
from gravbench.errors import UsageError
from gravbench.records import Request
from gravbench.store.rundir import RunDirectory
from gravbench.store.schema import Manifest

INFO = ModelInfo(eos_token_ids=(0,), vocab_size=98, max_positions=64, mask_token_id=1, block_size=4)


FIRST = "formula-012"
"""Of the two samples that `--limit 2` takes of crops-mini, the first by name."""


def supply(folder: Path, *lines: object) -> Path:
    path = folder / "texts.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def test_a_right_text_is_accepted_as_fast_as_its_suffixes_go(tmp_path: Path) -> None:
    path = supply(tmp_path, {"sample_id": "0", "token_ids": [*LONG, EOS]})
    decoded, trace, rounds = on_toy((*LONG, EOS), f"hsd:suffix=9,texts={path}")
    assert decoded.tokens == (*LONG, EOS)
    assert set(rounds.committed[:-1]) == {10}
    assert trace.counters.own["texts_missing"] == 0


def test_after_an_error_the_answer_meets_the_text_again(tmp_path: Path) -> None:
    wrong = [*LONG[:20], 3, *LONG[21:]]
    path = supply(tmp_path, {"sample_id": "0", "token_ids": wrong})
    _, _, rounds = on_toy((*LONG[:80], EOS), f"hsd:match=3,suffix=9,texts={path}")
    assert rounds.committed[:8] == (10, 10, 1, 1, 1, 10, 10, 10)  # three steps of ar until three tokens match


def test_two_texts_share_one_tree(tmp_path: Path) -> None:
    path = supply(
        tmp_path,
        {"sample_id": "0", "token_ids": [*LONG[:10], 3, 3, 3]},
        {"sample_id": "0", "token_ids": [*LONG[:10], *LONG[10:30]]},
    )
    _, _, rounds = on_toy((*LONG[:30], EOS), f"hsd:suffix=12,texts={path}")
    assert rounds.nodes is not None and rounds.nodes[0] == 1 + 9 + 3 + 3
    assert rounds.committed[0] == 13


def test_text_is_taken_apart_by_the_models_own_tokenizer(tmp_path: Path) -> None:
    path = supply(tmp_path, {"sample_id": "0", "text": "an answer of the toy"})
    decoded, _, rounds = on_toy(encode("an answer of the toy"), f"hsd:suffix=30,texts={path}")
    assert decoded.stop_reason == "eos" and rounds.count == 1


def test_a_region_has_its_own_texts_or_those_of_its_page(tmp_path: Path) -> None:
    path = supply(tmp_path, {"sample_id": "p", "token_ids": [5]}, {"sample_id": "p#r2", "token_ids": [6]})
    texts = texts_of(str(path), INFO, "hsd")

    def of(name: str) -> object:
        ask = Request(request_id=name, sample_id=name, task="text", image_path="", max_new_tokens=1)
        return texts.of(ask)

    assert (of("p#r1"), of("p#r2"), of("q")) == (((5,),), ((6,),), ())


def test_a_text_may_hold_separators_that_are_no_line_ends(tmp_path: Path) -> None:
    """Files written without escapes hold U+2028, U+0085 and form feeds of a page's text as they are."""
    path = tmp_path / "texts.jsonl"
    path.write_text('{"sample_id": "0", "text": "a\u2028b\u0085c", "token_ids": [5, 0]}\n', encoding="utf-8")
    assert texts_of(str(path), INFO, "hsd").by_sample == {"0": ((5, 0),)}


def test_a_run_folder_supplies_its_answers_but_not_its_failures(tmp_path: Path) -> None:
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen" / "a.jsonl").write_text(
        json.dumps({"sample_id": "0", "status": "ok", "token_ids": [4, 0], "text": "x"})
        + "\n"
        + json.dumps({"sample_id": "1", "status": "error", "token_ids": [], "text": ""})
    )
    assert texts_of(str(tmp_path), INFO, "hsd").by_sample == {"0": ((4, 0),)}


def test_a_run_of_regions_drafts_the_same_regions_and_the_page_as_a_whole(tmp_path: Path) -> None:
    """Both stages of HSD. The toy reads a whole page as what its regions make together."""
    asked = ["run", "--suite", "pages-mini", "--pages", "page-00*", "--backend", "toy", "--strategy", "ar"]
    first, regions, whole = (tmp_path / name for name in ("first", "regions", "whole"))
    assert run_command_line([*asked, "--out", str(first)]) == 0
    arm = f"hsd:texts={first}"
    assert run_command_line([*asked, "--strategy", arm, "--out", str(regions)]) == 0
    [read] = [record for record in RunDirectory(regions).generations() if record.arm == arm]
    assert len(read.pieces) > 4 and read.counters is not None
    assert read.counters.decode_tokens > 5 * read.counters.decode_forwards
    [page] = RunDirectory(first).generations()
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"scripts": {f"{page.sample_id}#page": page.text}}))
    one = ["--layout", "none", "--model", str(table), "--strategy", arm, "--out", str(whole)]
    assert run_command_line([*asked, *one]) == 0
    records = {record.arm: record for record in RunDirectory(whole).generations()}
    assert records[arm].token_ids == records["ar"].token_ids != ()
    counters = records[arm].counters
    assert counters is not None and counters.own["texts_missing"] == 0
    assert counters.decode_tokens > 5 * counters.decode_forwards


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"sample_id": "0", "token_ids": [98]}', "line 1: token_ids: expected ids from 0 to 97"),
        ('{"sample_id": "0"}', "line 1: neither token_ids nor text"),
        ('{"text": "x"}', "line 1: no field sample_id"),
        ("{", "line 1: not JSON"),
        ('{"sample_id": "0", "text": "x"}', "no tokenizer"),
        ("", "holds no text"),
    ],
)
def test_a_file_that_supplies_nothing_is_refused_by_line_and_field(
    tmp_path: Path, line: str, named: str
) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(line)
    with pytest.raises(UsageError, match=named):
        parse_strategy(f"hsd:texts={path}").needs(INFO)


def test_missing_drafts_are_refused_before_any_sample(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="texts=PATH is missing"):
        parse_strategy("hsd").needs(INFO)
    with pytest.raises(UsageError, match="No such file"):
        parse_strategy(f"hsd:texts={tmp_path / 'none'}").needs(INFO)


def test_a_tolerant_verifier_takes_near_tokens_and_is_lossy(tmp_path: Path) -> None:
    """The toy gives the neighbour of its token e^-1 of its probability."""
    script = LONG[:30]
    path = supply(tmp_path, {"sample_id": "0", "token_ids": [*script[:10], script[10] + 1]})
    strict, _, _ = on_toy(script, f"hsd:tau=0.4,texts={path}", budget=11)
    near, _, _ = on_toy(script, f"hsd:tau=0.3,texts={path}", budget=11)
    assert strict.tokens == script[:11]
    assert near.tokens == (*script[:10], script[10] + 1)
    assert parse_strategy("hsd:tau=0.3").lossy and not parse_strategy("hsd").lossy


def test_the_place_expected_comes_first_and_a_monotone_text_never_goes_back() -> None:
    text = _Text([1, 2, 3, 1, 2, 4, 1, 2, 5])
    assert text.places((1, 2), 5, monotone=False) == [5, 2, 8]
    assert text.places((1, 2), 8, monotone=True) == [8, 5]


def toy_run(folder: Path, arm: str) -> list[str]:
    """The command of a run of two crops by `ar` and `arm`, in `folder/run`."""
    suite = ["--suite", "crops-mini", "--limit", "2", "--backend", "toy"]
    return ["run", *suite, "--out", str(folder / "run"), "--strategy", "ar", "--strategy", arm]


@pytest.mark.parametrize("strategy", ["hsd", "lookup"])
def test_a_run_is_not_continued_on_texts_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    path = supply(tmp_path, {"sample_id": FIRST, "token_ids": [5]})
    arm = f"{strategy}:texts={path}"
    command = toy_run(tmp_path, arm)
    assert run_command_line(command) == 0
    identity = json.loads((tmp_path / "run" / "manifest.json").read_text())["identity"]
    assert identity["texts_sha"] == {arm: texts_digest(str(path), arm)}
    path.touch()
    assert run_command_line(command) == 0  # the same bytes are the same texts
    capsys.readouterr()
    supply(tmp_path, {"sample_id": FIRST, "token_ids": [6]})
    assert run_command_line(command) == 2
    assert "texts_sha" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", ["hsd", "lookup"])
def test_texts_of_other_samples_are_refused_before_any_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: str
) -> None:
    path = supply(tmp_path, {"sample_id": "none", "token_ids": [5]})
    command = toy_run(tmp_path, f"{strategy}:texts={path}")
    assert run_command_line(command) == 2
    assert f"no text of any of the 2 samples, such as '{FIRST}'" in capsys.readouterr().err
    assert not list(tmp_path.glob("run/gen/*"))
    supply(tmp_path, {"sample_id": FIRST, "token_ids": [5]})
    assert run_command_line(command) == 0
    assert "no text of 1 of 2 samples" in " ".join(capsys.readouterr().out.split())


def test_runs_without_supplied_texts_have_the_identity_they_had(tmp_path: Path) -> None:
    assert run_command_line(toy_run(tmp_path, "lookup")) == 0
    manifest = Manifest.model_validate_json((tmp_path / "run" / "manifest.json").read_bytes())
    assert "texts_sha" not in manifest.identity.document()
