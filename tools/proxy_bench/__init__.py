"""The proxy against the direct connection: the same requests both ways compared, timed, and sent by the thousand.

`python -m tools.proxy_bench replay|latency|discovery|soak`. Each starts a real operator (or takes a proxy's URL) on a
running control plane or one of its own, and prints Markdown.
"""
