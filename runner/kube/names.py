"""The forms of names that the API server takes, for what is checked before a request is made.

Kubernetes' own rules, RFC 1123 labels and subdomains (kubernetes.io/docs/concepts/overview/working-with-objects/names).
"""

from __future__ import annotations

import re

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_IS_LABEL = re.compile(rf"{_LABEL}\Z")
_IS_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253


def is_label(text: str) -> bool:
    """Tell whether *text* can be the name of a namespace."""
    return len(text) <= LONGEST_LABEL and _IS_LABEL.match(text) is not None


def is_subdomain(text: str) -> bool:
    """Tell whether *text* can be the name of most objects, a Lease or an Event, or the prefix of a label's key."""
    return len(text) <= LONGEST_SUBDOMAIN and _IS_SUBDOMAIN.match(text) is not None
