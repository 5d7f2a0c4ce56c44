"""Describe the command line as Markdown, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from pipestream.cli.main import app

_MARKUP = re.compile(r"\[/?bold\]")
_INTRODUCTION = [
    "Every command ends with 0 (done), 1 (failed, and the same command may succeed later), 2 (failed for good, or",
    "wrong usage) or 130 (interrupted). `--json`, where a command has it, prints JSON and nothing else on stdout.",
    "`pipestream --verbose COMMAND` logs on stderr what happens.",
]
_SHARED = {"--json", "--help"}


def cli_page() -> str:
    """Return the reference page: a list of all commands, then a section of each."""
    commands = list(_commands(typer.main.get_command(app), "pipestream"))
    lines = [
        "# The command line",
        "",
        "<!-- Written by `make reference` from the commands themselves. -->",
        "",
        *_INTRODUCTION,
        "",
        "| command | does |",
        "| --- | --- |",
        *(f"| [`{name}`](#{_anchor(name)}) | {_summary(command)} |" for name, command in commands),
    ]
    for name, command in commands:
        lines += ["", *_section(name, command)]
    return "\n".join(lines) + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    if command.invoke_without_command:
        yield name, command
    for child_name, child in children.items():
        if not child.hidden:
            yield from _commands(child, f"{name} {child_name}")


def _section(name: str, command: Any) -> list[str]:
    lines = [f"## {name}", "", _help(command), "", "```text", f"{name} {_usage(command)}".rstrip(), "```"]
    shown = [parameter for parameter in command.params if not _SHARED & set(parameter.opts) and not _hidden(parameter)]
    if shown:
        lines += ["", "| argument or option | meaning |", "| --- | --- |", *(_row(parameter) for parameter in shown)]
    if examples := _examples(command):
        lines += ["", "```console", *examples, "```"]
    return lines


def _usage(command: Any) -> str:
    words = [_name(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    required = [
        f"{parameter.opts[0]} {_metavar(parameter)}"
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.required
    ]
    return " ".join([*words, *required, "[OPTIONS]"])


def _row(parameter: Any) -> str:
    meaning = " ".join((getattr(parameter, "help", None) or "").split())
    if parameter.required:
        meaning = f"{meaning} Required."
    if parameter.param_type_name == "argument":
        return f"| `{_name(parameter)}` | {_cell(meaning)} |"
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else f" `{_metavar(parameter)}`"
    return f"| {names}{value} | {_cell(meaning)} |"


def _name(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return name if parameter.required else f"[{name}]"


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    kind = parameter.display_type(typer.Context(typer.main.get_command(app))).strip("<>")
    if "|" in kind:
        return _cell(kind)  # a choice of words
    return "NUMBER" if kind.startswith(("int", "float")) else kind.upper()


def _hidden(parameter: Any) -> bool:
    return bool(getattr(parameter, "hidden", False))


def _help(command: Any) -> str:
    paragraphs = (command.help or "").replace("\b", "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).strip()


def _summary(command: Any) -> str:
    return _cell(_help(command).split("\n\n")[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _examples(command: Any) -> list[str]:
    lines = _MARKUP.sub("", command.epilog or "").splitlines()
    return [line for line in lines if line.startswith("$ ")]


def _anchor(name: str) -> str:
    return name.replace(" ", "-")
