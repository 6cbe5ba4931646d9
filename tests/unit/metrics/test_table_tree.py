from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from omnidoc_cases import cases, golden

from gravbench.metrics.table_tree import (
    TagCodes,
    build_tree,
    find_table,
    is_instruction,
    plain_tree,
    repair_html,
)


def as_list(element: Any, *, root: bool = True) -> list[Any]:
    children = [as_list(child, root=False) for child in element]
    tail = "" if root else element.tail or ""
    tag = "?pi" if is_instruction(element) else element.tag
    return [tag, dict(element.attrib), element.text or "", children, tail]


def test_any_markup_reads_as_the_pinned_libxml2_reads_it() -> None:
    for case in golden("table_trees.json"):
        table = find_table(case["html"])
        assert table is not None
        assert as_list(table) == case["tree"], case["html"]
        if "nodes" in case:
            elements = [element for element in table.iter() if not is_instruction(element)]
            assert len(elements) - 1 == case["nodes"], case["html"]


def test_plain_markup_is_left_alone() -> None:
    plain = (
        '<html><body><table border="1" ><tr><td colspan="2">a > b 名</td><td></td></tr></table></body></html>'
    )
    assert repair_html(plain) == plain


def test_postorder_with_leftmost_leaves() -> None:
    table = find_table(
        "<html><body><table><tr><td>a</td><td colspan='2'>b</td></tr><tr></tr></table></body></html>"
    )
    assert table is not None
    tree = build_tree(table, TagCodes())
    assert [label.tag for label in tree.labels] == ["td", "td", "tr", "tr", "table"]
    assert tree.leftmost == (0, 1, 0, 3, 0)
    assert tree.n_nodes == 4
    assert (tree.labels[1].colspan, tree.labels[1].rowspan, tree.labels[1].content) == (2, 1, "b")


def test_nested_markup_becomes_one_token_a_tag_and_the_tail_of_a_nested_cell_is_lost() -> None:
    inner = "<table><tr><td>i</td>lost</tr></table>"
    table = find_table(f"<html><body><table><tr><td>x<b>y</b>z{inner}</td></tr></table></body></html>")
    assert table is not None
    tree = build_tree(table, TagCodes())
    content = tree.labels[0].content
    assert [character if character.isascii() else "#" for character in content] == list("x#y#z###i###")
    assert tree.n_nodes == 6


def test_a_document_without_a_table_in_its_body_has_none() -> None:
    assert find_table("<table><tr><td>a</td></tr></table>") is None
    assert find_table("text") is None


def test_a_processing_instruction_is_a_token_of_its_cell_but_no_node_of_the_denominator() -> None:
    table = find_table("<html><body><table><tr><td>a<?xml q?>b</td></tr></table></body></html>")
    assert table is not None
    tree = build_tree(table, TagCodes())
    content = tree.labels[0].content
    assert [character if character.isascii() else "#" for character in content] == list("a#q?#b")
    assert tree.n_nodes == 2


texts = st.text(alphabet="ab >'\"名²]\u3000\x7f\U00100000-;", max_size=4)
openings = st.sampled_from(["<td>", '<td colspan="2">', '<td rowspan="0">', '<td colspan="x">', "<th>"])


@given(st.lists(st.lists(st.tuples(openings, texts), max_size=3), max_size=3))
def test_rows_of_plain_cells_make_the_tree_that_the_parser_makes(rows: list[list[tuple[str, str]]]) -> None:
    body = "".join(f"<tr>{''.join(f'{td}{text}</td>' for td, text in row)}</tr>" for row in rows)
    source = f'<html><body><table border="1" >{body}</table></body></html>'
    plain = plain_tree(source)
    assert plain is None or plain == build_tree(find_table(source), TagCodes())


def test_half_of_the_official_tables_are_plain() -> None:
    norms = [case["expected"][side] for case in cases("table_teds") for side in ("norm_gt", "norm_pred")]
    plain = [(plain_tree(norm), norm) for norm in norms if norm]
    assert sum(tree is not None for tree, _ in plain) * 2 > len(plain)
    assert all(tree is None or tree == build_tree(find_table(norm), TagCodes()) for tree, norm in plain)
