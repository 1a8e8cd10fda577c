"""Stage 4: run Ansible and tell how it ended."""
