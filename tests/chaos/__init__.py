"""Random kills, damages, full disks and configs: `make test-chaos`."""
