"""What is published names no folder of the machine it was made on, no account and no host."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from report_support import document_of, failed_record, loaded, plain_records, record_of

from gravbench.provenance import host_sha
from gravbench.reporting.document import GatePart, ReportDocument
from gravbench.reporting.publication import Shortener, public, publish_report, read_document

HOST = "5bce98f73f3ed0c8"
HOME = "/home/alice b"
ABSOLUTE = re.compile(r"(?<![\w./<])/(?:home|tmp|root|work|data|mnt)\b")

WHOLE = {"label": "fake (4 pages)", "partial": False, "drifted": False}


def private_document(*, said: str = "plain") -> ReportDocument:
    """Two runs of two machines, folders of an account in every field that can hold one."""
    records = plain_records(3)
    for arm in records:
        records[arm] += [
            failed_record("s-9", arm, f"cannot read {HOME}/pages/9.png"),
            record_of("t", arm, said),
        ]
    runs = []
    for host in (HOST, "b" * 16):
        run = loaded(records)
        manifest = run.manifest.model_copy(
            update={
                "argv": (
                    "gravbench",
                    "run",
                    "--out",
                    f"{HOME}/runs/a",
                    f"--data={HOME}/data",
                    "--suite",
                    "x",
                ),
                "environment": {
                    "host_sha": host,
                    "variables": {"GRAVBENCH_DATA": f"{HOME}/data", "HF_HOME": "~alice/hf"},
                },
                "protocol": {
                    "suite_source": f"{HOME}/suite.toml",
                    "data": {"folder": f"{HOME}/data", **WHOLE},
                },
            }
        )
        notes = (f"no breakdown: {HOME}/data: no such folder", "see /home/alice/x")
        runs.append(replace(run, manifest=manifest, notes=notes))
    document = document_of(*runs)
    gate = GatePart(reference=f"{HOME}/ref", outcome=None, problems=(f"'{HOME}/ref/ar' is missing",))
    first = document.runs[0].model_copy(update={"gate": gate})
    return document.model_copy(
        update={
            "runs": (first, *document.runs[1:]),
            "commands": (f"gravbench report '{HOME}/runs/a' here/b --out /tmp/alice/r.html --title 'of us'",),
        }
    )


def test_pages_and_json_name_no_folder_no_account_and_no_host(tmp_path: Path) -> None:
    publish_report(private_document(), root=tmp_path, folder="2020-01-x", working=Path("/srv/here"))
    for name in ("comparison.json", "report.html"):
        text = (tmp_path / "2020-01-x" / name).read_text("utf-8")
        assert "alice" not in text
        assert HOST not in text
        assert not ABSOLUTE.search(text)
    shown = read_document(tmp_path / "2020-01-x" / "comparison.json")
    assert shown.runs[0].protocol["data"] == WHOLE
    assert shown.commands == ("gravbench report <path> here/b --out <path> --title 'of us'",)
    assert shown.runs[0].argv[3:5] == ("<path>", "--data=<path>")
    assert any(d.field == "host" for d in shown.comparisons[0].environment)


def test_names_below_the_working_folder_stay() -> None:
    working = Path(f"{HOME}/runs")
    (argv, *_) = [run.argv for run in public(private_document(), working=working).runs]
    assert argv[3] == "a"


def test_what_a_model_wrote_is_data() -> None:
    said = "see /usr/bin/env and /home/alice"
    shown = public(private_document(said=said), working=Path("/"))
    assert said in {answer.text for sample in shown.gallery for answer in sample.answers}


def test_publishing_twice_changes_nothing() -> None:
    once = public(private_document(), working=Path("/srv"))
    assert public(once, working=Path("/srv")) == once


@pytest.mark.parametrize(
    "text", ["2 tokens/round, and/or n/a", "https://example.org/a/b", "gen/000.jsonl", "1 / 2", "a -> b", ""]
)
def test_other_slashes_stay(text: str) -> None:
    assert Shortener(working="/srv", known=()).text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/etc/x: no such file", "<path>: no such file"),
        ("open('/a b/c')", "open('<path>')"),
        ("file:///srv/x y", "<path> y"),
        ("in ../../bob/runs.", "in <path>"),
        ("/srv/runs/a (3 pages)", "runs/a (3 pages)"),
        ("/srv", "."),
        ("/srv/../etc", "<path>"),
    ],
)
def test_paths_are_shortened(text: str, shown: str) -> None:
    assert Shortener(working="/srv", known=()).anything(text) == shown


def test_a_host_is_told_from_another_and_cannot_be_guessed() -> None:
    assert host_sha("a" * 32, "node") == host_sha("a" * 32, "node") != host_sha("b" * 32, "node")
    assert host_sha("a" * 32, "node") != host_sha("a" * 32, "edon")
    assert host_sha(None, "node") is None
