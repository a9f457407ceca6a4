"""What the simulated hypervisor and its tools say: a C program relies on these bytes."""

from __future__ import annotations

import struct

import pytest

from xtraced.sources.sim import abi


def test_sizes_and_offsets_are_what_a_c_compiler_makes_of_the_structs():
    assert abi.HEADER.size == 16
    assert abi.CLOCK.size == 24
    assert abi.SHARED_BYTES == 40
    physinfo = abi.PhysInfo(4, 7, 24_000_000, "sim", "4.19", "", "arm", "", "arm", "b", "t")
    data = physinfo.encode()
    assert len(data) == 24 + 16 + 16 + 64 + 16 + 64 + 8 + 40 + 16
    assert struct.unpack_from("<IIIIQ", data) == (1, 4, 7, 0, 24_000_000)
    assert data[24:32] == b"sim\0\0\0\0\0"
    assert data[24 + 16 + 16 + 64 :][:4] == b"arm\0"
    assert abi.PhysInfo.decode(data) == physinfo


def test_physinfo_of_another_version_is_refused():
    data = abi.PhysInfo(1, 0, 0, *[""] * 8).encode()
    with pytest.raises(ValueError, match="version 2"):
        abi.PhysInfo.decode(struct.pack("<I", 2) + data[4:])
    with pytest.raises(struct.error):
        abi.PhysInfo.decode(data[:-1])


@pytest.mark.parametrize(
    ("cpus", "data"),
    [
        (None, b""),
        (frozenset(), b"\0"),
        (frozenset({0}), b"\1"),
        (frozenset({0, 9}), b"\1\2"),
        (frozenset({299}), bytes(37) + b"\x08"),
    ],
)
def test_cpu_bitmap(cpus, data):
    assert abi.encode_bitmap(cpus) == data
    assert abi.decode_bitmap(data) == cpus


def test_tbuf_info_round_trip():
    for cpus in (None, frozenset({1, 8})):
        info = abi.TbufInfo(0x0FFFF000, 4096, 1, True, 32, cpus)
        assert abi.TbufInfo.decode(info.encode()) == info
    assert struct.unpack_from("<IIQ", info.encode()) == (0x0FFFF000, 4096, 1)


def test_shared_page():
    page = memoryview(bytearray(4096))
    abi.Shared(0, False, 1000, 5_000_000_000, 2_400_000_000).write(page)
    shared = abi.Shared.read(page)
    assert shared == (2, False, 1000, 5_000_000_000, 2_400_000_000)
    assert bytes(page[:4]) == b"XSIM"
    assert shared.tsc_at(5_000_000_500) == 1000 + 1200
    abi.Shared(shared.sequence, True, 1, 2, 0).write(page)
    assert abi.Shared.read(page) == (4, True, 1, 2, 0)


def test_a_page_that_is_never_finished_does_not_hang_the_reader():
    page = memoryview(bytearray(4096))
    abi.Shared(0, True, 1, 2, 3).write(page)
    page[8:12].cast("I")[0] = 7
    assert abi.Shared.read(page).finished


def test_what_is_wrong_with_a_file_fits_into_a_packet():
    """However long its name; the number stays right."""
    problem = {"file": "x" * 30_000, "offset": 4096, "reason": "torn", "missing_bytes": None}
    data = abi.Wrong(7, [problem] * 5, {"crash": None, "write_failed": 3}).encode()
    assert len(data) <= abi.PACKET_BYTES - abi.HEADER.size
    assert abi.Wrong.decode(data) == abi.Wrong(
        7, [problem] * 2, {"crash": None, "write_failed": 3}
    )


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"problems": 1}'])
def test_what_is_wrong_cannot_be_anything(data):
    with pytest.raises((ValueError, TypeError)):
        abi.Wrong.decode(data)
