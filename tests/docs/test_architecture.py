"""The architecture page names every package, in the layers that import-linter checks."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gravbench"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def layers() -> list[set[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [{name.strip().removeprefix("gravbench.") for name in layer.split("|")} for layer in found]


def drawn() -> list[set[str]]:
    table = PAGE.split("| layer | what lives there |\n|---|---|\n")[1].split("\n\n")[0]
    return [set(re.findall(r"`([\w.]+)`", row.split("|")[1])) for row in table.splitlines()]


def test_the_table_of_layers_is_the_one_that_is_checked() -> None:
    assert drawn() == layers()


def test_every_package_and_module_has_a_layer() -> None:
    inside = {
        path.stem
        for path in PACKAGE.iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").is_file()
    }
    assert inside == {name.split(".")[0] for layer in layers() for name in layer}


def test_every_name_of_the_table_exists() -> None:
    for name in set().union(*drawn()):
        place = PACKAGE.joinpath(*name.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), name


FILES = sorted(
    set(re.findall(r"`((?:[\w-]+/)+(?:[\w-]+\.(?:py|toml))?)`", PAGE)) - {"runs/", "suites/NAME.toml"}
)


@pytest.mark.parametrize("path", FILES)
def test_paths_of_the_page_exist(path: str) -> None:
    assert (ROOT / path).exists() or (PACKAGE / path).exists()
