"""Stage 3: a key becomes a run and its consequences, in small steps."""
