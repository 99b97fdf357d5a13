"""Python itself imports this in each of other people's clients, which are as they came from PyPI: it names the adapter that bleak
uses, which takes any that is on otherwise."""
import os

from bleak.backends.bluezdbus.manager import BlueZManager

BlueZManager.get_default_adapter = lambda self: f"/org/bluez/{os.environ['CLIENT_ADAPTER']}"
