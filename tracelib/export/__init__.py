"""Columns written out: text, JSON Lines, CSV and xentrace's own format.

    cells       lines put together side by side, many at once
    fields      what an event's fields say, in cells
    lines       the three formats that are lines
    windows     xentrace's windows, filtered
"""
