"""Names of segments, and which files of a directory are segments."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.segments import CREATED_AT, SegmentBuilder, write_file
from tracelib.errors import StoreError
from tracelib.store.blockfile import BlockFile
from tracelib.store.directory import list_segments, next_sequence, open_entry
from tracelib.store.names import new_name, parse_name


def test_a_name_says_number_time_and_state():
    name = new_name(42, CREATED_AT)
    assert name.text == "00000042-20261130T220000Z.xtr.open"
    assert name.as_sealed().text == "00000042-20261130T220000Z.xtr"
    assert parse_name(name.text) == name


@given(st.integers(0, 10**17), st.integers(0, 4 * 10**18), st.booleans())
def test_round_trip(sequence, created_at, sealed):
    name = new_name(sequence, created_at)._replace(sealed=sealed)
    assert parse_name(name.text) == name


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42-20261130T220000Z.xtr",
        "000000042-20261130T220000Z.xtr",  # two names for one number
        "00000042-20261130T220000.xtr",
        "00000042-20261130T220000Z.xtr.opened",
        "00000042-20261130T220000Z.xtr\n",
        ".00000042-20261130T220000Z.xtr.1.new",
        "00000042-20261130T220000Z.damaged",
        "٠٠٠٠٠٠٤٢-20261130T220000Z.xtr",  # digits, but not ours
    ],
)
def test_other_names_are_none_of_ours(text):
    assert parse_name(text) is None


def test_order_is_by_number_whatever_the_clock_says(tmp_path):
    """R40: 30 segments, the clock set back in between, and one number more than 8 digits."""
    for sequence in [*range(1, 30), 123456789]:
        created_at = CREATED_AT - sequence % 100 * 3600 * 10**9
        name = new_name(sequence, created_at).as_sealed()
        write_file(tmp_path / name.text, b"x" * (sequence % 100))
    found = list_segments(tmp_path)
    assert [entry.sequence for entry in found] == [*range(1, 30), 123456789]
    assert found[4].bytes == 5
    assert next_sequence(tmp_path) == 123456790


def test_foreign_files_symlinks_and_directories_are_left_alone(tmp_path):
    """R40: what is not on the list is never deleted."""
    kept = SegmentBuilder(3).seal().write(tmp_path)
    write_file(tmp_path / "notes.txt", b"")
    (tmp_path / "00000001-20261130T220000Z.xtr").symlink_to(kept)
    (tmp_path / "00000002-20261130T220000Z.xtr").mkdir()
    os.mkfifo(tmp_path / "00000007-20261130T220000Z.xtr.open")
    assert [entry.path for entry in list_segments(tmp_path)] == [kept]
    assert next_sequence(tmp_path) == 8, "but their names are taken"


def test_an_empty_store_starts_at_1(tmp_path):
    assert list_segments(tmp_path) == []
    assert next_sequence(tmp_path) == 1


def test_a_missing_directory_is_a_store_error(tmp_path):
    with pytest.raises(StoreError, match="ENOENT"):
        list_segments(tmp_path / "none")


def test_a_segment_sealed_since_the_listing_is_found_under_its_new_name(tmp_path):
    builder = SegmentBuilder()
    path = builder.write(tmp_path)
    (entry,) = list_segments(tmp_path)
    path.rename(entry.sealed_path)
    file = open_entry(entry, BlockFile)
    assert file is not None
    assert file.path == entry.sealed_path
    file.close()
    entry.sealed_path.unlink()
    assert open_entry(entry, BlockFile) is None, "deleted meanwhile"


def test_other_refusals_are_not_taken_for_a_deletion(tmp_path):
    SegmentBuilder().write(tmp_path)
    (entry,) = list_segments(tmp_path)

    def refuse(_path):
        raise StoreError("too many open files", errno=errno.EMFILE)

    with pytest.raises(StoreError, match="too many"):
        open_entry(entry, refuse)
