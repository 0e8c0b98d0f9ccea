"""The machine: processes, ports, locks, memory, GPU readings. Facts about the host; nothing about engines."""
