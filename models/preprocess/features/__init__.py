"""What each family's network is given: log-mel features in NumPy. Knows samples only."""
