"""Generated files, written and read by libraries that are not ours, and read by us: equal, or refused by name."""
