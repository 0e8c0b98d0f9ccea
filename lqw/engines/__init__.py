"""Engines: one adapter module each, behind the protocol of :mod:`lqw.engines.base`."""
