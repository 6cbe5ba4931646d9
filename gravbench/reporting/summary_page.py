"""A comparison in Markdown, for a pull request: the verdict, one table, one picture."""

from __future__ import annotations

from markupsafe import Markup

from gravbench.reporting.document import ReportDocument
from gravbench.reporting.html import TEMPLATES
from gravbench.reporting.speed_charts import speed_by_block, speed_by_concurrency, speed_by_length
from gravbench.reporting.verdicts import arm_verdicts, conditions, headline

_LOUD = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~!$&"} | {"\n": " ", "\r": " "})


def plain(text: str) -> str:
    """`text` as Markdown that shows it: nothing in it is markup, a link, a mention or a new line."""
    return text.translate(_LOUD).replace("@", "@\u200b")


def summary_markdown(document: ReportDocument, *, picture: str | None) -> str:
    """`picture` is the address of the picture, where there is one.

    One row a strategy with its three answers, cautions by number, and each run's conditions.
    """
    verdicts = arm_verdicts(document)
    lines = [f"**{plain(headline(document))}**", ""]
    if verdicts:
        questions = [answer.question for answer in verdicts[0].answers]
        lines += ["| " + " | ".join(map(plain, ["strategy", *questions])) + " |"]
        lines += ["|" + " --- |" * (1 + len(questions))]
        for verdict in verdicts:
            found = {answer.question: answer.answer for answer in verdict.answers}
            cells = [verdict.label, *(found.get(question, "-") for question in questions)]
            lines += ["| " + " | ".join(map(plain, cells)) + " |"]
        lines.append("")
    if picture is not None:
        lines += [f"![speedup]({picture})", ""]
    for run in document.runs:
        said = ", ".join(f"{name} {value}" for name, value in conditions(run))
        cautions = f"; {len(run.cautions)} cautions in the report" if run.cautions else ""
        lines.append(f"{plain(run.name)}: {plain(said)}{cautions}.")
    return "\n".join([*lines, ""])


def summary_picture(document: ReportDocument) -> str | None:
    """The first speedup curve there is, as an SVG file that needs no other; `None` without any."""
    for draw in (speed_by_block, speed_by_concurrency, speed_by_length):
        chart = draw(document)
        if chart is not None and chart.svg is not None:
            style = Markup("<style>{}</style>").format(Markup((TEMPLATES / "report.css").read_text("utf-8")))
            opening, _, rest = chart.svg.partition(">")
            return f"{opening}>{style}{rest}\n"
    return None
