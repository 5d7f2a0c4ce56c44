"""Read the text of an HTML page."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_SKIPPED = {"script", "style", "template", "noscript"}
_BREAKS = {"article", "br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "section", "td", "th", "tr", "ul"}


@dataclass(slots=True)
class Page:
    """What a reader of a page sees."""

    title: str = ""
    language: str = ""
    text: str = ""
    links: list[str] = field(default_factory=list)


def read_html(source: str) -> Page:
    """Return the text of a page. Like a browser it reads broken markup as well as it can."""
    reader = _Reader()
    reader.feed(source)
    reader.close()
    lines = (" ".join(line.split()) for line in "".join(reader.text).split("\n"))
    return Page(
        title=" ".join("".join(reader.title).split()),
        language=reader.language,
        text="\n".join(line for line in lines if line),
        links=reader.links,
    )


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.title: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.language = ""
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED or tag == "title":
            self._inside.append(tag)
        elif tag in _BREAKS:
            self.text.append("\n")
        values = dict(attrs)
        if tag == "html":
            self.language = (values.get("lang") or "").partition("-")[0].lower()
        link = values.get("href")
        if tag == "a" and link:
            self.links.append(link)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()
        elif tag in _BREAKS:
            self.text.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._inside:
            # Line breaks of the source do not count: only tags break lines of text.
            self.text.append(data.replace("\n", " "))
        elif self._inside[-1] == "title":
            self.title.append(data)
