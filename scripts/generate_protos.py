"""Generate pipestream/gen/ from proto/. With --check, only say whether it is current.

The compiler's output imports `ai.pipestream…` from the top level; here it lives below `pipestream.gen`,
so that no package named `ai` is installed for everybody else on the path.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
TARGET = ROOT / "pipestream" / "gen"
IMPORT = re.compile(r"^(from|import) (ai\.pipestream|pipestream\.live)", re.MULTILINE)


def generate(target: Path) -> None:
    """Compile every .proto below proto/ into ``target``."""
    sources = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    well_known = files("grpc_tools") / "_proto"
    arguments = [f"-I{SOURCES}", f"-I{well_known}", *(f"--{kind}_out={target}" for kind in ("python", "pyi"))]
    services = [name for name in sources if "service " in (SOURCES / name).read_text()]
    if protoc.main(["protoc", *arguments, *sources]) or protoc.main(
        ["protoc", *arguments[:2], f"--grpc_python_out={target}", *services]
    ):
        sys.exit("protoc failed")
    for path in [*target.rglob("*.py"), *target.rglob("*.pyi")]:
        path.write_text(IMPORT.sub(r"\1 pipestream.gen.\2", path.read_text()))
    for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").write_text("")


def differing(left: Path, right: Path) -> list[str]:
    """Return the files that are not the same on both sides."""
    names = {
        str(path.relative_to(side))
        for side in (left, right)
        for path in side.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    _, mismatch, missing = filecmp.cmpfiles(left, right, names, shallow=False)
    return sorted(mismatch + missing)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch) / "gen"
        fresh.mkdir()
        generate(fresh)
        if "--check" in sys.argv:
            if stale := differing(fresh, TARGET):
                sys.exit(f"pipestream/gen is not what proto/ generates, run `make proto`: {', '.join(stale)}")
            return
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(fresh, TARGET)
        print(f"generated {sum(1 for _ in TARGET.rglob('*.py'))} modules in {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
