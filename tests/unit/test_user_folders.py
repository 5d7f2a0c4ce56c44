"""Folders for one user alone, in places where everybody may write."""

from __future__ import annotations

import os
import time

import pytest

from pipestream.live.spec import Place
from pipestream.modules.runtime import process
from pipestream.user import make_own_folder


def test_a_folder_is_made_for_its_user_alone_and_found_again(tmp_path):
    folder = tmp_path / "a" / "b"

    make_own_folder(folder)
    make_own_folder(folder)

    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("prepare", [make_own_folder, lambda folder: Place(folder).prepare()])
def test_a_link_that_was_planted_in_its_place_is_refused(tmp_path, prepare):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(PermissionError, match="is a link"):
        prepare(tmp_path / "link")


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    make_own_folder(tmp_path / "theirs")
    monkeypatch.setattr(os, "getuid", lambda: 4_711)

    with pytest.raises(PermissionError, match="belongs to another user"):
        make_own_folder(tmp_path / "theirs")


def test_runtimes_sweep_no_folder_that_a_link_leads_to_and_none_without_an_owner(tmp_path, monkeypatch):
    monkeypatch.setattr(process.tempfile, "gettempdir", lambda: str(tmp_path))
    base = tmp_path / f"pipestream-runtimes-{os.getuid()}"
    elsewhere = tmp_path / "elsewhere"
    old = time.time() - 3_600
    for folder, names in ((elsewhere / "left", ["owner"]), (base / "left", ["owner"]), (base / "other", [])):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
        os.utime(folder, (old, old))

    made, lock = process._make_folder()
    lock.close()

    assert {folder.name for folder in base.iterdir()} == {made.name, "other"}
    base.rename(tmp_path / "moved")
    base.symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="is a link"):
        process._make_folder()
    assert (elsewhere / "left").is_dir()
