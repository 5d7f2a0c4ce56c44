from __future__ import annotations

import pytest

from pipestream.connectors.media import media_type


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        pytest.param("a.html", b"", "text/html", id="by ending"),
        pytest.param("A.JSON", b"", "application/json", id="ending in capitals"),
        pytest.param("a.tar.gz", b"", "application/gzip", id="last ending"),
        pytest.param("a.txt", b"%PDF-1.7", "text/plain", id="the ending beats the content"),
        pytest.param("a", b"%PDF-1.7", "application/pdf", id="by magic"),
        pytest.param("a.unknown", b"\x89PNG\r\n\x1a\n", "image/png", id="unknown ending"),
        pytest.param("a", b"\n <!DOCTYPE HTML><p>", "text/html", id="page"),
        pytest.param("a", b"<?xml version='1.0'?>", "application/xml", id="xml"),
        pytest.param("README", "Grüße".encode(), "text/plain", id="text"),
        pytest.param("a", b"x" * 4_095 + "ü".encode(), "text/plain", id="text cut inside a character"),
        pytest.param("a", b"\xff\xfe\xfd", "application/octet-stream", id="not UTF-8"),
        pytest.param("a", b"text\0", "application/octet-stream", id="zero byte"),
        pytest.param("a", b"", "text/plain", id="empty"),
    ],
)
def test_a_media_type_comes_from_the_name_or_the_content(name, data, expected):
    assert media_type(name, data) == expected
