"""XML from strangers. Nothing is expanded and nothing is fetched: a document that declares entities is refused."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

MAX_DEPTH = 100
MAX_ELEMENTS = 500_000


class XmlRefused(ValueError):
    """Bytes that are not XML, or XML that we do not read."""


def read_xml(chunks: Iterable[bytes]) -> Element:
    """Return the root of an XML document. Names have their namespace in braces, as in ElementTree.

    :raises XmlRefused: it is not well-formed, declares an entity, or is nested or cut up beyond what feeds are.
    """
    builder = _Bounded()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = _refuse_entity
    parser.ExternalEntityRefHandler = _refuse_entity
    try:
        for chunk in chunks:
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise XmlRefused(f"not XML: {error}") from None
    except (LookupError, UnicodeDecodeError, ValueError) as error:  # an encoding that is unknown or does not fit
        raise error if isinstance(error, XmlRefused) else XmlRefused(f"not XML: {error}") from None
    return builder.close()


class _Bounded:
    """Builds the tree, within limits."""

    def __init__(self) -> None:
        self._tree = TreeBuilder()
        self._depth = 0
        self._elements = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > MAX_DEPTH:
            raise XmlRefused(f"nested deeper than {MAX_DEPTH} elements")
        if self._elements > MAX_ELEMENTS:
            raise XmlRefused(f"more than {MAX_ELEMENTS} elements")
        self._tree.start(_braced(name), {_braced(key): value for key, value in attributes.items()})

    def end(self, name: str) -> None:
        self._depth -= 1
        self._tree.end(_braced(name))

    def data(self, text: str) -> None:
        self._tree.data(text)

    def close(self) -> Element:
        root: Element = self._tree.close()
        return root


def _braced(name: str) -> str:
    return "{" + name if "}" in name else name


def _refuse_entity(*_: object) -> int:
    raise XmlRefused("it declares an entity, which feeds and sitemaps have no use for; it is not read")
