"""What a decision is worth: simulated releases, judged by the gate's own code."""
