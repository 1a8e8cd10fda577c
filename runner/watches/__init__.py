"""watches.yaml as frozen values."""
