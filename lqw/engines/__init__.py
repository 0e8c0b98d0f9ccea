"""Engines behind one protocol. Kept free of imports: the embedded server process imports this package at every start."""
