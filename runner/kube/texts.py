"""Long texts made short: messages of conditions, and what the log repeats of them."""

from __future__ import annotations

CUT_MARK = "\n... (message cut)"


def cut_message(message: str, *, limit: int) -> str:
    """Return *message* in at most *limit* bytes of UTF-8: what is cut is replaced by a mark, no character is split."""
    # A lone surrogate (a play printed what is no text) cannot be sent; it is shown as a question mark.
    raw = message.encode(errors="replace")
    if len(raw) <= limit:
        return raw.decode()
    kept = max(limit - len(CUT_MARK.encode()), 0)
    return (raw[:kept].decode(errors="ignore") + CUT_MARK)[: max(limit, 0)]
