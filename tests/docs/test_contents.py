"""The pages by topic: each table of contents names every heading, and each link of docs leads somewhere."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
LINKS = [
    (page, link)
    for page in sorted(DOCS.glob("*.md"))
    for link in re.findall(r"\]\(((?!http)[^)]+)\)", page.read_text(encoding="utf-8"))
]


def anchors(page: Path) -> list[str]:
    """Headings of the second level as the addresses that a viewer gives them."""
    headings = re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("name", ["decisions.md", "statistics.md"])
def test_the_table_of_contents_is_complete_and_in_order(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert re.findall(r"^- \[[^\]]+\]\(#([^)]+)\)$", text, re.MULTILINE) == anchors(DOCS / name)


@pytest.mark.parametrize(("page", "link"), LINKS, ids=lambda value: getattr(value, "name", value))
def test_links_lead_somewhere(page: Path, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.exists()
    assert not anchor or anchor in anchors(target)
