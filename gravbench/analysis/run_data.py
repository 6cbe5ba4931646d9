"""Which copy of the page data stands behind a run's numbers, and what they may be called for it."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from gravbench.records import Record


class RunData(Record):
    """A run's page data. `label` has the page count in it; `whole` copies alone are the benchmark."""

    label: str
    partial: bool
    """Some of the benchmark's pages, or of the suite's samples, are not in the run."""
    drifted: bool
    """The copy is not the release's."""
    pages_in_run: int | None = None
    annotation_sha256: str | None = None

    @property
    def whole(self) -> bool:
        """Whether every page of the suite was run, and none was changed."""
        return not (self.partial or self.drifted)


def run_data(protocol: Mapping[str, JsonValue]) -> RunData | None:
    """What a manifest's protocol says of the page data; `None` for suites without pages."""
    found = protocol.get("data")
    if not isinstance(found, dict) or not isinstance(found.get("label"), str):
        return None
    return RunData.model_validate({name: found[name] for name in RunData.model_fields if name in found})


def data_losses(protocol: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Regions of the copy that could not become samples, in a sentence; empty when there are none."""
    found = protocol.get("data")
    loss = found.get("loss") if isinstance(found, dict) else None
    return (loss,) if isinstance(loss, str) else ()


def data_caution(data: RunData | None) -> str | None:
    """What a reader must know of a run on less or other than the benchmark; `None` for the whole of it."""
    if data is None or data.whole:
        return None
    return f"Not the whole benchmark: {data.label}. Do not read its figures as the benchmark's."
