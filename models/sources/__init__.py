"""Where checkpoints come from: a directory, the model hub, registry packages. Tried in order."""
