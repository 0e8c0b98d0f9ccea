"""The machine: processes, ports, memory, identity, lock and GPU."""
