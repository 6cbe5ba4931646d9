"""An SVG of matplotlib made fit for the page: no inline style, colours by class, names for screen readers.

The content security policy of a page allows no inline style, so every declaration becomes an attribute, and
the colours of ink, grid and series become classes that the stylesheet colours for light and dark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from lxml import etree
from markupsafe import Markup

INK, FAINT, PAPER = "#010101", "#020202", "#fefefe"
SERIES = tuple(f"#03030{i}" for i in range(8))
"""Stand-in colours; the stylesheet holds the real ones."""

_CLASS = {INK: "ink", FAINT: "faint", PAPER: "paper", **{c: f"s{i}" for i, c in enumerate(SERIES)}}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SIZE = re.compile(r"([0-9.]+)px")
_URL = re.compile(r"(?:url\()?#([^)]+)\)?")
_EMPTY_WITHOUT_CHILDREN = {_SVG + "g", _SVG + "defs"}
_KEPT_STYLES = frozenset(
    {
        "fill",
        "stroke",
        "stroke-width",
        "stroke-dasharray",
        "stroke-linejoin",
        "stroke-linecap",
        "stroke-opacity",
        "fill-opacity",
        "opacity",
        "font-size",
        "font-weight",
        "text-anchor",
    }
)


def themed(
    svg: bytes, *, key: str, title: str, description: str, places: Sequence[Sequence[float | str]] = ()
) -> Markup:
    """The `<svg>` element alone, its ids prefixed by `key`, named for screen readers.

    `places` [n, 3] are what can be pointed at: x and y in percent of width and height, and its numbers.
    """
    root = etree.fromstring(svg, etree.XMLParser(remove_comments=True, resolve_entities=False))
    for tag in ("metadata", "style"):
        for node in list(root.iter(_SVG + tag)):
            _remove(node)
    used = _used_ids(root)
    for node in root.iter():
        _restyle(node)
        _rename(node, key, used)
    _flatten(root)
    for node in list(root.iter()):
        if (node.tag in _EMPTY_WITHOUT_CHILDREN and not len(node)) or node.get("opacity") == "0":
            _remove(node)
        if node.tag != _SVG + "text":
            node.text = None
        node.tail = None
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"class": "chart", "role": "img", "aria-labelledby": f"{key}-t {key}-d"})
    if places:
        root.set("data-points", json.dumps(places, ensure_ascii=False, separators=(",", ":")))
    for offset, (tag, text) in enumerate((("title", title), ("desc", description))):
        named = etree.Element(_SVG + tag, {"id": f"{key}-{tag[0]}"})
        named.text = text
        root.insert(offset, named)
    etree.cleanup_namespaces(root)
    return Markup(etree.tostring(root, encoding="unicode"))


def _remove(node: etree._Element) -> None:
    parent = node.getparent()
    if parent is not None:
        parent.remove(node)


def _restyle(node: etree._Element) -> None:
    declared = node.attrib.pop("style", "")
    for declaration in declared.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            if size := _SIZE.search(value):
                node.set("font-size", size[1])
        elif name == "font-size":
            node.set("font-size", value.removesuffix("px"))
        elif name in _KEPT_STYLES:
            node.set(name, value)
    classes = []
    for side in ("fill", "stroke"):
        if (themed_as := _CLASS.get(node.get(side, ""))) is not None:
            del node.attrib[side]
            classes.append(f"{side[0]}-{themed_as}")
    if classes:
        node.set("class", " ".join(classes))
    elif node.tag == _SVG + "text" and node.get("fill") is None:
        node.set("class", "f-ink")


def _used_ids(root: etree._Element) -> set[str]:
    used = set()
    for node in root.iter():
        for name in (_HREF, "href", "clip-path"):
            if (found := _URL.fullmatch(node.get(name, ""))) is not None:
                used.add(found[1])
    return used


def _rename(node: etree._Element, key: str, used: set[str]) -> None:
    own = str(node.attrib.pop("id", ""))
    if own in used:
        node.set("id", f"{key}-{own}")
    target = str(node.attrib.pop(_HREF, "") or node.attrib.pop("href", ""))
    if target:
        node.set("href", f"#{key}-{target[1:]}" if target.startswith("#") else "".join(target.split()))
    if (clip := _URL.fullmatch(node.get("clip-path", ""))) is not None:
        node.set("clip-path", f"url(#{key}-{clip[1]})")


def _flatten(root: etree._Element) -> None:
    """Groups without attributes give way to their children: fewer nodes in the page."""
    for node in list(root.iter(_SVG + "g")):
        parent = node.getparent()
        if parent is None or node.attrib:
            continue
        place = parent.index(node)
        for offset, child in enumerate(list(node)):
            parent.insert(place + offset, child)
        parent.remove(node)
