"""Plays the machines behind the EC2 emulator's instances: cloud-init, then a kubelet that keeps its Node alive.

    python -m runner.localdev.machines --ec2 URL --server URL --pki FOLDER --disks FOLDER

A process of its own that asks the emulator over HTTP. For each instance that runs, all that it knows of the cluster
comes out of the instance's own user data:

    simulator -> machine -> cloud_init, shell -> styles (kubeadm, k3s, eks) -> discovery -> kubelet -> Node

`disks` holds what a machine keeps over a stop.

The Node carries the label that kwok looks for: kwok sends the heartbeats and runs the pods. A machine that stops takes
the label off. `cloud` is the one thing beside the machines: the part of AWS's cloud controller manager that removes the
Nodes of machines that don't exist any more.
"""
