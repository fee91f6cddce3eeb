"""What the tasks that train in step do together: choose a start, agree when to stop or save, add up gradients."""
