"""The only code that calls the API server: client, objects, discovery, errors."""
