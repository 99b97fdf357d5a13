"""The date of this release."""

#: No credential can be checked earlier than this day: a clock that shows an earlier one was not set.
#: `make install` writes the day of the build here.
DATE = "2026-11-29"
