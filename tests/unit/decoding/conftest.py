"""The small checkpoints and the requests that tests of decoding share."""

from checkpoint_support import backend, broken, checkpoint, grouped_checkpoint, headed_backend, make_request

__all__ = ["backend", "broken", "checkpoint", "grouped_checkpoint", "headed_backend", "make_request"]
