"""Do the weight files fill the model that config.json describes?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gravbench.errors import EngineError


def refuse_unlike_tensors(info: Mapping[str, Any], folder: Path) -> None:
    """`EngineError` naming the first tensor that the files lack, or hold in another shape.

    `info` is the loading info of a `from_pretrained` that was told to ignore mismatched sizes: left to itself
    it raises without the name.
    """
    again = "Copy the checkpoint again; config.json and the weight files must be of one model."
    absent = sorted(info["missing_keys"])
    if absent:
        raise EngineError(
            f"{folder}: the weight files lack {len(absent)} tensors of the model, first {absent[0]}",
            hint=again,
        )
    unlike = sorted((name, list(found), list(wanted)) for name, found, wanted in info["mismatched_keys"])
    if unlike:
        name, found, wanted = unlike[0]
        more = f" (and {len(unlike) - 1} more)" if len(unlike) > 1 else ""
        raise EngineError(
            f"{folder}: tensor {name} has shape {found}, config.json makes it {wanted}{more}", hint=again
        )
