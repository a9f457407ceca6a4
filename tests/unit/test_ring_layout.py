"""The ring's index arithmetic and the t_info area."""

import struct

import pytest

from tracelib.errors import SourceError
from tracelib.ring.layout import RingPages, data_bytes, explain_indexes, parse_t_info, waiting_bytes

X = 4088


@pytest.mark.parametrize(("pages", "size"), [(1, 4088), (2, 8184), (32, 131064)])
def test_data_size_is_pages_less_the_two_indexes(pages, size):
    assert data_bytes(pages) == size


@pytest.mark.parametrize(
    ("cons", "prod", "waiting"),
    [(0, 4088, 4088), (4088, 0, 4088), (4084, 8172, 4088), (8168, 8, 16), (0, 0, 0), (8172, 0, 4)],
)
def test_waiting_bytes_run_modulo_twice_the_size(cons, prod, waiting):
    """R01: a full ring is 4088 bytes, where `(prod - cons) % X` says 0."""
    assert waiting_bytes(cons, prod, X) == waiting


@pytest.mark.parametrize(
    ("cons", "prod", "why"),
    [
        (4000, 0, "4176 bytes apart in a ring of 4088: cons 4000, prod 0"),
        (2, 100, "unaligned: cons 2, prod 100"),
        (100, 102, "unaligned: cons 100, prod 102"),
        (8176, 0, "out of range: cons 8176, prod 0, limit 8176"),
        (0, 8176, "out of range: cons 0, prod 8176, limit 8176"),
        (0, 0xFFFFFFFC, "out of range: cons 0, prod 4294967292, limit 8176"),
        (0, 4092, "4092 bytes apart in a ring of 4088: cons 0, prod 4092"),
    ],
)
def test_impossible_indexes_are_told_apart(cons, prod, why):
    """R01, R26: unaligned, out of range, more than X apart."""
    assert waiting_bytes(cons, prod, X) is None
    assert explain_indexes(cons, prod, X) == why


def t_info(pages: int, offsets: list[int], words: int = 1024) -> bytearray:
    """An info area whose word n holds the mfn 1000 + n."""
    info = bytearray(struct.pack(f"<{words}I", *range(1000, 1000 + words)))
    struct.pack_into(f"<{1 + len(offsets)}H", info, 0, pages, *offsets)
    return info


def test_t_info_gives_each_cpu_its_pages():
    assert parse_t_info(t_info(2, [10, 12]), 2) == [
        RingPages(0, (1010, 1011)),
        RingPages(1, (1012, 1013)),
    ]


def test_t_info_with_holes_keeps_the_cpu_numbers():
    """R22: offset 0 is a CPU without a ring; nothing is renumbered."""
    rings = parse_t_info(t_info(1, [20, 0, 21, 0, 22, 0, 23, 0]), 8)
    assert [(ring.cpu, ring.mfns) for ring in rings] == [
        (0, (1020,)), (2, (1021,)), (4, (1022,)), (6, (1023,)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pages", "offsets", "message"),
    [
        (600, [65000], "list of 600 pages at word 65000 (bytes 260000-262400)"),
        (65535, [16], "list of 65535 pages at word 16 (bytes 64-262204)"),
        (0, [16], "0 pages"),
        (4, [1021], "(bytes 4084-4100) lies outside the area of 4096 bytes"),
        (1, [0, 0, 0, 0, 1], "CPU 4's list of 1 pages at word 1 (bytes 4-8)"),
    ],
)
def test_t_info_that_points_outside_is_refused_with_numbers(pages, offsets, message):
    """R25: the length comes from tbuf_size alone; a list outside the area is refused."""
    with pytest.raises(SourceError) as refused:
        parse_t_info(t_info(pages, offsets), len(offsets))
    assert message in str(refused.value)


def test_t_info_shorter_than_its_offsets_is_refused():
    with pytest.raises(SourceError, match="no room for 9 CPUs"):
        parse_t_info(bytes(16), 9)
