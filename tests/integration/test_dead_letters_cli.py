"""``pipestream dlq`` on a real broker, as a person would type it."""

from __future__ import annotations

import json

import pytest

from pipestream.dead_letters import Act, ActionRequest, Selection
from pipestream.dead_letters.decisions import DECISIONS_TOPIC
from pipestream.dead_letters.log import DecisionLog
from pipestream.dead_letters.perform import make_plan
from pipestream.wire import DlqMessage
from pipestream_testing.settling import wait_until_settled

pytestmark = pytest.mark.stack


@pytest.fixture
def letters(make_letters):
    made = make_letters()
    made.fail("bad-1", "bad-2")
    return made


@pytest.fixture
def dlq(letters, run, monkeypatch, tmp_path):
    """Runs a command on the letters' topic and returns its code and what it printed."""
    monkeypatch.chdir(tmp_path)  # where there is no folder of graphs

    def run_dlq(command, *arguments, graph=True):
        graphs = ["--graph", letters.pipeline.graph_file] if graph else []
        return run("dlq", command, *graphs, *arguments)

    return run_dlq


def test_a_list_tells_which_document_failed_where_and_why(dlq, letters):
    code, out, _ = dlq("list", "--topic", letters.dead)

    assert code == 0
    assert f"{letters.dead}/0/0" in out
    assert "ModuleFailed: bad-1 is bad" in out
    assert out.endswith("2 dead letters\n")


def test_letters_are_counted_by_error_node_and_day(dlq):
    _, out, _ = dlq("list", "--histogram", "--json")

    counts = json.loads(out)
    assert (counts["total"], counts["by_error"], counts["by_node"]) == (2, {"ModuleFailed": 2}, {"second": 2})
    assert sum(counts["by_day"].values()) == 2


def test_the_newest_letters_are_shown_first_and_the_rest_is_not_hidden(dlq, letters):
    newest = max(letters.listed(), key=lambda letter: (letter.failed_at, letter.letter_id))

    _, out, _ = dlq("list", "--limit", "1")

    assert str(newest.letter_id) in out
    assert out.endswith("2 dead letters, the newest 1 shown: --limit 0 shows all\n")


@pytest.fixture
def mix(letters):
    """Letters of two nodes, two kinds of error and two times; ``bad-3`` is the youngest."""
    letters.pipeline.send_bytes(letters.intake, b"\xff no stream", key=b"broken")
    letters.drain(letters.intake)
    letters.fail("bad-3")
    return letters


def test_only_the_letters_that_the_options_choose_are_listed(dlq, mix):
    (youngest,) = mix.listed(Selection(doc_ids=("bad-3",)))

    def listed(*options):
        code, out, err = dlq("list", "--json", *options)
        assert code == 0, err
        return sorted(letter["doc_id"] for letter in json.loads(out))

    assert listed() == ["bad-1", "bad-2", "bad-3", "broken"]
    assert listed("--node", "first") == ["broken"]
    assert listed("--node", "sec*") == ["bad-1", "bad-2", "bad-3"]
    assert listed("--error", "RecordInvalid") == ["broken"]
    assert listed("--error", "Module*") == ["bad-1", "bad-2", "bad-3"]
    assert listed("--since", youngest.failed_at) == ["bad-3"]
    assert listed("--until", youngest.failed_at) == ["bad-1", "bad-2", "broken"]
    assert listed("--node", "second", "--until", youngest.failed_at) == ["bad-1", "bad-2"]


def test_one_letter_is_shown_and_its_bytes_are_written_to_a_file(dlq, letters, tmp_path):
    letter = letters.listed()[0]
    file = tmp_path / "letter.bin"

    code, out, _ = dlq("show", letter.letter_id, graph=False)
    dlq("show", letter.letter_id, "--raw", file, graph=False)

    assert code == 0
    assert json.loads(out)["stream"]["document_ref"]["doc_id"] == letter.doc_id
    assert file.read_bytes() == letter.record.value


def test_one_letter_is_shown_as_the_wires_message(dlq, letters, tmp_path):
    letter = letters.listed()[0]
    file = tmp_path / "letter.bin"

    _, out, _ = dlq("show", letter.letter_id, "--format", "dlq-message", graph=False)
    dlq("show", letter.letter_id, "--format", "dlq-message", "--raw", file, graph=False)

    assert json.loads(out)["failed_node_id"] == "second"
    assert DlqMessage.FromString(file.read_bytes()).original_topic == letters.second


def test_a_file_that_cannot_be_written_is_named(dlq, letters, tmp_path):
    code, _, err = dlq("show", letters.listed()[0].letter_id, "--raw", tmp_path / "no" / "folder", graph=False)

    assert code == 2
    assert "cannot be written" in err


def test_a_dry_run_shows_a_histogram_and_where_the_letters_would_go(dlq, mix):
    code, out, _ = dlq("replay", "--dry-run")

    assert code == 0
    first, *table = [line for line in out.splitlines() if line.strip(" ─")]
    assert first == "would replay 4 dead letters (4 replayed); nothing was changed"
    rows = [line.split() for line in table]
    assert [row for row in rows if row[0] != "day"] == [
        ["by", "value", "letters"],
        ["error", "ModuleFailed", "3"],
        ["error", "RecordInvalid", "1"],
        ["node", "second", "3"],
        ["node", "first", "1"],
        ["goes", "to", mix.second, "3"],
        ["goes", "to", mix.intake, "1"],
    ]
    # The test may run past midnight.
    assert sum(int(row[-1]) for row in rows if row[0] == "day") == 4
    assert mix.replayed() == []


def test_letters_of_a_named_topic_stay_open_without_their_graph(dlq, letters):
    _, out, err = dlq("replay", "--topic", letters.dead, "--action", f"{letters.unique}-r1", graph=False)

    assert f"it failed in graph {letters.unique}, and only that graph takes it back" in out + err
    assert letters.replayed() == []


def test_a_replay_that_is_repeated_under_its_id_does_nothing(dlq, letters):
    code, out, err = dlq("replay", "--topic", letters.dead, "--action", f"{letters.unique}-r1")
    _, again, _ = dlq("replay", "--topic", letters.dead, "--action", f"{letters.unique}-r1")

    assert code == 0, err
    assert f"2 sent to {letters.second}" in out
    assert again == f"{letters.unique}-r1 was done before, with 2 dead letters (2 replayed); nothing to do\n"
    assert letters.replayed() == ["bad-1", "bad-2"]


def test_a_purge_without_a_yes_changes_nothing_and_ends_with_2(dlq, letters):
    code, out, err = dlq("purge")

    assert code == 2
    assert "would purge 2 dead letters" in out
    assert "add --yes" in err
    assert len(letters.listed()) == 2


def test_letters_are_set_aside_given_up_and_taken_back(dlq, letters):
    dlq("quarantine", "--doc-id", "bad-1")
    dlq("purge", "--doc-id", "bad-2", "--yes")
    _, waiting, _ = dlq("list", "--json")
    _, aside, _ = dlq("list", "--quarantined", "--json")
    _, purged, _ = dlq("list", "--state", "purged", "--json")
    dlq("release", "--letter", json.loads(aside)[0]["id"])

    assert json.loads(waiting) == []
    assert [each["doc_id"] for each in json.loads(aside)] == ["bad-1"]
    assert [each["doc_id"] for each in json.loads(purged)] == ["bad-2"]
    assert letters.open_ids() == ["bad-1"]


def test_an_interrupted_action_is_in_the_history_and_can_be_resumed(dlq, letters):
    request = ActionRequest(Act.REPLAY, f"{letters.unique}-r1", (letters.dead,), by="somebody")
    log = DecisionLog(letters.settings)
    log.ensure()
    log.write_plan(make_plan(request, letters.settings))  # and there it died
    wait_until_settled(letters.settings, [DECISIONS_TOPIC])  # all tests share it, and others hold transactions open

    def of_history():
        _, out, _ = dlq("history", "--json", "--limit", "0", graph=False)
        return next(each for each in json.loads(out) if each["action_id"] == request.action_id)

    before = of_history()
    code, out, _ = dlq("resume", request.action_id)
    after = of_history()

    assert (before["finished"], before["decided"], before["by"]) == (False, {}, "somebody")
    assert code == 0
    assert "2 dead letters (2 replayed)" in out
    assert (after["finished"], after["decided"]) == (True, {"replayed": 2})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["resume", "no-such-action"], "no action on dead letters has the id", id="no action"),
        pytest.param(["show", "dlq.main.parse"], "expected TOPIC/PARTITION/OFFSET", id="no letter's id"),
        pytest.param(["list", "--topic", "dlq.no.where"], "dlq.no.where does not exist", id="no topic"),
        pytest.param(["list", "--topic", "x", "--since", "yesterday"], "'yesterday' is not a time", id="no time"),
        pytest.param(["replay", "--topic", "x", "--action", "a/b"], "action id 'a/b'", id="no id for an action"),
    ],
)
def test_bad_input_ends_with_2_and_says_what_was_expected(dlq, arguments, told):
    command, *rest = arguments

    code, _, err = dlq(command, *rest, graph=False)

    assert code == 2
    assert told in " ".join(err.replace("│", " ").split())
