"""The report: a model_dir becomes one page that people look at. Nothing here imports TensorFlow.

1. run_files.py reads a run into a RunFiles: what `RunFolder` reads, curves (curves.py) and variables.
2. times.py, attempts.py, timeline.py, summary.py and sections.py say what is in it (pure).
3. page.py draws, and renders the templates, which ask the modules of 2.
"""
