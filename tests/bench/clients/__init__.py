"""Clients that ``make bench`` runs side by side, each a process in an environment of its own."""
