"""OmniDocBench annotations -> pages with their ground-truth elements (v1.6 scorer, "GT element lists").

The annotation file is foreign: it is read for the fields in use, and everything else in it is kept out of
the way. A field that is missing or of the wrong kind is a data fault that names page and field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gravbench.errors import DataError, UsageError
from gravbench.omnidocbench.formula_lines import split_formula

TEXT_CATEGORIES = (
    *("text_block", "title", "code_txt", "code_txt_caption", "reference", "equation_caption"),
    *("figure_caption", "figure_footnote", "table_caption", "table_footnote", "code_algorithm"),
    *("code_algorithm_caption", "header", "footer", "page_footnote", "page_number"),
)
FORMULA = "equation_isolated"
TABLE = "table"
MAX_ANNOTATION_BYTES = 256 * 1024 * 1024
MAX_ANNOTATION_PARTS = 8_000_000
"""Objects and lists of an annotation file: 1,651 pages need far fewer, and each takes up to 200 bytes."""
IMAGE_SUFFIXES = (".jpg", ".png")
_KINDS = {"dict": "an object", "list": "a list", "str": "a string"}


@dataclass(frozen=True, slots=True)
class Element:
    """One ground-truth block: text, LaTeX or HTML in `content`. `attribute` is None for merged paragraphs."""

    category: str
    order: int | float | None
    content: str
    attribute: Any
    index: int
    """Place in `layout_dets`, for messages."""


@dataclass(frozen=True, slots=True)
class Page:
    """One annotated page as the scorer sees it."""

    index: int
    image: str
    """Base name of the image, the page's id."""
    attributes: Mapping[str, Any]
    mixed: tuple[Element, ...]
    """Text-like blocks and formulas by reading order, the pool of hybrid matching."""
    formulas: tuple[Element, ...]
    tables: tuple[Element, ...]
    owns_formula: bool
    """A formula that is not ignored: the page counts in CDM's page average even without a row."""
    owns_table: bool


@dataclass(frozen=True, slots=True)
class _PageReader:
    """Reads one page object; knows file and index for its error messages."""

    source: str
    index: int

    def fault(self, field: str, seen: object, expected: str) -> DataError:
        shown = repr(seen)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        return DataError(
            f"{self.source}: page {self.index}: {field} is {shown}, expected {expected}",
            hint="Use the OmniDocBench.json of the release, or correct this page.",
        )

    def missing(self, field: str) -> DataError:
        return DataError(
            f"{self.source}: page {self.index}: {field} is missing",
            hint="Use the OmniDocBench.json of the release, or correct this page.",
        )

    def anno_id(self, mapping: Mapping[str, Any], key: str, *, field: str) -> int | str | float | None:
        if key not in mapping:
            raise self.missing(field)
        value = mapping[key]
        if value is not None and not isinstance(value, int | str | float):
            raise self.fault(field, value, "an annotation id")
        return value

    def get(self, mapping: Mapping[str, Any], key: str, kind: type, *, field: str) -> Any:
        if key not in mapping:
            raise self.missing(field)
        value = mapping[key]
        if not isinstance(value, kind):
            raise self.fault(field, value, _KINDS[kind.__name__])
        return value


def _content(reader: _PageReader, block: Mapping[str, Any], category: str, field: str) -> str:
    if category == TABLE:
        return str(block.get("html", ""))
    key = "latex" if category == FORMULA else "text"
    if key not in block:
        raise reader.missing(f"{field}.{key}")
    content = str(block[key])
    if category == FORMULA and _order(reader, block, field) is None and split_formula(content):
        raise reader.fault(f"{field}.order", None, "a number: a multi-line formula is scored line by line")
    return content


def _order(reader: _PageReader, block: Mapping[str, Any], field: str) -> int | float | None:
    order = block.get("order")
    if order is None or order == "":
        return None
    if isinstance(order, bool) or not isinstance(order, int | float):
        raise reader.fault(f"{field}.order", order, "a number or null")
    return order


def _truncation_groups(reader: _PageReader, page: Mapping[str, Any]) -> list[set[Any]]:
    """Ids that belong together, merged transitively; later groups last."""
    extra = reader.get(page, "extra", dict, field="extra")
    relations = reader.get(extra, "relation", list, field="extra.relation")
    groups: list[set[Any]] = []
    for number, relation in enumerate(relations):
        field = f"extra.relation[{number}]"
        if not isinstance(relation, dict):
            raise reader.fault(field, relation, "an object")
        if "relation_type" not in relation:
            raise reader.missing(f"{field}.relation_type")
        if relation["relation_type"] != "truncated":
            continue
        merged = {
            reader.anno_id(relation, key, field=f"{field}.{key}")
            for key in ("source_anno_id", "target_anno_id")
        }
        others = []
        for group in groups:
            if group & merged:
                merged |= group
            else:
                others.append(group)
        groups = [*others, merged]
    return groups


def _group_members(group: set[Any], by_id: Mapping[Any, int]) -> list[int]:
    """Places of a group's blocks, in the order that ties of `order` are broken by.

    Quirk: the official scorer walks a set. For numbers its order is CPython's and the same everywhere, so
    the set is walked here too; for strings it changes from run to run there, so file order is taken.
    """
    if all(isinstance(member, int) for member in group):
        return [by_id[member] for member in group if member in by_id]
    return sorted(by_id[member] for member in group if member in by_id)


def _merged(reader: _PageReader, blocks: Sequence[Mapping[str, Any]], places: Sequence[int]) -> Element:
    for place in places:
        field = f"layout_dets[{place}]"
        if "text" not in blocks[place]:
            raise reader.missing(f"{field}.text (the block belongs to a truncated group)")
        if len(places) > 1 and _order(reader, blocks[place], field) is None:
            raise reader.fault(f"{field}.order", None, "a number: the block belongs to a truncated group")
    places = sorted(places, key=lambda place: blocks[place].get("order") or 0)
    first, field = blocks[places[0]], f"layout_dets[{places[0]}]"
    category = str(first["category_type"])
    if category == FORMULA:
        raise reader.fault(f"{field}.category_type", category, "no formula at the head of a truncated group")
    text = "".join(str(blocks[place]["text"]) for place in places)
    # quirk: a merged block keeps no attribute, and a table at its head no html
    content = text if category in TEXT_CATEGORIES else ""
    return Element(category, _order(reader, first, field), content, {}, places[0])


def _elements(reader: _PageReader, page: Mapping[str, Any]) -> dict[str, list[Element]]:
    """Blocks by category: single ones in file order, then merged groups; ignored ones left out."""
    blocks = reader.get(page, "layout_dets", list, field="layout_dets")
    groups = _truncation_groups(reader, page)
    grouped = set().union(*groups) if groups else set()
    wanted = {*TEXT_CATEGORIES, FORMULA, TABLE}
    by_id: dict[Any, int] = {}
    elements: dict[str, list[Element]] = {}
    for place, block in enumerate(blocks):
        field = f"layout_dets[{place}]"
        if not isinstance(block, dict):
            raise reader.fault(field, block, "an object")
        category = reader.get(block, "category_type", str, field=f"{field}.category_type")
        anno_id = reader.anno_id(block, "anno_id", field=f"{field}.anno_id")
        if anno_id in grouped:
            by_id[anno_id] = place
            continue
        if block.get("ignore", False) or category not in wanted:
            continue
        content = _content(reader, block, category, field)
        element = Element(category, _order(reader, block, field), content, block.get("attribute", {}), place)
        elements.setdefault(category, []).append(element)
    for group in groups:
        places = _group_members(group, by_id)
        if not places or any(blocks[place].get("ignore", False) for place in places):
            continue
        element = _merged(reader, blocks, places)
        elements.setdefault(element.category, []).append(element)
    return elements


def _by_order(elements: Sequence[Element]) -> tuple[Element, ...]:
    """Stable by `order`; a missing one counts as 0."""
    return tuple(sorted(elements, key=lambda element: element.order or 0))


def read_page(page: Any, index: int, *, source: str) -> Page:
    """One page object of the annotation file."""
    reader = _PageReader(source, index)
    if not isinstance(page, dict):
        raise reader.fault("page", page, "an object with layout_dets, extra and page_info")
    info = reader.get(page, "page_info", dict, field="page_info")
    path = reader.get(info, "image_path", str, field="page_info.image_path")
    image = path.rsplit("/", 1)[-1]
    attributes: Mapping[str, Any] = {}
    if "page_attribute" not in info or info["page_attribute"] is not None:
        attributes = reader.get(info, "page_attribute", dict, field="page_info.page_attribute")
    for name, value in attributes.items():
        if isinstance(value, list) and not all(isinstance(member, str) for member in value):
            raise reader.fault(f"page_info.page_attribute.{name}", value, "strings in the list")
    elements = _elements(reader, page)
    mixed = [element for name in (*TEXT_CATEGORIES, FORMULA) for element in elements.get(name, ())]
    tables = elements.get(TABLE, [])
    if not image or ((mixed or tables) and not image.endswith(IMAGE_SUFFIXES)):
        raise reader.fault("page_info.image_path", path, "a name that ends in .jpg or .png")
    blocks = page["layout_dets"]
    owned = {block["category_type"] for block in blocks if not block.get("ignore", False)}
    return Page(
        index=index,
        image=image,
        attributes=attributes,
        mixed=_by_order(mixed),
        formulas=_by_order(elements.get(FORMULA, ())),
        tables=_by_order(tables),
        owns_formula=FORMULA in owned,
        owns_table=TABLE in owned,
    )


def refuse_too_large(data: bytes, path: Path) -> None:
    """`DataError` for annotations that would fill the memory, by bytes or by objects and lists."""
    parts = data.count(b"{") + data.count(b"[")
    for found, limit, what in (
        (len(data), MAX_ANNOTATION_BYTES, "bytes"),
        (parts, MAX_ANNOTATION_PARTS, "objects and lists"),
    ):
        if found > limit:
            raise DataError(
                f"{path}: annotation file has {found:,} {what}, expected at most {limit:,}",
                hint="Use the OmniDocBench.json of the release, or split the file into several.",
            )


def read_annotations(path: Path) -> list[Any]:
    """The page objects of an annotation file, unread."""
    try:
        content = path.read_bytes()
        refuse_too_large(content, path)
        data = json.loads(content)
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file", hint="--gt names the OmniDocBench.json to score against."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}", hint="--gt names an OmniDocBench.json.") from error
    if not isinstance(data, list):
        raise DataError(f"{path}: the top level is {type(data).__name__}, expected a list of pages")
    if not data:
        raise DataError(f"{path}: the list of pages is empty, so there is nothing to score")
    return data


def chosen_pages(pages: Sequence[Any], *, globs: Sequence[str], where: Mapping[str, str]) -> list[Any]:
    """Page objects whose image name fits one of `globs` and whose attributes have all values of `where`.

    No glob fits all. `where` is the official `filter`; of a list attribute one member must be equal. A choice
    that leaves no page is a `UsageError`, as is an attribute that no page has.
    """
    known: set[str] = set()
    kept = []
    for page in pages:
        info = page.get("page_info") if isinstance(page, dict) else None
        info = info if isinstance(info, dict) else {}
        attributes = info.get("page_attribute") or {}
        known |= set(attributes)
        name = str(info.get("image_path", "")).rsplit("/", 1)[-1]
        fits = not globs or any(fnmatchcase(name, glob) for glob in globs)
        if fits and all(_has(attributes.get(key), value) for key, value in where.items()):
            kept.append(page)
    unknown = [name for name in where if name not in known]
    if unknown:
        raise UsageError(
            f"--where {unknown[0]}={where[unknown[0]]}: no page has this attribute",
            hint=f"Attributes of these pages: {', '.join(sorted(known)) or 'none'}.",
        )
    if not kept:
        raise UsageError(
            f"no page of {len(pages)} is left by --pages and --where", hint="Choose less narrowly."
        )
    return kept


def _has(found: Any, value: str) -> bool:
    return value in map(str, found) if isinstance(found, list) else str(found) == value


def read_pages(pages: Sequence[Any], *, source: str) -> list[Page]:
    """All pages, their names checked to be distinct."""
    read: list[Page] = []
    first_with: dict[str, int] = {}
    for index, raw in enumerate(pages):
        page = read_page(raw, index, source=source)
        if page.image in first_with:
            raise DataError(
                f"{source}: page {index}: page_info.image_path {page.image!r} is also that of page "
                f"{first_with[page.image]}, expected distinct names",
                hint="Remove one of the two pages.",
            )
        first_with[page.image] = index
        read.append(page)
    return read
