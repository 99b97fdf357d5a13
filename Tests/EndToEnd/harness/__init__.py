"""What the suites stand on: the guest's services, its bus, and the running of tests."""
