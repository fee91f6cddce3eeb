"""What a process sets up for itself: its log, its allocator, its signals, and what its forks may do."""
