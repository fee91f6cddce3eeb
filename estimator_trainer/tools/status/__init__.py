"""How a run is, in one line: `line.py` makes the words of what `RunFolder` reads."""
