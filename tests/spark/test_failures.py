from __future__ import annotations

from pipestream_spark.failures import cause_of

FROM_A_WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
TypeError: RangeTask got an unexpected field

JVM stacktrace:
org.apache.spark.api.python.PythonException
"""


def test_an_exception_of_a_python_worker_is_named():
    assert cause_of(RuntimeError(FROM_A_WORKER)) == "TypeError: RangeTask got an unexpected field"


def test_of_a_failed_call_the_status_and_its_details_are_named():
    text = '<_Rendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "gone"\n>'

    assert cause_of(RuntimeError(text)) == 'status = StatusCode.UNAVAILABLE, details = "gone"'


def test_of_any_other_error_the_first_line_is_enough():
    assert (
        cause_of(RuntimeError("[OPERATION_CANCELED] it was cancelled\nmore")) == "[OPERATION_CANCELED] it was cancelled"
    )


def test_an_error_without_a_message_is_shown_by_its_kind():
    assert cause_of(RuntimeError()) == "RuntimeError()"
