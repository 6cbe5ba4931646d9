"""What a checkpoint holds beside what the engine computes with: refused where text would be wrong, else said.

A loader that fills the tensors it knows and drops the rest decodes something else than was trained. Adapters,
weights stored with scales of their own and numbers that are not finite are refused. Tensors that nothing
reads and generation settings that are not applied become warnings of the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gravbench.errors import EngineError, shortened

if TYPE_CHECKING:
    import torch

_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "adapter_model.bin")
_ADAPTER = re.compile(r"(^|[._])(lora|lokr|loha|hada|ia3|oft|adapter|adapters|dora)([._]|$)|lora_", re.I)
_SCALE = re.compile(
    r"(^|[._])(\w*scales?|scale_inv|\w*zero_points?|qzeros|qweight|g_idx|absmax|quant_map|quant_state)([._]|$)"
)
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_LAYER = re.compile(r"^(?P<stack>.*\blayers)\.(?P<number>\d+)\.")

_CHANGES_TEXT: dict[str, Callable[[Any], bool]] = {
    "do_sample": bool,
    "num_beams": lambda value: value not in (None, 1),
    "num_beam_groups": lambda value: value not in (None, 1),
    "repetition_penalty": lambda value: value not in (None, 1, 1.0),
    "encoder_repetition_penalty": lambda value: value not in (None, 1, 1.0),
    "no_repeat_ngram_size": bool,
    "encoder_no_repeat_ngram_size": bool,
    "penalty_alpha": bool,
    "dola_layers": lambda value: value is not None,
    "guidance_scale": lambda value: value not in (None, 1, 1.0),
    "min_length": bool,
    "min_new_tokens": bool,
    "bad_words_ids": bool,
    "suppress_tokens": bool,
    "begin_suppress_tokens": bool,
    "forced_bos_token_id": lambda value: value is not None,
    "forced_eos_token_id": lambda value: value is not None,
    "exponential_decay_length_penalty": bool,
    "sequence_bias": bool,
    "stop_strings": bool,
    "watermarking_config": bool,
}
"""Field of `generation_config.json` -> whether a value of it changes what greedy decoding writes."""


def refuse_adapter_files(folder: Path) -> None:
    """`EngineError` where an adapter lies, beside the weights or in their place."""
    for name in _ADAPTER_FILES:
        if (folder / name).is_file():
            raise EngineError(f"{folder / name}: an adapter, which is not applied here", hint=_MERGE)


def refuse_foreign_contents(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, str], *, weights: str
) -> None:
    """`EngineError` for tensors of adapters and quantised weights: loading would drop what makes them right.

    `tensors` gives the stored type of every tensor (`F32`, `I8`, ...) by name, `weights` the file to name.
    """
    adapters = sorted(name for name in tensors if _ADAPTER.search(name))
    if adapters:
        raise EngineError(
            f"{folder / weights}: {_counted(adapters)} of an adapter, which is not applied here, "
            f"first {adapters[0]}",
            hint=_MERGE,
        )
    parts = [("", config), *((f"{k}.", v) for k, v in config.items() if isinstance(v, Mapping))]
    for part, held in parts:  # a part such as text_config may state a scheme of its own
        scheme = held.get("quantization_config")
        if scheme is None:
            continue
        method = scheme.get("quant_method") if isinstance(scheme, Mapping) else None
        raise EngineError(
            f"{folder / 'config.json'}: {part}quantization_config is {method or shortened(repr(scheme), 60)}"
            ", expected weights in a floating-point type",
            hint=_DEQUANTISE,
        )
    scales = sorted(name for name in tensors if _SCALE.search(name))
    packed = sorted(name for name, kind in tensors.items() if "weight" in name and kind not in _FLOATS)
    if scales or packed:
        found = [f"{_counted(scales)} of scales, first {scales[0]}"] if scales else []
        if packed:
            found.append(f"{_counted(packed)} of type {tensors[packed[0]]}, first {packed[0]}")
        raise EngineError(
            f"{folder / weights}: quantised weights, which are not supported: {'; '.join(found)}",
            hint=_DEQUANTISE,
        )


def unread_tensors(names: Iterable[str], *, known: Collection[str], layers: int) -> tuple[str, ...]:
    """Warnings about tensors that no part of the model reads: spare layers first, by number, then others.

    `known` are the model's own tensors, `layers` is how many decoder layers `config.json` states.
    """
    unread = sorted(set(names) - set(known))
    spare: dict[int, int] = {}
    others: list[str] = []
    for name in unread:
        match = _LAYER.match(name)
        if match and "language_model" in match["stack"] and int(match["number"]) >= layers:
            spare[int(match["number"])] = spare.get(int(match["number"]), 0) + 1
        else:
            others.append(name)
    found = []
    if spare:
        numbers = ", ".join(map(str, sorted(spare)))
        found.append(
            f"weights: decoder layer{'s' if len(spare) > 1 else ''} {numbers} of the files "
            f"({_counted(range(sum(spare.values())))}) beyond the {layers} layers of config.json not used; "
            "GLM-OCR keeps a layer for multi-token prediction there: `mtp` drafts with it, nothing else does"
        )
    if others:
        found.append(f"weights: {_counted(others)} of the files not used, first {others[0]}")
    return tuple(found)


def unapplied_settings(path: Path) -> tuple[str, ...]:
    """A warning that names the settings of a generation config which would change the text, if any."""
    if not path.is_file():
        return ()
    stated = json.loads(path.read_bytes())
    changing = [name for name, changes in _CHANGES_TEXT.items() if changes(stated.get(name))]
    if not changing:
        return ()
    named = ", ".join(f"{name} {shortened(json.dumps(stated[name]), 40)}" for name in changing)
    return (f"{path.name}: not applied, since a strategy draws only as its own options say: {named}",)


def refuse_non_finite(parameters: Iterable[tuple[str, torch.Tensor]], folder: Path, *, dtype: str) -> None:
    """`EngineError` naming the first weight that holds a NaN or an infinity, and how many weights do."""
    broken = [name for name, tensor in parameters if not bool(tensor.isfinite().all())]
    if broken:
        wider = "" if dtype == "float32" else ", or try --dtype float32"
        raise EngineError(
            f"{folder}: {_counted(broken)} with numbers that are not finite in {dtype}, first {broken[0]}",
            hint=f"Copy the checkpoint again{wider}; a training that diverged leaves such weights.",
        )


def refuse_non_finite_logits(logits: torch.Tensor, *, sample_id: str, dtype: torch.dtype) -> None:
    """`EngineError` when a prefill's logits hold a NaN or an infinity: the tokens would be chance."""
    if not bool(logits.isfinite().all()):
        name = str(dtype).removeprefix("torch.")
        wider = "Try --dtype bfloat16 or float32" if name == "float16" else "Copy the checkpoint again"
        raise EngineError(
            f"sample {sample_id}: logits after the prefill are not finite in {name}",
            hint=f"{wider}; weights or activations are too large for this type, or damaged.",
        )


def refuse_unlike_tensors(info: Mapping[str, Any], folder: Path) -> None:
    """`EngineError` naming the first tensor that the files lack, or hold in another shape.

    `info` is the loading info of a `from_pretrained` that was told to ignore mismatched sizes: left to itself
    it raises without the name.
    """
    again = "Copy the checkpoint again; config.json and the weight files must be of one model."
    absent = sorted(info["missing_keys"])
    if absent:
        raise EngineError(
            f"{folder}: the weight files lack {_counted(absent)} of the model, first {absent[0]}", hint=again
        )
    unlike = sorted((name, list(found), list(wanted)) for name, found, wanted in info["mismatched_keys"])
    if unlike:
        name, found, wanted = unlike[0]
        more = f" (and {len(unlike) - 1} more)" if len(unlike) > 1 else ""
        raise EngineError(
            f"{folder}: tensor {name} has shape {found}, config.json makes it {wanted}{more}", hint=again
        )


def _counted(names: Sequence[Any]) -> str:
    return f"{len(names):,} tensor{'' if len(names) == 1 else 's'}"


_MERGE = (
    "Merge the adapter into the weights (peft: merge_and_unload, then save_pretrained); name that folder."
)
_DEQUANTISE = "Save the weights dequantised in bfloat16 or float32, and name that folder with --model."
