"""Negative controls: for every rule, a doctored run that must fail."""

import json
import shutil
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from run_support import FakeBackend, with_piece
from verdict_support import (
    Line,
    bless,
    by_rule,
    doctored,
    failed_rules,
    judged,
    make_run,
    quick_policy,
    with_identity,
    with_scaled_times,
    with_text,
)

from gravbench.analysis.bootstrap import independent
from gravbench.analysis.certificate import Certificates, answers_sha, certify, write_certificates
from gravbench.analysis.loaded import LoadedRun, SampleFacts, load_run
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.cli.gate_command import verdict_parts
from gravbench.errors import DataError, NotComparableError
from gravbench.gate.policy import load_policy
from gravbench.gate.reference import Reference, load_reference
from gravbench.gate.rules import judge_accuracy
from gravbench.gate.verdict import GROUPS, Verdict, verdict_rows
from gravbench.protocols import ForcedPass, Opinion, TokenGap
from gravbench.store.schema import ScoreRecord, sha256_text


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reference]:
    folder = tmp_path_factory.mktemp("gate")
    run = make_run(folder / "run")
    return folder / "run", bless(run, folder / "reference")


def with_another_end(line: Line) -> Line:
    """The line with another last token before EOS."""
    return with_piece(line, token_ids=[*line["pieces"][0]["token_ids"][:-2], 999, 0])


def scaled(line: Line, factor: int, *, arms: tuple[str, ...] = ("ar", "selfspec")) -> Line:
    if line["arm"] not in arms:
        return line
    return {
        **with_scaled_times(line, factor),
        "submit_ns": line["submit_ns"] * factor,
        "done_ns": line["done_ns"] * factor,
    }


def test_unchanged_run_passes_every_rule(base: tuple[Path, Reference], tmp_path: Path) -> None:
    report = judged(doctored(base[0], tmp_path / "r"), base[1])
    assert (report.outcome, report.exit_code) == ("pass", 0)
    assert {v.status for v in report.verdicts} == {"pass", "off"}


def test_clocks_scaled_by_three_change_no_verdict(base: tuple[Path, Reference], tmp_path: Path) -> None:
    """Also when something is wrong: the same rules fail, with the same numbers."""

    def slower_and_wrong(line: Line, factor: int) -> Line:
        wrong = line["arm"] == "selfspec" and line["sample_id"].startswith("text")
        return scaled(with_text(line, "garbage") if wrong else line, factor)

    once = judged(doctored(base[0], tmp_path / "a", edit=lambda x: slower_and_wrong(x, 1)), base[1])
    thrice = judged(doctored(base[0], tmp_path / "b", edit=lambda x: slower_and_wrong(x, 3)), base[1])
    assert thrice.verdicts == once.verdicts
    assert once.outcome == "fail"


def test_other_tokens_fail_identity(base: tuple[Path, Reference], tmp_path: Path) -> None:
    target = "text-000"

    def edit(line: Line) -> Line:
        hit = line["sample_id"] == target and line["arm"] == "selfspec"
        return with_another_end(line) if hit else line

    report = judged(doctored(base[0], tmp_path / "r", edit=edit), base[1])
    assert failed_rules(report) == {"token_identity", "ar_identity"}
    assert by_rule(report, "token_identity", "ar").status == "pass"
    assert target in by_rule(report, "token_identity").explanation


def test_lower_score_fails_accuracy(base: tuple[Path, Reference], tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        return with_text(line, "<table></table>") if line["task"] == "table" else line

    report = judged(doctored(base[0], tmp_path / "r", edit=edit), base[1])
    assert {"accuracy.table_teds", "accuracy.crops_overall"} <= failed_rules(report)
    assert by_rule(report, "accuracy.text_ned").status == "pass"


@pytest.mark.parametrize("accepted", [2, 0])
def test_fewer_accepted_drafts_fail_every_counter_rule(
    base: tuple[Path, Reference], tmp_path: Path, accepted: int
) -> None:
    run = make_run(tmp_path / "r", backend=FakeBackend(accepted=accepted))
    policy = quick_policy(draft_acceptance={"min_samples": 5, "level": "fail"})
    assert failed_rules(judged(run, base[1], policy=policy)) == {
        "tau_round",
        "tpf_all",
        "forwards_per_sample",
        "draft_acceptance",
        *({"acceptance_floor"} if accepted == 0 else ()),
    }


def other_words(line: Line) -> Line:
    """Another text in every sample, as other weights write it, of the same number of tokens."""
    return with_text(line, line["text"].swapcase()[::-1])


@pytest.mark.parametrize(("accepted", "failed"), [(3, set()), (1, {"tpf_all", "accepted_draft"})])
def test_new_weights_may_write_otherwise_but_may_not_lose_drafting(
    base: tuple[Path, Reference], tmp_path: Path, accepted: int, failed: set[str]
) -> None:
    make_run(tmp_path / "r", backend=FakeBackend(accepted=accepted, digest="w" * 64))
    run = doctored(tmp_path / "r", tmp_path / "d", edit=other_words)
    policy = load_policy(["new-weights"]).model_copy(update={"resamples": 400})
    report = judged(run, base[1], policy=policy)
    assert not report.problems
    assert {v.rule for v in report.verdicts if v.status == "fail" and v.arm == "selfspec"} - {
        v.rule for v in report.verdicts if v.rule.startswith("accuracy")
    } == failed
    assert by_rule(report, "tpf_all").explanation.endswith("24 samples, all tokens")
    assert by_rule(report, "accepted_draft", "ar").status == "off"


def test_an_engine_that_hides_its_rounds_is_judged_by_its_totals_on_equal_outputs(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    """Fewer rounds than its reference had are found all the same; totals it does not tell are no pass."""

    def hidden(line: Line, **counters: int) -> Line:
        trace = line["pieces"][0]["trace"]
        counts = {**trace["counters"], **counters}
        return with_piece(line, trace={**trace, "rounds": None, "counters": counts})

    run = doctored(base[0], tmp_path / "r", edit=hidden)
    report = judged(run, base[1])
    assert report.exit_code == 0
    assert by_rule(report, "tau_round").observed == 1.0
    assert any("selfspec: the engine hid the rounds of 24 of 24 samples" in n for n in report.notices)
    reference = bless(run, tmp_path / "reference")
    assert judged(run, reference).exit_code == 0
    make_run(tmp_path / "m", backend=FakeBackend(accepted=1))
    fewer = doctored(tmp_path / "m", tmp_path / "f", edit=hidden)
    assert {"tau_round", "tpf_all"} <= failed_rules(judged(fewer, reference))
    silent = doctored(base[0], tmp_path / "s", edit=lambda line: hidden(line, rounds=0))
    assert by_rule(judged(silent, base[1]), "tau_round").status == "missing"
    assert judged(silent, base[1]).exit_code == 3


def test_other_weights_are_told_which_policy_judges_them(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "r", backend=FakeBackend(digest="w" * 64))
    assert any("--policy new-weights" in problem for problem in judged(run, base[1]).problems)


@pytest.mark.parametrize(("level", "exit_code"), [("warn", 0), ("fail", 1)])
def test_what_was_said_while_loading_is_part_of_the_verdict(
    base: tuple[Path, Reference], tmp_path: Path, level: str, exit_code: int
) -> None:
    shutil.copytree(base[0], tmp_path / "r")
    file = tmp_path / "r" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["model"]["warnings"] = ["mask_id 3 is a letter"]
    file.write_text(json.dumps(manifest))
    report = judged(load_run(tmp_path / "r"), base[1], policy=quick_policy(warnings={"level": level}))
    assert (by_rule(report, "warnings", "ar").status, report.exit_code) == (level, exit_code)
    assert "mask_id 3 is a letter" in by_rule(report, "warnings", "ar").explanation


def test_a_pass_takes_a_line_a_group_of_rules_and_a_failure_its_own(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    passed = judged(load_run(base[0]), base[1])
    rows = verdict_rows(passed)
    assert len(rows) <= len(GROUPS) < len(passed.verdicts)
    assert {row.status for row in rows} == {"pass"}
    run = make_run(tmp_path / "r", backend=FakeBackend(accepted=2))
    first, *others = verdict_rows(judged(run, base[1]))
    assert (first.status, first.rule, first.arm) == ("fail", "tau_round", "selfspec")
    assert "identity" in {row.rule for row in others}


def test_advisory_rule_warns_and_passes(base: tuple[Path, Reference], tmp_path: Path) -> None:
    run = doctored(base[0], tmp_path / "r", edit=lambda line: scaled(line, 9, arms=("selfspec",)))
    report = judged(run, base[1])
    assert (by_rule(report, "speed").status, report.exit_code) == ("warn", 0)
    strict = judged(run, base[1], policy=quick_policy(speed={"level": "fail"}))
    assert (failed_rules(strict), strict.exit_code) == ({"speed"}, 1)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("loops", {"loop_flag": True}),
        ("stopped_by_length", {"stop_reason": "length"}),
        (
            "failed",
            {
                "status": "error",
                "error": {"kind": "E", "message": "m", "stage": "generate"},
                "stop_reason": "error",
                "text": "",
                "text_sha": sha256_text(""),
                "pieces": [],
            },
        ),
    ],
)
def test_one_more_bad_sample_fails_its_count(
    base: tuple[Path, Reference], tmp_path: Path, rule: str, change: Line
) -> None:
    def edit(line: Line) -> Line:
        return (
            {**line, **change} if line["sample_id"] == "formula-002" and line["arm"] == "selfspec" else line
        )

    report = judged(doctored(base[0], tmp_path / "r", edit=edit), base[1])
    assert rule in failed_rules(report)
    loose = quick_policy(**{rule: {"allowed_share": 0.05}})
    assert rule not in failed_rules(judged(load_run(tmp_path / "r"), base[1], policy=loose))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model_digest": "other"}, "model_digest"),
        ({"suite_sha": "other"}, "suite_sha"),
        ({"samples_sha": "other"}, "samples_sha"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"prompts": {"text": "Else:"}}, "prompts"),
    ],
)
def test_other_hashes_are_not_comparable(
    base: tuple[Path, Reference], tmp_path: Path, change: Line, word: str
) -> None:
    shutil.copytree(base[0], tmp_path / "r")
    with_identity(tmp_path / "r", **change)
    report = judged(load_run(tmp_path / "r"), base[1])
    assert (report.outcome, report.exit_code, report.verdicts) == ("not-comparable", 3, ())
    assert any(word in problem for problem in report.problems)


def test_fewer_more_and_renamed_samples_are_not_comparable(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    fewer = judged(make_run(tmp_path / "fewer", samples=21), base[1])
    more = judged(make_run(tmp_path / "more", samples=27), base[1])
    assert (fewer.exit_code, more.exit_code) == (3, 3)
    assert any("3 samples missing" in p for p in fewer.problems)
    assert any("3 samples extra" in p for p in more.problems)
    reference = Reference(
        folder=base[1].folder,
        suite="fake",
        arms={
            name: arm.__class__(
                folder=arm.folder,
                run=arm.run,
                predictions={
                    (f"x{s}" if s == "text-000" else s, r): p for (s, r), p in arm.predictions.items()
                },
                scores=arm.scores,
            )
            for name, arm in base[1].arms.items()
        },
    )
    renamed = judged(load_run(base[0]), reference)
    assert renamed.exit_code == 3
    assert any("missing: xtext-000" in p and "extra: text-000" in p for p in renamed.problems)


def test_other_image_prompt_or_budget_of_a_sample_is_not_comparable(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    run = doctored(base[0], tmp_path / "r", edit=lambda line: {**line, "input_sha": "1" * 64})
    report = judged(run, base[1])
    assert report.exit_code == 3
    assert any("input_sha of 24 samples" in p for p in report.problems)


def test_missing_and_extra_strategies_are_not_comparable(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    less = judged(make_run(tmp_path / "a", strategies=("ar",)), base[1])
    more = judged(make_run(tmp_path / "b", strategies=("ar", "selfspec", "selfspec:block=4")), base[1])
    assert (less.exit_code, more.exit_code) == (3, 3)
    assert "strategy 'selfspec' missing" in less.problems
    assert "strategy 'selfspec:block=4' extra" in more.problems


def test_run_cut_short_is_not_comparable(base: tuple[Path, Reference], tmp_path: Path) -> None:
    shutil.copytree(base[0], tmp_path / "r")
    shard = tmp_path / "r" / "gen" / "000.jsonl"
    shard.write_bytes(shard.read_bytes()[:-200])
    with pytest.raises(NotComparableError, match="not finished"):
        load_run(tmp_path / "r")


def test_scores_of_other_texts_are_not_comparable(base: tuple[Path, Reference], tmp_path: Path) -> None:
    shutil.copytree(base[0], tmp_path / "r")
    scores = next((tmp_path / "r" / "score").glob("*/all.jsonl"))
    scores.write_text(scores.read_text().replace('"prediction_sha":"', '"prediction_sha":"0', 1))
    with pytest.raises(NotComparableError, match="another text"):
        load_run(tmp_path / "r")


@pytest.mark.parametrize("name", ["predictions.jsonl", "scores.jsonl"])
def test_edited_or_missing_reference_file_is_a_data_error(
    base: tuple[Path, Reference], tmp_path: Path, name: str
) -> None:
    shutil.copytree(base[1].folder, tmp_path / "ref")
    file = tmp_path / "ref" / "selfspec" / name
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(DataError, match="cut off or edited"):
        load_reference(tmp_path / "ref")
    file.unlink()
    with pytest.raises(DataError, match="missing"):
        load_reference(tmp_path / "ref")


def test_reference_mixed_from_two_runs_is_a_data_error(base: tuple[Path, Reference], tmp_path: Path) -> None:
    shutil.copytree(base[1].folder, tmp_path / "fake")
    other = make_run(tmp_path / "run", strategies=("ar", "selfspec:block=4"), seed=5)
    bless_folder = tmp_path / "other"
    shutil.copytree(
        bless(other, bless_folder).folder / "selfspec@block=4", tmp_path / "fake" / "selfspec@block=4"
    )
    with pytest.raises(DataError, match="different runs"):
        load_reference(tmp_path / "fake")


def test_no_reference_is_a_data_error_that_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_reference(tmp_path / "nowhere")
    assert "bless" in (error.value.hint or "")


def test_too_few_comparable_samples_are_missing_not_a_pass(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    """Half the outputs differ from their first token on: decode counts have nothing to stand on."""

    def edit(line: Line) -> Line:
        ids = [7777, *line["pieces"][0]["token_ids"][1:]]
        return with_piece(line, token_ids=ids) if int(line["sample_id"][-1]) % 2 else line

    policy = quick_policy(token_identity={"level": "off"}, ar_identity={"level": "off"})
    report = judged(doctored(base[0], tmp_path / "r", edit=edit), base[1], policy=policy)
    assert by_rule(report, "tau_round").status == "missing"
    assert (report.outcome, report.exit_code) == ("not-comparable", 3)


class Tie:
    """A referee that finds the two ids on top, `gap` apart."""

    def __init__(self, *, gap: float) -> None:
        self._gap = gap

    def judge(self, _sample_id: str, _prefix: tuple[int, ...], *, base_id: int, own_id: int) -> Opinion:
        return Opinion(gap=self._gap, top_ids=(base_id, own_id), base_rank=1, own_rank=2)


def test_near_ties_are_excused_only_by_a_referee(base: tuple[Path, Reference], tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        hit = line["sample_id"] == "text-000" and line["arm"] == "selfspec"
        return with_another_end(line) if hit else line

    run = doctored(base[0], tmp_path / "r", edit=edit)
    policy = quick_policy(token_identity={"mode": "near-ties"}, ar_identity={"mode": "near-ties"})
    assert by_rule(judged(run, base[1], policy=policy), "ar_identity").status == "missing"
    excused = judged(run, base[1], policy=policy, referee=Tie(gap=1e-5))
    assert excused.exit_code == 0
    assert by_rule(excused, "ar_identity").status in {"pass", "inconclusive"}
    assert judged(run, base[1], policy=policy, referee=Tie(gap=1e-2), tau=2e-2).exit_code == 0
    assert failed_rules(judged(run, base[1], policy=policy, referee=Tie(gap=1e-2))) == {
        "token_identity",
        "ar_identity",
    }


def test_mde_speaks_of_the_runs_own_variance(base: tuple[Path, Reference]) -> None:
    report = judged(load_run(base[0]), base[1], with_mde=True)
    names = {effect.name: effect for effect in report.mde}
    paired = names["selfspec: tau_round, paired"]
    unpaired = names["selfspec: tau_round, unpaired"]
    assert (paired.se, paired.mde, paired.power) == (0.0, None, ())
    assert "no variance to judge from" in shown(verdict_parts(report))
    assert unpaired.se > 0
    assert list(unpaired.power) == sorted(unpaired.power)


def test_mde_of_crops_that_share_pages_draws_pages(base: tuple[Path, Reference]) -> None:
    """Four crops of like length a page: pages vary more than as many crops drawn on their own would."""
    run = load_run(base[0])
    tokens = {unit.sample_id: len(unit.records["ar"].token_ids) for unit in run.units}
    ordered = sorted(tokens, key=lambda sample_id: tokens[sample_id])
    facts = {sample_id: SampleFacts(cluster=f"p{i // 4}") for i, sample_id in enumerate(ordered)}
    alone = judged(run, base[1], with_mde=True)
    paged = judged(load_run(base[0], facts=facts), base[1], with_mde=True)
    name = "selfspec: tau_round, unpaired"
    ses = [next(e.se for e in report.mde if e.name == name) for report in (alone, paged)]
    assert ses[1] > ses[0]


def shown(parts: list[RenderableType]) -> str:
    console = Console(width=100, file=StringIO())
    console.print(*parts)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


@pytest.mark.parametrize("change", ["drop", "twice", "failed"])
def test_scores_that_are_not_one_of_each_metric_are_refused(
    base: tuple[Path, Reference], tmp_path: Path, change: str
) -> None:
    """One formula crop without its second metric, with it twice, or marked failed though it is ok."""
    run = doctored(base[0], tmp_path / "r")
    (shard,) = (tmp_path / "r" / "score" / run.manifest.identity.scorer).glob("*.jsonl")
    lines = [json.loads(line) for line in shard.read_text().splitlines()]
    at = next(i for i, line in enumerate(lines) if line["metric"] == "formula_tree")
    changed = {**lines[at], "failed": True}
    lines[at : at + 1] = {"drop": [], "twice": [lines[at]] * 2, "failed": [changed]}[change]
    shard.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(NotComparableError, match="failed is True" if change == "failed" else "formula_tree"):
        load_run(tmp_path / "r")


def accuracy_of(base: list[float], own: list[float | None]) -> Verdict:
    """The verdict on one metric of pages."""
    named = {"task": "page", "metric": "table_TEDS", "signature": "s", "reference_sha": "r"}
    sides = [
        [
            (
                ScoreRecord.model_construct(
                    sample_id=str(i), value=v, counts={}, prediction_sha=str(v), **named
                ),
            )
            for i, v in enumerate(side)
        ]
        for side in (base, own)
    ]
    policy = quick_policy()
    design = independent(len(base))
    (verdict,) = judge_accuracy(*sides, policy.rules.accuracy, policy, arm="x", design=design)
    return verdict


@pytest.mark.parametrize(
    ("own", "status"),
    [
        ([0.9, 0.8], "pass"),
        ([0.9, 0.801], "inconclusive"),
        ([0.9, 0.799], "inconclusive"),
        ([0.9, 0.7], "fail"),
    ],
)
def test_accuracy_on_two_pages_passes_only_unchanged(own: list[float | None], status: str) -> None:
    verdict = accuracy_of([0.9, 0.8], own)
    assert verdict.status == status
    assert ("cannot be judged: too few" in verdict.explanation) == (status == "inconclusive")


def test_page_scored_on_one_side_only_does_not_pass_unseen() -> None:
    """The lost page was the worst one, so the mean gains."""
    verdict = accuracy_of([0.9] * 9 + [0.1], [*([0.9] * 9), None])
    assert verdict.status == "inconclusive"
    assert "1 scored on one side only" in verdict.explanation


def test_speed_says_at_which_level_its_interval_is(base: tuple[Path, Reference]) -> None:
    assert "90% interval" in by_rule(judged(load_run(base[0]), base[1]), "speed").explanation


def test_another_text_of_the_same_tokens_is_a_fault(base: tuple[Path, Reference], tmp_path: Path) -> None:
    def edit(line: Line) -> Line:
        hit = line["sample_id"] == "text-000" and line["arm"] == "selfspec"
        text = line["text"] + "!"
        return {**line, "text": text, "text_sha": sha256_text(text)} if hit else line

    verdict = by_rule(judged(doctored(base[0], tmp_path / "r", edit=edit), base[1]), "token_identity")
    assert verdict.status == "fail"
    assert verdict.explanation.startswith("same tokens in 24 of 24 (1 assembly)")


def test_every_sample_failed_says_so(base: tuple[Path, Reference], tmp_path: Path) -> None:
    ids = frozenset(key[0] for key in base[1].arms["ar"].predictions)
    report = judged(make_run(tmp_path / "r", backend=FakeBackend(failing=ids)), base[1])
    assert "failed" in failed_rules(report)
    assert report.exit_code == 1


def test_the_null_of_a_batched_strategy_is_ar_at_its_batch_size(tmp_path: Path) -> None:
    """Where ids of ar:batch=4 part from the reference as often as the strategy's, there is no excess."""
    run = make_run(tmp_path / "run", strategies=("ar:batch=4", "selfspec:batch=4"))
    reference = bless(run, tmp_path / "reference")

    def flipped(arms: tuple[str, ...]) -> LoadedRun:
        def edit(line: Line) -> Line:
            return with_another_end(line) if line["arm"] in arms else line

        return doctored(tmp_path / "run", tmp_path / f"of-{len(arms)}", edit=edit)

    policy = quick_policy(token_identity={"mode": "near-ties"}, ar_identity={"level": "off"})
    arm = "selfspec:batch=4"
    for arms, excess, status in ((run.arms, 0.0, "pass"), ((arm,), 1.0, "fail")):
        report = judged(flipped(arms), reference, policy=policy, referee=Tie(gap=1e-5))
        verdict = by_rule(report, "token_identity", arm)
        assert (verdict.numbers["excess_flips"], verdict.status) == (excess, status)


def test_speed_is_judged_over_ar_at_the_same_batch_size_alone(tmp_path: Path) -> None:
    arms = ("ar", "selfspec", "ar:batch=4", "selfspec:batch=4", "selfspec:batch=2")
    run = make_run(tmp_path / "run", strategies=arms)
    report = judged(run, bless(run, tmp_path / "reference"))
    found = {arm: by_rule(report, "speed", arm) for arm in arms}
    judged_arms = {arm for arm, verdict in found.items() if verdict.status != "off"}
    assert judged_arms == {"selfspec", "selfspec:batch=4"}
    assert "speedup over ar:batch=4 " in found["selfspec:batch=4"].explanation
    assert by_rule(report, "ar_identity", "selfspec:batch=2").status == "pass"


@pytest.mark.parametrize(("gap", "status"), [(0.0, "pass"), (5e-5, "pass"), (0.5, "fail")])
def test_a_certificate_in_the_run_folder_is_part_of_the_verdict(
    base: tuple[Path, Reference], tmp_path: Path, gap: float, status: str
) -> None:
    run = doctored(base[0], tmp_path / "r")
    assert by_rule(judged(run, base[1]), "certificate").status == "off"  # it was not audited
    forced = ForcedPass(
        precision="float32", tau=1e-4, gaps=lambda _name, ids: [TokenGap(gap, -1 if gap else n) for n in ids]
    )
    records = [record for arm in run.arms for record in run.records(arm)]
    found = Certificates(
        run_id="r",
        answers_sha=answers_sha(records),
        arms=tuple(certify(arm, run.records(arm), forced) for arm in run.arms),
    )
    write_certificates(tmp_path / "r", found)
    report = judged(load_run(tmp_path / "r"), base[1])
    verdict = by_rule(report, "certificate")
    assert verdict.status == status and verdict.numbers["worst_gap"] == gap
    assert report.exit_code == (1 if status == "fail" else 0)
    analysis = analyse_run(load_run(tmp_path / "r"), AnalysisOptions(resamples=100))
    (own,) = [one for arm in analysis.arms if arm.arm == "selfspec" for one in arm.certificates or ()]
    assert own.words == verdict.explanation
