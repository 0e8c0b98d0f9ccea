"""The proof: what the gate is worth, simulated and held against what was promised."""
