"""Generator of the weft-tiny training text. Standard library only; the same seed gives the same text."""
