"""Records of one form at a time, as columns: for what is asked of whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelib.columns import I64, U32, Columns
from tracelib.events.catalogue import lookup
from tracelib.events.layout import EventType, Field
from tracelib.units import PROCESSES


@dataclass(frozen=True, slots=True)
class Catalogue:
    """How to look events up for one trace."""

    family: str | None = None
    """ "vmx" or "svm"."""
    version: tuple[int, int] | None = None

    def form(self, event: int, extra: int) -> EventType | None:
        """None if it is unknown, or known but never of that length."""
        return lookup(event, extra, family=self.family, xen_version=self.version)


class Group(NamedTuple):
    """The records of one event and length in a batch."""

    form: EventType | None
    rows: I64
    records: Columns


def groups(batch: Columns, catalogue: Catalogue) -> Iterator[Group]:
    """Split a batch by form; rows in each group keep their order."""
    keys = batch.event | batch.extra.astype(np.uint32) << np.uint32(28)
    for key, rows in split(keys):
        form = catalogue.form(key & 0x0FFFFFFF, key >> 28)
        yield Group(form, rows, batch.take(rows))


def split(keys: U32) -> Iterator[tuple[int, I64]]:
    """Each distinct key and the rows that have it, ascending."""
    if not len(keys):
        return
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for rows in np.split(order, starts):
        yield int(keys[rows[0]]), rows


def named_domains(group: Group) -> Iterator[I64]:
    """The domains that the group's records name: a value for each row, field by field."""
    if group.form is not None:
        for field in group.form.fields:
            if field.kind == "dom":
                yield values_of(field, group.records)
            elif field.kind == "pid":
                yield values_of(field, group.records) + PROCESSES


def values_of(field: Field, records: Columns) -> I64:
    """A field of less than 64 bits in each record, with its sign if it has one."""
    if field.constant is not None:
        return np.full(len(records), field.constant, np.int64)
    values = records.word(field.word).astype(np.int64)
    values = values >> np.int64(field.shift) & np.int64((1 << field.width) - 1)
    if field.signed:
        values -= (values >> np.int64(field.width - 1)) << np.int64(field.width)
    return values
