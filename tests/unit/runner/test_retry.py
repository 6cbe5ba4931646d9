"""Failed samples can be decoded again in the run that holds them; nothing else can change under it."""

from pathlib import Path

import orjson
import pytest
from page_run_support import many, opened, reopened, run_pages
from page_support import page_image
from run_support import FakeBackend, clockless, run_fake

from gravbench.errors import UsageError
from gravbench.runner.run import rescore
from gravbench.store.rundir import RunDirectory
from gravbench.suites.data import OpenedSuite

BROKEN = frozenset({"text-000"})


def restored(data: Path, out: Path) -> OpenedSuite:
    """Leaves a run in which page-1 failed, for an image that could not be read; the image is back by now."""
    opened(data, many(3))
    image = data / "images" / "page-1.png"
    whole = image.read_bytes()
    image.write_bytes(whole[:40])
    assert run_pages(reopened(data, many(3)), out).summary.failed_samples == 1
    image.write_bytes(whole)
    return reopened(data, many(3))


def test_failed_samples_are_decoded_again_and_their_first_attempt_stays(tmp_path: Path) -> None:
    run_fake(tmp_path / "r", backend=FakeBackend(failing=BROKEN))
    backend = FakeBackend()
    outcome = run_fake(tmp_path / "r", backend=backend, retry_failed=True)
    assert outcome.summary.failed_samples == 0
    assert {sample for sample, _ in backend.calls} == {"text-000"}
    attempts = [
        (r.attempt, r.status, r.arm)
        for r in RunDirectory(tmp_path / "r").generations()
        if r.sample_id == "text-000"
    ]
    assert sorted(attempts) == [
        (1, "error", "ar"),
        (1, "error", "selfspec"),
        (2, "ok", "ar"),
        (2, "ok", "selfspec"),
    ]


def test_without_the_option_failed_samples_stay_failed(tmp_path: Path) -> None:
    run_fake(tmp_path / "r", backend=FakeBackend(failing=BROKEN))
    backend = FakeBackend()
    assert run_fake(tmp_path / "r", backend=backend).summary.failed_samples == 1
    assert backend.calls == []


def test_what_fails_again_has_two_attempts_and_counts_once(tmp_path: Path) -> None:
    run_fake(tmp_path / "r", backend=FakeBackend(failing=BROKEN))
    outcome = run_fake(tmp_path / "r", backend=FakeBackend(failing=BROKEN), retry_failed=True)
    assert outcome.summary.failed_samples == 1
    assert len(RunDirectory(tmp_path / "r").generations()) == 12 + 2


def test_a_mended_run_exports_what_an_unbroken_one_does_but_for_the_attempt(tmp_path: Path) -> None:
    run_fake(tmp_path / "whole")
    run_fake(tmp_path / "r", backend=FakeBackend(failing=BROKEN))
    run_fake(tmp_path / "r", retry_failed=True)
    assert clockless(tmp_path / "r") == clockless(tmp_path / "whole")


def test_a_run_that_ended_is_found_again_under_its_root(tmp_path: Path) -> None:
    run_fake(None, runs_root=tmp_path, backend=FakeBackend(failing=BROKEN))
    outcome = run_fake(None, runs_root=tmp_path, retry_failed=True)
    assert outcome.resumed
    assert outcome.summary.failed_samples == 0
    assert len(list(tmp_path.iterdir())) == 1


def test_a_retry_that_is_cut_short_goes_on(tmp_path: Path) -> None:
    run_fake(tmp_path / "r", backend=FakeBackend(failing=frozenset({"text-000", "table-001"})))
    cut = FakeBackend(raises=KeyboardInterrupt(), raise_at=7)  # four warm-ups, one pair, one arm more
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path / "r", backend=cut, retry_failed=True)
    assert run_fake(tmp_path / "r", retry_failed=True).summary.failed_samples == 0


def test_restored_page_is_named_with_the_option_that_decodes_it(tmp_path: Path) -> None:
    suite = restored(tmp_path / "data", tmp_path / "r")
    with pytest.raises(UsageError, match="page-1: failed in this run, and its image") as caught:
        run_pages(suite, tmp_path / "r")
    assert caught.value.hint is not None
    assert "--retry-failed" in caught.value.hint


def test_restored_page_is_decoded_again_and_the_run_can_be_scored(tmp_path: Path) -> None:
    suite = restored(tmp_path / "data", tmp_path / "r")
    written = (tmp_path / "r" / "manifest.json").read_bytes()
    outcome = run_pages(suite, tmp_path / "r", retry_failed=True)
    assert outcome.summary.failed_samples == 0
    assert (tmp_path / "r" / "predictions" / "ar" / "page-1.md").read_text()
    assert (tmp_path / "r" / "manifest.json").read_bytes() == written
    assert orjson.loads((tmp_path / "r" / "amendment.json").read_bytes())["mended"] == ["page-1"]
    assert not run_pages(suite, tmp_path / "r").too_many_errors  # the plain command goes on too
    assert rescore(tmp_path / "r", suite.suite, suite.samples).failed_samples == 0


def test_restored_run_is_the_same_plan_as_one_on_whole_pages(tmp_path: Path) -> None:
    suite = restored(tmp_path / "data", tmp_path / "r")
    run_pages(suite, tmp_path / "r", retry_failed=True)
    run_pages(suite, tmp_path / "whole")
    first, second = (RunDirectory(tmp_path / name).manifest() for name in ("r", "whole"))
    assert first.identity == second.identity
    assert first.identity_sha == second.identity_sha


def test_page_that_changed_after_it_was_read_is_refused_even_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run_pages(opened(data, many(3)), tmp_path / "r")
    page_image(9).save(data / "images" / "page-2.png")
    with pytest.raises(UsageError, match="page-2: image or annotation changed since the run decoded it"):
        run_pages(reopened(data, many(3)), tmp_path / "r", retry_failed=True)


def test_command_to_repeat_never_begins_anew(tmp_path: Path) -> None:
    run = run_pages(opened(tmp_path / "data", many(1)), tmp_path / "a b", fresh=True)
    manifest = RunDirectory(run.run_dir).manifest()
    assert "--fresh" not in manifest.argv
    assert manifest.command.startswith("gravbench run --suite ")
    assert f"--out '{tmp_path / 'a b'}'" in manifest.command
    old = manifest.model_copy(update={"argv": ("gravbench", "run", "--fresh", "--suite", "a b")})
    assert old.command == "gravbench run --suite 'a b'"
