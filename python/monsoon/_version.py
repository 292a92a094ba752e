"""The package's version, which the library and the cluster must have too."""

__version__ = "0.1.0"
