"""The proxy between Ansible's Kubernetes modules and the API server: it knows which run speaks.

It stands beside the flow: a run's kubeconfig leads here, and from here every request goes on to the API server with
the operator's own rights. A request is an `Exchange`; the proxy is a list of layers around the handler that forwards it
(`runner.assembly.proxy` has the list). Nothing here knows of informers: dependents are watched through a callback.
"""
