"""Stage 2: one key at a time per object, fresh objects first."""
