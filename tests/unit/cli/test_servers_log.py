"""Every server logs from INFO on, in the format of the settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Each server's command, with the function that it calls when it is set up. Replaced, the command needs no servers.
COMMANDS = {
    "engine": ("pipestream.engine_server.server.serve", "engine serve --workers 1"),
    "engine with workers": ("pipestream.engine_server.workers.run_workers", "engine serve --port 0 --workers 2"),
    "repository": ("pipestream.repository_server.serve.serve", "repository serve"),
    "sidecar": ("pipestream.sidecar.serve.run_sidecar", "sidecar"),
    "metrics": ("pipestream.telemetry.endpoint.TelemetryEndpoint", "metrics --serve --port 0"),
    "stream": ("pipestream_spark.stream.run_streams", ""),
}

SCRIPT = """\
import logging
import sys
from unittest.mock import patch

function, program = sys.argv.pop(1), sys.argv.pop(1)

def serve(*arguments, **options):
    logging.getLogger("pipestream.server").info("it serves")
    raise SystemExit(0)

if program == "stream":
    from pipestream_spark.stream import main
else:
    from pipestream.cli.main import main
with patch(function, serve):
    sys.exit(main())
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_server_logs_what_it_does_in_the_format_of_the_settings(name, tmp_path):
    function, words = COMMANDS[name]
    environment = {**os.environ, "PIPESTREAM_LOG_FORMAT": "json"}
    command = [sys.executable, "-c", SCRIPT, function, name, *words.split()]

    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [(line["level"], line["message"]) for line in lines if line["logger"] == "pipestream.server"] == [
        ("INFO", "it serves")
    ], done.stderr
