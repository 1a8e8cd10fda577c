"""`runner.kube.names` knows which names the API server takes."""

from __future__ import annotations

import pytest

from runner.kube.names import is_label, is_subdomain


@pytest.mark.parametrize("text", ["a", "0", "a-b", "a--b", "a" * 63])
def test_a_label_is_a_label_and_a_subdomain(text: str) -> None:
    """Up to 63 small letters, digits and hyphens, with a letter or digit at both ends, are both."""
    assert is_label(text)
    assert is_subdomain(text)


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a_b", "a/b", "a\n", "é", "..", "a..b", ".a", "a.", "a.-b"])
def test_what_is_none_is_none(text: str) -> None:
    """Other characters, and empty pieces or hyphens at an end, make neither."""
    assert not is_label(text)
    assert not is_subdomain(text)


def test_dots_and_more_letters_make_a_subdomain_only() -> None:
    """Labels joined by dots, up to 253 characters, are a subdomain and no label."""
    for text in ("a.b", "a" * 64, "a" * 253):
        assert is_subdomain(text)
        assert not is_label(text)
    assert not is_subdomain("a" * 254)
