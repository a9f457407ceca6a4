"""Lists of symbols: what is read, what an address is called, and what is refused."""

import pytest

from tracelib.errors import StoreError, UsageError
from tracelib.symbols import MAX_OFFSET, load_book


@pytest.fixture
def book(tmp_path):
    """Load lists, given as text by whose they are."""

    def load(**texts):
        files = []
        for whose, text in texts.items():
            path = tmp_path / f"{whose}.map"
            path.write_text(text)
            files.append(("" if whose == "guests" else whose, path))
        return load_book(files)

    return load


SYSTEM_MAP = """\
ffffffff81000100 T beta
ffffffff81000000 T alpha
ffffffff81000080 t alpha_part.0
ffffffff81000100 t beta_local
ffffffff81000180 D some_data
0000000000001000 D percpu_thing
ffffffffc0000000 t probe\t[xen_netfront]
                 U elsewhere
"""


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (0xFFFFFFFF81000000, "alpha"),
        (0xFFFFFFFF8100007F, "alpha+0x7f"),
        (0xFFFFFFFF81000080, "alpha_part.0"),
        (0xFFFFFFFF81000100, "beta"),
        (0xFFFFFFFF81000190, "beta+0x90"),
        (0xFFFFFFFF81000100 + MAX_OFFSET, f"beta+{MAX_OFFSET:#x}"),
        (0xFFFFFFFF81000100 + MAX_OFFSET + 1, None),
        (0xFFFFFFFFC0000010, "probe [xen_netfront]+0x10"),
        (0xFFFFFFFF80FFFFFF, None),
        (0x1010, None),
        (0, None),
        ((1 << 64) - 1, None),
    ],
)
def test_lookup(book, address, name):
    """The last code symbol at or before it, a global one before a local one; data are none."""
    assert book(guests=SYSTEM_MAP).lookup(3, address) == name


def test_32_bits(book):
    assert book(guests="c0100000 T _text\nc0100040 t x\n").lookup(None, 0xC0100044) == "x+0x4"


def test_whose(book):
    """A domain's own list, else the guests'; the hypervisor's only in its part of the space."""
    found = book(
        guests="ffffffff81000000 T common\n", d3="ffffffff81000000 T third\n",
        xen="ffff82d040200000 T _start\nffffffff81000000 T not_there\n",
    )
    assert found.lookup(1, 0xFFFFFFFF81000000) == "common"
    assert found.lookup(None, 0xFFFFFFFF81000000) == "common"
    assert found.lookup(3, 0xFFFFFFFF81000001) == "third+0x1"
    assert found.lookup(3, 0xFFFF82D040200010) == "_start+0x10"


def test_an_hvm_guest_in_the_hypervisors_part(book):
    """It may have code of its own there."""
    found = book(d2="ffff82d050000000 T mine\n", xen="ffff82d040200000 T _start\n")
    assert found.lookup(2, 0xFFFF82D050000004) == "mine+0x4"
    assert found.lookup(3, 0xFFFF82D050000004) is None


def test_several_lists_of_one(tmp_path):
    files = []
    for number, text in enumerate(("1000 T one\n", "2000 T two\n")):
        path = tmp_path / str(number)
        path.write_text(text)
        files.append(("", path))
    found = load_book(files)
    assert (found.lookup(0, 0x1000), found.lookup(0, 0x2001)) == ("one", "two+0x1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1000 T good\nwhat is this\n", "guests.map:2: 'what is this' is no symbol"),
        ("1000 T good\n10000000000000000 T far\n", "guests.map:2: "),
        ("1000 T good\n\n2000\n", "guests.map:3: '2000' is no symbol"),
        ("1000 D data\n", "no names of code"),
        ("", "no names of code"),
        ("0000000000000000 T _text\n0000000000000000 t x\n", "all addresses are 0"),
    ],
)
def test_refused(book, text, message):
    with pytest.raises(UsageError) as caught:
        book(guests=text)
    assert message in caught.value.message


def test_unreadable(tmp_path):
    with pytest.raises(StoreError, match="cannot read"):
        load_book([("", tmp_path / "absent")])


def test_rubbish(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)) * 50)
    with pytest.raises(UsageError, match="is no symbol"):
        load_book([("xen", path)])
