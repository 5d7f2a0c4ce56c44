"""Links between the pages of the documentation lead somewhere, and the index names every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted(
    [*DOCS.rglob("*.md"), *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "modules/README.md"))]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def targets(page):
    # Text in a block of code is not a link.
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in LINK.findall(text) if "://" not in link]


def anchors(page):
    """Return the anchors that GitHub makes of a page's headings."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in HEADING.findall(page.read_text())}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_to_a_page_and_a_heading_that_exist(page):
    for target in targets(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{target} leads nowhere"
        assert not anchor or anchor in anchors(file), f"{target}: no such heading"


def test_the_index_names_every_page():
    index = DOCS / "README.md"
    named = {(DOCS / target.partition("#")[0]).resolve() for target in targets(index)}

    pages = {page for page in DOCS.rglob("*.md") if page != index and page.parent != DOCS / "decisions"}

    assert pages <= named
