"""What makes two runs the same run: every field that can move a prediction, a counter or a score."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, JsonValue

from gravbench.records import Record, Task


class LayoutInfo(Record):
    """Which layout provider, with everything that can move a region."""

    name: str
    model: str | None = None
    digest: str
    """Hash of weights, thresholds and rules."""


class RunIdentity(Record):
    """No path, no clock, no host. The suite's digest covers the ground truth of crops that ship, a page's
    digest its annotation; crops cut from pages have a digest of their ground truth."""

    gravbench: str
    suite: str
    suite_version: int
    suite_sha: str
    n_samples: int = Field(ge=1)
    samples_sha: str
    references_sha: str | None = None
    """Of crops cut from pages; absent elsewhere."""
    prompts: dict[Task, str]
    max_new_tokens: dict[Task, int]
    scorer: str
    """Names of the suite's scorers, joined by `+`. Signatures stand with each score."""
    strategies: tuple[str, ...] = ()
    """In the order given; empty where one strategy is vouched for alone."""
    repeats: int = Field(default=1, ge=1)
    seed: int
    limit: int | None = None
    stratify: str | None = None
    where: str | None = None
    """The attribute and value of `--where`."""
    pages: str | None = None
    """The shell pattern of `--pages`."""
    backend: str
    """With the options it was given, as `--backend` takes it."""
    engine: str
    model_digest: str
    device: str
    dtype: str
    threads: int
    assembler: str | None = None
    """Absent, as are layout and grid, where no page was read."""
    layout: LayoutInfo | None = None
    crop_grid: int | None = None

    @property
    def scorers(self) -> tuple[str, ...]:
        return tuple(self.scorer.split("+"))

    @property
    def backend_name(self) -> str:
        return self.backend.partition(":")[0]

    def document(self) -> dict[str, JsonValue]:
        """As JSON, without what is absent."""
        return self.model_dump(mode="json", exclude_none=True)

    def differing_field(self, other: RunIdentity) -> str | None:
        """The first field (in sorted order) in which the two differ, with both values; `None` if equal."""
        mine, theirs = self.document(), other.document()
        name = next((n for n in sorted({*mine, *theirs}) if mine.get(n) != theirs.get(n)), None)
        return name and f"{name}: {_short(mine, name)} here, {_short(theirs, name)} in the folder"


def _short(document: Mapping[str, JsonValue], name: str) -> str:
    from gravbench.store.schema import canonical_json

    text = canonical_json(document.get(name)).decode("utf-8")
    return text if len(text) <= 90 else text[:87] + "..."
