"""Where shipped files lie, inside the wheel or at the top of a source checkout; and the version."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_root(name: str) -> Path:
    """Folder `name` ("suites", "reference_outputs") of this installation; it may not exist."""
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


def shipped_model_dir(name: str = "gravity-tiny") -> Path:
    """Checkpoint folder of a model that ships inside the package; it may not exist."""
    return _PACKAGE / "models" / name


__version__ = "0.1.0"
