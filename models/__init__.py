"""Speech models: own implementations on MLX. Knows nothing of HTTP, queues or databases."""
