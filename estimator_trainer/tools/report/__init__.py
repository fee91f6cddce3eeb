"""The report: a model_dir becomes one page that people look at. Nothing here imports TensorFlow.

1. run_files.py reads a run into a RunFiles: what `RunFolder` reads, curves (curves.py) and variables.
2. timeline.py, attempts.py, spans.py, times.py, summary.py, sections.py and comparison.py say what is in it (pure).
3. plots.py draws, and page.py renders the templates.
"""
