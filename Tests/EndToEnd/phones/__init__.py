"""Phones that share no code with the service or with BlueZ: wallets on Google's Bumble."""
