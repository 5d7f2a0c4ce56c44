"""Conditions torn and stitched at random: each is refused or compiles; nothing else may happen."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from pipestream.routing.conditions import check_condition
from pipestream.routing.engine import open_engine
from pipestream.routing.problems import with_caret

TABLE = yaml.safe_load(Path(__file__).with_name("condition_cases.yaml").read_text())
TEXTS = [text for group in TABLE["cases"] for kind in ("true", "false", "error") for text in group[kind]]
SIGNS = list("()[]{}\"'\\.,?:!-é💥\n\t\x00")
PIECES = [*SIGNS, "&&", "||", "in", "0x", "1e999", "has(", ".map(x,", "null", "//"]


def mutated(rng: random.Random) -> str:
    text = rng.choice(TEXTS)
    for _ in range(rng.randrange(1, 5)):
        at, to = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        match rng.randrange(4):
            case 0:
                text = text[:at] + rng.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[to:]
            case 2:
                text = text[:to] + text[at:to] * rng.randrange(1, 8) + text[to:]
            case 3:
                text = text[:at] + rng.choice(TEXTS) + text[to:]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_a_torn_condition_is_refused_or_compiles(seed):
    rng = random.Random(seed)
    for _ in range(50):
        text = mutated(rng)
        problems = check_condition(text)
        open_engine("celpy").check(text, boolean=True)
        if problems:
            drawn = with_caret(text, problems[0])
            assert drawn.endswith("^")
            assert 0 <= problems[0].offset <= len(text)
        else:
            open_engine("cel-expr").compile(text)
            open_engine("celpy").compile(text)
