"""Names to the objects that implement them, imported when they are asked for and not before.

What the package has stands in a table; other packages add to it by entry points, which are read only when a
name is not in the table. Nothing registers itself by being imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gravbench.errors import UsageError


class Registry(Mapping[str, str]):
    """Name -> `module:object`. An entry point of `group` cannot take a name of the table."""

    def __init__(self, group: str, own: Mapping[str, str]) -> None:
        self.group = group
        self._own = dict(own)

    def __getitem__(self, name: str) -> str:
        return self._own[name] if name in self._own else self._others()[name].value

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._own, ""), **self._others()})

    def __len__(self) -> int:
        return len(set(self))

    def is_own(self, name: str) -> bool:
        """Whether the name stands in the package's own table."""
        return name in self._own

    def load(self, name: str) -> Any:
        """The object of a known name; `UsageError` when somebody else's does not import."""
        if name in self._own:
            module, _, attribute = self._own[name].partition(":")
            return getattr(import_module(module), attribute)
        point = self._others()[name]
        try:
            return point.load()
        except Exception as error:  # a module of somebody else's may raise anything
            owner = point.dist.name if point.dist else "unknown"
            raise UsageError(
                f"{self.group}: '{name}' of package {owner} does not load: "
                f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
                hint=f"Repair or uninstall {owner}.",
            ) from error

    def _others(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group) if point.name not in self._own}
