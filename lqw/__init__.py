"""lqw: a release gate for inference speed."""

__version__ = "0.1.0"
