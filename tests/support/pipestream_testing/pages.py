"""The pages in Airflow as a person uses them, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Response, expect

from pipestream_testing.web_server import WebServer

PATIENCE_MS = 120_000
"""For a page on a machine that has many other things to do."""


@dataclass  # without slots: Playwright keeps its own attributes on the owner of a listener
class Visit:
    """A window of a browser, and what its console complained about."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    expected_statuses: tuple[int, ...] = ()
    """Of answers that a test provokes: the browser reports each of them as an error."""

    def open(self, route: str, **values: str) -> None:
        """Go to one of our pages, and wait until it is there."""
        query = "&".join(f"{name}={value}" for name, value in values.items())
        self.page.goto(f"{self.address}/plugin/{route}?{query}")
        self.page.locator(".pipestream h1").wait_for()

    def node(self, key: str) -> Locator:
        """Return the box of a node in the picture."""
        return self.page.locator(f'[data-node="{key}"]')

    def see(self, text: str) -> None:
        """Wait until a text is on the page."""
        expect(self.page.locator(".pipestream").get_by_text(text).first).to_be_visible()

    def note_message(self, message: ConsoleMessage) -> None:
        is_expected = any(f"status of {status}" in message.text for status in self.expected_statuses)
        if message.type == "error" and not is_expected:
            self.complaints.append(message.text)

    def note_answer(self, answer: Response) -> None:
        if answer.status >= 500 and answer.status not in self.expected_statuses:
            self.complaints.append(f"{answer.status} {answer.url}")


@contextmanager
def visit(
    browser: Browser,
    web: WebServer,
    *,
    user: str = "admin",
    width: int = 1280,
    theme: Literal["light", "dark"] = "light",
) -> Iterator[Visit]:
    """Open a window. With a user, that one has signed in; an empty name: nobody has."""
    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context(viewport={"width": width, "height": 900}, locale="en-US", color_scheme=theme)
    context.set_default_timeout(PATIENCE_MS)
    if user:
        context.add_cookies([{"name": "_token", "value": web.token(user), "url": web.address}])
    context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    page = context.new_page()
    made = Visit(page, web.address)
    page.on("console", made.note_message)
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.on("response", made.note_answer)
    try:
        yield made
    finally:
        context.close()
