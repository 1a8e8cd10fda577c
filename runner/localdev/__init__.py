"""A real Kubernetes and an EC2 emulator on one machine, for development and tests."""
