"""An OmniDocBench folder (`OmniDocBench.json` + `images/`) -> page samples, with what is wrong in it.

Faults of the data set stop here, before any model is loaded. Faults of one page stay with that page: it
fails when its turn comes, and the others run.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from gravbench.errors import DataError, has_controls, printable, shortened
from gravbench.imaging import bytes_digest, file_digest, read_bounded
from gravbench.omnidocbench.ground_truth import MAX_ANNOTATION_BYTES, read_pages, refuse_too_large
from gravbench.pages.regions import NO_DIGEST, PageSample
from gravbench.suites.manifest import PageSet
from gravbench.suites.samples import contained_path

MAX_NAME_BYTES = 255 - len(".md")
"""What a file system lets the Markdown of a page be called."""
OLDER_RELEASES = {981: "v1.0", 1355: "v1.5"}
"""Page counts of earlier releases, whose pages carry no `subset`."""


RELEASE_FAMILY = "OmniDocBench"
RELEASE_NAME = re.compile(
    r"(book_(en|zh)|PPT|scihub|yanbaopptmerge|yanbaor2|color_textbook|docstructbench|eastmoney|exam_paper"
    r"|jiaocai|jiaocaineedrop|magazine|newspaper|notes|historical_document)[_-]|page-[0-9a-f]{8}-[0-9a-f-]{27}\."
)
"""How images of the releases are called, by their source."""
RELEASE_SUBSETS = frozenset({"v1.5", "equation_hard", "layout_hard", "table_hard"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyName:
    """What a copy of a release may be called."""

    label: str
    """`OmniDocBench v1.6 (1,651 pages)`, or what makes it something else."""
    partial: bool
    """It does not have all pages of the release, or other pages."""
    drifted: bool
    own: bool = False
    """Its pages are the user's, not the release's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageData:
    """Pages found in one folder, and what the copy may be called."""

    folder: Path
    annotations: Path
    annotation_sha256: str
    samples: tuple[PageSample, ...]
    entries: int
    """Pages in the annotation file."""
    name: CopyName

    def read(self, sample_ids: Collection[str]) -> dict[str, PageSample]:
        """Those of these pages that are here, by id, with their images read (`digest_images`)."""
        wanted = set(sample_ids)
        chosen = [sample for sample in self.samples if sample.sample_id in wanted]
        return {sample.sample_id: sample for sample in digest_images(chosen)}


def read_page_folder(pages: PageSet, folder: Path, *, allow_drift: bool = False) -> PageData:
    """Every page of the suite that the folder holds, sorted by sample id; images are not opened yet.

    `DataError` when the annotation file is missing, no JSON, of another schema or release, or changed;
    `allow_drift` runs a changed one under a name that says so.
    """
    if pages.has_tests:
        return _read_tests(pages, folder)
    path = contained_path(folder, pages.annotations, where=f"{folder}: annotation file")
    if not path.is_file():
        raise DataError(
            f"{path}: not found",
            hint=f"Put {pages.annotations} and images/ of {pages.release} into {folder}, or name their "
            "folder with --data.",
        )
    data = read_bounded(path, limit=MAX_ANNOTATION_BYTES, what="annotation file")
    entries = parse_annotations(data, path)
    read_pages(entries, source=str(path))
    digest = bytes_digest(data)
    known = page_digests(pages, folder)
    changed = _changed_pages(entries, known, folder)
    name = _name_of(
        pages,
        entries,
        same=digest == pages.annotation_sha256,
        known=known,
        changed=changed,
        folder=folder,
    )
    if name.drifted and not allow_drift:
        raise DataError(
            f"{path}: {name.label}",
            hint="Restore the release's file, or run the changed copy under that name with "
            "--allow-drift suite.",
        )
    chosen = [entry for entry in entries if _belongs(pages, entry)]
    if not chosen:
        raise DataError(
            f"{path}: none of its {len(entries):,} pages belongs to the suite",
            hint=f"The suite wants subset {', '.join(pages.subsets) or '(any)'}; use a complete copy.",
        )
    samples = sorted((_sample(folder, entry) for entry in chosen), key=lambda s: s.sample_id)
    _check_distinct(samples, path)
    return PageData(
        folder=folder,
        annotations=path,
        annotation_sha256=digest,
        samples=tuple(samples),
        entries=len(entries),
        name=name,
    )


def _read_tests(pages: PageSet, folder: Path) -> PageData:
    """Pages with tests. A copy with other tests than the release's is somebody's own, under its own name."""
    from gravbench.suites import olmocr_pages  # the rules of another benchmark

    samples, label = olmocr_pages.read_samples(folder)
    digest = olmocr_pages.tests_digest(folder)
    whole = label == pages.release if not pages.annotation_sha256 else digest == pages.annotation_sha256
    name = CopyName(
        label=f"{pages.release if whole else label} ({len(samples):,} pages)",
        partial=not whole,
        drifted=False,
        own=not whole,
    )
    return PageData(
        folder=folder,
        annotations=folder / pages.annotations,
        annotation_sha256=digest,
        samples=samples,
        entries=len(samples),
        name=name,
    )


def parse_annotations(data: bytes, path: Path) -> list[dict[str, Any]]:
    """The page objects of an annotation file; `DataError` names what it is instead."""
    if not data.strip():
        raise DataError(f"{path}: empty file, expected a JSON list of pages", hint="Fetch it again.")
    refuse_too_large(data, path)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as fault:
        raise DataError(f"{path}: not JSON: {fault}", hint="Fetch it again.") from fault
    if not isinstance(value, list) or not value:
        found = type(value).__name__ if not isinstance(value, list) else "an empty list"
        raise DataError(f"{path}: {found}, expected a JSON list of pages", hint="Fetch it again.")
    for index, entry in enumerate(value):
        if not isinstance(entry, dict) or not isinstance(entry.get("page_info"), dict):
            raise DataError(
                f"{path}: page {index} has no page_info, expected the schema of OmniDocBench v1.0 to v1.6",
                hint="Use the OmniDocBench.json of the release.",
            )
    return value


def digest_images(samples: Sequence[PageSample]) -> tuple[PageSample, ...]:
    """The samples with the digest of annotation and image; an unreadable image is the page's fault.

    Pages of PDFs are rendered first, and kept among this machine's files.
    """
    from gravbench.suites import olmocr_pages

    return tuple(_digested(olmocr_pages.with_image(sample)) for sample in samples)


def image_place(folder: Path, image_path: str) -> Path:
    """Where a page's image lies: `image_path` under `images/` or under the folder itself.

    `DataError` for an absolute path, one with `..`, a link that leaves the folder, or a missing file.
    """
    pure = PurePosixPath(image_path.replace("\\", "/"))
    where = "page_info.image_path"
    contained_path(folder, str(pure) or ".", where=where)
    for relative in (PurePosixPath("images") / pure, pure):
        place = contained_path(folder, str(relative), where=where)
        if place.is_file():
            return place
    raise DataError(f"{folder / 'images' / pure}: image not found", hint="Restore the image.")


def sample_id_of(image_name: str) -> str:
    """Id of a page: its image's base name without the extension, which names its Markdown file as well.

    A name that no file can have gets a readable stand-in, told apart by a digest; such a page fails.
    """
    stem = PurePosixPath(image_name).stem
    if not has_controls(stem) and len(stem.encode()) <= MAX_NAME_BYTES:
        return stem
    digest = bytes_digest(image_name.encode("utf-8", "backslashreplace"))[:12]
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', stem)[:80]}-{digest}"


def base_name(image_path: str) -> str:
    """The image's file name, whichever slashes its path has."""
    return PurePosixPath(image_path.replace("\\", "/")).name


def _check_name(name: str) -> None:
    length = len(PurePosixPath(name).stem.encode("utf-8", "backslashreplace"))
    if length > MAX_NAME_BYTES:
        raise DataError(
            f"page_info.image_path: a name of {length} bytes, expected at most {MAX_NAME_BYTES}, so that "
            "NAME.md can be written",
            hint="Rename the image and its image_path.",
        )


def _sample(folder: Path, entry: dict[str, Any]) -> PageSample:
    info = entry["page_info"]
    name = base_name(info["image_path"])
    fault: str | None = None
    place: str | None = None
    try:
        _check_name(name)
        place = str(image_place(folder, info["image_path"]))
    except DataError as error:
        fault = error.whole
    return PageSample(
        sample_id=sample_id_of(name),
        image_name=name if sample_id_of(name) == PurePosixPath(name).stem else shortened(printable(name), 80),
        image_path=place,
        image_sha256=NO_DIGEST,
        entry=entry,
        attributes=flat_attributes(entry),
        fault=fault,
    )


def _digested(sample: PageSample) -> PageSample:
    image_sha, fault = NO_DIGEST, sample.fault
    if sample.image_path is not None:
        try:
            image_sha = file_digest(sample.image_path)
        except DataError as error:
            fault = error.whole
    digest = bytes_digest(f"{entry_digest(sample.entry)} {image_sha}".encode())
    return replace(sample, image_sha256=digest, fault=fault)


def _page_attributes(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The page's attributes; `null` says as little as none at all."""
    return entry["page_info"].get("page_attribute") or {}


def flat_attributes(entry: Mapping[str, Any]) -> dict[str, bool | int | str]:
    """A page's attributes as single values: a list becomes its members joined by `+`."""
    flat: dict[str, bool | int | str] = {}
    for name, value in _page_attributes(entry).items():
        if isinstance(value, list):
            flat[printable(name)] = printable("+".join(map(str, value)))
        elif isinstance(value, str):
            flat[printable(name)] = printable(value)
        elif isinstance(value, bool | int):
            flat[printable(name)] = value
    return flat


def _belongs(pages: PageSet, entry: Mapping[str, Any]) -> bool:
    subset = _page_attributes(entry).get("subset")
    stem = sample_id_of(base_name(entry["page_info"]["image_path"]))
    return (not pages.subsets or subset in pages.subsets) and (not pages.select or stem in pages.select)


def _check_distinct(samples: Sequence[PageSample], path: Path) -> None:
    for before, after in itertools.pairwise(samples):
        if before.sample_id == after.sample_id:
            raise DataError(
                f"{path}: images {before.image_name!r} and {after.image_name!r} share the stem "
                f"{after.sample_id!r}, and would share one prediction file",
                hint="Rename one of the two images and its image_path.",
            )


def page_digests(pages: PageSet, folder: Path) -> dict[str, tuple[str, str]]:
    """Image name -> known digests of its annotation and its image; empty when the suite ships none."""
    if pages.digests is None:
        return {}
    path = contained_path(folder, pages.digests, where=f"{folder}: field digests")
    if not path.is_file():
        return {}
    value = json.loads(read_bounded(path, what="digest file"))
    return {str(name): (str(entry), str(image)) for name, (entry, image) in value.items()}


def entry_digest(entry: Mapping[str, Any]) -> str:
    """Digest of one page's annotation, whatever its formatting."""
    return bytes_digest(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode())


def _changed_pages(
    entries: Sequence[Mapping[str, Any]], known: Mapping[str, tuple[str, str]], folder: Path
) -> list[str]:
    """Names of pages that are not the known ones, by annotation or image; an absent image is no change."""
    if not known:
        return []
    changed = []
    for entry in entries:
        path = entry["page_info"]["image_path"]
        name = base_name(path)
        annotation, image = known.get(name, (None, None))
        found = _image_digest(folder, path)
        if annotation != entry_digest(entry) or (found is not None and found != image):
            changed.append(name)
    return changed


def _image_digest(folder: Path, image_path: str) -> str | None:
    """Digest of a page's image; None when there is no readable image to compare."""
    try:
        return file_digest(image_place(folder, image_path))
    except DataError:
        return None


def name_of_copy(
    pages: PageSet, entries: Sequence[Mapping[str, Any]], digest: str, *, folder: Path
) -> CopyName:
    """What an annotation file of these pages and this digest, in `folder`, may be called, images aside."""
    return _name_of(
        pages, entries, same=digest == pages.annotation_sha256, known={}, changed=(), folder=folder
    )


def _name_of(
    pages: PageSet,
    entries: Sequence[Mapping[str, Any]],
    *,
    same: bool,
    known: Mapping[str, object],
    changed: Sequence[str],
    folder: Path,
) -> CopyName:
    count, whole = len(entries), pages.release_pages
    if same:
        return CopyName(label=f"{pages.release} ({count:,} pages)", partial=False, drifted=False)
    of_release = sum(_is_of_release(pages, entry, known) for entry in entries)
    if of_release < count:
        place = printable(folder.resolve().name or str(folder))
        some = f", {of_release:,} of them named as pages of {pages.release}" if of_release else ""
        label = f"pages of {place} ({count:,} page{'' if count == 1 else 's'}{some})"
        return CopyName(label=label, partial=True, drifted=False, own=True)
    subsets = [_page_attributes(entry).get("subset") for entry in entries]
    if pages.place is not None and count in OLDER_RELEASES and not any(subsets):
        version = OLDER_RELEASES[count]
        label = f"{count:,} pages without subsets: OmniDocBench {version}, not {pages.release}"
        return CopyName(label=label, partial=False, drifted=True)
    if changed:
        label = f"changed copy of {pages.release}: {len(changed):,} of {count:,} pages differ"
        return CopyName(label=label, partial=count < whole, drifted=True)
    if count < whole:
        unchecked = "" if known else ", annotations not checked against the release"
        label = f"partial copy of {pages.release}: {count:,} of {whole:,} pages{unchecked}"
        return CopyName(label=label, partial=True, drifted=False)
    digest = pages.annotation_sha256[:12]
    label = f"changed copy of {pages.release}: {count:,} pages, sha256 is not {digest}"
    return CopyName(label=label, partial=False, drifted=True)


def _is_of_release(pages: PageSet, entry: Mapping[str, Any], known: Mapping[str, object]) -> bool:
    """Whether a page is one of the release: by its known names, else by what names and subsets look like."""
    name = base_name(entry["page_info"]["image_path"])
    if known:
        return name in known
    if not pages.release.startswith(RELEASE_FAMILY):
        return True  # a suite of somebody's own, whose pages may be called anything
    return RELEASE_NAME.match(name) is not None or _page_attributes(entry).get("subset") in RELEASE_SUBSETS
