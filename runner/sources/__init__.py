"""Stage 1: list and watch turn changes into keys."""
