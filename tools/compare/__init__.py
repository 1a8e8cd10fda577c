"""Ours beside the peer: the same watches, roles, objects and changes, one operator after the other, and what differs.

Run it as `python -m tools.compare --peer BINARY --out FOLDER`; the peer is built from its public source by whoever runs
it, and no part of it is here. The flow: `cases` say what happens to objects, `world` plays that with one operator
(`tools.operators`) against a real API server (`cluster`) and observes, `normalise` takes out what differs by nature
(times, UIDs, paths), `diffs` compares, `known` names the row of docs/compatibility.md that a difference belongs to,
`report` writes it down.
"""
