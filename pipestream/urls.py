"""Addresses with a name and a password in them: use those, and never show them."""

from __future__ import annotations


def split_login(url: str) -> tuple[str, str]:
    """Return ``USER:PASSWORD`` as it stands in a URL, or nothing, and the URL without it.

    The last ``@`` counts, so that a password in which one was not escaped is not taken for a part of the host.
    """
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    login, _, place = rest.rpartition("@")
    return login, f"{scheme}{mark}{place}"


def printable_url(url: str) -> str:
    """Return a URL for a log: without a password, and without a query, which may hold one too."""
    return split_login(url)[1].partition("?")[0].partition("#")[0]
