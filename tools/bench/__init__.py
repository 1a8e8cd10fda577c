"""`make bench`: how long a reconcile takes, and what it costs, cold, warm and with the peer, in one run.

The flow: `catalogue` names what is measured and what must be reached; `contestants` are real operator processes beside
one API server, each with a namespace of its own (`content` has their roles; `floor` is one that makes a run's API calls
and nothing else). `latency`, `batches` and `memory` measure in turns within a `budget` of time and fill `results`;
`report` writes the table, `guard` compares with the ratios that were recorded last.
"""
