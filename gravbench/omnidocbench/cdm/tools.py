"""The programs CDM needs, their versions, the Debian packages that bring them, and how they are run.

Formulas are strangers' code: each program gets a folder and a process group of its own and hard limits.
Limits are the kernel's (set by a shell before the program starts, so it is safe with threads) plus one
wall-clock limit against a process that sleeps.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from gravbench.errors import EngineError

DEBIAN_PACKAGES = (
    "texlive-latex-base",
    "texlive-latex-recommended",
    "texlive-latex-extra",
    "texlive-fonts-recommended",
    "latex-cjk-common",
    "latex-cjk-chinese-arphic-gkai00mp",
    "ghostscript",
)
"""Everything, for `apt-get install --no-install-recommends`."""
_PROVIDED_BY: Mapping[str, str] = {
    "article.cls": "texlive-latex-base",
    "geometry.sty": "texlive-latex-base",
    "amsmath.sty": "texlive-latex-base",
    "amssymb.sty": "texlive-latex-base",
    "booktabs.sty": "texlive-latex-recommended",
    "xcolor.sty": "texlive-latex-recommended",
    "multirow.sty": "texlive-latex-extra",
    "upgreek.sty": "texlive-latex-extra",
    "psyr.tfm": "texlive-fonts-recommended",
    "CJK.sty": "latex-cjk-common",
    "c70gkai.fd": "latex-cjk-chinese-arphic-gkai00mp",
}
_PROGRAMS: Mapping[str, str] = {"pdflatex": "texlive-latex-base", "gs": "ghostscript"}


@dataclass(frozen=True)
class Tools:
    """Resolved programs and the versions that go into every cache key."""

    pdflatex: Path
    gs: Path
    pdflatex_version: str
    gs_version: str

    @property
    def versions(self) -> dict[str, str]:
        return {"pdflatex": self.pdflatex_version, "ghostscript": self.gs_version}


def find_tools(*, search_path: str | None = None, memo_dir: Path | None = None) -> Tools:
    """The programs on `search_path` (default: PATH). `EngineError` says what is missing, and the remedy.

    Asking programs for their versions takes longer than scoring a hundred cached formulas, so the answer is
    kept in `memo_dir` and used as long as the program files are the same.
    """
    paths = {name: shutil.which(name, path=search_path) for name in _PROGRAMS}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise EngineError(
            f"CDM cannot run: not on the path: {', '.join(missing)}",
            hint=install_command(),
        )
    found = {name: Path(path) for name, path in paths.items() if path is not None}
    versions = _versions(found, memo_dir)
    return Tools(found["pdflatex"], found["gs"], versions["pdflatex"], versions["gs"])


def install_command(packages: tuple[str, ...] = DEBIAN_PACKAGES) -> str:
    return "apt-get install --no-install-recommends " + " ".join(packages)


def missing_packages(tools: Tools) -> tuple[str, ...]:
    """Debian packages whose files TeX cannot find, in installation order; empty when all are there."""
    kpsewhich = shutil.which("kpsewhich", path=str(tools.pdflatex.parent)) or shutil.which("kpsewhich")
    if kpsewhich is None:
        return ()
    found = subprocess.run(
        [kpsewhich, *_PROVIDED_BY], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    ).stdout
    there = {Path(line).name for line in found.splitlines()}
    absent = {package for file, package in _PROVIDED_BY.items() if file not in there}
    return tuple(package for package in DEBIAN_PACKAGES if package in absent)


def _versions(programs: Mapping[str, Path], memo_dir: Path | None) -> dict[str, str]:
    identity = _identity(programs)
    memo = memo_dir / "tools.json" if memo_dir else None
    if memo is not None:
        known = _read_memo(memo)
        if known.get("identity") == identity:
            return {name: str(known[name]) for name in programs}
    versions = {name: _version(path) for name, path in programs.items()}
    if memo is not None:
        _write_memo(memo, {"identity": identity, **versions})
    return versions


def _identity(programs: Mapping[str, Path]) -> str:
    """Changes whenever a program file does."""
    stats = [(str(path), path.stat()) for path in sorted(programs.values())]
    return hashlib.sha256(
        json.dumps([[path, stat.st_size, stat.st_mtime_ns, stat.st_ino] for path, stat in stats]).encode()
    ).hexdigest()


_TREES = (
    *("/usr/share/texmf", "/usr/share/texlive/texmf-dist", "/usr/local/share/texmf", "/var/lib/texmf"),
    "/etc/texmf",
)
_LISTS = ("ls-R", "fonts/map/pdftex/updmap/pdftex.map", "web2c/pdftex/pdflatex.fmt")
_LIBRARIES = ("pylatexenc", "numpy", "scipy", "pillow")


@lru_cache(maxsize=8)
def installation(tools: Tools) -> str:
    """Digest of all a rendering depends on: programs, lists of files of TeX's trees, fonts, libraries.

    Not part of a signature: it says when a stored rendering must be made again, not that scores differ.
    """
    own = tools.pdflatex.resolve().parent
    trees = [Path(tree) for tree in _TREES] + [own.parents[1] / "texmf-dist", own.parents[1] / "texmf-var"]
    seen = [_identity({"pdflatex": tools.pdflatex, "gs": tools.gs})]
    for path in (tree / name for tree in trees for name in _LISTS):
        with contextlib.suppress(OSError):
            stat = path.stat()
            seen.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    seen += [f"{name} {version(name)}" for name in _LIBRARIES]
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()


def _version(program: Path) -> str:
    """First line a program prints about itself; `unknown` when it prints none."""
    try:
        printed = subprocess.run(
            [str(program), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return next((line.strip() for line in printed.splitlines() if line.strip()), "unknown")


def _read_memo(memo: Path) -> dict[str, str]:
    try:
        loaded = json.loads(memo.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) and {"identity", *_PROGRAMS} <= loaded.keys() else {}


def _write_memo(memo: Path, content: Mapping[str, str]) -> None:
    """Best effort: without the memo the programs are asked again."""
    temporary = memo.with_suffix(f".{os.getpid()}.tmp")
    try:
        memo.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(content), encoding="utf-8")
        temporary.replace(memo)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


_SHELL = "/bin/sh"
_SCRIPT = (
    'ulimit -c 0 && ulimit -S -t "$1" && ulimit -H -t "$(($1 + 1))" && ulimit -f "$2" && ulimit -v "$3" '
    '&& shift 3 && exec "$@"'
)
_BLOCK = 512
"""Unit of `ulimit -f` in a POSIX shell."""


@dataclass(frozen=True)
class Limits:
    """What one formula, or one batch of them, may use."""

    solo_cpu_s: int = 15
    batch_cpu_s: int = 4
    batch_cpu_s_per_formula: float = 0.05
    file_bytes: int = 64 * 1024 * 1024
    """Largest file a tool may write."""
    memory_kbytes: int = 600_000
    """Address space; pdflatex needs about 150 MB, Ghostscript up to 250 MB for a full A1 page."""
    raster_cpu_s: int = 60
    raster_file_bytes: int = 64 * 1024 * 1024
    wall_factor: float = 8.0
    """Wall-clock limit as a multiple of the CPU limit, plus ten seconds: only for processes that sleep."""
    batch_size: int = 200

    def batch_cpu(self, formulas: int) -> int:
        return self.batch_cpu_s + int(self.batch_cpu_s_per_formula * formulas) + 1


@dataclass(frozen=True)
class Finished:
    """How a program ended. `stopped` names the limit that ended it; `None` when it ended by itself."""

    returncode: int
    stopped: str | None
    stdout: Path
    stderr: Path

    def output(self, limit: int = 4_000_000) -> str:
        return _read(self.stdout, limit)

    def errors(self, limit: int = 4_000_000) -> str:
        return _read(self.stderr, limit)


def run_limited(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    cpu_s: int,
    file_bytes: int,
    memory_kbytes: int,
    wall_s: float,
    name: str,
) -> Finished:
    """Run `command` in `cwd` with closed stdin; its output goes to `<name>.out` and `<name>.err` there.

    The output files count against the file limit like any other.
    """
    blocks = max(1, file_bytes // _BLOCK)
    argv = [_SHELL, "-c", _SCRIPT, "sh", str(cpu_s), str(blocks), str(memory_kbytes), *command]
    out, err = cwd / f"{name}.out", cwd / f"{name}.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout=wall_s)
            stopped = _stopped_by(code)
        except subprocess.TimeoutExpired:
            stopped = f"wall-clock limit of {wall_s:.0f} s"
            code = -signal.SIGKILL
        finally:
            _kill_group(process)
    return Finished(code, stopped, out, err)


def _stopped_by(code: int) -> str | None:
    """Name of the limit or signal behind an exit status."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    if number == 0:
        return None
    names: dict[int, str] = {
        signal.SIGXCPU: "CPU limit",
        signal.SIGXFSZ: "file size limit",
        signal.SIGKILL: "killed",
    }
    return names.get(number, f"signal {number}")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of the process group, and collect the process."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as stream:
        return stream.read(limit).decode("utf-8", "replace")


def wipe(folder: Path) -> None:
    """Remove a scratch folder, whatever a formula left in it."""
    shutil.rmtree(folder, ignore_errors=True)
