"""The jobs of the corpus, a module for each axis."""
