"""Checks verifiable credentials offline against a folder of trusted issuers."""
