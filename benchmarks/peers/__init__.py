"""Programs that run in the peers' own environments: one JSON line in, one JSON line out."""
