"""What runs in a worker process: it claims jobs and runs models. Never sees HTTP."""
