"""End to end means whole pages wherever pages were read."""

import json

from lxml import html
from report_support import document_of, loaded, plain_records

from gravbench.reporting.document import ReportDocument
from gravbench.reporting.gallery_pack import unpacked
from gravbench.reporting.html import render_report
from gravbench.store.schema import Assembly, GenRecord, StageTimes

PAGE_NS = {"ar": 9_000_000_000, "selfspec": 3_000_000_000}


def as_page(record: GenRecord) -> GenRecord:
    """The record as a page whose whole time is `PAGE_NS`, far from that of its requests."""
    stages = dict.fromkeys(("load_ns", "layout_ns", "crop_ns", "region_ns", "assembly_ns"), 0)
    assembly = Assembly(
        image="i",
        layout="l",
        assembler="a",
        skipped={},
        dropped={},
        stages=StageTimes(**stages, total_ns=PAGE_NS[record.arm]),
    )
    return record.model_copy(update={"assembly": assembly})


def document_with(pages: int, crops: int) -> ReportDocument:
    records = plain_records(pages + crops)
    return document_of(
        loaded({a: [as_page(r) if k < pages else r for k, r in enumerate(own)] for a, own in records.items()})
    )


def rows_of(document: ReportDocument, caption: str) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of a table, packed or not."""
    tree = html.fromstring(render_report(document))
    for table in tree.xpath("//table[caption]"):
        if table.findtext("caption", "").startswith(caption):
            rows = [[cell.text_content() for cell in row] for row in table.xpath(".//tbody/tr")]
            return table.xpath(".//thead//th/text()"), rows
    for key in tree.xpath("//button/@data-table"):
        node = tree.get_element_by_id(key)
        data = json.loads(node.text) if node.get("type") == "application/json" else unpacked(node.text)
        if data["caption"].startswith(caption):
            return data["columns"], data["rows"]
    raise AssertionError(caption)


def test_categories_of_pages_show_page_times() -> None:
    document = document_with(pages=6, crops=0)
    columns, rows = rows_of(document, "By task, output length")
    place = columns.index("page end to end")
    assert {row[place].split(" ")[0] for row in rows} == {"3.00×"}
    columns, rows = rows_of(document, "Speedup against output length")
    assert rows[0][columns.index("page end to end")].startswith("3.00×")


def test_categories_of_crops_show_request_times() -> None:
    document = document_with(pages=0, crops=6)
    columns, rows = rows_of(document, "By task, output length")
    (arm,) = [a for a in document.runs[0].analysis.arms if a.arm != "ar"]
    assert all(group.page is None for group in arm.groups)
    shown = [row[columns.index("end to end")].split("×")[0] for row in rows]
    assert shown == [f"{group.request.value:.2f}" for group in arm.groups if group.request]


def test_a_group_of_both_falls_back_to_requests() -> None:
    """Pages whole would leave the crops out."""
    document = document_with(pages=3, crops=3)
    (arm,) = [a for a in document.runs[0].analysis.arms if a.arm != "ar"]
    columns, rows = rows_of(document, "By task, output length")
    whole = [
        g for g in arm.groups if g.page is not None and g.request and g.page.n_pairs == g.request.n_pairs
    ]
    place = columns.index("end to end, pages whole" if whole else "end to end")
    task = next(row for row in rows if row[0].startswith("task"))
    assert not task[place].startswith("3.00×")
