"""`run -> compare -> bless -> gate -> sweep` through the command line, on the smoke suite and the toy."""

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gravbench.backends.toy import ToyTable
from gravbench.cli.app import run_command_line

RUN = ["run", "--suite", "smoke", "--backend", "toy", "--quiet"]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a and b of one table, c of a table whose drafts err oftener, and the blessed reference of a."""
    folder = tmp_path_factory.mktemp("verdict")
    table = ToyTable(wrong_positions=(3, 5, 6, 9, 12, 15, 18, 21, 23, 27, 31, 41))
    (folder / "worse.json").write_text(table.model_dump_json())
    assert run_command_line([*RUN, "--out", str(folder / "a")]) == 0
    assert run_command_line([*RUN, "--out", str(folder / "b"), "--seed", "1"]) == 0
    assert run_command_line([*RUN, "--out", str(folder / "c"), "--model", str(folder / "worse.json")]) == 0
    blessing = ["bless", str(folder / "a"), "--reason", "first", "--who", "me", "--to", str(folder / "ref")]
    assert run_command_line(blessing) == 0
    return folder


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run_command_line(list(arguments))
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def fits(text: str) -> bool:
    return max(map(len, text.splitlines())) <= 100 and "\x1b" not in text


def test_compare_one_run_says_same_text_and_how_fast(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = printed(capfd, "compare", str(workplace / "a"), "--referee", "toy", "--resamples", "200")
    assert code == 0
    assert "selfspec: same tokens as ar on 14 of 14 samples." in out
    assert "as fast as ar" in out
    assert fits(out)


def test_compare_two_runs_puts_the_null_beside(workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ("compare", str(workplace / "a"), str(workplace / "b"), "--resamples", "200")
    code, out, _ = printed(capfd, *arguments)
    assert code == 0
    assert "AR against AR (same setting, repeated): same tokens on 14 of 14 samples." in out
    assert fits(out)
    code, out, _ = printed(capfd, *arguments, "--json")
    assert json.loads(out)["schema"] == "gravbench.comparison/1"


def test_gate_passes_the_same_commit_whatever_the_seed(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    reference = str(workplace / "ref" / "smoke")
    arguments = ("gate", str(workplace / "b"), "--reference", reference, "--mde", "--junit", "out/gate.xml")
    code, out, _ = printed(capfd, *arguments)
    assert code == 0
    assert "PASS" in out
    assert fits(out)
    assert ET.parse("out/gate.xml").getroot().tag == "testsuites"
    assert "Gate on `smoke`: pass" in (tmp_path / "summary.md").read_text()


def test_gate_of_another_model_is_not_comparable(workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(
        capfd, "gate", str(workplace / "c"), "--reference", str(workplace / "ref" / "smoke")
    )
    assert code == 3
    assert "not a pass" in " ".join(out.split())  # long folder names break lines anywhere
    assert "model_digest" in out


def test_the_folder_that_bless_was_given_is_a_reference_of_each_suite_in_it(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = printed(capfd, "gate", str(workplace / "b"), "--reference", str(workplace / "ref"))
    assert (code, "PASS" in out) == (0, True)
    code, _, err = printed(capfd, "gate", "--mode", "rescore", "--reference", str(workplace / "ref"))
    assert code == 5
    assert "by suite: smoke" in " ".join(err.split())


def test_gate_finds_worse_drafts_and_annotates(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """This policy leaves the model digest out: the worse table is held against the better one."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    policy = tmp_path / "any.toml"
    policy.write_text('must_match = ["suite_sha", "samples_sha", "dtype", "scorer"]\n')
    arguments = ("gate", str(workplace / "c"), "--reference", str(workplace / "ref" / "smoke"))
    code, out, err = printed(capfd, *arguments, "--policy", str(policy), "--json")
    report = json.loads(out)
    failed = {v["rule"] for v in report["verdicts"] if v["status"] == "fail"}
    assert (code, failed) == (1, {"tau_round", "tpf_all", "forwards_per_sample"})
    assert err.count("::error ") == 3


def test_rescore_and_regenerate_are_equal_on_unchanged_code(
    workplace: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reference = str(workplace / "ref" / "smoke")
    for mode in ("rescore", "regenerate"):
        code, out, _ = printed(capfd, "gate", "--mode", mode, "--reference", reference)
        assert (code, "PASS" in out, fits(out)) == (0, True, True)


def test_damaged_reference_is_exit_5(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(workplace / "ref" / "smoke", tmp_path / "ref")
    file = tmp_path / "ref" / "ar" / "predictions.jsonl"
    file.write_bytes(file.read_bytes()[:100])
    code, _, err = printed(capfd, "gate", str(workplace / "b"), "--reference", str(tmp_path / "ref"))
    assert code == 5
    assert "predictions.jsonl" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("gate", "--reference", "x"),
        ("gate", "RUN", "--mode", "rescore", "--reference", "x"),
        ("gate", "--mode", "rescore"),
        ("gate", "RUN", "--mode", "perhaps"),
        ("compare", "RUN", "--base-arm", "ar"),
        ("compare", "nowhere"),
        ("compare", "RUN", "--forward-cost", "missing.json"),
        ("bless", "RUN", "--reason", "  "),
        ("bless", "RUN", "--reason", "no folder here"),
        ("sweep", "--suite", "smoke", "--blocks", "4,x"),
        ("sweep", "--suite", "smoke", "--blocks", "0"),
    ],
)
def test_bad_usage_is_exit_2_with_one_error_line(
    workplace: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = printed(capfd, *(str(workplace / "a") if a == "RUN" else a for a in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert len(err.splitlines()) <= 2


def test_bless_prints_the_diff_and_a_dry_run_writes_nothing(
    workplace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(workplace / "ref", tmp_path / "ref")
    before = {p: p.read_bytes() for p in (tmp_path / "ref").rglob("*") if p.is_file()}
    arguments = ("bless", str(workplace / "c"), "--reason", "why", "--to", str(tmp_path / "ref"))
    code, out, _ = printed(capfd, *arguments, "--dry-run")
    assert code == 0
    assert "tau_round:" in out
    assert {p: p.read_bytes() for p in before} == before
    code, out, _ = printed(capfd, *arguments, "--json")
    assert len(json.loads(out)["written"]) == 2
    assert (
        printed(capfd, "gate", str(workplace / "c"), "--reference", str(tmp_path / "ref" / "smoke"))[0] == 0
    )


def test_sweep_is_one_run_with_a_point_a_strategy(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "sweep",
        "--suite",
        "smoke",
        "--backend",
        "toy",
        "--out",
        "s",
        "--blocks",
        "2,8",
        "--limit",
        "6",
    )
    code, out, _ = printed(capfd, *arguments)
    assert code == 0
    assert fits(out)
    code, out, _ = printed(capfd, *arguments, "--json")
    curve = json.loads(out)
    assert [p["strategy"] for p in curve["points"]] == ["ar", "selfspec:block=2", "selfspec:block=8"]
    assert [p.get("block") for p in curve["points"]] == [None, 2, 8]
    assert curve["points"][1]["tau_round"] < curve["points"][2]["tau_round"]
    assert curve["sessions"] == 1
    assert printed(capfd, "compare", "s", "--resamples", "200")[0] == 0


def test_forward_costs_feed_the_cost_model(workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("costs.json").write_text('{"forward_cost": {"1": 1.0, "8": 1.2, "16": 1.5}}')
    code, out, _ = printed(
        capfd, "compare", str(workplace / "a"), "--forward-cost", "costs.json", "--json", "--resamples", "200"
    )
    assert code == 0
    model = json.loads(out)["base"]["arms"][1]["cost_model"]
    assert (model["source"], 2.0 < model["round_cost"] < 3.0) == ("table", True)
