"""Decides what is held out. A key is never drawn in training if it is held out, and only then in evaluation.

Stable across runs, seeds and machines: a hash of the key, no state.
"""

import zlib

HELD_OUT_PERCENT = 8


def held_out(*key, percent: int = HELD_OUT_PERCENT) -> bool:
    """True for a fixed `percent` of all keys. Keys are tuples of plain values, such as ("fact", "Mira", "job", 7)."""
    return zlib.crc32(repr(key).encode()) % 100 < percent
