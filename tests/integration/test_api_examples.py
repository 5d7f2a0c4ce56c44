from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"


@pytest.fixture
def blocks(unique, tmp_path, config_file, monkeypatch):
    """The code of the page, its names replaced by those of this test, in a folder with all that it uses."""
    found = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found = [(kind, code.replace("invoices", unique)) for kind, code in found]
    for _, code in found:
        if name := re.match(r"# (\S+\.(?:yaml|py))\n", code):
            (tmp_path / name[1]).write_text(code)
    files = tmp_path / ".pipestream" / "sources" / unique
    for folder, names in ((files, ("a", "b", "c")), (tmp_path / "more", ("d", "e"))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.txt").write_text(f"invoice {name}, total 5\n")
    (tmp_path / "more" / "broken.txt").write_text("nothing here\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PIPESTREAM_CONFIG", str(config_file))
    monkeypatch.setenv("PIPESTREAM_SOURCES_FOLDER", str(files.parent))
    yield [code for kind, code in found if kind == "python"]
    sys.modules.pop(f"{unique}_modules", None)


def test_the_examples_of_the_api_page_run_and_do_what_they_say(blocks, unique, capsys):
    page: dict[str, object] = {}

    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), page)

    assert page["check"].problems == ()
    assert f"intake.{unique}" in page["applied"].created
    assert (page["report"].new, page["report"].failed) == (3, [])
    assert (page["drained"].status, page["drained"].records, page["drained"].dead_letters) == ("drained", 6, 1)
    assert page["drained"].run_id == "first"
    assert (page["backfilled"].lane, page["backfilled"].records) == (f"{unique}@last-hour", 6)
    assert page["replayed"].sent == {f"intake.{unique}": 1}
    assert [entry.run_id for entry in page["ledger"].entries(lane=unique)]
    assert page["read"] == 7
    assert "RequestInvalid, concerns the run: graph" in capsys.readouterr().out
