"""`tuned` decodes each task by its plan, for the checkpoint of its setting; `tune` writes such a setting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_support import gen_record, with_trace
from strategy_support import setting

from gravbench.backends.toy import ToyBackend, ToyTable
from gravbench.cli.app import run_command_line
from gravbench.decoding.adaptive import Adaptive
from gravbench.decoding.protocols import ModelInfo
from gravbench.decoding.setting import Setting
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tuned import _plan, setting_of
from gravbench.errors import UsageError
from gravbench.records import Counters, Rounds, Task, Times, Trace
from gravbench.runner.tune import Measured, levelled
from gravbench.store.rundir import RunDirectory

PLAN: dict[Task, str] = {"text": "adaptive", "table": "tree:nodes=20", "formula": "ar"}
DIGEST = ToyBackend(ToyTable()).describe().model_digest
TOY = ("--backend", "toy", "--limit", "6")


def written(folder: Path, **changes: object) -> Path:
    path = folder / "tuning.json"
    path.write_bytes(setting(PLAN, **{"model_digest": DIGEST, **changes}))
    return path


def test_a_task_is_decoded_by_its_own_strategy_with_the_costs_of_the_setting(tmp_path: Path) -> None:
    path = written(tmp_path)
    plan = _plan(str(path))
    assert plan["text"] == Adaptive(costs=str(path)) and plan["formula"] == parse_strategy("ar")
    info = ModelInfo(eos_token_ids=(0,), vocab_size=9, max_positions=64, mask_token_id=1, block_size=8)
    assert parse_strategy(f"tuned:setting={path}").needs(info).rows_max == 21


def test_a_run_takes_the_setting_and_shows_where_the_machine_is_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arm = f"tuned:setting={written(tmp_path)}"
    asked = ["run", "--suite", "crops-mini", *TOY, "--strategy", "ar", "--strategy", arm, "--json"]
    assert run_command_line([*asked, "--out", str(tmp_path / "run")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["strategies"][arm]["identical_to_ar"]["share"] == 1
    [caution] = [warning for warning in summary["warnings"] if "tuned elsewhere" in warning]
    assert "cpu None, here" in caution and "batch size" not in caution
    by_task = {task: own["counters"] for task, own in summary["strategies"][arm]["by_task"].items()}
    assert by_task["formula"]["draft_offered"] == 0 < by_task["table"]["tree_nodes"]
    identity = RunDirectory(tmp_path / "run").manifest().identity
    assert identity.texts_sha is not None and set(identity.texts_sha) == {arm}


def test_a_setting_of_another_checkpoint_is_refused_before_any_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arm = f"tuned:setting={written(tmp_path, model_digest='1' * 64)}"
    out = tmp_path / "run"
    assert run_command_line(["run", "--suite", "smoke", *TOY, "--strategy", arm, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"was tuned for toy (digest {'1' * 12}), this is toy ({DIGEST[:12]})" in said
    assert "gravbench tune" in said and not list(out.glob("gen/*"))


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"text": "ar"}, "no strategy for table, formula"),
        ({**PLAN, "text": "blockdiff"}, "names blockdiff: lossy"),
        ({**PLAN, "text": "selfspec:batch=4"}, "with a batch size"),
        ({**PLAN, "text": "tuned"}, "tuned itself"),
        ({**PLAN, "text": "hsd:texts=x"}, "its texts are those of one suite"),
    ],
)
def test_a_plan_that_no_run_could_follow_is_refused(tmp_path: Path, plan: dict[Task, str], why: str) -> None:
    path = tmp_path / "tuning.json"
    path.write_bytes(setting(plan))
    with pytest.raises(UsageError, match=why):
        setting_of(str(path))


def test_a_file_that_is_none_is_refused_with_its_field(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    for content, why in (
        (None, "No such file"),
        ("{", "Invalid JSON"),
        ('{"schema": "other/1"}', "schema: "),
    ):
        if content is not None:
            path.write_text(content)
        with pytest.raises(UsageError, match=why) as caught:
            setting_of(str(path))
        assert "gravbench tune" in (caught.value.hint or "")


def test_tune_writes_a_setting_that_a_run_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs, out = tmp_path / "costs.json", tmp_path / "tuning.json"
    costs.write_text('{"forward_cost": {"1": 1.0, "9": 1.5, "33": 2.0}}')
    arms = [word for arm in ("selfspec:block=4", "adaptive", "tree:nodes=7") for word in ("--strategy", arm)]
    asked = ["tune", *TOY, *arms, "--forward-cost", str(costs), "--batch-sizes", "1,4", "--out", str(out)]
    code = run_command_line([*asked, "--json"])
    found = Setting.model_validate_json(capsys.readouterr().out)
    assert code == int(bool(found.cautions))  # the toy's clock says nothing of these costs
    assert (found.model_digest, found.suite, found.n_samples, found.batch) == (DIGEST, "crops-tune", 6, 4)
    assert {(one.arm, one.batch) for one in found.estimates} >= {
        ("adaptive", 1),
        ("selfspec:block=4,verify=2", 4),
    }
    assert len({one.cost_tpf for one in found.estimates if one.arm == "ar" and one.batch == 1}) == 1
    assert found.confirmed and set(found.plan) == {"text", "table", "formula"}
    assert setting_of(str(out)) == found


def test_costs_are_set_to_the_level_of_the_forwards_that_were_decoded() -> None:
    """One row took 20 ns where 10 were measured, nine rows 60 where 15 were: 3 c(1) and no longer 1.5."""
    rounds = Rounds(
        offered=(8,),
        accepted=(8,),
        committed=(10,),
        seeds=(1,),
        extra=(2,),
        forwards={"draft": (1,), "verify": (1,)},
    )
    wide = Counters(
        tokens_out=11,
        rounds=1,
        fwd_draft=1,
        fwd_verify=1,
        rows_draft=9,
        rows_verify=9,
        draft_offered=8,
        draft_accepted=8,
    )
    trace = Trace(counters=wide, rounds=rounds, times=Times(draft_ns=60, verify_ns=60))
    single = Rounds(
        offered=(0,), accepted=(0,), committed=(1,), seeds=(0,), extra=(1,), forwards={"verify": (1,)}
    )
    plain = Counters(tokens_out=2, rounds=1, fwd_verify=1, rows_verify=1)
    usual = Trace(counters=plain, rounds=single, times=Times(verify_ns=20))
    records = [
        with_trace(gen_record(arm=arm, token_ids=tuple(range(own.counters.tokens_out))), own)
        for arm, own in (("ar", usual), ("selfspec", trace))
    ]
    found = levelled(Measured(tables={1: {1: 1.0, 9: 1.5}}, unit_ns=10), records)
    assert found.unit_ns == 20 and found.tables == {1: {1: 1.0, 9: 3.0}}
    given = Measured(tables={1: {1: 1.0, 9: 1.5}})
    assert levelled(given, records) is given


def test_by_default_everything_that_the_checkpoint_can_do_is_tried(tmp_path: Path) -> None:
    costs, table = tmp_path / "costs.json", tmp_path / "table.json"
    costs.write_text('{"forward_cost": {"1": 1.0, "9": 1.5, "33": 2.0}}')
    drafting = {"adaptive", "tree:budget=auto", "selfspec:block=3", "stream"}
    for block_size, tried in ((8, {"ar", "mtp", *drafting}), (None, {"ar", "mtp"})):
        table.write_text(json.dumps({"block_size": block_size}))
        out = tmp_path / f"{block_size}.json"
        asked = ["tune", *TOY, "--limit", "3", "--model", str(table), "--blocks", "3", "--out", str(out)]
        assert run_command_line([*asked, "--forward-cost", str(costs), "--quiet"]) in (0, 1)
        found = {one.arm for one in setting_of(str(out)).estimates}
        assert tried <= found and (block_size is not None or found.isdisjoint(drafting))


def test_tune_refuses_what_no_plan_may_name_and_costs_it_cannot_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "tuning.json")
    assert run_command_line(["tune", *TOY, "--out", out]) == 2
    assert "--forward-cost FILE" in capsys.readouterr().err
    costs = tmp_path / "costs.json"
    costs.write_text('{"forward_cost": {"1": 1.0, "9": 1.5}}')
    for arm in ("blockdiff", "selfspec:temperature=1", "selfspec:batch=2"):
        asked = ["tune", *TOY, "--strategy", arm, "--forward-cost", str(costs), "--out", out]
        assert run_command_line(asked) == 2
        assert f"strategy '{arm}' cannot be chosen" in capsys.readouterr().err
