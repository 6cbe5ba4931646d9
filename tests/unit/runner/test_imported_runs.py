"""Answers of other programs become arms: scored, compared, gated, given back; what they lack is not zero."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from page_support import det, entry, write_folder
from PIL import Image

from gravbench.cli.app import run_command_line
from gravbench.store.rundir import RunDirectory
from gravbench.suites.own_crops import Making, make_suite
from gravbench.suites.truth_tables import read_truth

TRUTHS = {f"line-{n}": f"words of line {n}" for n in range(6)}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Six crops of text, as a folder with a manifest."""
    with (tmp_path / "truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("image", "text"), *((f"{n}.png", t) for n, t in TRUTHS.items())])
    for number, name in enumerate(TRUTHS):
        Image.new("L", (40, 16), 255 - number).save(tmp_path / f"{name}.png")
    table = read_truth(tmp_path / "truth.csv", tmp_path, encoding="utf-8")
    return make_suite(table, Making(name="lines", out=tmp_path / "lines")).manifest


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Three pages of text alone in OmniDocBench's form, so that no formula is rendered."""
    blocks = [det("title", 0), det("text_block", 1)]
    write_folder(tmp_path / "bench", [entry(f"page-{n}.png", blocks, subset="v1.5") for n in range(3)])
    return tmp_path / "bench"


def lines(path: Path, texts: dict[str, str], **more: Any) -> Path:
    path.write_text("".join(json.dumps({"id": n, "text": t, **more}) + "\n" for n, t in texts.items()))
    return path


def brought(suite: Path, predictions: Path, arm: str, out: Path, *more: str) -> int:
    words = ["import", "--suite", str(suite), "--predictions", str(predictions), "--arm", arm]
    return run_command_line([*words, "--out", str(out), *more, "--json"])


def summary_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_bytes())
    return found


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_run_and_the_import_of_its_answers_agree_exactly(suite: Path, tmp_path: Path, repeats: int) -> None:
    run, back = tmp_path / "run", tmp_path / "back"
    words = ["run", "--suite", str(suite), "--backend", "toy", "--quiet", "--out", str(run)]
    words += ["--repeats", str(repeats)]
    assert run_command_line(words) == 0
    answers = tmp_path / "answers.jsonl"
    assert run_command_line(["export", str(run), "--format", "jsonl", "--out", str(answers)]) == 0
    for arm in ("ar", "selfspec"):
        assert brought(suite, answers, arm, back, "--of", arm) == 0
    first, second = summary_of(run), summary_of(back)
    scores = [RunDirectory(folder).scores("crops") for folder in (run, back)]
    assert [s.model_dump() for s in scores[0]] == [s.model_dump() for s in scores[1]]
    for arm in ("ar", "selfspec"):
        own, other = first["strategies"][arm], second["strategies"][arm]
        assert own["quality"] == other["quality"]
        for counter in ("tokens_out", "rounds", "decode_forwards", "tpf_all"):
            assert own["counters"][counter] == other["counters"][counter]
    assert (
        first["strategies"]["selfspec"]["identical_to_ar"]
        == second["strategies"]["selfspec"]["identical_to_ar"]
    )
    assert "decode" not in second["strategies"]["selfspec"].get("speedup", {})
    assert (
        run_command_line(["export", str(back), "--format", "jsonl", "--out", str(tmp_path / "2.jsonl")]) == 0
    )
    without = [
        {k: v for k, v in json.loads(line).items() if k != "times"}
        for line in answers.read_text(encoding="utf-8").splitlines()
    ]
    assert without == [
        json.loads(line) for line in (tmp_path / "2.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def test_arms_of_one_run_have_as_many_repeats_and_a_lost_one_fails(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = tmp_path / "twice.jsonl"
    rows = [{"id": n, "rep": rep, "text": t} for rep in (0, 1) for n, t in TRUTHS.items()]
    twice.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    assert brought(suite, twice, "alpha", tmp_path / "run") == 3
    said = capsys.readouterr().err
    assert "1 of 12 answers (2 a sample) have no usable prediction" in said
    assert "1 (line-5, repeat 2) without a prediction" in said
    assert summary_of(tmp_path / "run")["strategies"]["alpha"]["quality"]["text_ned"] == 1 / 12
    assert brought(suite, lines(tmp_path / "b.jsonl", TRUTHS), "beta", tmp_path / "run") == 2
    assert "repeats: 1 here, 2 in the folder" in capsys.readouterr().err


def test_two_imports_make_two_arms_of_one_comparison(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert brought(suite, lines(tmp_path / "a.jsonl", TRUTHS), "alpha", run) == 0
    worse = TRUTHS | {"line-0": "other", "line-1": ""}
    assert brought(suite, lines(tmp_path / "b.jsonl", worse), "beta", run) == 0
    found = summary_of(run)["strategies"]
    assert found["alpha"]["quality"]["text_ned"] == 0
    assert found["beta"]["identical_to_ar"] == {"n": 4, "of": 6, "share": 4 / 6, "by_text": 6}
    assert found["beta"]["base"] == "alpha"
    capsys.readouterr()
    assert run_command_line(["compare", str(run), "--resamples", "200"]) == 0
    said = capsys.readouterr().out
    assert "beta: same text as alpha on 4 of 6 samples" in said
    assert "line-0: character 0" in said
    assert "AR against AR" not in said


def test_arms_stay_in_the_order_they_came_and_one_brought_again_replaces_no_other(
    suite: Path, tmp_path: Path
) -> None:
    run, names = tmp_path / "run", ("zeta", "mid", "alpha")
    for name in (*names, "mid"):
        given = lines(tmp_path / f"{name}.jsonl", {n: f"{t} by {name}" for n, t in TRUTHS.items()})
        assert brought(suite, given, name, run) == 0
        assert RunDirectory(run).manifest().arms == names[: len(RunDirectory(run).manifest().arms)]
    found = summary_of(run)["strategies"]
    assert (found["mid"]["base"], found["alpha"]["base"]) == ("zeta", "zeta")
    texts = {(record.arm, record.text) for record in RunDirectory(run).generations()}
    assert texts == {(name, f"{t} by {name}") for name in names for t in TRUTHS.values()}


def test_what_an_import_lacks_is_absent_with_its_reason_and_nowhere_zero(suite: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert brought(suite, lines(tmp_path / "a.jsonl", TRUTHS), "alpha", run) == 0
    found = summary_of(run)
    assert "counters" not in found["strategies"]["alpha"]
    assert any("not known: " in line and "token_ids" in line for line in found["warnings"])
    note: Any = RunDirectory(run).manifest().protocol["imports"]
    assert set(note["alpha"]["absent"]) == {"token_ids", "counters", "stop_reason", "times"}
    assert all(note["alpha"]["absent"].values())
    record = RunDirectory(run).generations()[0]
    assert (record.counters, record.times, record.stop_reason, record.tells_tokens) == (
        None,
        None,
        None,
        False,
    )


def test_a_missing_prediction_fails_its_sample_and_too_many_are_exit_3(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = {name: text for name, text in TRUTHS.items() if name != "line-3"}
    assert brought(suite, lines(tmp_path / "a.jsonl", some), "alpha", tmp_path / "run") == 3
    assert "line-3" in capsys.readouterr().err
    found = summary_of(tmp_path / "run")
    assert (found["strategies"]["alpha"]["failed"], found["strategies"]["alpha"]["quality"]["text_ned"]) == (
        1,
        1 / 6,
    )
    more = ("--max-errors", "1")
    assert brought(suite, tmp_path / "a.jsonl", "alpha", tmp_path / "again", *more) == 0


def test_an_import_never_mixes_with_what_it_does_not_belong_to(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = lines(tmp_path / "a.jsonl", TRUTHS)
    run, decoded = tmp_path / "run", tmp_path / "decoded"
    assert brought(suite, a, "alpha", run) == 0
    before = (run / "manifest.json").read_bytes()
    assert brought(suite, lines(tmp_path / "b.jsonl", TRUTHS | {"line-0": "x"}), "alpha", run) == 2
    assert "alpha" in capsys.readouterr().err
    assert brought(suite, a, "two words", run) == 2
    assert brought(suite, a, "beta", run, "--pages", "line-1") == 2
    assert "n_samples" in capsys.readouterr().err
    assert (run / "manifest.json").read_bytes() == before
    assert brought(suite, a, "alpha", run) == 0  # the same answers again
    words = ["run", "--suite", str(suite), "--backend", "toy", "--quiet", "--out", str(decoded)]
    assert run_command_line(words) == 0
    assert brought(suite, a, "alpha", decoded) == 2
    assert "decoded" in capsys.readouterr().err


def test_imports_are_blessed_and_gated_by_their_policy(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, same, worse = tmp_path / "run", tmp_path / "same", tmp_path / "worse"
    assert brought(suite, lines(tmp_path / "a.jsonl", TRUTHS), "alpha", run) == 0
    assert (
        run_command_line(
            ["bless", str(run), "--reason", "first", "--who", "us", "--to", str(tmp_path / "refs")]
        )
        == 0
    )
    assert (
        brought(
            suite,
            lines(
                tmp_path / "s.jsonl", {n: t + " " for n, t in TRUTHS.items()} | {"line-0": "words of line 0"}
            ),
            "alpha",
            same,
        )
        == 0
    )
    assert brought(suite, lines(tmp_path / "w.jsonl", dict.fromkeys(TRUTHS, "nothing")), "alpha", worse) == 0
    gate = ["--reference", str(tmp_path / "refs" / "lines"), "--policy", "imports"]
    capsys.readouterr()
    assert run_command_line(["gate", str(run), *gate]) == 0
    assert run_command_line(["gate", str(worse), *gate]) == 1
    assert "accuracy" in capsys.readouterr().out


def test_folders_of_markdown_are_scored_and_given_back(
    bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine"
    for number in range(3):
        place = mine / f"page-{number}" / "auto"
        place.mkdir(parents=True)
        (place / f"page-{number}.md").write_text("words 0\n\nwords 1\n")
    run, data = tmp_path / "run", ("--data", str(bench))
    words = [
        "import",
        "--suite",
        "omnidoc16",
        "--predictions",
        str(mine),
        "--arm",
        "mineru",
        "--out",
        str(run),
    ]
    assert run_command_line([*words, *data]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "mineru: imported, MinerU" in said
    assert "ms per page" not in said
    assert "official page scores" in said
    out = tmp_path / "out"
    assert run_command_line(["export", str(run), "--format", "omnidocbench", "--out", str(out)]) == 0
    assert {path.name for path in (out / "mineru").iterdir()} == {f"page-{n}.md" for n in range(3)}
    assert any(path.name.endswith("metric_result.json") for path in (out / "result").iterdir())
    shutil.rmtree(out)
    assert run_command_line(["export", str(run), "--format", "olmocr", "--out", str(out)]) == 0
    assert (out / "mineru" / "page-1_pg1_repeat1.md").read_text() == "words 0\n\nwords 1\n"


def test_parquet_has_a_column_for_each_score_and_counter(suite: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert brought(suite, lines(tmp_path / "a.jsonl", TRUTHS), "alpha", tmp_path / "run") == 0
    out = tmp_path / "a.parquet"
    assert run_command_line(["export", str(tmp_path / "run"), "--format", "parquet", "--out", str(out)]) == 0
    rows = parquet.read_table(out).to_pylist()
    assert [row["scores.text_ned"] for row in rows] == [0.0] * 6
    assert "counters.rounds" not in rows[0]


@pytest.mark.parametrize(
    ("more", "said"), [(("--format", "xml", "--out", "o"), "jsonl"), (("--format", "jsonl"), "--out"),
                       (("--format", "omnidocbench", "--out", "o"), "no pages")],
)  # fmt: skip
def test_an_export_that_cannot_be_is_refused(
    suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    assert brought(suite, lines(tmp_path / "a.jsonl", TRUTHS), "alpha", tmp_path / "run") == 0
    assert run_command_line(["export", str(tmp_path / "run"), *more]) in (2, 3)
    assert said in capsys.readouterr().err
