"""The page as a document: policy, determinism, hostile text, and runs with nothing to show."""

import base64
import hashlib
import json
import re
from typing import Any
from unittest.mock import ANY

import pytest
from lxml import html
from report_support import (
    HOSTILE,
    document_of,
    failed_record,
    hidden_rounds_record,
    loaded,
    plain_document,
    plain_records,
    record_of,
)

from gravbench.analysis.load import Load
from gravbench.arms import batch_of, parse_arm
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.gallery import SampleSource
from gravbench.reporting.gallery_pack import embedded, unpacked, visible
from gravbench.reporting.html import PRINTED_ROWS, render_report
from gravbench.reporting.speed_charts import latency_by_throughput, speed_charts
from gravbench.reporting.tables import interval
from gravbench.store.schema import record_bytes


@pytest.fixture(scope="module")
def page() -> str:
    return render_report(plain_document(40))


def text_of(page: str) -> str:
    """What a reader sees before any script runs."""
    tree = html.fromstring(page)
    for node in tree.xpath("//script | //style"):
        node.drop_tree()
    return " ".join(tree.text_content().split())


def test_equal_documents_give_equal_bytes(page: str) -> None:
    document = plain_document(40)
    assert render_report(document) == page
    stored = ReportDocument.model_validate_json(record_bytes(document))
    assert render_report(stored) == page


def test_the_policy_allows_this_script_and_style_alone(page: str) -> None:
    tree = html.fromstring(page)
    (policy,) = tree.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for kind, tag in (("style-src", "style"), ("script-src", "script[not(@type)]")):
        (node,) = tree.xpath(f"//{tag}")
        digest = base64.b64encode(hashlib.sha256(node.text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


def test_nothing_inline_and_nothing_from_outside(page: str) -> None:
    tree = html.fromstring(page)
    for node in tree.iter():
        if isinstance(node.tag, str):
            assert not [name for name in node.attrib if name == "style" or name.startswith("on")]
            for name in ("src", "href"):
                assert not node.get(name) or node.get(name).startswith(("#", "data:image/"))
    assert not tree.xpath("//link | //iframe | //object | //base")


def test_ids_are_unique_and_references_resolve(page: str) -> None:
    tree = html.fromstring(page)
    ids = tree.xpath("//@id")
    assert len(ids) == len(set(ids))
    named = {i for value in tree.xpath("//@aria-labelledby") for i in value.split()}
    used = {u[1:] for u in tree.xpath("//@href") if u.startswith("#")} | set(
        re.findall(r"url\(#([^)]+)\)", page)
    )
    assert named | used <= set(ids)


def test_every_chart_is_named_and_has_its_table(page: str) -> None:
    figures = html.fromstring(page).xpath("//figure")
    assert len(figures) >= 6
    for figure in figures:
        for svg in figure.xpath(".//svg"):
            assert svg.get("role") == "img"
            assert svg.xpath("./title")[0].text
            assert svg.xpath("./desc")[0].text
        assert figure.xpath(".//details//table | .//details//button[@data-table]")


@pytest.mark.parametrize("n", [PRINTED_ROWS, PRINTED_ROWS + 1])
def test_a_folded_table_holds_its_rows_and_a_long_one_says_so_in_print(n: int) -> None:
    """One that can be printed is plain, for nothing can be unpacked while a page is being printed."""
    tree = html.fromstring(render_report(plain_document(n)))
    (button,) = tree.xpath("//figure[.//h3[starts-with(., 'Sample by sample')]]//button")
    node = tree.get_element_by_id(button.get("data-table"))
    plain = n <= PRINTED_ROWS
    assert node.get("type") == ("application/json" if plain else "text/plain")
    data = json.loads(node.text) if plain else unpacked(node.text)
    assert len(data["rows"]) == n
    assert data["columns"][0] == "sample"
    assert f"{n} rows: open the page" in button.getparent().text_content()


def test_a_plain_table_holds_hostile_text() -> None:
    text = "</script><!-- & \u2028 <script>"
    kept = str(embedded({"rows": [[text]]}))
    assert not set("<>&") & set(kept)
    assert json.loads(kept) == {"rows": [[text]]}


def test_few_nodes_stand_in_the_page(page: str) -> None:
    tree = html.fromstring(page)
    nodes = sum(1 + bool(n.text) + bool(n.tail) for n in tree.iter() if isinstance(n.tag, str))
    assert nodes < 5_000


def test_only_the_first_curve_is_drawn_twice_for_a_phone_and_a_screen(page: str) -> None:
    first, *others = [len(f.xpath(".//svg")) for f in html.fromstring(page).xpath("//figure")]
    assert first == 2
    assert set(others) == {1}


def test_points_of_a_chart_say_their_numbers(page: str) -> None:
    (svg, _) = html.fromstring(page).xpath("(//figure)[1]//svg")
    points = json.loads(svg.get("data-points"))
    assert all(0 < x < 100 and 0 < y < 100 for x, y, _ in points)
    assert all(re.search(r" at .+: \d+\.\d\d", said) for _, _, said in points)


def test_a_row_for_every_strategy_with_the_values_that_it_sorts_by() -> None:
    """The dash of what was not measured has no value to sort by."""
    document = plain_document(40)
    (run,) = document.runs
    tree = html.fromstring(render_report(document))
    rows = tree.get_element_by_id("arms").xpath(".//tbody/tr")
    assert [row.findtext("th") for row in rows] == [part.arm for part in run.arms]
    (base, own) = rows
    columns = [th.text for th in tree.get_element_by_id("arms").xpath(".//thead/tr/th")]
    at = columns.index("decode over ar")
    assert base[at].text_content() == "–"
    assert base[at].get("data-value") is None
    decode = run.analysis.arms[1].decode
    assert decode is not None
    assert float(own[at].get("data-value")) == decode.value
    assert own[at].text_content() == interval(decode, "×")
    assert own[columns.index("same text")].text_content() == "yes"


def test_equal_quality_is_said_once(page: str) -> None:
    (quality,) = html.fromstring(page).xpath("//section[@id='quality']")
    assert "All strategies: every score of every sample is that of ar." in quality.text_content()
    assert not quality.xpath("./div[@class='scroll']//table")


def test_the_verdict_comes_first_and_answers_four_questions(page: str) -> None:
    tree = html.fromstring(page)
    assert tree.xpath("//main/section/@id")[0] == "verdict"
    assert tree.xpath("//article//dt/text()") == [
        "Is it faster?",
        "Is it the same text?",
        "At what quality?",
        "How many drafts are accepted?",
    ]
    assert "40 of 40 outputs are token-identical to ar" in text_of(page)


def test_the_claim_its_conditions_its_cautions_and_the_curve_lead_the_page() -> None:
    document = plain_document(40)
    run = document.runs[0].model_copy(update={"cautions": ("one <b>", "two")})
    page = render_report(document.model_copy(update={"runs": (run, *document.runs[1:])}))
    verdict = html.fromstring(page).get_element_by_id("verdict")
    classes = [str(node.get("class")) for node in verdict]
    places = [classes.index(name) for name in ("headline", "in-short", "cautions", "first")]
    assert places == sorted(places)
    figure, card = verdict.find_class("first")[0]
    assert (figure.tag, card.tag) == ("figure", "article")
    assert figure.findtext(".//h3").startswith("Speedup against")
    (cautions,) = verdict.find_class("cautions")
    assert cautions.findtext("summary").endswith(": 2 cautions")
    assert cautions.xpath(".//li/text()") == ["one <b>", "two"]


def test_no_curve_is_drawn_twice(page: str) -> None:
    titles = html.fromstring(page).xpath("//figure//h3/text()")
    assert len(titles) == len(set(titles))


def test_published_figures_stand_beside_ours_with_definition_and_hardware(page: str) -> None:
    tree = html.fromstring(page)
    (key,) = tree.xpath("//section[@id='published']//button/@data-table")
    rows = json.loads(tree.get_element_by_id(key).text)["rows"]
    assert len(rows) >= 20
    assert all(cell.strip() for row in rows for cell in row)


def test_hostile_text_stays_text_everywhere() -> None:
    """In names, ground truth, answers, errors, categories: no element comes of it, and all of it is there."""
    records = {
        arm: [record_of(f"{i} {text}", arm, text) for i, text in enumerate(HOSTILE)]
        + [failed_record("z failed", arm, HOSTILE[0])]
        for arm in ("ar", "selfspec")
    }
    run = loaded(records, suite=HOSTILE[1], engine=HOSTILE[2])
    sources = {
        r.sample_id: SampleSource(image_path=None, reference=HOSTILE[1], categories={HOSTILE[3]: HOSTILE[4]})
        for r in records["ar"]
    }
    document = document_of(run, sources=sources)
    page = render_report(document)
    tree = html.fromstring(page)
    assert not tree.xpath("//iframe | //*[@onerror] | //*[@onload] | //a[starts-with(@href, 'javascript')]")
    assert len(tree.xpath("//script[not(@type)]")) == 1
    assert len(tree.xpath("//style")) == 1
    assert HOSTILE[2] in text_of(page)
    assert "\u202e" not in page
    chunks = [unpacked(node.text) for node in tree.xpath("//script[starts-with(@id, 'g-chunk')]")]
    samples = [sample for chunk in chunks for sample in chunk]
    said = [
        "".join(parts[-1] for kind, *parts in a["diff"] if kind not in "-<")
        for sample in samples
        for a in sample["answers"]
        if a["diff"]
    ]
    assert {visible(text) for text in HOSTILE} <= set(said)
    assert samples[0]["reference"] == HOSTILE[1]
    rows = unpacked(tree.get_element_by_id("g-index").text)["rows"]
    assert any("⟨U+202E⟩" in row[0] for row in rows)


def test_a_megabyte_line_is_shown_whole() -> None:
    line = "long" * 250_000
    run = loaded({arm: [record_of("one", arm, line)] for arm in ("ar", "selfspec")})
    page = render_report(document_of(run))
    ((sample,),) = [unpacked(n.text) for n in html.fromstring(page).xpath("//script[@id='g-chunk-0']")]
    assert sample["answers"][0]["diff"] == [["=", line]]
    assert sample["answers"][1]["same"] == 0
    assert len(page) < 1_000_000


def test_one_sample_has_no_interval_and_says_so() -> None:
    seen = text_of(render_report(plain_document(1)))
    assert "1 sample: no interval can be given" in seen
    assert "no interval" in seen


def test_zero_accepted_tokens_are_said() -> None:
    page = render_report(document_of(loaded(plain_records(30, accepted=0))))
    assert "not one of" in text_of(page)
    assert "draft tokens was accepted" in text_of(page)


def test_all_samples_failed_still_opens_and_says_so() -> None:
    records = {arm: [failed_record(f"s{i}", arm) for i in range(5)] for arm in ("ar", "selfspec")}
    seen = text_of(render_report(document_of(loaded(records))))
    assert "all 5 samples failed" in seen
    assert "No speedup was measured" in seen
    assert "All 5 pairs failed in both arms" in seen


def test_hidden_rounds_still_open_and_are_said() -> None:
    plain = plain_records(5)
    plain["selfspec"] = [hidden_rounds_record(r.sample_id, "selfspec", r.text) for r in plain["ar"]]
    page = render_report(document_of(loaded(plain)))
    assert "the engine hid the rounds of 5 of 5 samples" in text_of(page)
    assert "Nothing to draw" in text_of(page)
    chunk = unpacked(html.fromstring(page).get_element_by_id("g-chunk-0").text)
    assert chunk[0]["answers"][1]["strip"] is None


def test_without_ar_nothing_is_claimed() -> None:
    seen = text_of(render_report(document_of(loaded({"selfspec": plain_records(3)["selfspec"]}))))
    assert "There is no ar arm" in seen
    assert "No speedup was measured" in seen


def test_only_ar_still_opens() -> None:
    seen = text_of(render_report(document_of(loaded({"ar": plain_records(3)["ar"]}))))
    assert "there is nothing to hold against it" in seen


def test_unlike_runs_get_a_banner() -> None:
    page = render_report(
        document_of(loaded(plain_records(4)), loaded(plain_records(4), suite="other", concurrency=8))
    )
    seen = text_of(page)
    assert "answer different questions" in seen
    assert "Speedup against concurrency" in seen


def test_unlike_models_are_said_before_the_claim_and_each_claims_for_itself() -> None:
    same = loaded(plain_records(4))
    other = loaded(plain_records(4), model_digest="n" * 64, dtype="bfloat16")
    page = render_report(document_of(same, other))
    seen = text_of(page)
    assert page.index("are not of one kind") < page.index('class="headline"')
    assert f"model: fake ({'m' * 12}) → fake ({'n' * 12})" in seen
    assert "float32, 1 thread(s) → cpu, bfloat16" in seen
    (claim,) = html.fromstring(page).xpath("//p[@class='headline']/text()")
    assert claim.count("as fast as ar of its own run") == 2
    assert "unchanged against its own ar" in seen
    alike = render_report(document_of(same, loaded(plain_records(4))))
    assert "are not of one kind" not in alike
    (claim,) = html.fromstring(alike).xpath("//p[@class='headline']/text()")
    assert claim.count("as fast as ar of its own run") == 1


def batched_document(*arms: str) -> ReportDocument:
    """A run of these arms, each with the records of plain `ar` or `selfspec`."""
    plain = plain_records(4)
    records = {
        arm: [
            record.model_copy(update={"arm": arm, "forward_group": 1 if parse_arm(arm).batch > 1 else None})
            for record in plain[parse_arm(arm).strategy]
        ]
        for arm in arms
    }
    return document_of(loaded(records))


def test_speed_stands_beside_ar_at_the_same_batch_size() -> None:
    seen = text_of(render_report(batched_document("ar", "ar:batch=4", "selfspec:batch=4")))
    assert "as fast as ar:batch=4" in seen
    assert "decode speedup over ar at" in seen
    assert "the same batch size" in seen
    assert "every ar stands at 1" in seen
    assert "whole group, or the page, one after the other" in seen
    assert "those of times over batches where crops decoded together" in seen
    assert "is a share, not a latency" in seen


def test_without_ar_at_the_batch_size_no_speed_is_claimed() -> None:
    document = batched_document("ar", "selfspec:batch=4")
    seen = text_of(render_report(document))
    assert "There is no ar arm at batch size 4." in seen
    assert "selfspec:batch=4: no ar arm at batch size 4: speedups were not measured" in seen
    assert "No speedup was measured" in seen
    assert "4 of 4 outputs have ar's token ids" in seen
    (run,) = document.runs
    assert not run.arms[1].pairs.base_ns and not run.arms[1].costs.slots
    assert all(answer.identical for answer in (s.answers[1] for s in document.gallery))


def test_a_plain_run_is_described_without_batches() -> None:
    seen = text_of(render_report(plain_document(4)))
    assert "Every sample is decoded by ar and by each strategy one after the other" in seen
    for word in ("latency", "same batch size or not", "over batches", "at 1 and the gain"):
        assert word not in seen


def test_batch_sizes_of_one_run_are_a_curve() -> None:
    document = batched_document("ar", "selfspec", "ar:batch=4", "selfspec:batch=4")
    assert [part.analysis.arms[3].base for part in document.runs] == ["ar:batch=4"]
    seen = text_of(render_report(document))
    assert "Speedup against concurrency" in seen
    assert "requests together1, 4" in seen.replace("\n", "").replace(" 1, 4", "1, 4")


def test_latency_of_servers_stands_against_their_throughput() -> None:
    document = batched_document("ar", "selfspec", "ar:batch=4", "selfspec:batch=4")
    assert latency_by_throughput(document) is None  # nothing was served
    (run,) = document.runs
    loads = [
        Load(
            concurrency=batch_of(own.arm), seconds=9, completed=30, cut=2, failed=0, requests_per_s=rate,
            latency_p50_s=1.5 * rate, latency_p90_s=2.0, latency_p99_s=3.25,
        )
        for own, rate in zip(run.analysis.arms, (1.0, 2.0, 3.0, 8.0), strict=True)
    ]  # fmt: skip
    arms = tuple(
        own.model_copy(update={"load": load}) for own, load in zip(run.analysis.arms, loads, strict=True)
    )
    analysis = run.analysis.model_copy(update={"arms": arms})
    document = document.model_copy(update={"runs": (run.model_copy(update={"analysis": analysis}),)})
    chart = latency_by_throughput(document)
    assert chart is not None and chart.table is not None and chart.svg is not None
    rows = [[cell.text for cell in row] for row in chart.table.rows]
    assert [row[:3] for row in rows][2:] == [["selfspec", "1", "2.00"], ["selfspec", "4", "8.00"]]
    assert rows[3][4:] == ["12000", "2000", "3250", "2"]
    assert chart.title in [drawn.title for drawn in speed_charts(document)]


def test_runs_without_a_common_sample_say_why() -> None:
    other = {arm: [record_of("another", arm, "text")] for arm in ("ar", "selfspec")}
    seen = text_of(render_report(document_of(loaded(plain_records(4)), loaded(other))))
    assert "was not held against" in seen


def test_differing_outputs_are_a_no_with_their_classes() -> None:
    records = plain_records(30)
    records["selfspec"][3] = record_of("s-0003", "selfspec", "something else altogether")
    seen = text_of(render_report(document_of(loaded(records))))
    assert "29 of 30 outputs have ar's token ids" in seen
    assert "no referee was asked" in seen


def answers_of(reference: str, ar: str, own: str) -> list[dict[str, Any]]:
    """The packed answers of one sample."""
    records = {arm: [record_of("s", arm, text, tokens=9)] for arm, text in (("ar", ar), ("selfspec", own))}
    if ar != own:
        parted = records["selfspec"][0]
        ids = list(records["ar"][0].token_ids)
        ids[4] += 1
        piece = parted.pieces[0].model_copy(update={"token_ids": tuple(ids)})
        records["selfspec"] = [parted.model_copy(update={"pieces": (piece,)})]
    source = SampleSource(image_path=None, reference=reference, categories={})
    page = render_report(document_of(loaded(records), sources={"s": source}))
    ((sample,),) = [unpacked(n.text) for n in html.fromstring(page).xpath("//script[@id='g-chunk-0']")]
    answers: list[dict[str, Any]] = sample["answers"]
    return answers


def test_an_escape_is_one_piece_of_a_difference() -> None:
    (_, own) = answers_of("a \u202cb", "x", "a \u202eb")
    assert own["diff"] == [["=", "a "], ["-", "⟨U+202C⟩"], ["+", "⟨U+202E⟩"], ["=", "b"]]


def test_white_space_that_is_gone_or_new_is_marked() -> None:
    (_, own) = answers_of("a b\nc  d", "x", "a\u00a0b c d")
    shown = [part for kind, *part in own["diff"] if kind != "="]
    assert shown == [["␣"], ["⟨U+00A0⟩", "\u00a0"], ["⏎\n"], ["␣", " "], ["␣␣"], ["␣", " "]]


def test_the_first_difference_from_ar_is_marked_with_what_the_referee_said() -> None:
    ar, own = answers_of("text", "text", "other")
    assert ar["split"] is None
    assert own["split"] == {
        "at": 4,
        "base": "ar",
        "other": ANY,
        "judged": "no referee was asked for the margin",
    }
    assert answers_of("text", "text", "text")[1]["split"] is None


def test_in_the_gallery_a_later_run_is_held_against_the_first() -> None:
    """Same tokens as its own ar, yet another text than the first run's like: that is what is marked."""
    first, later = plain_records(3), plain_records(3)
    for arm in later:
        later[arm][1] = record_of("s-0001", arm, "sample 1 says another word")
    tree = html.fromstring(
        render_report(document_of(loaded(first), loaded(later, value=lambda r: len(r.text) % 2)))
    )
    index = unpacked(tree.get_element_by_id("g-index").text)
    assert index["labels"] == ["run-0 · ar", "run-0 · selfspec", "run-1 · ar", "run-1 · selfspec"]
    flags = {row[0]: [cell[5] for cell in row[6]] for row in index["rows"]}
    assert flags == {"s-0000": [0, 0, 0, 0], "s-0001": [0, 0, 4, 4], "s-0002": [0, 0, 0, 0]}
    changed = unpacked(tree.get_element_by_id("g-chunk-0").text)[1]["answers"]
    assert [answer["base"] for answer in changed] == [None, "run-0 · ar", "run-0 · ar", "run-0 · selfspec"]
    assert changed[3]["versus"] == [
        ["=", "sample 1 "], ["-", "reads"], ["+", "says another"], ["=", " word"], ["<", "␣"]
    ]  # fmt: skip
    assert changed[1]["versus"] is None


def test_of_two_models_the_difference_is_the_headline_and_the_first_card() -> None:
    worse = loaded(plain_records(12, accepted=1), value=lambda _: 0.5, model_digest="n" * 64)
    page = html.fromstring(render_report(document_of(loaded(plain_records(12)), worse)))
    (claim,) = page.xpath("//p[@class='headline']/text()")
    assert claim.startswith(
        "run-1 against run-0, selfspec: text NED -25.00 [-25.00, -25.00] points; same text"
    )
    first = page.xpath("//article[@class='card']")[0]
    assert first.xpath("string(h3)") == "run-1 against run-0: selfspec"
    assert "no" in first.xpath(".//strong/@class")


def test_strategies_whose_intervals_overlap_are_not_called_faster_than_each_other() -> None:
    plain = plain_records(12)
    twin = [r.model_copy(update={"arm": "selfspec:block=16"}) for r in plain["selfspec"]]
    page = html.fromstring(render_report(document_of(loaded({**plain, "selfspec:block=16": twin}))))
    (claim,) = page.xpath("//p[@class='headline']/text()")
    assert "selfspec is not told apart from selfspec:block=16: their intervals overlap." in claim
    (alone,) = html.fromstring(render_report(document_of(loaded(plain)))).xpath(
        "//p[@class='headline']/text()"
    )
    assert "told apart" not in alone
