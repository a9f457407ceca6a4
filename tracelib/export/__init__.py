"""Columns written out: text, JSON Lines, CSV and xentrace's own format.

    lines       the three formats that are lines, as styles
    prefix      how a line begins: when, where, who ran
    fields      what an event's fields say
    program     both of them, as programs for the engine
    engine      runs them (compiled); opcodes and memory have C twins
    groups      records of one form at a time, for what is asked of whole batches
    windows     xentrace's windows, filtered
"""
