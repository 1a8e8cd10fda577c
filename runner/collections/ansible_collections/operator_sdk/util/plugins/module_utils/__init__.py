"""Shared by the modules."""
