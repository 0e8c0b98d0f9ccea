"""lqw: a release gate for inference speed."""

__version__ = "0.2.0"
