"""Checkpoints by the Hugging Face libraries: `--model PATH_OR_HUB_ID` -> a folder here, and their noise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gravbench.errors import EngineError, shortened

_HUB_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9._/-]+)?$")
PATTERNS = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
"""What a checkpoint needs; no code and no pickles are fetched."""


def is_hub_id(text: str) -> bool:
    """Whether `text` reads as `owner/name` or `owner/name@revision`."""
    return _HUB_ID.match(text) is not None


def resolve_model(text: str) -> Path:
    """The folder `text` names, or the local snapshot of that hub id, fetched if the machine is online.

    A folder of that name wins over the hub. `EngineError` when there is neither.
    """
    folder = Path(text)
    if folder.is_dir() or not is_hub_id(text):
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    name, _, revision = text.partition("@")
    try:
        return Path(
            snapshot_download(
                name, revision=revision or None, allow_patterns=list(PATTERNS), local_files_only=True
            )
        )
    except (LocalEntryNotFoundError, OSError):
        pass
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=list(PATTERNS)))
    except Exception as error:  # the client raises its own and its transport's errors
        reason = shortened(str(error), 300)
        raise EngineError(
            f"{text}: no such folder, and not to be had from the Hugging Face hub ({type(error).__name__}: "
            f"{reason})",
            hint=f"Download {name} on a machine with network, copy the folder here, and pass its path.",
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Neither progress bars nor advice from transformers inside; as it was afterwards."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
