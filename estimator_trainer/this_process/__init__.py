"""What a process sets up for itself: its log, its allocator, its signals, its terminal, its network, its children, what
its forks may do, and memory that it shares with others."""
