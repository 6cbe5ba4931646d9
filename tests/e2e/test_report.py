"""`gravbench report` through the command line, the published reports, and pages opened in Chromium."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from browser_timing import seen_in
from lxml import html
from PIL import Image
from report_support import (
    HOSTILE,
    build_large_report,
    chromium,
    document_of,
    dumped_dom,
    failed_record,
    loaded,
    plain_records,
    record_of,
)
from system_packages import needs_chromium

from gravbench.cli.app import run_command_line
from gravbench.reporting.gallery import SampleSource
from gravbench.reporting.gallery_pack import unpacked, visible
from gravbench.reporting.html import render_report
from gravbench.reporting.publication import list_text, page_digest, read_document

REPORTS = Path(__file__).resolve().parents[2] / "reports"
PUBLISHED = sorted(REPORTS.glob("*/comparison.json"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    common = ["run", "--suite", "smoke", "--backend", "toy", "--quiet"]
    for name, seed in (("a", "0"), ("b", "1")):
        assert run_command_line([*common, "--out", str(folder / name), "--seed", seed]) == 0
    return folder


def test_report_of_one_run(runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new folder" / "report.html"
    arguments = ["report", str(runs / "a"), "--out", str(out), "--resamples", "200"]
    assert run_command_line(arguments) == 0
    printed = capfd.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    first = out.read_bytes()
    assert run_command_line([*arguments, "--json"]) == 0
    (file,) = json.loads(capfd.readouterr().out)["files"]
    assert file["bytes"] == out.stat().st_size
    assert run_command_line(arguments) == 0
    assert without_commands(out.read_text()) == without_commands(first.decode())
    tree = html.fromstring(first)
    assert unpacked(tree.get_element_by_id("g-chunk-0").text)[0]["reference"]
    pictures = json.loads(tree.get_element_by_id("g-pictures-0").text)
    assert pictures[0].startswith("data:image/webp;base64,")


def test_report_of_two_runs_shows_the_null(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "two.html"
    arguments = ["report", str(runs / "a"), str(runs / "b"), "--out", str(out), "--resamples", "200"]
    assert run_command_line(arguments) == 0
    found = re.search(
        r"AR against AR \(same setting, repeated\): same tokens in (\d+) of (\d+)", out.read_text()
    )
    assert found is not None
    assert found[1] == found[2] != "0"


def test_a_report_holds_the_run_against_reference_outputs(runs: Path, tmp_path: Path) -> None:
    """By default the shipped ones, made by another model; then those of the very run."""
    out, blessed = tmp_path / "report.html", tmp_path / "references"
    arguments = ["report", str(runs / "a"), "--out", str(out), "--resamples", "200"]
    assert run_command_line(arguments) == 0
    (gate,) = html.fromstring(out.read_text("utf-8")).xpath("//div[@class='gate']")
    assert gate.xpath("./p/strong/@class") == ["unclear"]  # nobody asked for a gate: none is red
    assert "not gated" in gate.text_content()
    assert "reference_outputs/smoke" in gate.text_content()
    bless = ["bless", str(runs / "a"), "--to", str(blessed), "--reason", "a test", "--who", "test"]
    assert run_command_line(bless) == 0
    assert run_command_line([*arguments, "--reference", str(blessed / "smoke")]) == 0
    (gate,) = html.fromstring(out.read_text("utf-8")).xpath("//div[@class='gate']")
    assert gate.xpath("./p/strong/text()") == ["pass"]
    assert {"token_identity", "tau_round"} <= set(gate.xpath(".//tbody/tr/td[2]/text()"))


def test_a_history_is_made_of_folders_published_documents_and_the_gate_beside_them(
    runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three runs of one suite, one of them published; a broken and an unlike one are listed."""
    monkeypatch.setattr("gravbench.cli.report_command.find_chromium", lambda: None)
    below, out = tmp_path / "below", tmp_path / "history.html"
    shutil.copytree(runs / "a", below / "first")
    shutil.copytree(runs / "b", below / "second")
    shutil.copytree(PUBLISHED[0].parent, below / "unlike")
    (below / "broken").mkdir()
    (below / "broken" / "manifest.json").write_text("{")
    seed = [
        "run",
        "--suite",
        "smoke",
        "--backend",
        "toy",
        "--quiet",
        "--seed",
        "2",
        "--out",
        str(tmp_path / "c"),
    ]
    assert run_command_line(seed) == 0
    publish = ["report", str(tmp_path / "c"), "--publish", "third", "--to", str(below), "--resamples", "200"]
    assert run_command_line(publish) == 0
    assert run_command_line(["gate", str(below / "first"), "--junit", str(below / "first-gate.xml")]) == 3
    capfd.readouterr()
    arguments = ["report", "--history", str(below), "--out", str(out), "--resamples", "200", "--json"]
    assert run_command_line(arguments) == 0
    told = json.loads(capfd.readouterr().out)
    assert "over 3 runs: " in told["claim"]
    assert "Gate: 1 not comparable, 2 not gated." in told["claim"]
    assert {one.partition(":")[0] for one in told["cautions"]} == {"broken", "unlike", "first"}
    page = html.fromstring(out.read_text("utf-8"))
    assert len(page.xpath("//figure//*[local-name() = 'svg']")) == 3
    names = page.xpath("//table[caption = 'Every run, newest first']/tbody/tr/th/text()")
    assert {name.partition(":")[0] for name in names[::2]} >= {"first", "second"}
    assert len(names) == 6


def test_publish_writes_a_folder_its_picture_and_the_list_and_does_it_again(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "reports"
    arguments = ["report", str(runs / "a"), "--publish", "smoke-toy", "--to", str(root), "--resamples", "200"]
    assert run_command_line(arguments) == 0
    (folder,) = [path for path in root.iterdir() if path.is_dir()]
    assert re.fullmatch(r"\d{4}-\d{2}-smoke-toy", folder.name)
    assert folder.name in (root / "README.md").read_text()
    if chromium():
        with Image.open(folder / "first-screen.png") as picture:
            assert picture.size == (1280, 800)
            assert picture.info["page-sha256"] == page_digest(folder / "report.html")
    (folder / "report.html").unlink()
    again = ["report", str(folder), "--publish", "smoke-toy", "--to", str(root)]
    written = (folder / "comparison.json").read_bytes()
    monkeypatch.setattr("gravbench.cli.report_command.find_chromium", lambda: None)
    assert run_command_line(again) == 0
    assert (folder / "comparison.json").read_bytes() == written
    assert (folder / "report.html").is_file()
    assert run_command_line([*again, "--title", "x"]) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["{a}"], 2, "nowhere to write"),
        (["{a}", "--out", "."], 2, "is a folder"),
        (["nothing-here", "--out", "x.html"], 2, "no run here"),
        (["{a}", "--publish", "../up"], 2, "--publish"),
        (["{a}", "--out", "/proc/nowhere/x.html"], 2, "not writable"),
        (["{a}", "--out", "x.html", "--reference", "nowhere"], 5, "no reference outputs here"),
        (["--out", "x.html"], 2, "no run given"),
        (["--history", "nowhere", "--out", "x.html"], 2, "no such folder"),
        (["--history", "{a}"], 2, "nowhere to write the history"),
        (["{a}", "--history", "{a}", "--out", "x.html"], 2, "has no place here"),
    ],
)
def test_wrong_use_is_one_line(
    runs: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    filled = [argument.replace("{a}", str(runs / "a")) for argument in arguments]
    assert run_command_line(["report", *filled, "--resamples", "200"]) == code
    error = capfd.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_there_is_a_published_report() -> None:
    assert PUBLISHED


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: file.parent.name)
def test_published_pages_are_what_their_json_renders_to(file: Path) -> None:
    """All but the figures, whose strokes belong to a matplotlib version."""
    stored = (file.parent / "report.html").read_text("utf-8")
    assert without_figures(render_report(read_document(file))) == without_figures(stored)


def test_the_list_of_published_reports_is_current() -> None:
    assert (REPORTS / "README.md").read_text("utf-8") == list_text(REPORTS)


@needs_chromium
def test_hostile_text_executes_nothing_in_chromium(tmp_path: Path) -> None:
    """All names are listed, a sample with all texts is opened: the title stays, no element comes of any."""
    everything = "\n".join(HOSTILE)
    records = {
        arm: [record_of(f"{i} {text}", arm, text) for i, text in enumerate((everything, *HOSTILE))]
        + [record_of(everything, arm, everything + tail)]
        for arm, tail in (("ar", ""), ("selfspec", " changed"))
    }
    sources = {
        r.sample_id: SampleSource(image_path=None, reference=HOSTILE[1], categories={everything: HOSTILE[5]})
        for r in records["ar"]
    }
    page = tmp_path / 'page "onload=x <b>.html'
    page.write_text(render_report(document_of(loaded(records, suite=everything), sources=sources)))
    dom = dumped_dom(page, tmp_path / "profile", fragment=f"sample={visible(everything)}")
    tree = html.fromstring(dom)
    assert tree.get("data-ready") == "yes"
    assert tree.findtext(".//title", "").endswith("gravbench report")
    assert not tree.xpath("//iframe | //*[@onerror] | //*[@onload]")
    assert len(tree.xpath("//script[not(@type)]")) == 1
    detail, listed = (tree.get_element_by_id(i).text_content() for i in ("g-detail", "g-rows"))
    for text in HOSTILE:
        assert visible(text) in detail
        assert visible(text) in listed


@needs_chromium
def test_a_megabyte_line_opens_in_chromium(tmp_path: Path) -> None:
    line = "<b>" + "long" * 250_000
    page = tmp_path / "page.html"
    page.write_text(
        render_report(document_of(loaded({arm: [record_of("one", arm, line)] for arm in ("ar", "selfspec")})))
    )
    dom = dumped_dom(page, tmp_path / "profile", fragment="sample=one")
    assert line in html.fromstring(dom).get_element_by_id("g-detail").text_content()


@needs_chromium
def test_every_folded_part_is_there_when_the_page_is_printed(tmp_path: Path) -> None:
    """At once: nothing is waited for between the event and the look."""
    page = tmp_path / "page.html"
    page.write_text(render_report(document_of(loaded(plain_records(70)))))
    look = """dispatchEvent(new Event("beforeprint"));
    return [...document.querySelectorAll("details")].map((d) => [d.open,
      d.querySelectorAll("tr, dl").length, (d.querySelector(".printed") || d).textContent.length > 0]);"""
    parts = seen_in(page, tmp_path / "profile", look)
    assert len(parts) > 5
    assert all(opened and said for opened, _, said in parts)
    long = [rows for _, rows, _ in parts if not rows]
    assert 1 <= len(long) < len(parts) / 2


BROWSE = """
const byId = (id) => document.getElementById(id);
const key = (name) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key: name, bubbles: true }));
const until = async (met) => { while (!met()) await new Promise((done) => setTimeout(done, 5)); };
const names = () => [...document.querySelectorAll("#g-rows b")].map((node) => node.textContent);
const set = (id, value) => {
  byId(id).value = value;
  byId(id).dispatchEvent(new Event("input", { bubbles: true }));
};
const titled = (name) => until(() => byId("g-title").textContent === name && byId("g-body").children.length);
"""


def browsed_page(folder: Path) -> Path:
    """Six samples: one failed, one of other text without line breaks, one slower than ar."""
    records = plain_records(6)
    truth = {r.sample_id: r.text for r in records["ar"]}
    truth["s-0003"] = "# some title\n\nand a text"
    records["ar"][3] = record_of("s-0003", "ar", truth["s-0003"])
    records["selfspec"][3] = record_of("s-0003", "selfspec", "some title and another text")
    records["selfspec"][1] = failed_record("s-0001", "selfspec")
    records["selfspec"][5] = record_of("s-0005", "selfspec", truth["s-0005"], noise=40.0)
    sources = {
        name: SampleSource(image_path=None, reference=text, categories={"lang": "en"})
        for name, text in truth.items()
    }
    run = loaded(records, value=lambda r: 0.5 if r.text.startswith("some title and") else 0.0)
    page = folder / "page.html"
    page.write_text(render_report(document_of(run, sources=sources)))
    return page


@needs_chromium
def test_the_gallery_is_browsed_by_filter_and_key(tmp_path: Path) -> None:
    """Worst first; each filter keeps its samples; arrows go through what is listed; closing goes back."""
    look = (
        BROWSE
        + """
    const seen = { all: names(), first: byId("g-rows").querySelector("span").textContent };
    for (const box of document.querySelectorAll("#g-form [name=only]")) {
      box.click(); seen[box.value] = names(); box.click();
    }
    set("g-find", "LANG: EN"); seen.found = names().length;
    set("g-find", "0004"); seen.named = names(); set("g-find", "");
    byId("g-rows").querySelector("a").click();
    await titled("s-0001"); key("ArrowRight"); await titled("s-0003");
    seen.place = byId("g-place").textContent; seen.address = location.hash;
    key("ArrowLeft"); await titled("s-0001"); seen.earlier = byId("g-earlier").disabled;
    byId("g-detail").close(); await until(() => location.hash === "#gallery");
    seen.focus = document.activeElement.querySelector("b").textContent;
    return seen;"""
    )
    seen = seen_in(browsed_page(tmp_path), tmp_path / "profile", look)
    assert seen["all"][:2] == ["s-0001", "s-0003"]
    assert seen["first"] == "text NED 0.0"
    assert (seen["failed"], seen["slow"]) == (["s-0001"], ["s-0005"])
    assert seen["changed"] == seen["worse"] == ["s-0001", "s-0003"]
    assert (seen["found"], seen["named"]) == (6, ["s-0004"])
    assert (seen["place"], seen["address"]) == ("2 of 6", "#sample=s-0003")
    assert seen["earlier"]
    assert seen["focus"] == "s-0001"


@needs_chromium
def test_a_sample_opens_from_its_address_without_layout_and_plays_its_rounds(tmp_path: Path) -> None:
    look = (
        BROWSE
        + """
    await titled("s-0003");
    const all = (css) => [...byId("g-body").querySelectorAll(css)];
    const marks = () => all("pre del, pre ins").map((node) => node.textContent);
    const seen = { chosen: byId("g-body").querySelector("[aria-pressed=true]").textContent, whole: marks() };
    byId("g-body").querySelector("[name=layout]").click(); seen.words = marks();
    byId("g-body").querySelectorAll("[name=against]")[1].click(); seen.base = marks();
    const [slider] = all("[type=range]"), todo = () => all(".todo").length;
    seen.rounds = Number(slider.max); seen.before = todo();
    slider.value = 1; slider.dispatchEvent(new Event("input")); seen.dimmed = todo();
    byId("g-body").querySelector(".play button").click();
    await until(() => todo() < seen.dimmed); seen.said = byId("g-body").querySelector("output").textContent;
    return seen;"""
    )
    page = browsed_page(tmp_path)
    seen = seen_in(page, tmp_path / "profile", look, fragment="#sample=s-0003&arm=selfspec")
    assert seen["chosen"] == "selfspec"
    assert [mark for mark in seen["whole"] if mark.strip("#␣⏎\n")] == seen["words"] == ["a", "another"]
    assert len(seen["whole"]) > 2
    assert seen["base"] == seen["words"]
    assert (seen["before"], seen["dimmed"]) == (0, seen["rounds"] - 1)
    assert seen["said"].startswith("round 1, 8 drafted")


LEADING = 6
"""Pixels that boxes of type may share: they hold more than letters."""
MEASURE = """return {
  height: document.documentElement.scrollHeight,
  width: document.documentElement.scrollWidth,
  charts: [...document.querySelectorAll("svg.chart")].filter((svg) => svg.checkVisibility()).map((svg) => {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const sides = ["left", "top", "right", "bottom"];
    const box = (node) => sides.map((side) => node.getBoundingClientRect()[side]);
    return { box: box(svg), texts: [...svg.querySelectorAll("text")].map((text) =>
      ({ said: text.textContent, box: box(text),
         size: parseFloat(getComputedStyle(text).fontSize) * scale })) };
  }) };"""


@pytest.mark.parametrize("width", [1280, 390])
@needs_chromium
def test_charts_are_legible_and_nothing_of_them_is_cut(tmp_path: Path, width: int) -> None:
    """In the published page: 12 pixels of type or more, every text inside its chart, none on another."""
    page = PUBLISHED[-1].parent / "report.html"
    seen = seen_in(page, tmp_path / "profile", MEASURE, width=width)
    assert seen["width"] <= width
    assert width < 1280 or seen["height"] < 5_000
    assert len(seen["charts"]) >= 6
    for chart in seen["charts"]:
        assert min(text["size"] for text in chart["texts"]) >= 12
        left, top, right, bottom = chart["box"]
        for text in chart["texts"]:
            x0, y0, x1, y1 = text["box"]
            assert left - 1 <= x0 and x1 <= right + 1 and top - 1 <= y0 and y1 <= bottom + 1, text["said"]
        boxes = [text["box"] for text in chart["texts"]]
        for i, (a0, b0, a1, b1) in enumerate(boxes):
            for j, (c0, d0, c1, d1) in enumerate(boxes[:i]):
                across, down = min(a1, c1) - max(a0, c0), min(b1, d1) - max(b0, d0)
                said = chart["texts"][i]["said"], chart["texts"][j]["said"]
                assert min(across, down) <= LEADING, said


@needs_chromium
def test_a_chart_says_its_numbers_to_pointer_and_keyboard(tmp_path: Path) -> None:
    walk = """
      const plot = document.querySelector(".plot.wide");
      const press = (key) => plot.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
      press("ArrowRight"); press("ArrowRight"); press("ArrowLeft");
      const first = plot.querySelector("[role=status]").textContent;
      const svg = plot.querySelector("svg"), box = svg.getBoundingClientRect();
      const [x, y, said] = JSON.parse(svg.dataset.points).at(-1);
      plot.dispatchEvent(new PointerEvent("pointermove", {
        clientX: box.left + x * box.width / 100, clientY: box.top + y * box.height / 100 }));
      return [plot.tabIndex, first, JSON.parse(svg.dataset.points)[0][2], said,
        plot.querySelector("[role=status]").textContent];"""
    page = PUBLISHED[-1].parent / "report.html"
    stop, first, expected, said, shown = seen_in(page, tmp_path / "profile", walk)
    assert stop == 0
    assert first == expected
    assert shown == said


@needs_chromium
def test_strategies_sort_by_any_column(tmp_path: Path) -> None:
    click = """
      const table = document.getElementById("arms");
      const heads = [...table.tHead.rows[0].cells];
      const at = heads.findIndex((head) => head.textContent.startsWith("decode over ar"));
      heads[at].querySelector("button").click();
      const values = [...table.tBodies[0].rows].map((row) => row.cells[at].dataset.value ?? null);
      return [heads[at].getAttribute("aria-sort"), values];"""
    order, values = seen_in(PUBLISHED[-1].parent / "report.html", tmp_path / "profile", click)
    assert order == "descending"
    there = [float(value) for value in values if value is not None]
    assert there == sorted(there, reverse=True)
    assert values[: len(there)] == [v for v in values if v is not None]


@pytest.mark.slow
@needs_chromium
def test_a_whole_benchmark_stays_in_its_bounds(tmp_path: Path) -> None:
    """1,651 pages: built in a gigabyte, under 15 MB and 5,000 nodes. How long it takes: tests/bench."""
    page = tmp_path / "large.html"
    built = build_large_report(page)
    assert built.peak_mb < 1_000
    assert page.stat().st_size < 15_000_000
    tree = html.fromstring(dumped_dom(page, tmp_path / "profile"))
    assert tree.get("data-ready") == "yes"
    assert sum(1 + bool(n.text) + bool(n.tail) for n in tree.iter() if isinstance(n.tag, str)) < 5_000
    assert "1,651 of 1,651 samples" in tree.get_element_by_id("g-count").text_content()


@needs_chromium
@pytest.mark.skipif(
    shutil.which("node") is None or not (Path.cwd() / "node_modules" / "axe-core").is_dir(),
    reason="optional: node with axe-core and playwright-core in ./node_modules",
)
def test_axe_finds_no_serious_violation(tmp_path: Path, runs: Path) -> None:
    out = tmp_path / "report.html"
    assert run_command_line(["report", str(runs / "a"), "--out", str(out), "--resamples", "200"]) == 0
    script = Path(__file__).with_name("axe_check.js")
    done = subprocess.run(
        ["node", str(script), str(out), str(chromium())],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [v for v in found if v["impact"] in {"serious", "critical"}] == []


def without_commands(page: str) -> str:
    """The page without the line that names its own command."""
    return re.sub(r'aria-label="Commands of this report">[^<]*<', "<", page)


def without_figures(page: str) -> str:
    """The page with drawings left out and packed data unpacked: compressors differ between machines."""
    bare = re.sub(r"<svg.*?</svg>", "<svg/>", page, flags=re.S)

    def opened(match: re.Match[str]) -> str:
        return match[1] + json.dumps(unpacked(match[2]), ensure_ascii=False, sort_keys=True)

    return re.sub(r'(<script type="text/plain" id="[^"]*">)([A-Za-z0-9+/=]+)', opened, bare)
