"""Drawing, packing, pictures, published figures and the published folder."""

import base64
import io
from pathlib import Path

import pytest
from lxml import etree
from matplotlib.colors import to_rgb
from PIL import ExifTags, Image
from pydantic import JsonValue
from report_support import plain_document
from verdict_support import Line as StoredLine
from verdict_support import doctored, make_run, with_scaled_times

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.quality import QualityDifference, QualityLevel
from gravbench.errors import DataError, UsageError
from gravbench.imaging import load_image
from gravbench.omnidocbench.page_metrics import OVERALL
from gravbench.reporting import plots
from gravbench.reporting.builder import ReportInput, build_document
from gravbench.reporting.charts import Line, Named, Waterfall
from gravbench.reporting.definitions import our_figure, published_figures
from gravbench.reporting.gallery import SampleSource, thumbnail, thumbnails
from gravbench.reporting.gallery_pack import packed, unpacked
from gravbench.reporting.html import TEMPLATES
from gravbench.reporting.publication import list_text, publish_report, published_folder, read_document
from gravbench.reporting.tables import tint_of_points, tint_of_ratio


def drawn() -> str:
    line = Line(label="<b>&", x=(0, 1), y=(1, 2), low=(0.9, 1.9), high=(1.1, 2.2))
    return str(
        plots.line_chart(
            [line, line],
            key="k",
            title="T <&>",
            description="D",
            x_label="x $y$",
            y_label="y",
            ticks=["a", "b"],
        )
    )


def test_a_drawing_is_the_same_every_time() -> None:
    assert drawn() == drawn()


def test_a_drawing_has_attributes_only_and_escaped_text() -> None:
    root = etree.fromstring(drawn())
    assert not root.xpath("//@style")
    assert not root.xpath("//*[local-name() = 'style' or local-name() = 'metadata']")
    texts = root.xpath("//*[local-name() = 'text']/text()")
    assert "<b>&" in texts
    assert "x $y$" in texts
    assert root[0].text == "T <&>"
    classes = " ".join(root.xpath("//@class"))
    assert "s-s0" in classes
    assert "f-ink" in classes


def test_a_long_upright_label_takes_a_second_line_instead_of_being_cut() -> None:
    line = Line(label="a", x=(0, 1), y=(1, 2), low=(0.9, 1.9), high=(1.1, 2.2))
    label = "speedup over ar at the same batch size"
    drawing = plots.line_chart([line], key="k", title="t", description="d", x_label="x", y_label=label)
    texts = etree.fromstring(str(drawing)).xpath("//*[local-name() = 'text']/text()")
    assert label not in texts
    assert {"speedup over ar at the", "same batch size"} <= set(texts)


def test_dense_marks_are_one_picture() -> None:
    values = [float(i + 1) for i in range(2_000)]
    root = etree.fromstring(
        str(
            plots.scatter_chart(
                values, values, key="s", title="t", description="d", x_label="x", y_label="y", log_x=True
            )
        )
    )
    (image,) = root.xpath("//*[local-name() = 'image']")
    assert image.get("href").startswith("data:image/png;base64,")
    assert len(list(root.iter())) < 120


def luminance(colour: tuple[float, ...]) -> float:
    """Relative luminance of WCAG 2, from channels in 0..1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ground", ["#ffffff", "#14181f"])
def test_a_single_dot_has_contrast_on_either_ground(ground: str) -> None:
    paper, dot = to_rgb(ground), to_rgb(plots.DOT)
    shown = tuple(plots.DOT_ALPHA * d + (1 - plots.DOT_ALPHA) * p for d, p in zip(dot, paper, strict=True))
    low, high = sorted((luminance(shown), luminance(paper)))
    assert (high + 0.05) / (low + 0.05) >= 3
    assert ground in (TEMPLATES / "report.css").read_text()


def test_a_waterfall_of_no_change_draws() -> None:
    steps = Waterfall(labels=("ar", "own"), starts=(0, 0), ends=(1, 1), totals=(True, True))
    assert "100%" in str(plots.waterfall_chart(steps, key="w", title="t", description="d", x_label="x"))


def test_packing_has_no_clock_and_no_markup() -> None:
    value = {"text": "</script>" * 100}
    assert packed(value) == packed(value)
    assert "<" not in packed(value)
    assert unpacked(packed(value)) == value


def test_tints_are_symmetric_around_no_change() -> None:
    shown = [Interval(value=v, low=v, high=v) for v in (4.0, 1.5, 1.0, 1 / 1.5, 0.25)]
    assert [tint_of_ratio(given) for given in shown] == [3, 2, 0, -2, -3]


def test_nothing_is_tinted_without_an_interval() -> None:
    assert tint_of_ratio(None) is None
    assert tint_of_ratio(Interval(value=4.0)) is None
    bare = QualityDifference(
        base=90, own=80, difference=-10, low=None, high=None, n=2, changed=1, sign_flip_p=1.0
    )
    assert tint_of_points(bare) is None
    assert tint_of_points(bare.model_copy(update={"low": -12.0, "high": -8.0})) == -3


def test_pictures_fit_their_share(tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    Image.effect_noise((1200, 1600), 40).save(path)
    source = SampleSource(image_path=str(path), reference=None, categories={})
    (small,) = thumbnails([source], budget=4_000)
    assert small.address is not None
    assert small.address.startswith("data:image/webp;base64,")
    assert small.wh == (1200, 1600)
    assert len(small.address) < len(thumbnail(path, limit=60_000).address or "")


def test_a_picture_stands_as_the_run_read_it(tmp_path: Path) -> None:
    """A JPEG that lies on its side: turned, but for a page whose annotation was made of it as it lies."""
    path, exif = tmp_path / "lying.jpg", Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    Image.new("L", (1600, 800), 255).save(path, exif=exif)
    for annotated in (None, (800, 1600), (1600, 800)):
        shown = thumbnail(path, limit=4_000, annotated=annotated)
        read = load_image(path, annotated=annotated).size
        assert shown.address is not None
        data = base64.b64decode(shown.address.partition(",")[2])
        width, height = Image.open(io.BytesIO(data)).size
        assert (shown.wh, width > height) == (read, read[0] > read[1])
    assert load_image(path, annotated=(1600, 800)).size == (1600, 800)


def test_a_broken_picture_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "broken.png"
    path.write_bytes(b"not an image")
    assert "broken.png" in (thumbnail(path, limit=1_000).note or "")
    assert "missing.png" in (thumbnail(tmp_path / "missing.png", limit=1_000).note or "")


@pytest.mark.parametrize(
    ("scorer", "data", "shown"),
    [
        ("omnidocbench-1.6", {"partial": False, "pages_in_run": 1651}, "61.00"),
        ("crops+omnidocbench-1.6", {"partial": True, "pages_in_run": 6}, "– (not comparable: this copy)"),
        ("omnidocbench-1.6", {"partial": False, "pages_in_run": 9}, "– (not comparable: 9 of 1,651 pages)"),
        ("omnidocbench-1.6", None, "– (the run does not say which pages it read)"),
        ("another", {"partial": False, "pages_in_run": 1651}, "–"),
    ],
)
def test_no_overall_stands_beside_1651_pages_unless_it_is_over_them(
    scorer: str, data: dict[str, JsonValue] | None, shown: str
) -> None:
    (run,) = plain_document().runs
    protocol: dict[str, JsonValue] = {
        "data": None if data is None else {"label": "this copy", "drifted": False, **data}
    }
    run = run.model_copy(update={"identity": {"scorer": scorer}, "protocol": protocol})
    level = QualityLevel(points=Interval(value=61.0, low=None, high=None), n=6)
    part = run.arms[1].model_copy(update={"levels": {OVERALL: level}})
    named = Named(label="selfspec", run=run, part=part, arm=run.analysis.arms[1])
    assert our_figure(named, "overall") == shown


def test_published_figures_all_have_a_definition_and_a_setting() -> None:
    figures = published_figures()
    assert {"decode", "request", "tpf_all", "accepted_draft"} <= {f.ours for f in figures}
    assert all(f.definition and f.setting and f.source for f in figures)


def test_publishing_writes_page_document_and_list(tmp_path: Path) -> None:
    document = plain_document(4)
    folder = published_folder(document, "some-crops")
    assert folder == "2020-01-some-crops"
    publish_report(document, root=tmp_path, folder=folder, working=tmp_path)
    assert read_document(tmp_path / folder / "comparison.json") == document
    assert (tmp_path / folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert f"[{folder}]({folder}/report.html)" in (tmp_path / "README.md").read_text()
    assert list_text(tmp_path) == (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("slug", ["", "../x", "A", "a/b", "a--b", "-a"])
def test_a_slug_is_a_plain_name(slug: str) -> None:
    with pytest.raises(UsageError):
        published_folder(plain_document(1), slug)


def test_a_damaged_document_is_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(DataError):
        read_document(tmp_path / "comparison.json")
    with pytest.raises(DataError):
        read_document(tmp_path / "none.json")


def test_a_machine_that_slows_down_is_one_caution_that_says_what_it_means(tmp_path: Path) -> None:
    def slower(line: StoredLine) -> StoredLine:
        return with_scaled_times(line, 1 + line["slot"] / 48 if line["arm"] == "selfspec" else 1)

    still = make_run(tmp_path / "still")
    moved = doctored(tmp_path / "still", tmp_path / "moved", edit=slower)
    said = [
        [one for one in build_document([ReportInput(run=run, name="r")]).runs[0].cautions if "drifted" in one]
        for run in (still, moved)
    ]
    assert said[0] == []
    assert len(said[1]) == 1
    assert "selfspec -" in said[1][0]
    assert "is an average over that change" in said[1][0]
