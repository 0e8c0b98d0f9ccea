"""Pipeline: a run's folder, the notebook chain, the proof that it ran, and what the notebook cells call."""
