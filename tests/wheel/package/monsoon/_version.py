"""As the package has it."""

__version__ = "0.1.0"
