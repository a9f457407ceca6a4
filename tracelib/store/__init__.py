"""Segments on disk: written durably, listed, read however damaged, recovered, verified.

fsops is the only module of the product that opens files for writing.
"""
