"""The archive of classes that a Spark driver starts from, made and used by a real Java."""

from __future__ import annotations

import os
import subprocess

import pytest

from pipestream.local.jars import spark_home
from pipestream.local.spark import spark_programs_environment
from pipestream.local.spark_driver import SUBMIT_OPTIONS, find_archive, make_archive

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_driver_starts_from_the_archive_that_was_made_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(SUBMIT_OPTIONS, raising=False)
    make_archive(lambda _: None, spark_programs_environment())
    environment = {**os.environ, **spark_programs_environment()}
    assert find_archive(environment) is not None
    # With this option Java does not start without the archive.
    environment[SUBMIT_OPTIONS] += " -Xshare:on"

    done = subprocess.run(
        [spark_home() / "bin" / "spark-submit", "--version"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
