"""Helpers for tests and the self-test, with known truth: runs made of numbers, a fake engine, servers with own clocks.

``LQW_ENGINE_MODULES=lqw.testing.fake_adapter`` in the environment makes the engine ``fake`` known to the registry;
nothing else does. A receipt of it says ``"engine": "fake"``.
"""
