"""What a checkpoint leaves unsaid and the engine fills in: a run carries each as a warning."""

from __future__ import annotations

from typing import Any

from gravbench.backends.glm.checkpoint import GENERATION_CONFIG, CheckpointFiles
from gravbench.backends.glm.end_tokens import FIELD, read_end_tokens
from gravbench.backends.glm.image_processor import SETTINGS, stated_settings


def assumptions(files: CheckpointFiles, tokenizer: Any) -> tuple[str, ...]:
    """One line for each thing assumed, naming the file that would settle it."""
    found = []
    end = read_end_tokens(files)
    if end.source != GENERATION_CONFIG:
        there = (files.folder / GENERATION_CONFIG).is_file()
        ids = ", ".join(map(str, end.ids))
        found.append(
            f"{GENERATION_CONFIG}: {f'{FIELD} is not stated' if there else 'missing'}, so the end tokens of "
            f"{end.source} are assumed: {ids}"
        )
    if not getattr(tokenizer, "chat_template", None):
        found.append("chat_template.jinja: missing, so the prompt is put as GLM-OCR's own template would")
    path, stated = stated_settings(files.folder)
    unsaid = [name for name in SETTINGS if name not in stated]
    if unsaid:
        found.append(f"{path.name}: {', '.join(unsaid)} not stated, so defaults of transformers are assumed")
    return tuple(found)
