"""How a run is, in one line: `status_now.py` reads the small files of a model_dir, `line.py` makes the words (pure)."""
