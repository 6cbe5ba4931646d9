"""Runs over pages: records, Markdown, faults, resume; with fakes whose numbers are known by hand."""

import errno
import multiprocessing
import random
import time
from pathlib import Path

import orjson
import pytest
from page_run_support import many, opened, run_pages
from page_support import det, entry, write_folder
from run_support import FakeBackend, spoken

from gravbench.errors import DataError, EngineError, UsageError
from gravbench.pages.regions import PageSample
from gravbench.records import DecodeConfig, Generation, Request, joined_rounds
from gravbench.runner.export import clockless_lines
from gravbench.runner.run import rescore
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord
from gravbench.suites.data import OpenedSuite

PAGES = 6


def records(out: Path) -> dict[tuple[str, str], GenRecord]:
    return {(r.sample_id, r.arm): r for r in RunDirectory(out).generations()}


def test_page_is_one_record_with_its_regions_and_one_markdown_file(tmp_path: Path) -> None:
    outcome = run_pages(opened(tmp_path / "data", many(2)), tmp_path / "r")
    record = records(tmp_path / "r")["page-0", "selfspec"]
    assert record.assembly is not None
    assert [(r.label, r.task) for r in record.pieces] == [
        ("paragraph_title", "text"),
        ("text", "text"),
        ("table", "table"),
        ("formula", "formula"),
    ]
    assert record.assembly.dropped == {"number": 1}
    texts = [spoken(f"page-0#{n}", task) for n, task in enumerate(("text", "text", "table", "formula"))]
    expected = f"## {texts[0]}\n\n{texts[1]}\n\n{texts[2]}\n\n$$\n{texts[3]}\n$$"
    assert record.text == expected
    for arm in ("ar", "selfspec"):
        assert (tmp_path / "r" / "predictions" / arm / "page-0.md").read_text() == expected
    assert outcome.summary.strategies["selfspec"].identical_to_ar is not None
    assert outcome.summary.strategies["selfspec"].identical_to_ar.n == 2


def test_counters_of_a_page_are_sums_over_its_regions(tmp_path: Path) -> None:
    run_pages(opened(tmp_path / "data", many(1)), tmp_path / "r")
    record = records(tmp_path / "r")["page-0", "selfspec"]
    parts = [trace.counters for _, trace in record.answers]
    rounds = joined_rounds([trace.rounds for _, trace in record.answers])
    total = record.counters
    assert total is not None and rounds is not None
    assert total.requests == 4
    assert total.tokens_out == sum(c.tokens_out for c in parts) == len(record.token_ids)
    assert total.decode_tokens == sum(c.decode_tokens for c in parts)
    assert total.rounds == sum(c.rounds for c in parts) == len(rounds.committed)


def test_stages_cover_the_page_and_the_amdahl_split_adds_up(tmp_path: Path) -> None:
    outcome = run_pages(opened(tmp_path / "data", many(3)), tmp_path / "r")
    for record in records(tmp_path / "r").values():
        assert record.assembly is not None
        stages = record.assembly.stages
        assert stages.load_ns > 0
        assert stages.crop_ns > 0
        outer = stages.load_ns + stages.layout_ns + stages.crop_ns + stages.region_ns + stages.assembly_ns
        assert outer <= stages.total_ns <= record.done_ns - record.submit_ns
    pages = outcome.summary.strategies["selfspec"].pages
    assert pages is not None
    assert pages.amdahl is not None
    split = pages.amdahl
    share, gain = split.decode_share, split.decode_speedup
    assert split.predicted == pytest.approx(1 / (1 - share + share / gain))
    assert split.measured == pytest.approx(split.predicted + split.residual)
    speedups = outcome.summary.strategies["selfspec"].speedup
    assert speedups is not None
    assert speedups.page is not None
    assert speedups.page.value == pytest.approx(split.measured)
    assert {"decode", "request", "page"} <= set(speedups.model_dump(exclude_none=True))


def test_official_parts_are_in_the_summary_and_overall_is_not_without_cdm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = run_pages(opened(tmp_path / "data", many(2)), tmp_path / "r")
    quality = outcome.summary.strategies["ar"].quality
    assert set(quality) == {
        "text_block_Edit_dist",
        "display_formula_Edit_dist",
        "table_TEDS",
        "table_TEDS_structure_only",
        "reading_order_Edit_dist",
    }
    assert quality == outcome.summary.strategies["selfspec"].quality


def test_bad_pages_fail_alone_and_score_worst(tmp_path: Path) -> None:
    entries = [
        entry("empty.png", []),
        entry("good.png"),
        entry("missing.png"),
        entry("off.png", [det("text_block", 0, poly=[500, 0, 600, 0, 600, 9, 500, 9])]),
        entry("odd.png", [det("poem", 0), det("text_block", 1)]),
        entry("torn.png"),
    ]
    suite_folder = tmp_path / "data"
    write_folder(suite_folder, entries)
    torn = (suite_folder / "images" / "torn.png").read_bytes()[:60]
    suite = opened(suite_folder, entries)
    (suite_folder / "images" / "torn.png").write_bytes(torn)
    (suite_folder / "images" / "missing.png").unlink()
    outcome = run_pages(suite, tmp_path / "r")
    found = {key[0]: r.error.message for key, r in records(tmp_path / "r").items() if r.error}
    assert "layout_dets is empty" in found["empty"]
    assert "cannot open image" in found["missing"]
    assert found["off"].startswith("off.png: region 0: polygon (500, 0, 600, 9) lies outside the page of ")
    assert found["off"].endswith(". Correct the polygon, or the page's width and height.")
    assert "'poem'" in found["odd"]
    assert "does not decode" in found["torn"] or "no readable image" in found["torn"]
    assert "good" not in found
    assert outcome.summary.failed_samples == 5
    assert outcome.summary.failures == {name: found[name] for name in sorted(found)[:3]}
    assert f"empty: {found['empty']}" in outcome.summary.warnings
    pages = outcome.summary.strategies["ar"].pages
    assert pages is not None
    assert (pages.n_pages, pages.n_read) == (6, 1)
    assert outcome.too_many_errors
    scores = {
        s["sample_id"]: s["value"]
        for s in map(
            orjson.loads, next((tmp_path / "r" / "score").glob("*/all.jsonl")).read_bytes().splitlines()
        )
        if s["metric"] == "text_block_Edit_dist" and s["arm"] == "ar"
    }
    assert scores["missing"] == scores["torn"] == scores["off"] == scores["odd"] == 1.0
    assert (tmp_path / "r" / "predictions" / "ar" / "torn.md").read_bytes() == b""


def test_a_full_disk_under_the_crops_stops_the_run_and_costs_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = opened(tmp_path / "data", many(PAGES))
    whole = Path.write_bytes
    written = 0

    def full(self: Path, data: bytes) -> int:
        nonlocal written
        written += self.suffix == ".png"
        if written == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EngineError, match=r"\d+\.png: No space left on device while writing"):
        run_pages(suite, tmp_path / "run")
    monkeypatch.undo()
    assert not any(r.status == "failed" for r in records(tmp_path / "run").values())
    assert run_pages(suite, tmp_path / "run").summary.failed_samples == 0


def test_region_that_fails_is_counted_and_the_rest_of_the_page_stands(tmp_path: Path) -> None:
    backend = FakeBackend(failing=frozenset({"page-0#1"}))
    outcome = run_pages(opened(tmp_path / "data", many(1)), tmp_path / "r", backend=backend)
    record = records(tmp_path / "r")["page-0", "ar"]
    assert record.status == "ok"
    pages = outcome.summary.strategies["ar"].pages
    assert pages is not None
    assert pages.regions["text"].failed == 1
    assert spoken("page-0#0", "text") in record.text
    assert spoken("page-0#1", "text") not in record.text


def test_page_without_any_readable_region_fails(tmp_path: Path) -> None:
    backend = FakeBackend(failing=frozenset(f"page-0#{n}" for n in range(4)))
    outcome = run_pages(opened(tmp_path / "data", many(1)), tmp_path / "r", backend=backend)
    assert outcome.summary.failed_samples == 1


class Looping(FakeBackend):
    """Repeats one token until its budget ends."""

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        answer = super().generate(request, decode)
        if not request.sample_id.endswith("#1"):
            return answer
        from run_support import trace_of

        block = 0 if decode.strategy == "ar" else self.block
        return answer.model_copy(
            update={
                "token_ids": (7,) * request.max_new_tokens,
                "text": "a" * request.max_new_tokens,
                "stop_reason": "length",
                "loop_flag": True,
                "trace": trace_of(tokens_out=request.max_new_tokens, block=block, accepted=self.accepted),
            }
        )


def test_loop_ends_by_budget_and_is_flagged_and_counted(tmp_path: Path) -> None:
    outcome = run_pages(opened(tmp_path / "data", many(2)), tmp_path / "r", backend=Looping())
    for strategy in outcome.summary.strategies.values():
        assert strategy.pages is not None
        text = strategy.pages.regions["text"]
        assert (text.loops, text.stopped_by_length) == (2, 2)
        assert strategy.counters.loops == 2
    record = records(tmp_path / "r")["page-0", "ar"]
    assert record.stop_reason == "length"
    assert any("repetition loop" in warning for warning in outcome.summary.warnings)


def test_layout_assembler_and_data_are_part_of_the_run(tmp_path: Path) -> None:
    run_pages(opened(tmp_path / "data", many(2), release_pages=1651), tmp_path / "r")
    manifest = RunDirectory(tmp_path / "r").manifest()
    assert manifest.identity.assembler == "gravity-1"
    layout = manifest.identity.layout
    assert layout is not None and layout.name == "ground-truth"
    summary = orjson.loads((tmp_path / "r" / "summary.json").read_bytes())
    assert summary["data"]["partial"] is False or "partial" in summary["data"]["label"]
    other = opened(tmp_path / "other", [entry(f"page-{n}.png", [det("title", 0)]) for n in range(2)])
    with pytest.raises(UsageError, match="another plan"):
        run_pages(other, tmp_path / "r")


def test_data_that_cannot_be_read_stops_before_the_model_opens(tmp_path: Path) -> None:
    broken = entry("a.png")
    del broken["extra"]
    with pytest.raises(DataError, match="page 0: extra is missing"):
        opened(tmp_path / "data", [broken])


def test_markdown_that_was_lost_or_changed_is_written_again(tmp_path: Path) -> None:
    suite = opened(tmp_path / "data", many(2))
    run_pages(suite, tmp_path / "r")
    lost = tmp_path / "r" / "predictions" / "ar" / "page-0.md"
    expected = lost.read_bytes()
    lost.unlink()
    (tmp_path / "r" / "predictions" / "ar" / "page-1.md").write_text("edited")
    rescore(tmp_path / "r", suite.suite, suite.samples)
    assert lost.read_bytes() == expected
    assert (tmp_path / "r" / "predictions" / "ar" / "page-1.md").read_text() != "edited"


def test_prediction_folder_scores_the_same_through_the_official_path(tmp_path: Path) -> None:
    from gravbench.omnidocbench.evaluation import evaluate
    from gravbench.omnidocbench.ground_truth import read_pages
    from gravbench.omnidocbench.page_metrics import aggregate

    entries = many(5)
    outcome = run_pages(opened(tmp_path / "data", entries), tmp_path / "r")
    pages = read_pages(entries, source="test")
    official = aggregate(evaluate(pages, tmp_path / "r" / "predictions" / "selfspec"))
    quality = outcome.summary.strategies["selfspec"].quality
    assert quality["text_block_Edit_dist"] == pytest.approx(
        official["text_block"].all["Edit_dist"]["ALL_page_avg"], abs=1e-12
    )
    assert quality["table_TEDS"] == pytest.approx(official["table"].page["TEDS"]["ALL"], abs=1e-12)
    assert quality["reading_order_Edit_dist"] == pytest.approx(
        official["reading_order"].all["Edit_dist"]["ALL_page_avg"], abs=1e-12
    )
    assert quality["display_formula_Edit_dist"] == pytest.approx(
        official["display_formula"].all["Edit_dist"]["ALL_page_avg"], abs=1e-12
    )


def clockless(folder: Path) -> bytes:
    run_folder = RunDirectory(folder)
    manifest = run_folder.manifest()
    scores = run_folder.scores(manifest.identity.scorer)
    return b"".join(clockless_lines(manifest, finished_pairs(run_folder, manifest), scores))


def test_clockless_export_holds_regions_and_no_clock(tmp_path: Path) -> None:
    suite = opened(tmp_path / "data", many(2))
    run_pages(suite, tmp_path / "a")
    run_pages(suite, tmp_path / "b")
    data = clockless(tmp_path / "a")
    assert data == clockless(tmp_path / "b")
    assert b'"region_id":"1"' in data
    for word in (b"_ns", b"session", b"attempt", b"slot", b"run_id", b"utc", str(tmp_path).encode()):
        assert word not in data


def work(suite: OpenedSuite, folder: Path) -> None:
    run_pages(suite, folder, backend=FakeBackend(sleep_s=0.001))


def test_page_run_killed_at_random_moments_ends_in_the_same_bytes(tmp_path: Path) -> None:
    suite = opened(tmp_path / "data", many(PAGES))
    run_pages(suite, tmp_path / "calm")
    rng = random.Random(5)
    context = multiprocessing.get_context("fork")
    killed = 0
    for _ in range(10):
        worker = context.Process(target=work, args=(suite, tmp_path / "hunted"))
        worker.start()
        time.sleep(rng.uniform(0.02, 0.12))
        worker.kill()
        worker.join()
        killed += worker.exitcode == -9
    assert killed >= 2
    run_pages(suite, tmp_path / "hunted")
    assert clockless(tmp_path / "hunted") == clockless(tmp_path / "calm")
    for arm in ("ar", "selfspec"):
        calm, hunted = (tmp_path / name / "predictions" / arm for name in ("calm", "hunted"))
        assert sorted(p.name for p in calm.iterdir()) == sorted(p.name for p in hunted.iterdir())
        for path in calm.iterdir():
            assert path.read_bytes() == (hunted / path.name).read_bytes()
    run_folder = RunDirectory(tmp_path / "hunted")
    for arms in finished_pairs(run_folder, run_folder.manifest()).values():
        assert len({record.session_id for record in arms.values()}) == 1
    assert not (tmp_path / "hunted" / ".crops").exists()


def test_page_samples_are_what_the_suite_opens(tmp_path: Path) -> None:
    assert all(isinstance(sample, PageSample) for sample in opened(tmp_path, many(2)).samples)
