"""The version, for those who must not import the library interface to know it."""

__version__ = "0.1.0"
