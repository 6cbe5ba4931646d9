"""The words of a report, each with its formula."""

from __future__ import annotations

DEFINITIONS: tuple[tuple[str, str], ...] = (
    ("ar", "Autoregressive decoding: one causal forward an output token."),
    (
        "selfspec",
        "Self-speculative decoding: the same weights draft a block by block diffusion, then check it "
        "causally; two forwards a round. The first token of a round is ar's own (seed), the last the "
        "verifier's (correction, or bonus after a fully accepted draft).",
    ),
    ("round", "One draft and its verification."),
    ("block size", "Masked positions a draft fills per round."),
    (
        "decode tokens",
        "Output tokens without prefill's own, through the first EOS, which counts once. The numerator "
        "of every figure below.",
    ),
    (
        "tpf_all",
        "Decode tokens / full-model decode forwards of every kind, drafts and checks alike. Prefill is none.",
    ),
    ("tau_round", "Tokens committed / rounds: everything a round appended, after trimming at the stop."),
    (
        "accepted_draft",
        "Accepted draft tokens / rounds; no seed, no correction, no bonus. Drafts accepted behind the end of "
        "an output count, here and in the histogram: trimming takes nothing back.",
    ),
    ("acceptance_rate", "Accepted / offered draft tokens."),
    ("tau_bonus", "accepted_draft + 1: what many papers call acceptance length."),
    (
        "P(≥ j), P(≥ j | ≥ j−1)",
        "The second is the share that accepted draft j, of the rounds that accepted j − 1 and were not cut "
        "before j by EOS or budget (right-censoring). The first, P of at least j, is the running product of "
        "the second up to j (Kaplan-Meier).",
    ),
    (
        "chars/forward",
        "Characters of the final text / decode forwards, so that a finer tokenizer gains nothing.",
    ),
    (
        "decode-only speedup",
        "Sum of ar's decode times / sum of the strategy's, over pairs. Vision and prefill excluded.",
    ),
    (
        "end-to-end speedup",
        "The same over whole requests; on pages over the whole page, layout and assembly included.",
    ),
    (
        "identical",
        "Equal token ids and stop reason; a text that differs all the same is a difference of class "
        "assembly, counted apart. Pairs in which both arms failed are left out; one "
        "failed arm is a difference.",
    ),
    ("near-tie", "Ids part where a float32 referee sees the two as its top two, no further apart than tau."),
    (
        "text_ned, formula_ned",
        "Levenshtein distance / longer length, mean over crops; as points 100 × (1 − value).",
    ),
    ("table_teds", "1 − tree edit distance / larger tree, cell text included; as points 100 × value."),
    ("overall", "OmniDocBench's Overall on pages: mean of text, table TEDS and formula CDM points."),
    ("crops_overall", "The like on crops: mean of text_ned, table_teds and formula_ned points."),
    ("text_block_Edit_dist, table_TEDS, …", "OmniDocBench's averages under their official names, in points."),
    (
        "drift",
        "Least-squares change of the logarithm of the cost ratio per forward, from first to last slot.",
    ),
    (
        "steady",
        "The last three of six blocks of pairs agree within 2 %, or as well as their pairs do in 95 of 100 "
        "random orders.",
    ),
    (
        "speedup over ar, own/base",
        "The interval covers the samples alone: another session of the same code can lie outside it. None is "
        "given where a run drifted.",
    ),
    (
        "cost model",
        "Predicted speedup = tau_round / cost of a round in forwards of one row, c(1); residual beside it.",
    ),
)
