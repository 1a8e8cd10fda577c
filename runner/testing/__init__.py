"""Shipped fakes and fault proxies for tests of operators."""
