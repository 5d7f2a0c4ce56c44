from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import pipestream
from pipestream import faults
from pipestream.errors import TransientError
from pipestream_testing import fault_actions

REACH = "from pipestream import faults; faults.reach(faults.PLAN_WRITTEN); print('through')"
PACKAGES = Path(pipestream.__file__).parent.parent


def reach_in_a_process(fault, *, with_support=True):
    """Return what a process says that reaches a point, with a fault in its environment."""
    # Whatever stands for the support package when it is not installed.
    hide = "" if with_support else "import sys; sys.modules['pipestream_testing'] = None; "
    environment = os.environ | {"PYTHONPATH": str(PACKAGES), faults.VARIABLE: fault}
    return subprocess.run([sys.executable, "-c", hide + REACH], env=environment, capture_output=True, text=True)


def test_without_a_fault_a_point_is_passed():
    assert reach_in_a_process("", with_support=False).stdout == "through\n"


def test_a_fault_acts_at_its_point_only():
    assert reach_in_a_process(f"{faults.PLAN_WRITTEN}=kill").returncode == -9
    assert reach_in_a_process(f"{faults.RECONCILED}=kill").stdout == "through\n"


def test_a_fault_acts_the_nth_time_and_only_then(monkeypatch):
    monkeypatch.setattr(fault_actions, "_reached", Counter())
    monkeypatch.setenv(faults.VARIABLE, f"{faults.RECONCILED}=fail@2")

    faults.reach(faults.RECONCILED)
    with pytest.raises(TransientError, match="fault injected at reconciled"):
        faults.reach(faults.RECONCILED)
    faults.reach(faults.RECONCILED)


@pytest.mark.parametrize(
    ("fault", "said"),
    [("nowhere=kill", "the points are lease-acquired"), (f"{faults.PLAN_WRITTEN}=sing", "use kill, kill:SECONDS")],
)
def test_a_fault_that_cannot_be_is_refused(fault, said):
    assert said in reach_in_a_process(fault).stderr


def test_a_fault_without_the_test_support_is_refused_with_what_to_do():
    refused = reach_in_a_process(f"{faults.PLAN_WRITTEN}=kill", with_support=False)

    assert refused.returncode == 1
    assert "PIPESTREAM_FAULT is set, which only tests do" in refused.stderr
    assert "unset it" in refused.stderr
