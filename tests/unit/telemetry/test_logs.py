from __future__ import annotations

import json
import logging
import subprocess
import sys

from pipestream.telemetry.logs import JsonFormatter


def record(message, *arguments, **extra):
    made = logging.getLogger("pipestream.drain").makeRecord(
        "pipestream.drain", logging.WARNING, "file.py", 1, message, arguments, None, extra=extra
    )
    return json.loads(JsonFormatter().format(made))


def test_a_line_has_the_message_its_level_and_the_fields_given_with_it():
    values = record("%s stopped", "intake.a", topic="intake.a", slot=2)

    assert values["message"] == "intake.a stopped"
    assert (values["level"], values["logger"]) == ("WARNING", "pipestream.drain")
    assert (values["topic"], values["slot"]) == ("intake.a", 2)
    assert values["time"].endswith("+00:00")


def test_a_value_that_is_not_json_is_written_as_text():
    assert record("m", place={1, 2}.__class__)["place"] == "<class 'set'>"


def test_the_setting_chooses_the_format():
    script = (
        "import logging\nfrom pipestream.settings import Settings\n"
        "from pipestream.telemetry.logs import setup_logging\n"
        "setup_logging(Settings(log_format='json'))\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.getLogger('a').exception('failed')\n"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    (line,) = done.stderr.splitlines()
    values = json.loads(line)
    assert values["message"] == "failed"
    assert "ZeroDivisionError" in values["traceback"]
