import pytest

from gravbench.errors import DataError
from gravbench.pages.assembly import ReadRegion, assemble
from gravbench.pages.regions import ROUTES, route_of


def page(*regions: tuple[str, str]) -> str:
    return assemble([ReadRegion(label=label, text=text) for label, text in regions])


def test_every_label_of_the_layout_model_has_a_route() -> None:
    text = {
        *("abstract", "algorithm", "aside_text", "content", "doc_title", "figure_title", "formula_number"),
        *("paragraph_title", "reference_content", "seal", "text", "vision_footnote"),
    }
    assert {label for label, route in ROUTES.items() if route == "text"} == text | {"vertical_text", "page"}
    assert {label for label, route in ROUTES.items() if route == "skipped"} == {"image", "chart"}
    for label in ("header", "footer", "footnote", "number", "reference"):
        assert route_of(label) == "dropped"
    with pytest.raises(DataError, match="'poem' is unknown"):
        route_of("poem")


def test_regions_are_joined_by_blank_lines_in_order() -> None:
    made = page(("doc_title", "One"), ("paragraph_title", "Two"), ("text", "three"), ("text", ""))
    assert made == "# One\n\n## Two\n\nthree"


def test_a_whole_page_stays_the_markdown_that_the_model_wrote() -> None:
    markdown = "# One\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n$$\nx=1\n$$\n\n1.x ......"
    assert page(("page", f"\n{markdown}\n")) == markdown
    assert page(("text", markdown)) != markdown


def test_heading_gets_its_hashes_once() -> None:
    assert page(("paragraph_title", "### Deep")) == "## Deep"


@pytest.mark.parametrize("raw", ["x=1", "$$x=1$$", "\\[x=1\\]", "$x=1$", "  \\( x=1 \\) "])
def test_formula_stands_between_dollar_lines_whatever_the_model_wrote(raw: str) -> None:
    assert page(("formula", raw)) == "$$\nx=1\n$$"


def test_formula_that_only_begins_and_ends_with_formulas_keeps_its_dollars() -> None:
    assert page(("formula", "$a$ and $b$")) == "$$\n$a$ and $b$\n$$"


def test_number_after_or_before_a_formula_becomes_its_tag() -> None:
    assert page(("formula", "x"), ("formula_number", "(3.1)")) == "$$\nx \\tag{3.1}\n$$"
    assert page(("formula_number", "（7）"), ("formula", "x")) == "$$\nx \\tag{7}\n$$"


def test_formula_takes_one_number_and_a_lonely_number_stays_text() -> None:
    made = page(("formula", "x"), ("formula_number", "(1)"), ("formula_number", "(2)"))
    assert made == "$$\nx \\tag{1}\n$$\n\n(2)"
    assert page(("text", "a"), ("formula_number", "(4)")) == "a\n\n(4)"


def test_numbers_between_formulas_belong_to_the_one_before() -> None:
    made = page(("formula", "x"), ("formula_number", "(1)"), ("formula", "y"), ("formula_number", "(2)"))
    assert made == "$$\nx \\tag{1}\n$$\n\n$$\ny \\tag{2}\n$$"


def test_table_keeps_its_newlines_and_text_does_not() -> None:
    table = "<table>\n<tr><td>a</td></tr>\n</table>"
    assert page(("table", table), ("text", "a\nb")) == f"{table}\n\na\n\nb"


def test_empty_page_is_an_empty_string() -> None:
    assert page() == ""
    assert page(("formula", "$$ $$"), ("text", " \\t ")) == ""
