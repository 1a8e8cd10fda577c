"""What `make` runs: set-up, checks that ruff has no rule for, and generated manifests. Never imported by `runner`."""
